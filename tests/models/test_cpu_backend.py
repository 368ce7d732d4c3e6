"""The cpu backend runs the same models: near the reference, and with the same bits in any company.

On float32 files only the order of float32 sums differs. On quantised files activations are rounded
to int8 with a scale per 32 values; llama.cpp's own rounding moves such random models by a mean KL
of 0.04 to 0.09 from float activations, and half of the least of that is the bound here.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto import _kernels
from junto.assembly import assemble
from junto.cache import FLOAT32, KVType
from junto.errors import RequestError
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu
from junto.ops.reference import Reference
from junto.ops.views import F32
from tests.tiny.models import MIXES, MIXES_WITHOUT_GOLDEN, TINY
from tests.tiny.random_weights import I64
from tests.tiny.rounding import mean_kl

LEVELS = _kernels.levels()
FLOAT_MODELS = (
    *("qwen35moe_ratio2", "qwen35moe_ratio4", "gpt_oss_window32", "llama_untied"),
    *("qwen3", "qwen3moe", "qwen35", "qwen3next", "gpt2"),
)
IDENTITY_MODELS = ("qwen35moe_q4_k", "qwen35moe_q8_0", "gpt_oss_mxfp4_q8_0")
ALL_MIXES = {**MIXES, **MIXES_WITHOUT_GOLDEN}
N_TOK = 200
N_TOK_AGED = 330
"""Enough for blocks 1 and 2 to have left the window of 128."""


def model_file(name: str, folder: Path) -> Path:
    path = folder / f"{name}.gguf"
    if name in TINY:
        return TINY[name].write_gguf(path)
    return ALL_MIXES[name].write_gguf(path)


def tokens_of(name: str, n: int) -> I64:
    return ALL_MIXES[name].model.tokens(n)


def load(path: Path, level: str, n_threads: int = 2, kv: KVType = FLOAT32) -> junto.Model:
    return assemble(locate(open_file(path)), Cpu(n_threads, level), kv=kv)


def fed(model: junto.Model, ids: list[int], cuts: list[int]) -> F32:
    """Logits of a sequence that comes in pieces ending at `cuts`."""
    slot, rows = model.runner.cache.open(), []
    for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True):
        rows.append(model.runner.step([(slot, ids[start:end])], all_logits=True))
    model.runner.cache.close(slot)
    return np.concatenate(rows)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_float_files_equal_the_reference(name: str, level: str, tmp_path: Path) -> None:
    path = model_file(name, tmp_path)
    ids = TINY[name].tokens(N_TOK)
    expected = junto.load(path, backend="reference").logits(ids)
    error = np.abs(load(path, level).logits(ids) - expected).max() / np.abs(expected).max()
    assert error < 1e-4


@pytest.mark.parametrize(
    ("name", "level"),
    [*product(MIXES, LEVELS), *product(MIXES_WITHOUT_GOLDEN, LEVELS[:1])],
)
def test_quantised_files_stay_near_float_activations(name: str, level: str, tmp_path: Path) -> None:
    path = model_file(name, tmp_path)
    ids = tokens_of(name, N_TOK)
    expected = junto.load(path, backend="reference").logits(ids)
    assert mean_kl(expected, load(path, level).logits(ids)) < 0.02


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", IDENTITY_MODELS)
def test_any_cut_of_a_prompt_gives_the_same_bits(name: str, level: str, tmp_path: Path) -> None:
    model = load(model_file(name, tmp_path), level)
    ids = tokens_of(name, N_TOK).tolist()
    whole = model.logits(ids)
    for cuts in ([63], [64], [65], [1, 2, 3, 130], list(range(100, N_TOK))):
        np.testing.assert_array_equal(fed(model, ids, cuts), whole, err_msg=str(cuts))


@pytest.mark.parametrize("name", [*IDENTITY_MODELS, "qwen35moe_iq3_xxs_iq3_s"])
def test_company_slots_and_threads_do_not_change_a_bit(name: str, tmp_path: Path) -> None:
    path = model_file(name, tmp_path)
    model, single = load(path, LEVELS[0]), load(path, LEVELS[0], n_threads=1)
    texts = [tokens_of(name, n).tolist() for n in (N_TOK, 7, 65, 130)]
    alone = [single.logits(ids)[-1] for ids in texts]
    slots = [model.runner.cache.open() for _ in texts]
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        together = model.runner.step([(slots[i], texts[i]) for i in order])
        for row, i in zip(together, order, strict=True):
            np.testing.assert_array_equal(row, alone[i])
        for slot in slots:
            model.runner.cache.close(slot)
        slots = [model.runner.cache.open() for _ in texts]


@pytest.mark.parametrize("name", ["qwen35moe_q4_k", "gpt_oss_mxfp4_q8_0"])
def test_two_models_at_once_do_not_meet(name: str, tmp_path: Path) -> None:
    path = model_file(name, tmp_path)
    ids = tokens_of(name, 65)
    alone = load(path, LEVELS[0]).logits(ids)
    with ThreadPoolExecutor(2) as callers:
        for logits in callers.map(lambda n: load(path, LEVELS[0], n).logits(ids), (2, 2, 1, 2)):
            np.testing.assert_array_equal(logits, alone)


def test_half_precision_keys_and_values_change_little(tmp_path: Path) -> None:
    path = model_file("llama_untied", tmp_path)
    ids = TINY["llama_untied"].tokens(N_TOK)
    full, half = (junto.load(path, backend="cpu", kv=kv).logits(ids) for kv in ("f32", "f16"))
    error = np.abs(full - half).max() / np.abs(full).max()
    assert 0 < error < 2e-3


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_keys_and_values_by_age_equal_the_references(name: Any, tmp_path: Path) -> None:
    """A float file, so that what is left of the difference is the order of float32 sums."""
    path, kv = model_file("qwen35moe_wide", tmp_path), KVType(name)
    ids = TINY["qwen35moe_wide"].tokens(N_TOK_AGED)
    expected = assemble(locate(open_file(path)), Reference(), kv=kv).logits(ids)
    ours = load(path, LEVELS[0], kv=kv).logits(ids)
    assert np.abs(ours - expected).max() / np.abs(expected).max() < 2e-3
    half = load(path, LEVELS[0], kv=KVType("f16")).logits(ids)
    np.testing.assert_array_equal(ours[:256], half[:256])
    assert np.abs(ours[256:] - half[256:]).max() > 0


@pytest.mark.parametrize(
    ("level", "name"), [(level, "q4_0") for level in LEVELS] + [(LEVELS[0], "q8_0")]
)
def test_bits_by_age_do_not_depend_on_cuts_or_company(
    name: Any, level: str, tmp_path: Path
) -> None:
    model_name = IDENTITY_MODELS[0]
    model = load(model_file(model_name, tmp_path), level, kv=KVType(name))
    ids = tokens_of(model_name, N_TOK_AGED).tolist()
    whole = model.logits(ids)
    for cuts in ([64, 257], [1, 65, 300], list(range(322, N_TOK_AGED))):
        np.testing.assert_array_equal(fed(model, ids, cuts), whole, err_msg=str(cuts))
    other, slot = model.runner.cache.open(), model.runner.cache.open()
    together = model.runner.step([(slot, ids), (other, ids[::-1])])
    np.testing.assert_array_equal(together[0], whole[-1])


def test_levels_and_threads_that_do_not_exist_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="n_threads is 0, expected at least 1"):
        Cpu(0)
    monkeypatch.setenv("JUNTO_ISA", "mmx")
    with pytest.raises(RequestError, match=r"JUNTO_ISA is 'mmx'; this machine runs: .*portable"):
        Cpu()


def test_more_threads_than_processors_are_clamped_with_a_note() -> None:
    (note,) = Cpu(1000).notes
    assert note.startswith("1000 threads wanted, ")
