"""The draft head: its logits, and files with, without and with half of one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto.cache import KVType
from junto.convert import Wishes, convert
from junto.errors import ModelError, RequestError
from junto.formats.gguf import read_gguf
from junto.memory_plan import plan
from junto.models.loading import locate, open_file
from junto.models.weight_sizes import weight_sizes
from junto.ops.views import F32
from tests.convert.folders import write_folder
from tests.models.fakes import lazy, plus, tiny_gguf, without
from tests.models.running import error
from tests.models.test_goldens import LLAMA_CPP_BOUND, TRANSFORMERS_BOUND
from tests.tiny import goldens
from tests.tiny.gguf_metadata import architecture, metadata
from tests.tiny.gguf_writer import write_gguf
from tests.tiny.models import DRAFTING, TINY, TinyModel

RATIO2 = DRAFTING["qwen35moe_ratio2"]
N_TOK = 150
KV_F32 = KVType("f32")
BLOCK = "blk.4.nextn."

every_draft = pytest.mark.parametrize("name", DRAFTING)


def gguf(tiny: TinyModel, folder: Path) -> Path:
    return tiny.write_gguf(folder / "m.gguf", draft="shipped")


def reference(path: Path) -> junto.Model:
    return junto.load(path, backend="reference", draft=True)


def changed(tiny: TinyModel, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A GGUF whose tensors are changed before they are written."""
    tensors = tiny.gguf_tensors(draft="shipped")
    change(tensors)
    keys = metadata(tiny.config, n_nextn=1)
    write_gguf(path, architecture(tiny.config), keys, tensors)
    return path


@every_draft
def test_gguf_equals_llama_cpp(name: str, tmp_path: Path) -> None:
    golden = goldens.load("llama_cpp", f"draft/{name}")
    draft = goldens.of_draft(reference(gguf(DRAFTING[name], tmp_path)).draft_logits)
    errors = goldens.errors(golden, draft)
    assert max(errors.values()) < LLAMA_CPP_BOUND, errors


def test_safetensors_equal_the_network_that_trains_the_demo_model(tmp_path: Path) -> None:
    golden = goldens.load("train_demo", "draft/qwen35moe_ratio2")
    draft = goldens.of_draft(reference(RATIO2.write_safetensors(tmp_path / "m")).draft_logits)
    errors = goldens.errors(golden, draft)
    assert max(errors.values()) < TRANSFORMERS_BOUND, errors


@every_draft
def test_a_converted_checkpoint_drafts_alike(name: str, tmp_path: Path) -> None:
    tiny = DRAFTING[name]
    folder = write_folder(tiny, tmp_path / "m")
    convert(folder, tmp_path / "m.gguf", Wishes())
    ids = tiny.tokens(70)
    ours = reference(tmp_path / "m.gguf").draft_logits(ids)
    assert error(ours, reference(folder).draft_logits(ids)) < 5e-6


def test_a_draft_that_config_json_does_not_tell_of_is_found_and_counted(tmp_path: Path) -> None:
    """Qwen3-Next is published so."""
    tiny = DRAFTING["qwen3next_draft"]
    folder = write_folder(tiny, tmp_path / "told")
    silent = shutil.copytree(folder, tmp_path / "silent")
    config = json.loads((silent / "config.json").read_text())
    assert config.pop("mtp_num_hidden_layers") == 1
    (silent / "config.json").write_text(json.dumps(config))
    convert(silent, tmp_path / "m.gguf", Wishes())
    assert read_gguf(tmp_path / "m.gguf").metadata["qwen3next.nextn_predict_layers"] == 1
    ids = tiny.tokens(9)
    told = reference(folder).draft_logits(ids)
    assert np.array_equal(reference(silent).draft_logits(ids), told)
    assert error(reference(tmp_path / "m.gguf").draft_logits(ids), told) < 5e-6


def pieces(model: junto.Model, ids: list[int], n: int) -> F32:
    """Draft logits of a sequence that is fed in steps of n tokens."""
    slot = model.runner.cache.open()
    read, following = ids[:-1], ids[1:]
    starts = range(0, len(read), n)
    rows = [model.runner.draft(slot, read[s : s + n], following[s : s + n]) for s in starts]
    model.runner.cache.close(slot)
    return np.concatenate(rows)


