"""Steps that run as plans give the bits of steps that run op by op, whatever happened in between.

Two models of one file go through the same story; the second one plans nothing. Sequences begin at
unlike lengths, so that they cross the borders of blocks at unlike steps, and pools grow under way.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import junto
from junto.assembly import assemble
from junto.cache import FLOAT32, KVType
from junto.errors import RequestError
from junto.models.loading import locate, open_file
from junto.ops.contract import Forward, StepCache
from junto.ops.cpu import Cpu
from junto.ops.views import F32, Batch
from tests.tiny.models import MIXES, TINY

MODELS = (
    *("qwen35moe_ratio2", "qwen35moe_ratio4", "qwen35", "qwen3next", "qwen3", "qwen3moe"),
    *("gpt_oss_window32", "gpt_oss_window128", "llama_tied", "llama_untied", "gpt2"),
)
LENGTHS = (62, 1, 127, 64)


class Unplanned(Cpu):
    """The cpu backend, op by op."""

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Logits of a step."""
        return forward(self, batch, cache)


class Pair:
    """A model twice: with plans and without."""

    def __init__(self, name: str, folder: Path, kv: KVType = FLOAT32, n_slot: int = 4) -> None:
        tiny = TINY[name] if name in TINY else MIXES[name]
        path = tiny.write_gguf(folder / f"{name}.gguf")
        self.ops, unplanned = Cpu(2), Unplanned(2)
        self._models = [
            assemble(locate(open_file(path)), ops, n_slot=n_slot, kv=kv)
            for ops in (self.ops, unplanned)
        ]
        for model in self._models:
            model.settle()  # steps are planned when all experts are packed
        self.cache = self._models[0].runner.cache
        self._ids = np.random.default_rng(5).integers(0, self._models[0].config.n_vocab, 997)
        self._n_fed = 0

    def open(self, n_tok: int) -> int:
        """A slot that has read so many tokens."""
        slot, same = (model.runner.cache.open() for model in self._models)
        assert slot == same
        self.step([(slot, self.next(n_tok))])
        return slot

    def next(self, n_tok: int) -> list[int]:
        """The next tokens of all."""
        self._n_fed += n_tok
        return [int(self._ids[i % 997]) for i in range(self._n_fed - n_tok, self._n_fed)]

    def decode(self, slots: Sequence[int], n_step: int = 1) -> None:
        """A token for each of these, so many times."""
        for _ in range(n_step):
            self.step([(slot, self.next(1)) for slot in slots])

    def step(self, work: Sequence[tuple[int, list[int]]], *, all_logits: bool = False) -> None:
        """A step of both, whose bits must agree."""
        planned, unplanned = (
            model.runner.step(work, all_logits=all_logits) for model in self._models
        )
        np.testing.assert_array_equal(planned, unplanned)

    def each(self, act: str, *args: int) -> None:
        """The same done to both caches."""
        for model in self._models:
            getattr(model.runner.cache, act)(*args)

    def check_planned(self, n_shape: int) -> None:
        """Nothing was refused, and so many plans are kept."""
        (plans,) = self.ops._plans.values()
        assert plans.refused == {}
        assert len(plans) == n_shape


CASES = [
    *((name, FLOAT32) for name in MODELS),
    *((name, KVType("f16")) for name in ("gpt_oss_window32", "llama_untied")),
    *[("qwen35moe_wide", KVType("q8_0", window=64)), ("qwen35moe_wide", KVType("q4_0", window=64))],
]


@pytest.mark.parametrize(("name", "kv"), CASES, ids=lambda part: getattr(part, "name", part))
def test_decoding_in_any_company_has_the_bits_of_single_ops(
    name: str, kv: KVType, tmp_path: Path
) -> None:
    pair = Pair(name, tmp_path, kv)
    slots = [pair.open(n) for n in LENGTHS]
    pair.decode(slots, 4)
    pair.decode(slots[:1], 140)
    pair.decode([slots[2], slots[0], slots[1]], 70)
    pair.decode(slots[::-1], 4)
    pair.decode(slots[1:2], 3)
    pair.check_planned(n_shape=3)


