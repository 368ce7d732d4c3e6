"""Safetensors to GGUF: the same model, told in the other format's names, layouts and keys."""

import dataclasses
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from junto.convert import Wishes, convert
from junto.convert.tokenizer_keys import tokenizer_keys
from junto.errors import JuntoError
from junto.formats.gguf import read_gguf
from junto.models.architecture import by_hf_name
from junto.models.keys import Keys
from junto.text import load_text
from tests.convert.folders import N_BEYOND, write_folder
from tests.data_dir import find
from tests.models.running import error, logits
from tests.tiny.models import TINY

MODELS = [name for name in TINY if not name.endswith("_twin")]
REAL_CONFIGS = ["Qwen3.5-35B-A3B", "Qwen3.5-397B-A17B", "gpt-oss-20b", "gpt-oss-120b"]


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_checkpoint(name: str, tmp_path: Path) -> None:
    folder = write_folder(TINY[name], tmp_path / "model", shards=2)
    convert(folder, tmp_path / "model.gguf", Wishes())
    ids = TINY[name].tokens(70)
    assert error(logits(tmp_path / "model.gguf", ids), logits(folder, ids)) < 5e-6


@pytest.mark.parametrize("name", MODELS)
def test_tensors_and_keys_are_those_of_another_converter(name: str, tmp_path: Path) -> None:
    """The tests' own converter shares nothing with this one."""
    tiny = TINY[name]
    convert(write_folder(tiny, tmp_path / "model"), tmp_path / "ours.gguf", Wishes(draft="drop"))
    ours, theirs = (
        read_gguf(tmp_path / "ours.gguf"),
        read_gguf(tiny.write_gguf(tmp_path / "t.gguf")),
    )
    assert set(ours.tensors) == set(theirs.tensors)
    for key, tensor in theirs.tensors.items():
        assert ours.tensors[key].shape == tensor.shape, key
        assert np.allclose(ours.tensors[key].float32(), tensor.float32(), rtol=2e-6, atol=0), key
    # The last two are sizes of dense layers, which models of experts alone have none of.
    not_compared = {
        "general.name",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "qwen3moe.feed_forward_length",
        "qwen3next.feed_forward_length",
    }
    for key, value in theirs.metadata.items():
        if key not in not_compared:
            assert plain(ours.metadata[key]) == plain(value), key


