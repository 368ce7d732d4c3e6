"""Norms, gates and activations against float64 formulas.

Tolerance 1e-6 of the largest result: a few roundings of 6e-8, and a mean over at most 130 squares.
"""

import math

import numpy as np
import pytest

from junto.ops.contract import SwiGLU
from junto.ops.reference import Reference
from junto.ops.reference.elementwise import sigmoid, silu, softplus
from junto.ops.views import F32
from tests.ops.nearness import F64, SIZES, assert_near, normal

ROUNDINGS = 1e-6
EXTREMES = np.array([-3e38, -1e4, -100, -88, -1, 0, 1, 88, 100, 1e4, 3e38], np.float32)


def wide(x: F32) -> F64:
    return x.astype(np.float64)


def sigmoid64(x: F32) -> F64:
    return np.asarray(np.exp(-np.logaddexp(0, -wide(x))))


def rms_norm64(x: F32, weight: F32, eps: float) -> F64:
    square = np.mean(wide(x) ** 2, axis=-1, keepdims=True)
    return np.asarray(wide(x) / np.sqrt(square + eps) * wide(weight))


def test_sigmoid_holds_from_end_to_end_of_float32() -> None:
    assert_near(sigmoid(EXTREMES), sigmoid64(EXTREMES), ROUNDINGS)
    assert sigmoid(EXTREMES)[0] == 0
    assert sigmoid(EXTREMES)[-1] == 1


def test_sigmoid_keeps_its_digits_where_it_is_small() -> None:
    """Relative, unlike the other tolerances: 1 - sigmoid(80) would have none left."""
    x = np.linspace(-80, 80, 161, dtype=np.float32)
    np.testing.assert_allclose(sigmoid(x), sigmoid64(x), rtol=1e-6)


def test_silu_is_zero_at_one_end_and_identity_at_the_other() -> None:
    y = silu(EXTREMES)
    np.testing.assert_array_equal(y[-3:], EXTREMES[-3:])
    np.testing.assert_array_equal(y[:2], 0)
    x = normal(1, 3, 65)
    assert_near(silu(x), wide(x) * sigmoid64(x), ROUNDINGS)


def test_softplus_is_zero_at_one_end_and_identity_at_the_other() -> None:
    y = softplus(EXTREMES)
    np.testing.assert_array_equal(y[-2:], EXTREMES[-2:])
    np.testing.assert_array_equal(y[:2], 0)
    x = np.linspace(-80, 80, 161, dtype=np.float32)
    np.testing.assert_allclose(softplus(x), np.log1p(np.exp(wide(x))), rtol=1e-6)
    assert softplus(x).dtype == np.float32


@pytest.mark.parametrize("n", SIZES)
def test_rms_norm(n: int) -> None:
    x, weight = normal(n, 2, 3, n) * np.float32(30), normal(n + 1, n)
    assert_near(Reference().rms_norm(x, weight, 1e-6), rms_norm64(x, weight, 1e-6), ROUNDINGS)


def test_rms_norm_of_tiny_rows_feels_eps_and_of_zeros_is_zero() -> None:
    x = np.stack([normal(3, 65) * np.float32(1e-3), np.zeros(65, np.float32)])
    weight = normal(4, 65)
    y = Reference().rms_norm(x, weight, 1e-5)
    assert_near(y, rms_norm64(x, weight, 1e-5), ROUNDINGS)
    assert np.abs(y).max() < 0.5 * np.abs(rms_norm64(x, weight, 1e-12)).max()
    np.testing.assert_array_equal(y[1], 0)


def test_rms_norm_looks_at_one_row_at_a_time() -> None:
    x, weight = normal(5, 4, 7), normal(6, 7)
    y = Reference().rms_norm(x, weight, 1e-6)
    np.testing.assert_array_equal(Reference().rms_norm(x[2:3], weight, 1e-6), y[2:3])


@pytest.mark.parametrize("n", SIZES)
def test_layer_norm(n: int) -> None:
    x, weight, bias = normal(n, 2, 3, n) * np.float32(30), normal(n + 1, n), normal(n + 2, n)
    apart = wide(x) - wide(x).mean(axis=-1, keepdims=True)
    expected = apart / np.sqrt((apart**2).mean(axis=-1, keepdims=True) + 1e-5)
    expected = expected * wide(weight) + wide(bias)
    assert_near(Reference().layer_norm(x, weight, bias, 1e-5), expected, ROUNDINGS)


