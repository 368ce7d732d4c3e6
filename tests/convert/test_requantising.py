"""GGUF to GGUF: other types, parts, or without the draft; the rest as it was."""

import subprocess
import sys
from functools import partial
from itertools import repeat
from math import prod
from pathlib import Path

import numpy as np
import pytest

from junto.convert import Wishes, convert, join
from junto.convert.recoding import Recoder
from junto.convert.types import Types
from junto.errors import DiskError, FormatError, JuntoError, RequestError
from junto.formats.gguf import GGUFFile, read_gguf
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.quant_types import TYPES
from junto.formats.quants import dequantize
from junto.formats.tensor import F32, Tensor
from junto.models.storing import Named
from junto.quantize import quantize
from tests.data_dir import REPOSITORY
from tests.models.running import logits
from tests.tiny.models import MIXES, TINY


def types_of(file: GGUFFile) -> dict[str, str]:
    return {name: tensor.type.name for name, tensor in file.tensors.items()}


def test_each_tensor_holds_the_quantised_values_of_the_source(tmp_path: Path) -> None:
    source = read_gguf(TINY["qwen35moe_wide"].write_gguf(tmp_path / "source.gguf"))
    summary = convert(source.path, tmp_path / "q.gguf", Wishes(type="Q4_K"))
    made = read_gguf(tmp_path / "q.gguf")
    assert list(made.tensors) == list(source.tensors)
    for name, tensor in made.tensors.items():
        values = source.tensors[name].float32()
        expected = (
            values.view(np.uint8) if tensor.type.name == "F32" else quantize(tensor.type, values)
        )
        assert np.array_equal(tensor.data.reshape(-1), expected.reshape(-1)), name
    kinds = types_of(made)
    assert (kinds["output.weight"], kinds["blk.0.ffn_up_exps.weight"]) == ("Q6_K", "Q4_K")
    assert kinds["blk.0.ffn_down_shexp.weight"] == "Q5_0"  # rows of 288
    assert any("Q5_0 in place of Q4_K" in note for note in summary.notes)
    assert summary.total.n_bytes == sum(t.n_bytes for t in made.tensors.values())


def test_logits_of_a_q8_0_file_are_near(tmp_path: Path) -> None:
    source = TINY["qwen35moe_wide"].write_gguf(tmp_path / "source.gguf")
    convert(source, tmp_path / "q.gguf", Wishes(type="Q8_0"))
    ids = TINY["qwen35moe_wide"].tokens(40)
    theirs = logits(source, ids)
    off = np.abs(logits(tmp_path / "q.gguf", ids) - theirs).max(axis=1) / np.abs(theirs).max()
    assert np.median(off) < 0.02  # not the largest: a rounded router may choose another expert


def test_quantised_sources_are_decoded_and_metadata_is_copied_to_the_byte(tmp_path: Path) -> None:
    source = read_gguf(MIXES["qwen35moe_q4_k"].write_gguf(tmp_path / "source.gguf"))
    convert(source.path, tmp_path / "q.gguf", Wishes(type="Q8_0", keep=(("blk.1.*", "BF16"),)))
    made = read_gguf(tmp_path / "q.gguf")
    assert types_of(made)["blk.0.attn_qkv.weight"] == "Q8_0"
    assert types_of(made)["blk.1.attn_qkv.weight"] == "BF16"
    for key, value in source.stored.items():
        if key not in ("general.file_type", "general.quantization_version"):
            assert made.stored[key].type_id == value.type_id
            assert made.stored[key].data.tobytes() == value.data.tobytes(), key
    assert made.metadata["general.file_type"] == 7