def plain(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def rounded(cfg: Any) -> dict[str, Any]:
    """Fields of a config as a GGUF can hold them: floats of 32 bits; it never says "not tied"."""
    fields = dataclasses.asdict(cfg)
    for field in ("may_tie", "rope_scaling"):
        fields.pop(field, None)
    return {k: np.float32(v) if isinstance(v, float) else v for k, v in fields.items()}


def config_through_gguf(raw: dict[str, Any]) -> tuple[Any, Any]:
    architecture = by_hf_name(raw, "config.json")
    cfg: Any = architecture.Config.from_hf(Keys(raw, "config.json"))
    keys = {f"x.{key}": value for key, value in cfg.gguf_keys().items()}
    read = Keys({k: np.array(v) if isinstance(v, list) else v for k, v in keys.items()}, "f", "x.")
    back = architecture.Config.from_gguf(read, cfg.n_vocab)
    assert read.unread() == []
    return cfg, back


@pytest.mark.parametrize("name", MODELS)
def test_keys_of_a_config_give_the_config(name: str) -> None:
    cfg, back = config_through_gguf(dict(TINY[name].config))
    assert rounded(back) == rounded(cfg)


@pytest.mark.parametrize("name", REAL_CONFIGS)
def test_keys_of_a_published_config_give_the_config(name: str) -> None:
    raw = json.loads(find(f"configs/{name}.config.json").read_text())
    cfg, back = config_through_gguf(raw)
    assert rounded(back) == rounded(cfg)


def test_an_unusual_gpt_oss_is_refused_as_no_gguf_can_say_it() -> None:
    raw = {**TINY["gpt_oss_window32"].config, "swiglu_limit": 5.0}
    with pytest.raises(JuntoError, match="a GGUF cannot say"):
        config_through_gguf(raw)


def test_vocabulary_is_padded_and_speaks_alike(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio1"]
    folder = write_folder(tiny, tmp_path / "model")
    convert(folder, tmp_path / "model.gguf", Wishes())
    metadata = read_gguf(tmp_path / "model.gguf").metadata
    tokens, kinds = (
        plain(metadata["tokenizer.ggml.tokens"]),
        plain(metadata["tokenizer.ggml.token_type"]),
    )
    assert len(tokens) == tiny.n_vocab
    assert tokens[-N_BEYOND:] == [f"[PAD{i}]" for i in range(tiny.n_vocab - N_BEYOND, tiny.n_vocab)]
    assert (kinds[3], kinds[4], kinds[5], kinds[-1]) == (3, 3, 1, 5)
    assert metadata["general.license"] == "apache-2.0"
    ours, theirs = load_text(tmp_path / "model.gguf"), load_text(folder)
    assert ours.encode("to tot") == theirs.encode("to tot") != []
    assert ours.tokenizer.chat_template == theirs.tokenizer.chat_template != ""
    assert ours.tokenizer.eos_ids == theirs.tokenizer.eos_ids == {4}


@pytest.mark.parametrize(
    ("stem", "vocabulary"), [("qwen35", "qwen35moe-vocab"), ("gpt-oss", "gpt-oss-vocab")]
)
def test_real_vocabularies_are_written_as_published(
    stem: str, vocabulary: str, tmp_path: Path
) -> None:
    parsed = lzma.decompress(find(f"tokenizers/{stem}.tokenizer.json.xz").read_bytes())
    (tmp_path / "tokenizer.json").write_bytes(parsed)
    (tmp_path / "v.gguf").write_bytes(
        lzma.decompress(find(f"tokenizers/{vocabulary}.gguf.xz").read_bytes())
    )
    published = {k: plain(v) for k, v in read_gguf(tmp_path / "v.gguf").metadata.items()}
    tokens = published["tokenizer.ggml.tokens"]
    keys = {k: plain(v) for k, v in tokenizer_keys(tmp_path, len(tokens)).items()}
    assert keys["tokenizer.ggml.pre"] == published["tokenizer.ggml.pre"]
    assert keys["tokenizer.ggml.merges"] == published["tokenizer.ggml.merges"]
    # Names of audio tokens stand in a file that is not here.
    missing = set(range(248070, 248077)) if stem == "qwen35" else set()
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type"):
        assert {i for i, got in enumerate(keys[key]) if got != published[key][i]} == missing


@pytest.mark.parametrize("draft", ["keep", "drop"])
def test_draft_layer_is_kept_or_dropped(draft: Any, tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    convert(write_folder(tiny, tmp_path / "m"), tmp_path / "m.gguf", Wishes(draft=draft))
    theirs = tiny.write_gguf(tmp_path / "t.gguf", draft="shipped" if draft == "keep" else "none")
    ours, expected = read_gguf(tmp_path / "m.gguf"), read_gguf(theirs)
    assert set(ours.tensors) == set(expected.tensors)
    for key, tensor in expected.tensors.items():
        assert np.allclose(ours.tensors[key].float32(), tensor.float32(), rtol=2e-6, atol=0), key
    for key in ("block_count", "nextn_predict_layers"):
        name = f"qwen35moe.{key}"
        assert ours.metadata.get(name) == expected.metadata.get(name)


def test_checkpoint_without_tokenizer_is_written_with_a_note(tmp_path: Path) -> None:
    folder = TINY["llama_tied"].write_safetensors(tmp_path / "m")
    summary = convert(folder, tmp_path / "m.gguf", Wishes())
    assert any("no tokenizer.json" in note for note in summary.notes)
    assert read_gguf(tmp_path / "m.gguf").metadata["tokenizer.ggml.model"] == "none"


def test_tokenizer_of_another_model_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = write_folder(TINY["llama_tied"], tmp_path / "m")
    parsed = json.loads((folder / "tokenizer.json").read_text())
    parsed["model"]["vocab"] |= {f"more{i}": 220 + i for i in range(60)}
    (folder / "tokenizer.json").write_text(json.dumps(parsed))
    with pytest.raises(JuntoError, match="belongs to another model"):
        convert(folder, tmp_path / "m.gguf", Wishes())
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
