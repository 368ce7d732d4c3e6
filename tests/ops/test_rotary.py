"""Frequencies of RoPE: plain, Llama-3 scaled and YaRN, against formulas written out here."""

import math

import numpy as np
import pytest

from junto.ops.rotary import Llama3Scaling, YarnScaling, plain_frequencies

GPT_OSS = YarnScaling(factor=32.0, n_ctx_original=4096)
THETA, N_ROT = 150_000.0, 64


def ramp_end(turns: float, n_ctx: int = 4096, theta: float = THETA, n_rot: int = N_ROT) -> float:
    """The dimension that makes `turns` turns over the original context, from the paper."""
    return n_rot * math.log(n_ctx / (turns * 2 * math.pi)) / (2 * math.log(theta))


def test_plain_frequencies_fall_from_one_to_nearly_one_over_theta() -> None:
    inv_freq = plain_frequencies(10_000.0, 6)
    assert inv_freq.dtype == np.float64
    np.testing.assert_allclose(inv_freq, [1.0, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)], rtol=1e-15)


def test_yarn_ramp_of_gpt_oss_runs_from_8_09_to_17_4() -> None:
    """Numbers of the publisher's formula; rounding them makes another model."""
    low, high = ramp_end(32.0), ramp_end(1.0)
    assert (round(low, 3), round(high, 3)) == (8.093, 17.398)
    ratio = GPT_OSS.frequencies(THETA, N_ROT) / plain_frequencies(THETA, N_ROT)
    ramp = [min(max((j - low) / (high - low), 0.0), 1.0) for j in range(N_ROT // 2)]
    np.testing.assert_allclose(ratio, [r / 32 + 1 - r for r in ramp], rtol=1e-13)


def test_yarn_keeps_fast_dimensions_and_divides_slow_ones() -> None:
    plain, scaled = plain_frequencies(THETA, N_ROT), GPT_OSS.frequencies(THETA, N_ROT)
    np.testing.assert_array_equal(scaled[:9], plain[:9])
    np.testing.assert_allclose(scaled[18:], plain[18:] / 32, rtol=1e-15)
    between = scaled[9:18] / plain[9:18]
    assert (np.diff(between) < 0).all()
    assert 1 / 32 < between[-1] < between[0] < 1


def test_rounded_yarn_range_widens_to_whole_dimensions() -> None:
    rounded = YarnScaling(32.0, 4096, round_range=True)
    ratio = rounded.frequencies(THETA, N_ROT) / plain_frequencies(THETA, N_ROT)
    ramp = np.clip((np.arange(N_ROT // 2) - 8) / (18 - 8), 0, 1)
    np.testing.assert_allclose(ratio, ramp / 32 + 1 - ramp, rtol=1e-13)
    assert abs(
        ratio - GPT_OSS.frequencies(THETA, N_ROT) / plain_frequencies(THETA, N_ROT)
    ).max() > (0.01)


@pytest.mark.parametrize("round_range", [False, True])
def test_yarn_range_of_one_dimension_is_a_step(round_range: bool) -> None:
    """Both ends clamped to 0 (a context of few turns): all dimensions but the first are slow."""
    yarn = YarnScaling(4.0, 6, beta_fast=3.0, beta_slow=1.0, round_range=round_range)
    assert ramp_end(3.0, n_ctx=6) < ramp_end(1.0, n_ctx=6) < 0
    ratio = yarn.frequencies(THETA, 10) / plain_frequencies(THETA, 10)
    np.testing.assert_allclose(ratio, [1.0, 0.25, 0.25, 0.25, 0.25], rtol=1e-15)


def test_yarn_range_with_equal_betas_is_a_step_at_their_dimension() -> None:
    step = YarnScaling(8.0, 4096, beta_fast=4.0, beta_slow=4.0)
    at = ramp_end(4.0)
    ratio = step.frequencies(THETA, N_ROT) / plain_frequencies(THETA, N_ROT)
    np.testing.assert_allclose(ratio, [1.0 if j < at else 1 / 8 for j in range(32)], rtol=1e-15)


def test_yarn_range_ends_at_the_last_dimension() -> None:
    """A huge context would put the slow end beyond n_rot - 1, where it is clamped."""
    yarn = YarnScaling(5.0, 1 << 40, beta_fast=1e9, beta_slow=1.0)
    low = ramp_end(1e9, n_ctx=1 << 40, theta=100.0, n_rot=10)
    assert 0 < low < 9 < ramp_end(1.0, n_ctx=1 << 40, theta=100.0, n_rot=10)
    ratio = yarn.frequencies(100.0, 10) / plain_frequencies(100.0, 10)
    ramp = [min(max((j - low) / (9 - low), 0.0), 1.0) for j in range(5)]
    np.testing.assert_allclose(ratio, [r / 5 + 1 - r for r in ramp], rtol=1e-13)


def test_yarn_magnitude() -> None:
    assert round(GPT_OSS.magnitude, 4) == 1.3466
    assert YarnScaling(1.0, 4096).magnitude == 1.0
    assert YarnScaling(0.5, 4096).magnitude == 1.0


def llama3(theta: float, n_rot: int, s: Llama3Scaling) -> list[float]:
    """The piecewise rule by wavelength, as Llama 3.1 was published."""
    scaled = []
    for j in range(n_rot // 2):
        freq = theta ** (-2 * j / n_rot)
        wavelength = 2 * math.pi / freq
        if wavelength < s.n_ctx_original / s.high_freq_factor:
            scaled.append(freq)
        elif wavelength > s.n_ctx_original / s.low_freq_factor:
            scaled.append(freq / s.factor)
        else:
            smooth = s.n_ctx_original / wavelength - s.low_freq_factor
            smooth /= s.high_freq_factor - s.low_freq_factor
            scaled.append((1 - smooth) * freq / s.factor + smooth * freq)
    return scaled


def test_llama3_scaling_is_piecewise_by_wavelength() -> None:
    scaling = Llama3Scaling(8.0, 1.0, 4.0, 8192)
    inv_freq = scaling.frequencies(500_000.0, 128)
    np.testing.assert_allclose(inv_freq, llama3(500_000.0, 128, scaling), rtol=1e-13)
    ratio = inv_freq / plain_frequencies(500_000.0, 128)
    kept, divided = np.isclose(ratio, 1, rtol=1e-12), np.isclose(ratio, 1 / 8, rtol=1e-12)
    assert min(kept.sum(), divided.sum(), (~kept & ~divided).sum()) >= 3