def test_importance_is_taken_by_tensor_and_expert(tmp_path: Path) -> None:
    source = read_gguf(TINY["qwen35moe_wide"].write_gguf(tmp_path / "source.gguf"))
    names = {"blk.0.ffn_up_exps.weight": 6, "blk.0.attn_qkv.weight": 1}
    rng = np.random.default_rng(5)
    sums = {n: rng.random((e, 256), np.float32) ** 8 for n, e in names.items()}
    tensors = []
    for name, values in sums.items():
        counts = np.full((len(values), 1), 3, np.float32)
        for suffix, array in ((".in_sum2", values), (".counts", counts)):
            tensors.append(OutTensor.copy(Tensor.from_array(name + suffix, array, "imatrix")))
    write_gguf(tmp_path / "imatrix.gguf", {"general.type": "imatrix"}, tensors)
    wishes = Wishes(type="Q4_K", imatrix=tmp_path / "imatrix.gguf")
    summary = convert(source.path, tmp_path / "q.gguf", wishes)
    made = read_gguf(tmp_path / "q.gguf")
    for name, weights in sums.items():
        values = source.tensors[name].float32()
        means: F32 = weights / np.float32(3)
        expected = quantize("Q4_K", values, means if len(means) > 1 else means[0])
        assert np.array_equal(made.tensors[name].data.reshape(-1), expected.reshape(-1)), name
        assert not np.array_equal(expected, quantize("Q4_K", values))
    assert any(note.startswith("2 of ") and "importance" in note for note in summary.notes)


