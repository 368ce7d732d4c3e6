"""Which type each tensor gets."""

import pytest

from junto.convert.types import Types
from junto.errors import RequestError
from junto.formats.quant_types import TYPES

BF16 = TYPES["BF16"]


def types(name: str | None, *keep: tuple[str, str], n_layer: int = 16, tied: bool = False) -> Types:
    return Types(name, keep, n_layer=n_layer, is_tied=tied, floats=True)


def chosen(of: Types, name: str, shape: tuple[int, ...] = (512, 768), now: str = "BF16") -> str:
    return of.of(name, shape, TYPES[now]).type.name


def test_norms_biases_routers_and_small_recurrent_parts_stay_floats() -> None:
    q4 = types("Q4_K")
    for name, shape in {
        "blk.0.attn_norm.weight": (768,),
        "blk.0.attn_q.bias": (768,),
        "blk.0.ffn_gate_exps.bias": (8, 768),
        "blk.0.ffn_gate_inp.weight": (8, 768),
        "blk.0.ssm_conv1d.weight": (768, 4),
        "blk.0.ssm_alpha.weight": (32, 768),
        "blk.0.attn_q_norm.weight": (128,),
        "position_embd.weight": (1024, 768),
    }.items():
        assert chosen(q4, name, shape) == "F32", name
    assert chosen(q4, "blk.0.ssm_out.weight") == "Q4_K"
    assert chosen(q4, "blk.0.attn_q.weight") == "Q4_K"


def test_output_matrix_gets_more_bits_or_the_embedding_that_serves_as_one() -> None:
    assert chosen(types("Q4_K"), "output.weight") == "Q6_K"
    assert chosen(types("Q4_K"), "token_embd.weight") == "Q4_K"
    assert chosen(types("Q4_K", tied=True), "token_embd.weight") == "Q6_K"


def test_q4_k_m_gives_more_bits_to_half_of_ffn_down_and_attn_v() -> None:
    mix = types("Q4_K_M")
    for part in ("ffn_down", "ffn_down_exps", "attn_v"):
        more = [i for i in range(16) if chosen(mix, f"blk.{i}.{part}.weight") == "Q6_K"]
        assert more == [0, 1, 4, 7, 10, 13, 14, 15]
    assert {chosen(mix, f"blk.{i}.ffn_up.weight") for i in range(16)} == {"Q4_K"}


def test_rows_that_are_no_multiple_of_a_block_get_the_nearest_type_that_is_no_worse() -> None:
    q4 = types("Q4_K")
    at_32 = q4.of("blk.0.attn_q.weight", (16, 96), BF16)
    at_none = q4.of("blk.0.attn_q.weight", (16, 90), BF16)
    assert (at_32.type.name, at_32.meant) == ("Q5_0", TYPES["Q4_K"])
    assert (at_none.type.name, at_none.meant) == ("BF16", TYPES["Q4_K"])
    assert chosen(q4, "blk.0.attn_q.weight", (16, 90), now="Q8_0") == "F16"


def test_last_pattern_that_fits_counts_and_matches_a_part_or_the_whole_name() -> None:
    kept = types("Q4_K", ("attn_v", "Q6_K"), ("blk.3.*", "F16"))
    assert chosen(kept, "blk.2.attn_v.weight") == "Q6_K"
    assert chosen(kept, "blk.3.attn_v.weight") == "F16"
    assert chosen(kept, "blk.2.attn_v_more.weight") == "Q4_K"
    kept.refuse_unused()


def test_pattern_that_fits_nothing_and_unknown_types_are_refused() -> None:
    kept = types("Q4_K", ("atn_v", "Q6_K"))
    chosen(kept, "blk.2.attn_v.weight")
    with pytest.raises(RequestError, match="'atn_v': no tensor has such a name"):
        kept.refuse_unused()
    with pytest.raises(RequestError, match="type 'Q9_K' is unknown; types to convert to: F32"):
        types("Q9_K")
    with pytest.raises(RequestError, match="--keep: type 'IQ2_XS' is unknown"):
        types("Q4_K", ("attn_v", "IQ2_XS"))
    with pytest.raises(RequestError, match="not a multiple of its block of 256; keep another"):
        chosen(types("Q4_K", ("attn_v", "Q6_K")), "blk.0.attn_v.weight", (16, 96))


def test_mxfp4_stays_unless_floats_or_a_pattern_ask_otherwise() -> None:
    name = "blk.0.ffn_up_exps.weight"
    assert chosen(types("Q4_K"), name, now="MXFP4") == "MXFP4"
    assert chosen(types("BF16"), name, now="MXFP4") == "BF16"
    assert chosen(types("Q4_K", ("ffn_up_exps", "Q8_0")), name, now="MXFP4") == "Q8_0"


def test_mxfp4_recipe_is_for_experts() -> None:
    mxfp4 = types("MXFP4")
    assert chosen(mxfp4, "blk.0.ffn_up_exps.weight") == "MXFP4"
    assert chosen(mxfp4, "blk.0.attn_q.weight") == "Q8_0"


def test_without_a_type_matrices_stay_as_they_are() -> None:
    same = types(None)
    assert chosen(same, "blk.0.attn_q.weight", now="Q5_1") == "Q5_1"