@pytest.mark.parametrize("n", [1, 63, 64, 65])
def test_tokens_in_steps_equal_tokens_at_once(n: int, tmp_path: Path) -> None:
    model, ids = reference(gguf(RATIO2, tmp_path)), RATIO2.tokens(N_TOK).tolist()
    assert error(pieces(model, ids, n), model.draft_logits(ids)) < 1e-5


def test_a_long_sequence_is_read_in_steps(tmp_path: Path) -> None:
    model, ids = reference(gguf(RATIO2, tmp_path)), RATIO2.tokens(600).tolist()
    assert error(model.draft_logits(ids), pieces(model, ids, 599)) < 1e-5


@every_draft
def test_the_cpu_backend_equals_the_reference(name: str, tmp_path: Path) -> None:
    tiny = DRAFTING[name]
    path, ids = gguf(tiny, tmp_path), tiny.tokens(N_TOK)
    fast = junto.load(path, kv="f32", draft=True).draft_logits(ids)
    assert error(fast, reference(path).draft_logits(ids)) < 1e-4


def test_steps_equal_the_whole_while_keys_and_values_age(tmp_path: Path) -> None:
    """The draft layer's blocks become codes in the step that the trunk's do."""
    text = TINY["qwen35moe_ratio1"].config
    tiny = TinyModel("aging_draft", {**text, "head_dim": 32, "mtp_num_hidden_layers": 1})
    path, ids = gguf(tiny, tmp_path), tiny.tokens(330).tolist()
    model = junto.load(path, kv="q4_0", draft=True)
    whole = model.draft_logits(ids)
    assert model.runner.cache.kv_groups[0].ages
    assert np.array_equal(pieces(model, ids, 50), whole)
    floats = junto.load(path, kv="f32", draft=True).draft_logits(ids)
    assert np.median(np.abs(whole - floats)) < 0.01 * np.abs(floats).max()
    assert error(whole, floats) > 1e-3


@pytest.mark.parametrize("at", [0, 1])
def test_guesses_know_the_tokens_before_and_no_later_one(at: int, tmp_path: Path) -> None:
    """Row i knows tokens 0 to i + 1."""
    model, ids = reference(gguf(RATIO2, tmp_path)), RATIO2.tokens(100)
    other = ids.copy()
    other[50 + at] = (ids[50 + at] + 1) % RATIO2.n_vocab
    apart = np.abs(model.draft_logits(ids) - model.draft_logits(other)).max(axis=1)
    assert apart[: 49 + at].max() == 0
    assert apart[49 + at :].min() > 1e-3


def test_own_head_norm_and_embedding_of_the_draft_count(tmp_path: Path) -> None:
    """Each is the model's where the file has none for the draft."""
    ids = RATIO2.tokens(40)
    plain = reference(gguf(RATIO2, tmp_path)).draft_logits(ids)

    def draft(change: Callable[[dict[str, Any]], None]) -> F32:
        return reference(changed(RATIO2, tmp_path / "changed.gguf", change)).draft_logits(ids)

    def with_copies(t: dict[str, Any]) -> None:
        t[f"{BLOCK}shared_head_head.weight"] = t["output.weight"]
        t[f"{BLOCK}embed_tokens.weight"] = t["token_embd.weight"]

    def with_model_norm(t: dict[str, Any]) -> None:
        t[f"{BLOCK}shared_head_norm.weight"] = t["output_norm.weight"]

    assert np.array_equal(draft(with_copies), plain)
    without_norm = draft(lambda t: t.pop(f"{BLOCK}shared_head_norm.weight"))
    assert np.array_equal(without_norm, draft(with_model_norm))
    assert error(without_norm, plain) > 1e-2
    for name, other in (("shared_head_head", "output"), ("embed_tokens", "token_embd")):
        scores = draft(
            lambda t, name=name, other=other: t.update(  # type: ignore[misc]
                {f"{BLOCK}{name}.weight": t[f"{other}.weight"][::-1]}
            )
        )
        assert error(scores, plain) > 1e-2


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_draft_head_changes_nothing_else(backend: str, tmp_path: Path) -> None:
    path, ids = gguf(RATIO2, tmp_path), RATIO2.tokens(N_TOK)
    with_draft = junto.load(path, backend=backend, draft=True)
    without_draft = junto.load(path, backend=backend)
    assert (with_draft.drafts, without_draft.drafts) == (True, False)
    with_draft.draft_logits(ids)
    assert np.array_equal(with_draft.logits(ids), without_draft.logits(ids))
    answers = [
        [p.token_id for p in model.generate([1, 2, 3], n_predict=9, seed=4)]
        for model in (with_draft, without_draft)
    ]
    assert answers[0] == answers[1]
    assert with_draft.notes == ()
    assert with_draft.runner.cache.n_bytes_kv > without_draft.runner.cache.n_bytes_kv


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    path = gguf(RATIO2, tmp_path)
    with pytest.raises(RequestError, match=r"m\.gguf: no draft head is loaded; junto\.load takes"):
        junto.load(path, backend="reference").draft_logits([1, 2])
    model = reference(path)
    with pytest.raises(RequestError, match="1 token ids given, expected at least two"):
        model.draft_logits([1])
    for ids in ([RATIO2.n_vocab, 1], [1, RATIO2.n_vocab]):
        with pytest.raises(RequestError, match=f"outside the vocabulary of {RATIO2.n_vocab}"):
            model.draft_logits(ids)
    for _ in range(10):  # each left its slot free
        assert model.draft_logits([1, 2]).shape == (1, RATIO2.n_vocab)


