"""A file at a glance, whole or not."""

import lzma
from pathlib import Path

import pytest

from junto.errors import FormatError, ModelError
from junto.formats.gguf_split_writer import split_gguf
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.quant_types import TYPES
from junto.inspection import entries, inspect
from junto.inspection.listing import of_layer
from junto.inspection.overview import open_for_survey
from tests.convert.folders import write_folder
from tests.data_dir import find
from tests.tiny.models import MIXES, TINY


def test_whole_model_is_told(tmp_path: Path) -> None:
    path = MIXES["qwen35moe_q4_k"].write_gguf(tmp_path / "m.gguf")
    found = inspect(path)
    assert (found.format, found.architecture, found.name) == ("GGUF v3", "qwen35moe", "tiny")
    assert found.n_bytes == path.stat().st_size
    assert (found.config["n_expert_used"], found.config["n_ctx_train"]) == (2, 2048)
    assert {share.type for share in found.mix} == {"Q4_K", "Q6_K", "Q8_0", "F32"}
    assert sum(share.share for share in found.mix) == pytest.approx(1)
    assert found.sizes is not None
    assert found.speed is not None
    state = 2 * found.plans[0].plan.state
    assert found.speed.n_bytes_token == found.sizes.n_bytes_active + state
    rate = found.speed.read_gb_per_s * 1e9 / found.speed.n_bytes_token
    assert found.speed.tokens_per_s == pytest.approx(rate)
    assert {p.plan.kv_name for p in found.plans} == {"f32", "f16", "q8_0", "q4_0"}
    assert all(p.fits and p.longest == 2048 for p in found.plans)
    assert found.faults == ()


def test_checkpoint_folder_is_told(tmp_path: Path) -> None:
    found = inspect(write_folder(TINY["gpt_oss_mxfp4"], tmp_path / "m"), n_ctx=100)
    assert (found.format, found.architecture) == ("safetensors", "GptOssForCausalLM")
    assert [p.plan.n_ctx for p in found.plans] == [100] * 4
    assert found.talk is not None
    assert (found.talk.dialogue, found.talk.can_chat) == ("PlainTemplate", True)


def test_vocabulary_without_tensors_is_told(tmp_path: Path) -> None:
    path = tmp_path / "v.gguf"
    path.write_bytes(lzma.decompress(find("tokenizers/gpt-oss-vocab.gguf.xz").read_bytes()))
    found = inspect(path)
    assert (found.architecture, found.mix, found.plans) == ("gpt-oss", (), ())
    assert found.talk is not None
    assert (found.talk.n_vocab, found.talk.dialogue) == (201088, "Harmony")
    assert found.faults == ("v.gguf: holds no tensors, a vocabulary at most",)


def test_file_that_was_cut_short_is_told_with_what_is_missing(tmp_path: Path) -> None:
    path = TINY["llama_untied"].write_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-50_000])
    found = inspect(path)
    assert found.architecture == "llama"
    assert found.sizes is not None
    assert "tensor data is missing" in found.faults[0]
    file, _ = open_for_survey(path)
    listed = entries(file.tensors.values())
    assert any(entry.offset is None for entry in listed)
    assert any(entry.offset is not None for entry in listed)


def test_part_whose_siblings_are_missing_is_told(tmp_path: Path) -> None:
    source = TINY["llama_untied"].write_gguf(tmp_path / "m.gguf")
    first, second, *_ = split_gguf(source, tmp_path / "p", n_part=3)
    second.unlink()
    found = inspect(first)
    assert found.architecture == "llama"
    assert found.mix
    assert any(second.name in fault for fault in found.faults)


def test_unknown_architecture_is_told_as_far_as_names_go(tmp_path: Path) -> None:
    tensors = [OutTensor("a", (2, 3), TYPES["F32"], lambda: [bytes(24)])]
    write_gguf(tmp_path / "m.gguf", {"general.architecture": "mamba9"}, tensors)
    found = inspect(tmp_path / "m.gguf")
    assert (found.architecture, found.sizes, found.plans) == ("mamba9", None, ())
    assert [share.type for share in found.mix] == ["F32"]
    assert any("'mamba9'; this build reads" in fault for fault in found.faults)


def test_what_is_no_model_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUX" + bytes(50))
    with pytest.raises(FormatError, match="not a GGUF file"):
        inspect(tmp_path / "x.gguf")
    with pytest.raises(ModelError, match="no such file"):
        inspect(tmp_path / "none.gguf")


def test_offsets_are_where_the_bytes_lie(tmp_path: Path) -> None:
    path = TINY["llama_tied"].write_gguf(tmp_path / "m.gguf")
    file, _ = open_for_survey(path)
    raw = path.read_bytes()
    for entry in entries(file.tensors.values()):
        assert entry.offset is not None
        data = file.tensors[entry.name].data.tobytes()
        assert raw[entry.offset : entry.offset + entry.n_bytes] == data


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_one_layer_is_picked_by_its_number_alone(kind: str, tmp_path: Path) -> None:
    tiny = TINY["llama_tied"]
    gguf, folder = tiny.write_gguf(tmp_path / "m.gguf"), tiny.write_safetensors(tmp_path / "m")
    file, _ = open_for_survey(gguf if kind == "gguf" else folder)
    chosen = of_layer(file.tensors.values(), 1)
    assert len(chosen) == 9
    assert all(".1." in tensor.name for tensor in chosen)
