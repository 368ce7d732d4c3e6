"""A loaded model against the reference: right kernels pass, any wrong one is found and named."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto import _kernels
from junto.measure.check import Plan, compare, sample_layers
from junto.measure.lockstep import Row
from junto.measure.places import Part
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu
from tests.measure.faults import next_expert, not_finite, one_value_larger, spoil
from tests.tiny.models import MIXES, TINY

MODELS = ("llama_untied", "qwen35moe_ratio4", "gpt_oss_mxfp4_q8_0", "qwen35moe_q4_k")
QWEN = "qwen35moe_q4_k"


def write(name: str, folder: Path) -> Path:
    path = folder / f"{name}.gguf"
    return TINY[name].write_gguf(path) if name in TINY else MIXES[name].write_gguf(path)


def check(path: Path, layers: tuple[int, ...] | None = None, kv: str = "auto") -> list[Row]:
    model = junto.load(path, backend="cpu", kv=kv)
    blueprint = locate(open_file(path))
    chosen = sample_layers(model.runner, blueprint) if layers is None else layers
    return compare(model.runner, blueprint, Plan(chosen, 9))


def wrong(rows: list[Row]) -> dict[tuple[Part, str], Row]:
    return {(row.part, row.what): row for row in rows if not row.is_ok}


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(QWEN, tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("name", MODELS)
def test_right_kernels_are_within_every_bound(name: str, tmp_path: Path) -> None:
    rows = check(write(name, tmp_path))
    assert wrong(rows) == {}
    assert {row.what for row in rows} >= {"whole layer", "logits from the tokens", "rms_norm"}


@pytest.mark.parametrize("level", _kernels.levels()[1:])
def test_other_levels_pass_too(level: str, qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUNTO_ISA", level)
    assert wrong(check(qwen, (0, 2))) == {}


def test_rows_come_in_the_order_of_the_model(qwen: Path) -> None:
    parts = [row.part for row in check(qwen, (0, 2))]
    assert list(dict.fromkeys(parts)) == ["input", 0, 2, "head"]


def test_every_matrix_of_a_layer_has_its_row_and_type(qwen: Path) -> None:
    """Layer 2 of the model is its attention layer."""
    whats = {row.what for row in check(qwen, (2,)) if row.part == 2}
    matrices = {what for what in whats if "(" in what}
    assert matrices == {
        "attn_q (Q4_K)",
        "attn_k (Q4_K)",
        "attn_v (Q6_K)",
        "attn_output (Q4_K)",
        "ffn_gate_inp (F32)",
        "experts (Q4_K, Q6_K)",
        "ffn_gate_shexp (Q8_0)",
        "ffn_up_shexp (Q8_0)",
        "ffn_down_shexp (Q8_0)",
        "ffn_gate_inp_shexp (F32)",
    }
    assert {"attention", "attention: state", "rope", "route", "whole layer"} <= whats


@pytest.mark.parametrize(
    ("op", "change", "where", "row"),
    [
        ("attention", one_value_larger, 2, "attention"),
        ("experts", one_value_larger, 1, "experts (Q4_K, Q6_K)"),
        ("gated_delta_rule", one_value_larger, 0, "gated_delta_rule"),
        ("linear", one_value_larger, 1, "ssm_out (Q4_K)"),
        ("rms_norm", lambda y: y * np.float32(1.001), 0, "rms_norm"),
        ("rope", not_finite, 2, "rope"),
        ("route", next_expert, 0, "route"),
        ("short_conv", partial(np.roll, shift=1, axis=1), 1, "short_conv"),
    ],
)
def test_a_wrong_op_is_named_in_its_layer(
    op: str,
    change: Callable[[Any], Any],
    where: int,
    row: str,
    qwen: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch, op, change)
    assert (where, row) in wrong(check(qwen))


def test_what_is_right_beside_a_wrong_op_stays_right(
    qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference's results go on, so only the layers with attention are wrong."""
    spoil(monkeypatch, "attention", one_value_larger)
    found = set(wrong(check(qwen)))
    assert found >= {(2, "attention"), (2, "whole layer")}
    assert {part for part, _ in found} <= {2, "head"}


def test_a_wrong_state_is_found_though_outputs_are_right(
    qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Cpu.attention

    def forgetful(self: Cpu, q: Any, k: Any, v: Any, view: Any, **kwargs: Any) -> Any:
        y = right(self, q, k, v, view, **kwargs)
        view.k[:] = 0
        return y

    monkeypatch.setattr(Cpu, "attention", forgetful)
    assert (2, "attention: state") in wrong(check(qwen))


def test_layers_that_are_not_chosen_run_on_the_kernels_alone(
    qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in a layer that nobody compares is in every pass alike, and so shows nowhere."""
    spoil(monkeypatch, "gated_delta_rule", one_value_larger)
    rows = check(qwen, (2,))
    assert {row.part for row in rows} == {"input", 2, "head"}
    assert wrong(rows) == {}


def test_progress_names_each_part_twice(qwen: Path) -> None:
    model = junto.load(qwen, backend="cpu")
    told: list[Part] = []
    plan = Plan((0, 2), 5)
    compare(model.runner, locate(open_file(qwen)), plan, told.append)
    assert told == [0, 2, "head"] * 2
    assert len(told) == plan.n_part


def test_the_sample_has_every_kind_of_layer(tmp_path: Path) -> None:
    """Layers that differ in what they remember, or in the types of their weights."""
    path = write("gpt_oss_mxfp4_q8_0", tmp_path)
    model = junto.load(path, backend="cpu")
    assert sample_layers(model.runner, locate(open_file(path))) == (0, 1, 2)


def test_a_slot_is_free_again_after_a_check(qwen: Path) -> None:
    model = junto.load(qwen, backend="cpu", n_slot=1)
    blueprint = locate(open_file(qwen))
    for _ in range(2):
        compare(model.runner, blueprint, Plan((0,), 5))
    assert model.runner.cache.open() == 0