def test_unknown_tensors_and_architectures_pass_through(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_gguf(
        tmp_path / "source.gguf",
        {"general.architecture": "unheard-of", "general.alignment": 64},
        [OutTensor.copy(Tensor.from_array("odd.thing", array, "x"))],
    )
    convert(tmp_path / "source.gguf", tmp_path / "q.gguf", Wishes(type="Q8_0"))
    made = read_gguf(tmp_path / "q.gguf")
    assert made.metadata["general.alignment"] == 64
    assert np.array_equal(made.tensors["odd.thing"].float32(), array)


def test_draft_layer_is_dropped_with_its_keys(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    source = tiny.write_gguf(tmp_path / "source.gguf", draft="shipped")
    convert(source, tmp_path / "kept.gguf", Wishes())
    summary = convert(source, tmp_path / "dropped.gguf", Wishes(draft="drop"))
    assert (tmp_path / "kept.gguf").read_bytes() == source.read_bytes()
    dropped, plain = read_gguf(tmp_path / "dropped.gguf"), tiny.write_gguf(tmp_path / "plain.gguf")
    assert set(dropped.tensors) == set(read_gguf(plain).tensors)
    assert dropped.metadata["qwen35moe.block_count"] == 4
    assert "qwen35moe.nextn_predict_layers" not in dropped.metadata
    assert any("the draft layer is left out" in note for note in summary.notes)
    ids = tiny.tokens(20)
    assert np.array_equal(logits(dropped.path, ids), logits(plain, ids))


def test_per_layer_keys_are_cut_with_the_draft(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio4"]
    source = tiny.write_gguf(tmp_path / "source.gguf", draft="only in metadata")
    convert(source, tmp_path / "dropped.gguf", Wishes(draft="drop"))
    recurrent = read_gguf(tmp_path / "dropped.gguf").metadata[
        "qwen35moe.attention.recurrent_layers"
    ]
    assert list(recurrent) == [True, False, True, True, False]  # type: ignore[arg-type]


def test_parts_are_written_and_joined_again(tmp_path: Path) -> None:
    source = TINY["llama_untied"].write_gguf(tmp_path / "source.gguf")
    summary = convert(source, tmp_path / "p.gguf", Wishes(max_part_bytes=150_000))
    assert len(summary.files) > 2
    assert summary.files[0].name == f"p-00001-of-{len(summary.files):05}.gguf"
    join(summary.files[1], tmp_path / "joined.gguf")
    assert (tmp_path / "joined.gguf").read_bytes() == source.read_bytes()
    with pytest.raises(RequestError, match="is one file already"):
        join(source, tmp_path / "again.gguf")


def test_a_file_that_exists_is_replaced_only_by_force(tmp_path: Path) -> None:
    source = TINY["llama_tied"].write_gguf(tmp_path / "source.gguf")
    (tmp_path / "q.gguf").write_text("precious")
    with pytest.raises(DiskError, match=r"q\.gguf: exists already; .*--force"):
        convert(source, tmp_path / "q.gguf", Wishes(type="F16"))
    assert (tmp_path / "q.gguf").read_text() == "precious"
    convert(source, tmp_path / "q.gguf", Wishes(type="F16", force=True))
    assert types_of(read_gguf(tmp_path / "q.gguf"))["output_norm.weight"] == "F32"


def test_a_file_may_replace_itself(tmp_path: Path) -> None:
    path = TINY["llama_tied"].write_gguf(tmp_path / "m.gguf")
    before = read_gguf(path).tensors["token_embd.weight"].float32().copy()
    convert(path, path, Wishes(type="BF16", force=True))
    after = read_gguf(path).tensors["token_embd.weight"].float32()
    assert np.abs(after - before).max() < 0.01 * np.abs(before).max()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RuntimeError("stopped")])
def test_nothing_is_left_behind_when_it_is_stopped(stop: BaseException, tmp_path: Path) -> None:
    source = TINY["qwen35moe_wide"].write_gguf(tmp_path / "source.gguf")

    def progress(done: int, total: int) -> None:
        if 2 * done > total:
            raise stop

    with pytest.raises(type(stop)):
        convert(source, tmp_path / "q.gguf", Wishes(type="Q8_0"), progress)
    assert [path.name for path in tmp_path.iterdir()] == ["source.gguf"]


def test_values_that_do_not_fit_the_type_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    array = np.full((2, 32), 1e6, np.float32)
    tensor = Tensor.from_array("blk.0.attn_q.weight", array, "x")
    write_gguf(tmp_path / "s.gguf", {"general.architecture": "llama"}, [OutTensor.copy(tensor)])
    with pytest.raises(JuntoError, match=r"tensor 'blk\.0\.attn_q\.weight': value at .* F16 takes"):
        convert(tmp_path / "s.gguf", tmp_path / "q.gguf", Wishes(type="F16"))
    assert [path.name for path in tmp_path.iterdir()] == ["s.gguf"]


def test_types_that_cannot_be_decoded_are_named() -> None:
    odd = Tensor(
        "w.weight", (2, 32), TYPES["F8_E4M3"], "m.safetensors", lambda: np.zeros((2, 32), "u1")
    )
    with pytest.raises(FormatError, match=r"m\.safetensors: tensor 'w\.weight' is F8_E4M3, which"):
        Recoder.make().out(Named("w.weight", odd), TYPES["Q8_0"])


def test_blocks_in_ollamas_order_become_gguf_s_with_the_same_values(tmp_path: Path) -> None:
    blocks = np.random.default_rng(1).integers(0, 256, (8, 17), np.uint8)
    blocks[:, 0] = 120 + np.arange(8)
    pairs = Tensor("w.weight", (8, 32), TYPES["MXFP4_PAIRS"], "x", lambda: blocks)
    types = Types(None, (), n_layer=1, is_tied=False, floats=False)
    kind = types.of("w.weight", pairs.shape, pairs.type).type
    out = Recoder.make().out(Named("w.weight", pairs), kind)
    made = np.concatenate([np.asarray(piece) for piece in out.pieces()])
    assert kind.name == "MXFP4"
    assert np.array_equal(dequantize(kind, made).reshape(8, 32), pairs.float32())


MEMORY_RUN = """
import sys
from junto.convert import Wishes, convert
convert(sys.argv[1], sys.argv[2], Wishes(type="Q4_K"))
from tests.peak_memory import peak_bytes
print(peak_bytes() >> 20)
"""


@pytest.mark.slow
def test_memory_does_not_depend_on_the_size_of_the_file(tmp_path: Path) -> None:
    """A gigabyte of bfloat16, one matrix and experts, in 400 MB: a child process says its peak."""
    row = bytes(1 << 20)
    shapes = {"blk.0.ffn_up_exps.weight": (64, 1024, 4096), "token_embd.weight": (65536, 4096)}
    tensors = [
        OutTensor(name, shape, TYPES["BF16"], partial(repeat, row, 2 * prod(shape) >> 20))
        for name, shape in shapes.items()
    ]
    write_gguf(tmp_path / "s.gguf", {"general.architecture": "llama"}, tensors)
    command = [sys.executable, "-c", MEMORY_RUN, f"{tmp_path}/s.gguf", f"{tmp_path}/q.gguf"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert int(done.stdout) < 400, done.stdout
