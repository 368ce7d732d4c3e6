"""The tiny models are what they say: sizes apart, layouts by the formats' rules, goldens theirs."""

import itertools
import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.data_dir import find
from tests.tiny import goldens
from tests.tiny.gguf_writer import Packed
from tests.tiny.models import MIXES, TINY, publisher_mxfp4_values
from tests.tiny.real_layers import REAL_LAYERS, RealLayer
from tests.tiny.to_gguf import convert
from tests.tiny.weights import text_config


def read(path: Path) -> dict[str, np.ndarray]:
    """Float32 values of a GGUF file, by gguf-py."""
    return {
        t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path, "r").tensors
    }


@pytest.mark.parametrize("name", TINY)
def test_sizes_of_a_model_differ(name: str) -> None:
    text = text_config(TINY[name].config)
    if name == "gpt2":
        n = text["n_embd"]
        assert len({n, 3 * n, n // text["n_head"], text["n_inner"], text["vocab_size"]}) == 5
        return
    d = text.get("head_dim", text["hidden_size"] // text["num_attention_heads"])
    sizes = {"kv": text["num_key_value_heads"] * d, "d": d}
    sizes |= {k: text[k] for k in ("hidden_size", "vocab_size")}
    sizes |= {k: v for k, v in text.items() if k.endswith(("intermediate_size", "_experts"))}
    if "head_dim" in text:
        sizes["q"] = text["num_attention_heads"] * d
    if "linear_num_value_heads" in text:
        n_state = text["linear_value_head_dim"]
        sizes["q and gate"] = 2 * sizes["q"]
        sizes["value heads"] = text["linear_num_value_heads"]
        sizes["state"] = n_state
        sizes["values"] = text["linear_num_value_heads"] * n_state
        sizes["channels"] = sizes["values"] + 2 * text["linear_num_key_heads"] * n_state
    equal = [(a, b) for a, b in itertools.combinations(sizes, 2) if sizes[a] == sizes[b]]
    assert equal == []


def test_gguf_tiles_the_value_heads() -> None:
    """Head t of the file is head j of key head t % Hk, where t = j * Hk + key head."""
    tiny = TINY["qwen35moe_ratio4"]
    hf = tiny.hf_tensors()
    n_head_k, n_head_v = 3, 12
    ours = convert(tiny.config, hf)["blk.0.ssm_dt.bias"]
    theirs = hf["model.layers.0.linear_attn.dt_bias"]
    per_key = n_head_v // n_head_k
    expected = [theirs[(t % n_head_k) * per_key + t // n_head_k] for t in range(n_head_v)]
    assert ours.tolist() == expected


def test_gguf_adds_one_to_every_norm_but_the_gated_one() -> None:
    tiny = TINY["qwen35moe_ratio1"]
    hf = tiny.hf_tensors()
    ours = convert(tiny.config, hf)
    names = {
        "blk.3.attn_q_norm": ("model.layers.3.self_attn.q_norm", 1),
        "blk.3.attn_k_norm": ("model.layers.3.self_attn.k_norm", 1),
        "blk.2.attn_norm": ("model.layers.2.input_layernorm", 1),
        "blk.2.post_attention_norm": ("model.layers.2.post_attention_layernorm", 1),
        "output_norm": ("model.norm", 1),
        "blk.2.ssm_norm": ("model.layers.2.linear_attn.norm", 0),
    }
    for gguf_name, (name, added) in names.items():
        stored = hf[name + ".weight"]
        expected = (stored + np.float32(added)).tolist()
        assert ours[gguf_name + ".weight"].tolist() == expected, gguf_name


def test_mxfp4_means_the_same_in_both_formats(tmp_path: Path) -> None:
    """gguf-py's reading of the GGUF equals the publisher's layout read by its own rule."""
    tiny = TINY["gpt_oss_mxfp4"]
    hf, ours = tiny.hf_tensors(), read(tiny.write_gguf(tmp_path / "mxfp4.gguf"))
    stem = "model.layers.1.mlp.experts.gate_up_proj"
    rows = publisher_mxfp4_values(hf[stem + "_blocks"], hf[stem + "_scales"])
    np.testing.assert_array_equal(ours["blk.1.ffn_gate_exps.weight"], rows[:, 0::2])
    np.testing.assert_array_equal(ours["blk.1.ffn_up_exps.weight"], rows[:, 1::2])


def test_a_twin_holds_the_values_of_its_mix(tmp_path: Path) -> None:
    mix = MIXES["gpt_oss_mxfp4_q8_0"]
    packed = read(mix.write_gguf(tmp_path / "mix.gguf"))
    twin_path = mix.write_twin(tmp_path / "twin.gguf")
    twin = read(twin_path)
    assert packed.keys() == twin.keys()
    assert all(np.array_equal(packed[name], twin[name]) for name in packed)
    assert {t.tensor_type.name for t in gguf.GGUFReader(twin_path, "r").tensors} == {"F32"}


@pytest.mark.parametrize("name", MIXES)
def test_mixes_hold_the_type_they_are_named_after(name: str) -> None:
    tensors = MIXES[name].model.gguf_tensors(types=MIXES[name].types).values()
    types = {tensor.type_name.lower() for tensor in tensors if isinstance(tensor, Packed)}
    assert any(name.endswith(kind) for kind in types)


def test_shards_and_index_name_every_tensor_once(tmp_path: Path) -> None:
    tiny = TINY["llama_tied"]
    folder = tiny.write_safetensors(tmp_path / "model", shards=3)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == tiny.hf_tensors().keys()
    assert len(list(folder.glob("model-0000?-of-00003.safetensors"))) == 3


@pytest.mark.parametrize(
    ("oracle", "name"),
    [("transformers", name) for name in TINY] + [("llama_cpp", name) for name in [*TINY, *MIXES]],
)
def test_goldens_belong_to_the_tokens_of_their_model(oracle: goldens.Oracle, name: str) -> None:
    tiny = MIXES[name].model if name in MIXES else TINY[name]
    golden = goldens.load(oracle, name if name in MIXES else tiny.golden)
    assert golden.tokens.tolist() == tiny.tokens(700).tolist()
    assert golden.last.shape == (len(goldens.LENGTHS), tiny.n_vocab)
    assert golden.made_by["command"].startswith(f"python -m tests.oracle.make_goldens {oracle}")


def test_error_is_zero_at_the_golden_and_sees_a_wrong_row() -> None:
    golden = goldens.load("transformers", "llama_tied")
    logits = np.zeros((700, golden.last.shape[1]), np.float32)
    logits[-1], logits[list(goldens.SPREAD)] = golden.last[-1], golden.spread
    assert goldens.error_at(golden, 700, logits) == 0.0
    logits[goldens.SPREAD[3], 5] += np.float32(golden.scale[-1] / 4)
    assert goldens.error_at(golden, 700, logits) == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("layer", REAL_LAYERS.values(), ids=REAL_LAYERS)
def test_real_layers_have_the_published_sizes(layer: RealLayer) -> None:
    is_qwen = "qwen3_5_moe" in layer.config["model_type"]
    file_name = "Qwen3.5-35B-A3B" if is_qwen else "gpt-oss-20b"
    published = text_config(json.loads(find(f"configs/{file_name}.config.json").read_text()))
    ours = {"architectures", "vocab_size", "num_hidden_layers", "layer_types"}
    tied = {"tie_word_embeddings"} if is_qwen else set()
    for key in layer.config.keys() - ours - tied:
        assert layer.config[key] == published[key], key


@pytest.mark.parametrize("layer", REAL_LAYERS.values(), ids=REAL_LAYERS)
def test_real_layers_have_goldens_that_fit(layer: RealLayer) -> None:
    golden = layer.golden()
    assert golden.out.shape == golden.after_mix.shape == (len(layer.positions), layer.n_embd)
    assert max(layer.positions) == layer.n_tok - 1
    assert 1.0 < float(golden.out.std()) < 3.0
