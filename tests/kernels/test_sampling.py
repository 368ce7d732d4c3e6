"""Sampling without a sort against the reference with one: the same token.

The two sum in the same order but divide by a total that was added up in another, so they may part
only where `uniform`, top_p or min_p lies within 1e-6 of a border between two tokens. Fixed seeds
keep away from those.
"""

import numpy as np
import pytest

from junto import _kernels
from junto.ops.contract import Sampling
from junto.ops.reference.sampling import sample as reference
from junto.ops.views import F32

Pools = dict[int, _kernels.ThreadPool]
HOWS = [
    Sampling(),
    Sampling(temperature=0),
    Sampling(1.0, top_k=0, top_p=1.0, min_p=0.0),
    Sampling(0.7, top_k=0, top_p=0.8, min_p=0.0),
    Sampling(1.3, top_k=0, top_p=1.0, min_p=0.02),
    Sampling(2.5, top_k=0, top_p=0.99, min_p=0.001),
    Sampling(1.0, top_k=1, top_p=0.5, min_p=0.0),
    Sampling(1.5, top_k=1500, top_p=1.0, min_p=0.0),
    Sampling(1e-3, top_k=0, top_p=1.0, min_p=0.0),
    Sampling(1.0, top_k=10**9, top_p=0.9, min_p=0.0),
    Sampling(1.0, top_k=0, top_p=0.0, min_p=2.0),
]
UNIFORMS = (0.0, 0.0131, 0.3107, 0.5003, 0.7713, 0.9001, 0.9993, 0.9999999)


def sample(
    level: str, pool: _kernels.ThreadPool, logits: F32, hows: list[Sampling], uniform: list[float]
) -> list[int]:
    rows = [
        (how.temperature, how.top_k, how.top_p, how.min_p, u)
        for how, u in zip(hows, uniform, strict=True)
    ]
    return _kernels.sample(level, pool, logits, np.array(rows, np.float64).reshape(-1, 5))


def logits_like(kind: str, n: int) -> F32:
    rng = np.random.default_rng(n)
    normal = rng.standard_normal(n).astype(np.float32)
    return {
        "flat": 0.01 * normal,
        "normal": 3 * normal,
        "peaked": 3 * normal + 12 * (rng.random(n) < 4 / n).astype(np.float32),
        "tied": np.round(2 * normal),
        "equal": np.full(n, -1.5, np.float32),
        "rising": np.arange(n, dtype=np.float32) / n * 20,
        "masked": np.where(rng.random(n) < 0.9, -np.inf, normal).astype(np.float32),
        "zeros of both signs": np.where(rng.random(n) < 0.5, -0.0, 0.0).astype(np.float32),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["flat", "normal", "peaked", "tied", "equal", "rising", "masked", "zeros of both signs"],
)
@pytest.mark.parametrize("n", [1, 2, 15, 64, 65, 1023, 1025, 9001])
def test_takes_the_token_of_the_reference(
    kind: str, n: int, level: str, pools_of_threads: Pools
) -> None:
    row = logits_like(kind, n)
    row[0] = max(row[0], np.float32(-3))
    pairs = [(how, u) for how in HOWS for u in UNIFORMS]
    hows, uniform = [how for how, _ in pairs], [u for _, u in pairs]
    logits = np.tile(row, (len(pairs), 1))
    expected = reference(logits, hows, uniform)
    assert sample(level, pools_of_threads[2], logits, hows, uniform) == expected


def test_a_row_among_many_gets_what_it_gets_alone(level: str, pools_of_threads: Pools) -> None:
    rng = np.random.default_rng(1)
    logits = (3 * rng.standard_normal((len(HOWS), 5001))).astype(np.float32)
    uniform = rng.random(len(HOWS)).tolist()
    alone = [
        sample(level, pools_of_threads[1], logits[i : i + 1], [HOWS[i]], [uniform[i]])[0]
        for i in range(len(HOWS))
    ]
    for pool in pools_of_threads.values():
        assert sample(level, pool, logits, HOWS, uniform) == alone


def test_frequencies_follow_the_probabilities(level: str, pools_of_threads: Pools) -> None:
    """A grid of 4,000 uniform numbers hits each token within one grid step of its probability."""
    logits = np.log(np.array([0.1, 0.45, 0.05, 0.4], np.float32))
    how, n = Sampling(1.0, top_k=0, top_p=1.0, min_p=0.0), 4000
    uniform = ((np.arange(n) + 0.5) / n).tolist()
    tokens = sample(level, pools_of_threads[2], np.tile(logits, (n, 1)), [how] * n, uniform)
    np.testing.assert_allclose(np.bincount(tokens) / n, [0.1, 0.45, 0.05, 0.4], atol=2 / n)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("n", [5, 3000])
def test_what_is_not_a_number_is_never_taken(
    how: Sampling, n: int, level: str, pools_of_threads: Pools
) -> None:
    logits = np.full((1, n), np.nan, np.float32)
    logits[0, n // 2] = -4
    assert sample(level, pools_of_threads[1], logits, [how], [0.999]) == [n // 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_hopeless_rows_still_give_a_token(
    value: float, level: str, pools_of_threads: Pools
) -> None:
    logits = np.full((len(HOWS), 130), value, np.float32)
    tokens = sample(level, pools_of_threads[1], logits, HOWS, [0.7] * len(HOWS))
    assert tokens == [0] * len(HOWS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((-1.0, 0, 1, 0, 0), "temperature of row 1"),
        ((np.nan, 0, 1, 0, 0), "temperature of row 1"),
        ((np.inf, 0, 1, 0, 0), "temperature of row 1"),
        ((1, -1, 1, 0, 0), "top_k of row 1"),
        ((1, 1.5, 1, 0, 0), "top_k of row 1"),
        ((1, 0, np.nan, 0, 0), "top_p of row 1"),
        ((1, 0, 1, np.nan, 0), "min_p of row 1"),
        ((1, 0, 1, 0, 1.0), "uniform of row 1"),
        ((1, 0, 1, 0, -0.1), "uniform of row 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    settings: tuple[float, ...], message: str, level: str, pools_of_threads: Pools
) -> None:
    rows = np.array([(1, 0, 1, 0, 0), settings], np.float64)
    with pytest.raises(ValueError, match=message):
        _kernels.sample(level, pools_of_threads[1], np.zeros((2, 7), np.float32), rows)


def test_shapes_that_do_not_fit_are_refused(level: str, pools_of_threads: Pools) -> None:
    pool = pools_of_threads[1]
    with pytest.raises(ValueError, match="rows of settings is 2, rows of logits is 3"):
        _kernels.sample(level, pool, np.zeros((3, 7), np.float32), np.zeros((2, 5)))
    with pytest.raises(ValueError, match="a vocabulary of 0"):
        _kernels.sample(level, pool, np.zeros((3, 0), np.float32), np.zeros((3, 5)))
