"""Which tokens each setting keeps, and which of them a uniform number picks."""

import numpy as np
import pytest

from junto.ops.contract import Sampling
from junto.ops.reference import Reference
from junto.ops.views import F32

ALL = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
P = (0.1, 0.4, 0.05, 0.25, 0.2)  # by size: tokens 1, 3, 4, 0, 2
LOGITS = np.log(np.array(P)).astype(np.float32) + np.float32(3)


def with_(
    temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> Sampling:
    return Sampling(temperature, top_k, top_p, min_p)


def pick(how: Sampling, uniform: float, logits: F32 = LOGITS) -> int:
    return Reference().sample(logits[None], [how], [uniform])[0]


def frequencies(how: Sampling, logits: F32 = LOGITS) -> list[float]:
    """Share of each token over evenly spread uniform numbers; exact to one part in 4000."""
    uniforms = (np.arange(4000) + 0.5) / 4000
    picked = Reference().sample(np.tile(logits, (4000, 1)), [how] * 4000, uniforms.tolist())
    return [float(n / 4000) for n in np.bincount(picked, minlength=len(logits))]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 0.999999])
def test_temperature_zero_takes_the_largest_logit_whatever_else_is_set(uniform: float) -> None:
    assert pick(Sampling(0.0, 3, 0.5, 0.1), uniform) == 1
    tied = np.array([1, 7, 7, -2, 7], np.float32)
    assert pick(Sampling(temperature=0.0), uniform, tied) == 1


def test_whole_distribution_is_sampled_when_nothing_is_cut() -> None:
    np.testing.assert_allclose(frequencies(ALL), P, atol=1 / 4000)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_divides_the_logits(temperature: float) -> None:
    expected = np.array(P) ** (1 / temperature)
    found = frequencies(with_(temperature=temperature))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1 / 4000)


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (with_(top_k=1), [1]),
        (with_(top_k=3), [1, 3, 4]),
        (with_(top_k=5), [0, 1, 2, 3, 4]),
        (with_(top_k=99), [0, 1, 2, 3, 4]),
        (with_(top_p=0.01), [1]),
        (with_(top_p=0.39), [1]),
        (with_(top_p=0.41), [1, 3]),
        (with_(top_p=0.64), [1, 3]),
        (with_(top_p=0.66), [1, 3, 4]),
        (with_(top_p=0.94), [0, 1, 3, 4]),
        (with_(top_p=0.96), [0, 1, 2, 3, 4]),
        (with_(min_p=0.12), [0, 1, 2, 3, 4]),
        (with_(min_p=0.13), [0, 1, 3, 4]),
        (with_(min_p=0.49), [1, 3, 4]),
        (with_(min_p=0.51), [1, 3]),
        (with_(min_p=1.0), [1]),
        (with_(top_k=3, min_p=0.51), [1, 3]),
        (with_(top_k=2, top_p=0.66), [1, 3]),
    ],
)
def test_setting_keeps_the_largest_and_shares_among_them(how: Sampling, kept: list[int]) -> None:
    expected = np.zeros(len(P))
    expected[kept] = np.array(P)[kept] / np.array(P)[kept].sum()
    np.testing.assert_allclose(frequencies(how), expected, atol=1 / 4000)


def test_top_p_is_of_what_top_k_has_left() -> None:
    """Of 0.4 and 0.25 the first is 0.615 of the sum, which reaches 0.6 alone."""
    assert set(np.flatnonzero(frequencies(with_(top_k=2, top_p=0.6)))) == {1}
    assert set(np.flatnonzero(frequencies(with_(top_p=0.6)))) == {1, 3}


def test_ends_of_the_uniform_pick_ends_of_the_kept_set() -> None:
    assert pick(ALL, 0.0) == 1
    assert pick(ALL, 0.999999) == 2
    assert pick(with_(top_k=3), 0.999999) == 4
    assert pick(with_(top_k=3), 1 - 2**-53) == 4


def test_uniform_at_a_border_picks_the_token_that_begins_there() -> None:
    """Half-open intervals: each of two equal tokens owns exactly half of [0, 1)."""
    halves = np.zeros(2, np.float32)
    assert [pick(ALL, uniform, halves) for uniform in (0.5 - 2**-53, 0.5)] == [0, 1]


def test_equal_logits_are_kept_from_the_lowest_id() -> None:
    """Every third of 130: an unstable sort happens to keep short or all-equal rows in order."""
    tied = np.arange(130, dtype=np.float32) % 3
    assert np.flatnonzero(frequencies(with_(top_k=3), tied)).tolist() == [2, 5, 8]
    np.testing.assert_allclose(frequencies(with_(top_k=4), tied)[2:12:3], 0.25)
    assert pick(with_(top_k=0, min_p=1.0), 0.999999, tied) == 128


def test_each_row_has_its_own_setting_and_number() -> None:
    logits = np.stack([LOGITS, -LOGITS, LOGITS])
    how = [with_(temperature=0.0), with_(top_k=1), ALL]
    assert Reference().sample(logits, how, [0.9, 0.9, 0.999999]) == [1, 2, 2]
    with pytest.raises(ValueError, match="shorter"):
        Reference().sample(logits, how, [0.5, 0.5])


def test_masked_logits_are_never_picked() -> None:
    masked = LOGITS.copy()
    masked[[1, 2]] = -np.inf
    assert np.flatnonzero(frequencies(ALL, masked)).tolist() == [0, 3, 4]
    assert pick(with_(temperature=0.0), 0.5, masked) == 3


def test_huge_logits_and_small_temperatures_overflow_nothing() -> None:
    assert pick(with_(temperature=1e-6), 0.999999, LOGITS * np.float32(1e30)) == 1
    assert pick(with_(temperature=100.0), 0.999999) == 2


def test_tokens_are_plain_ints() -> None:
    assert [type(pick(how, 0.3)) for how in (ALL, with_(temperature=0.0))] == [int, int]