def test_layer_norm_of_equal_values_is_the_bias() -> None:
    x, weight, bias = np.full((3, 65), 7.5, np.float32), normal(1, 65), normal(2, 65)
    y = Reference().layer_norm(x, weight, bias, 1e-5)
    np.testing.assert_array_equal(y, np.broadcast_to(bias, y.shape))


def test_gelu_is_the_tanh_form() -> None:
    """The form with erf is 4.7e-4 away near 2.3."""
    x = np.linspace(-9, 9, 181, dtype=np.float32)
    inner = np.sqrt(2 / np.pi) * (wide(x) + 0.044715 * wide(x) ** 3)
    assert_near(Reference().gelu(x), wide(x) / (1 + np.exp(-2 * inner)), ROUNDINGS)
    erf = np.array([math.erf(v) for v in wide(x) / np.sqrt(2)])
    apart = np.abs(Reference().gelu(x) - wide(x) / 2 * (1 + erf)).max()
    assert 4e-4 < apart < 5e-4


@pytest.mark.parametrize("n", SIZES)
def test_gated_rms_norm(n: int) -> None:
    x, gate, weight = normal(1, 2, 3, n), normal(2, 2, 3, n) * np.float32(4), normal(3, n)
    expected = rms_norm64(x, weight, 1e-6) * wide(gate) * sigmoid64(gate)
    assert_near(Reference().gated_rms_norm(x, weight, gate, 1e-6), expected, ROUNDINGS)


def test_sigmoid_gate_of_each_value_and_of_one_value_a_row() -> None:
    x, gate = normal(1, 3, 5), normal(2, 3, 5)
    assert_near(Reference().sigmoid_gate(x, gate), wide(x) * sigmoid64(gate), ROUNDINGS)
    one = Reference().sigmoid_gate(x, gate[:, :1])
    assert_near(one, wide(x) * sigmoid64(gate[:, :1]), ROUNDINGS)


@pytest.mark.parametrize("n", SIZES)
def test_plain_swiglu(n: int) -> None:
    gate, up = normal(1, 3, n) * np.float32(10), normal(2, 3, n) * np.float32(10)
    expected = wide(gate) * sigmoid64(gate) * wide(up)
    assert_near(Reference().swiglu(gate, up, SwiGLU()), expected, ROUNDINGS)


@pytest.mark.parametrize("n", SIZES)
def test_clamped_swiglu(n: int) -> None:
    gate, up = normal(1, 3, n) * np.float32(10), normal(2, 3, n) * np.float32(10)
    cut, both = np.minimum(wide(gate), 7), np.clip(wide(up), -7, 7)
    expected = (both + 1) * cut / (1 + np.exp(-1.702 * cut))
    assert_near(Reference().swiglu(gate, up, SwiGLU(7.0, 1.702)), expected, ROUNDINGS)


def clamped(gate: float, up: float, alpha: float = 1.702) -> float:
    one = np.float32
    y = Reference().swiglu(np.array([[gate]], one), np.array([[up]], one), SwiGLU(7.0, alpha))
    return float(y[0, 0])


def test_clamped_swiglu_cuts_gate_above_only_and_up_on_both_sides() -> None:
    assert clamped(7.5, 2.0) == clamped(7.0, 2.0) != clamped(6.5, 2.0)
    assert clamped(-7.5, 2.0) != clamped(-7.0, 2.0)
    assert clamped(1.0, 7.5) == clamped(1.0, 7.0) != clamped(1.0, 6.5)
    assert clamped(1.0, -7.5) == clamped(1.0, -7.0) != clamped(1.0, -6.5)


def test_clamped_swiglu_adds_one_to_up_and_alpha_steepens_the_gate() -> None:
    assert clamped(3.0, -1.0) == 0.0
    assert clamped(1.0, 0.0, alpha=2.5) == pytest.approx(1 / (1 + np.exp(-2.5)), rel=1e-6)


def test_swiglu_leaves_its_arguments_alone() -> None:
    gate, up = normal(1, 3, 5) * np.float32(20), normal(2, 3, 5) * np.float32(20)
    before = gate.copy(), up.copy()
    Reference().swiglu(gate, up, SwiGLU(7.0, 1.702))
    np.testing.assert_array_equal(gate, before[0])
    np.testing.assert_array_equal(up, before[1])
