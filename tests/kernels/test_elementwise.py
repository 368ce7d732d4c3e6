"""Norms, gates and activations against the reference in float64.

Tolerance 2e-6 of the largest result: an exponential within 2 units in the last place, a few float32
roundings, and sums of at most 2,900 squares.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from junto import _kernels
from junto.ops.contract import SwiGLU
from junto.ops.reference import delta_rule, elementwise
from junto.ops.views import F32
from tests.ops.nearness import assert_near, normal

ROUNDINGS = 2e-6
EPS = 1e-6
WIDTHS = (1, 15, 16, 17, 63, 64, 65, 130, 2880)
Pools = dict[int, _kernels.ThreadPool]
Op = Callable[[str, _kernels.ThreadPool, F32, F32, F32, F32], None]

# x, other and weight -> y, by the kernel and by the reference.
OPS: dict[str, tuple[Op, Callable[[Any, Any, Any], Any]]] = {
    "rms_norm": (
        lambda level, pool, x, _, w, y: _kernels.rms_norm(level, pool, x, w, EPS, y),
        lambda x, _, w: elementwise.rms_norm(x, w, EPS),
    ),
    "gated_rms_norm": (
        lambda level, pool, x, g, w, y: _kernels.gated_rms_norm(level, pool, x, w, g, EPS, y),
        lambda x, g, w: elementwise.gated_rms_norm(x, w, g, EPS),
    ),
    "layer_norm": (
        lambda level, pool, x, _, w, y: _kernels.layer_norm(level, pool, x, w, w + 3, EPS, y),
        lambda x, _, w: elementwise.layer_norm(x, w, w + 3, EPS),
    ),
    "gelu": (
        lambda level, pool, x, _, w, y: _kernels.gelu(level, pool, x, y),
        lambda x, _, w: elementwise.gelu(x),
    ),
    "sigmoid_gate": (
        lambda level, pool, x, g, _, y: _kernels.sigmoid_gate(level, pool, x, g, y),
        lambda x, g, _: elementwise.sigmoid_gate(x, g),
    ),
    "swiglu": (
        lambda level, pool, x, u, _, y: _kernels.swiglu(level, pool, x, u, 0.0, 1.0, y),
        lambda x, u, _: elementwise.swiglu(x, u, SwiGLU()),
    ),
    "clamped swiglu": (
        lambda level, pool, x, u, _, y: _kernels.swiglu(level, pool, x, u, 1.5, 1.702, y),
        lambda x, u, _: elementwise.swiglu(x, u, SwiGLU(1.5, 1.702)),
    ),
    "add": (
        lambda level, pool, x, b, _, y: _kernels.add(level, pool, x, b, y),
        lambda x, b, _: x + b,
    ),
}
OF_ONE_ARRAY = ("rms_norm", "layer_norm", "gelu")
op = pytest.mark.parametrize("name", OPS)


def run(name: str, level: str, pool: _kernels.ThreadPool, x: F32, other: F32, w: F32) -> F32:
    y = np.full(x.shape, np.nan, np.float32)
    OPS[name][0](level, pool, x, other, w, y)
    return y


def expected(name: str, *inputs: F32) -> npt.NDArray[np.float64]:
    y: npt.NDArray[np.float64] = OPS[name][1](*(a.astype(np.float64) for a in inputs))
    return y


def inputs(seed: int, *shape: int) -> tuple[F32, F32, F32]:
    return 3 * normal(seed, *shape), 4 * normal(seed + 1, *shape), normal(seed + 2, shape[-1])


@op
@pytest.mark.parametrize("width", WIDTHS)
def test_equals_the_reference(name: str, width: int, level: str, pools_of_threads: Pools) -> None:
    args = inputs(width, 3, width)
    assert_near(run(name, level, pools_of_threads[2], *args), expected(name, *args), ROUNDINGS)


@op
def test_rows_that_lie_apart(name: str, level: str, pools_of_threads: Pools) -> None:
    """Queries and gates of one projection: [n_tok, n_head, 2 * head_dim], each half a view."""
    both = 2 * normal(1, 4, 3, 2 * 20)
    x, other, weight = both[..., :20], both[..., 20:], normal(2, 20)
    y = np.full((4, 3, 50), np.nan, np.float32)
    OPS[name][0](level, pools_of_threads[1], x, other, weight, y[..., 10:30])
    assert_near(y[..., 10:30], expected(name, x, other, weight), ROUNDINGS)
    assert np.isnan(y[..., :10]).all()
    assert np.isnan(y[..., 30:]).all()


@op
def test_a_row_among_many_has_the_bits_it_has_alone(
    name: str, level: str, pools_of_threads: Pools
) -> None:
    x, other, weight = inputs(7, 501, 130)
    alone = np.concatenate(
        [
            run(name, level, pools_of_threads[1], x[i : i + 1], other[i : i + 1], weight)
            for i in range(501)
        ]
    )
    for pool in pools_of_threads.values():
        together = run(name, level, pool, x, other, weight)
        np.testing.assert_array_equal(together.view(np.uint32), alone.view(np.uint32))


@op
def test_y_may_be_x(name: str, level: str, pools_of_threads: Pools) -> None:
    x, other, weight = inputs(8, 5, 70)
    apart = run(name, level, pools_of_threads[1], x, other, weight)
    OPS[name][0](level, pools_of_threads[1], x, other, weight, x)
    np.testing.assert_array_equal(x, apart)


@pytest.mark.parametrize("value", [-1e4, -200.0, -88.0, -87.0, 87.0, 89.0, 1e4])
def test_gates_far_out_neither_overflow_nor_vanish(
    value: float, level: str, pools_of_threads: Pools
) -> None:
    gate = np.full((2, 17), value, np.float32)
    x = np.ones_like(gate)
    y = run("sigmoid_gate", level, pools_of_threads[1], x, gate, x[0])
    np.testing.assert_allclose(y, 1.0 if value > 0 else 0.0, rtol=ROUNDINGS, atol=1e-30)


def test_gelu_far_out_is_nothing_or_the_value(level: str, pools_of_threads: Pools) -> None:
    x = np.array([[-3e38, -1e13, -88.0, -10.0, 0.0, 10.0, 88.0, 1e13, 3e38]], np.float32)
    y = run("gelu", level, pools_of_threads[1], x, x, x[0])
    np.testing.assert_array_equal(y[0, 4:], x[0, 4:])
    np.testing.assert_allclose(y[0, :4], 0, atol=1e-30)


def test_layer_norm_of_a_row_far_from_zero(level: str, pools_of_threads: Pools) -> None:
    """The mean goes first: mean(x^2) - mean(x)^2 would leave nothing of the variance."""
    x, _, weight = inputs(3, 4, 130)
    x += np.float32(4096)
    y = run("layer_norm", level, pools_of_threads[1], x, x, weight)
    assert_near(y, expected("layer_norm", x, x, weight), 1e-4)  # the mean is exact to 2^-12


def test_a_gate_of_one_column_opens_its_row(level: str, pools_of_threads: Pools) -> None:
    x, gate = normal(3, 5, 37), normal(4, 5, 1)
    y = run("sigmoid_gate", level, pools_of_threads[1], x, gate, x[0])
    assert_near(y, expected("sigmoid_gate", x, gate, x[0]), ROUNDINGS)


@pytest.mark.parametrize("n_tok", [1, 3, 600])
def test_delta_gates_equal_the_reference(n_tok: int, level: str, pools_of_threads: Pools) -> None:
    alpha, beta = 9 * normal(1, n_tok, 37), 5 * normal(2, n_tok, 37)
    a, dt = -np.exp(normal(3, 37)), normal(4, 37)
    decay, opened = np.empty_like(alpha), np.empty_like(alpha)
    _kernels.delta_gates(level, pools_of_threads[2], alpha, beta, a, dt, decay, opened)
    wide: list[Any] = [array.astype(np.float64) for array in (alpha, beta, a, dt)]
    for actual, wanted in zip((decay, opened), delta_rule.delta_gates(*wide), strict=True):
        assert_near(actual, np.asarray(wanted, np.float64), ROUNDINGS)


def test_no_rows_and_no_columns_are_nothing_to_do(level: str, pools_of_threads: Pools) -> None:
    for shape in ((0, 5), (5, 0), (0, 3, 7)):
        x = np.zeros(shape, np.float32)
        for name in OPS:
            run(name, level, pools_of_threads[2], x, x, np.zeros(shape[-1], np.float32))


@pytest.mark.parametrize(
    ("x", "other", "y", "message"),
    [
        ((3, 7), (3, 8), (3, 7), r"shapes \(3, 8\) and \(3, 7\) do not fit"),
        ((3, 7), (4, 7), (3, 7), r"shapes \(4, 7\) and \(3, 7\) do not fit"),
        ((3, 7), (3, 7), (7, 3), r"shapes \(7, 3\) and \(3, 7\) do not fit"),
        ((3, 7), (21,), (3, 7), r"shapes \(21\) and \(3, 7\) do not fit"),
        ((2, 2, 2, 2), (2, 2, 2, 2), (2, 2, 2, 2), "expected one to three axes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    x: tuple[int, ...],
    other: tuple[int, ...],
    y: tuple[int, ...],
    message: str,
    level: str,
    pools_of_threads: Pools,
) -> None:
    arrays = [np.zeros(shape, np.float32) for shape in (x, other, np.zeros(x[-1]).shape, y)]
    for name in OPS:
        if name in OF_ONE_ARRAY and other != x and x == y:
            continue
        with pytest.raises(ValueError, match=message):
            OPS[name][0](level, pools_of_threads[1], *arrays)


def test_a_weight_of_another_length_is_refused(level: str, pools_of_threads: Pools) -> None:
    x, weight = np.zeros((3, 7), np.float32), np.zeros(8, np.float32)
    for name in ("rms_norm", "layer_norm", "gated_rms_norm"):
        with pytest.raises(ValueError, match="weight is 8, values of a row is 7"):
            run(name, level, pools_of_threads[1], x, x, weight)
    with pytest.raises(ValueError, match="bias is 8, values of a row is 7"):
        _kernels.layer_norm(level, pools_of_threads[1], x, weight[:7], weight, EPS, x)


def test_values_that_do_not_lie_together_are_refused(level: str, pools_of_threads: Pools) -> None:
    x = np.zeros((3, 14), np.float32)[:, ::2]
    with pytest.raises(ValueError, match="the values of a row must lie together"):
        _kernels.add(level, pools_of_threads[1], x, x, np.zeros((3, 7), np.float32))