@pytest.mark.parametrize("name", ["qwen35moe_ratio2", "gpt_oss_window32", "gpt2"])
def test_slots_that_are_truncated_closed_and_opened_again_keep_their_bits(
    name: str, tmp_path: Path
) -> None:
    pair = Pair(name, tmp_path)
    slots = [pair.open(n) for n in LENGTHS]
    for _ in range(3):
        pair.decode(slots, 5)
        pair.each("truncate", slots[2], pair.cache.length(slots[2]) - 3)
        pair.each("close", slots[0])
        pair.decode([slots[2], slots[1]], 3)
        slots[0] = pair.open(40)
    pair.decode(slots, 30)


def test_sixteen_sequences_have_the_bits_of_single_ops(tmp_path: Path) -> None:
    pair = Pair("qwen35moe_q8_0", tmp_path, n_slot=16)
    slots = [pair.open(3 + 5 * i) for i in range(16)]
    pair.decode(slots, 3)
    pair.decode(slots[::-1], 40)
    pair.check_planned(n_shape=1)


def test_pieces_of_a_few_tokens_are_planned_where_all_logits_are_wanted(tmp_path: Path) -> None:
    """As when drafted tokens are verified."""
    pair = Pair("qwen35moe_ratio2", tmp_path)
    slots = [pair.open(n) for n in LENGTHS]
    for n in (1, 2, 3) * 8:
        work = [(slots[0], pair.next(n)), (slots[3], pair.next(4 - n))]
        pair.step(work, all_logits=True)
    pair.check_planned(n_shape=1)


def test_two_models_take_turns(tmp_path: Path) -> None:
    pairs = [Pair(name, tmp_path) for name in ("llama_tied", "qwen35moe_ratio2")]
    slots = [pair.open(60) for pair in pairs]
    for _ in range(10):
        for pair, slot in zip(pairs, slots, strict=True):
            pair.decode([slot])


def test_one_backend_serves_two_models(tmp_path: Path) -> None:
    ops, ids = Cpu(2), [1, 2, 3]
    models, expected = [], []
    for name in ("llama_tied", "gpt_oss_window32"):
        path = TINY[name].write_gguf(tmp_path / f"{name}.gguf")
        models.append(assemble(locate(open_file(path)), ops))
        models[-1].settle()  # steps are planned when all experts are packed
        expected.append(junto.load(path, backend="cpu", kv="f32").logits(ids))
    slots = [model.runner.cache.open() for model in models]
    for i, token in enumerate(ids):
        for model, slot, logits in zip(models, slots, expected, strict=True):
            row = model.runner.step([(slot, [token])])
            np.testing.assert_array_equal(row[0], logits[i])
    assert [len(plans) for plans in ops._plans.values()] == [1, 1]
    del models, model
    assert len(ops._plans) == 0


def test_steps_run_op_by_op_until_all_experts_are_packed(tmp_path: Path) -> None:
    path, ops = TINY["gpt_oss_window32"].write_gguf(tmp_path / "m.gguf"), Cpu(2)
    model = assemble(locate(open_file(path)), ops)
    backlog = ops._store.backlog
    assert backlog.n_bytes > 0
    slot = model.runner.cache.open()
    model.runner.step([(slot, [1])])
    assert backlog.is_done or not ops._plans
    model.settle()
    assert backlog.n_bytes == 0
    model.runner.step([(slot, [2])])
    assert [len(plans) for plans in ops._plans.values()] == [1]


def test_a_bad_token_is_refused_and_other_slots_go_on(tmp_path: Path) -> None:
    pair = Pair("gpt_oss_window32", tmp_path)
    slots = [pair.open(n) for n in LENGTHS]
    pair.decode(slots[:2], 2)
    for model in pair._models:
        with pytest.raises(RequestError, match="outside the vocabulary"):
            model.runner.step([(slots[0], [1]), (slots[1], [10**6])])
    for slot in slots[:2]:
        pair.each("close", slot)
    pair.decode(slots[2:], 3)
    pair.check_planned(n_shape=1)