WANTED = "m.gguf: a draft head is wanted and not there; running without"
PROMISED = "m.gguf: its metadata promises a draft head that the file does not hold; running without"


@pytest.mark.parametrize(
    ("name", "draft", "note"),
    [
        ("llama_tied", "none", WANTED),
        ("qwen35moe_ratio1", "none", WANTED),
        ("qwen35moe_ratio2", "only in metadata", PROMISED),
    ],
)
def test_a_file_without_one_runs_and_says_so_once(
    name: str, draft: Any, note: str, tmp_path: Path
) -> None:
    tiny = TINY[name]
    model = reference(tiny.write_gguf(tmp_path / "m.gguf", draft=draft))
    assert model.notes == (note,)
    assert not model.drafts
    assert model.logits([1]).shape == (1, tiny.n_vocab)


def test_a_head_that_nothing_joins_to_the_model_is_left_alone() -> None:
    half = without(tiny_gguf(RATIO2, "shipped"), f"{BLOCK}eh_proj.weight")
    blueprint = locate(half, draft=True)
    assert blueprint.located.draft is None
    assert blueprint.notes == (
        "fake.gguf: 19 tensors not used: the draft head (speculative decoding is not built yet)",
        "fake.gguf: a draft head is wanted and not there; running without",
    )


def test_a_head_that_lacks_a_tensor_or_has_one_too_many_is_refused() -> None:
    file = tiny_gguf(RATIO2, "shipped")
    lost = f"{BLOCK}hnorm.weight"
    with pytest.raises(ModelError, match=rf"fake\.gguf: tensor '{lost}' is missing"):
        locate(without(file, lost), draft=True)
    more = plus(file, lazy(f"{BLOCK}other.weight", (3,)))
    with pytest.raises(ModelError, match=f"does not know: '{BLOCK}other.weight'"):
        locate(more, draft=True)
    assert locate(more).located.draft is None


def test_further_draft_layers_are_left_alone_and_told() -> None:
    file = tiny_gguf(RATIO2, "shipped", block_count=6, nextn_predict_layers=2)
    blueprint = locate(plus(file, lazy("blk.5.nextn.hnorm.weight", (3,))), draft=True)
    assert blueprint.located.draft is not None
    assert blueprint.notes == ("fake.gguf: 1 tensor not used: draft layers after the first",)


def test_memory_is_planned_for_the_draft_head_where_it_is_wanted(tmp_path: Path) -> None:
    file = open_file(gguf(RATIO2, tmp_path))
    alone, both = locate(file), locate(file, draft=True)
    assert weight_sizes(both).n_bytes == sum(t.n_bytes for t in file.tensors.values())
    drafting = sum(t.n_bytes for n, t in file.tensors.items() if n.startswith("blk.4."))
    assert weight_sizes(both).n_bytes - weight_sizes(alone).n_bytes == drafting
    small, large = plan(alone, 500, KV_F32), plan(both, 500, KV_F32)
    assert large.weights > small.weights
    assert large.kv == 2 * small.kv  # one attention layer of the model's, and the draft's
    assert large.state == small.state
