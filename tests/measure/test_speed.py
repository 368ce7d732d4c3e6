"""Timing of prefill and decode: which tokens are fed to whom, and where each run begins."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import junto
from junto.engine.runner import Runner
from junto.errors import RequestError
from junto.measure.speed import Result, Workload, measure
from junto.measure.spread import Spread
from junto.measure.work import Work
from tests.tiny.models import MIXES, TINY


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, int]]]:
    """For each step: (position, tokens) of every sequence."""
    steps: list[list[tuple[int, int]]] = []
    right = Runner.step

    def step(self: Runner, work: Sequence[tuple[int, Sequence[int]]]) -> object:
        steps.append([(self.cache.length(slot), len(ids)) for slot, ids in work])
        return right(self, work)

    monkeypatch.setattr(Runner, "step", step)
    return steps


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> junto.Model:
    path = tmp_path_factory.mktemp("models") / "m.gguf"
    return junto.load(TINY["llama_untied"].write_gguf(path), backend="cpu")


def test_prefill_goes_by_steps_of_512_and_begins_anew(
    llama: junto.Model, fed: list[list[tuple[int, int]]]
) -> None:
    result = measure(llama.runner, Workload("prefill", 600), n_rep=2)
    assert fed == [[(0, 512)], [(512, 88)]] * 3  # once for the work, and twice
    assert len(result.seconds) == 2
    assert min(result.seconds) > 0


def test_streams_decode_in_one_batch(llama: junto.Model, fed: list[list[tuple[int, int]]]) -> None:
    result = measure(llama.runner, Workload("decode", 2, n_stream=3), n_rep=1)
    assert fed == [[(0, 1)] * 3, [(1, 1)] * 3] * 2
    assert result.test.n_token == 6


def test_depth_is_filled_once_and_gone_back_to(
    llama: junto.Model, fed: list[list[tuple[int, int]]]
) -> None:
    measure(llama.runner, Workload("decode", 2, depth=70), n_rep=2)
    assert fed == [[(0, 70)], *[[(70, 1)], [(71, 1)]] * 3]


def test_what_cannot_go_back_goes_on(tmp_path: Path, fed: list[list[tuple[int, int]]]) -> None:
    """DeltaNet's state of the position before 64 is gone once token 64 has come."""
    path = MIXES["qwen35moe_q8_0"].write_gguf(tmp_path / "m.gguf")
    model = junto.load(path, backend="cpu")
    measure(model.runner, Workload("prefill", 5, depth=62), n_rep=1)
    assert fed == [[(0, 62)], [(62, 5)], [(67, 5)]]


def test_what_does_not_fit_any_more_is_filled_anew(
    tmp_path: Path, fed: list[list[tuple[int, int]]]
) -> None:
    path = MIXES["qwen35moe_q8_0"].write_gguf(tmp_path / "m.gguf")
    model = junto.load(path, backend="cpu", n_ctx=70)
    measure(model.runner, Workload("prefill", 5, depth=62), n_rep=1)
    assert fed == [[(0, 62)], [(62, 5)], [(0, 62)], [(62, 5)]]


def test_a_test_beyond_the_context_is_refused(llama: junto.Model) -> None:
    n = llama.n_ctx
    with pytest.raises(RequestError, match=f"decode 2 at {n:d}: needs .* tokens of context"):
        measure(llama.runner, Workload("decode", 2, depth=n), n_rep=1)


def test_slots_are_free_again(llama: junto.Model) -> None:
    measure(llama.runner, Workload("decode", 1, n_stream=llama.runner.cache.n_slot), n_rep=2)
    slots = [llama.runner.cache.open() for _ in range(llama.runner.cache.n_slot)]
    for slot in slots:
        llama.runner.cache.close(slot)


def test_experts_are_packed_before_the_first_run_is_timed(tmp_path: Path) -> None:
    model = junto.load(MIXES["gpt_oss_mxfp4_q8_0"].write_gguf(tmp_path / "m.gguf"))
    told: list[int] = []
    measure(model.runner, Workload("decode", 1), n_rep=1)
    model.settle(lambda done, total: told.append(total))
    assert told == [], "nothing was left to pack"


def test_figures_follow_from_seconds_and_work() -> None:
    result = Result(Workload("decode", 10, n_stream=4), (0.5, 1.0, 2.0), Work(3 * 10**9, 5 * 10**9))
    assert result.tokens_per_s == Spread(30.0, 40.0, 60.0)
    assert result.gb_per_s == 3.0
    assert result.gop_per_s == 5.0
    assert result.as_json()["mb_per_run"] == 3000.0


def test_names_tell_the_test() -> None:
    assert Workload("prefill", 512).name == "prefill 512"
    assert Workload("decode", 8, 16, 8192).name == "decode 8, 16 streams at 8192"


def test_a_single_value_is_its_own_spread() -> None:
    assert Spread.of([2.0]) == Spread(2.0, 2.0, 2.0)
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(2.0, 3.0, 4.0)
