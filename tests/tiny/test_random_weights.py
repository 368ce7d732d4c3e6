"""The generator gives the same values everywhere, and sane blocks."""

import hashlib

import numpy as np
import pytest

from junto.formats.quants import TYPES, dequantize
from tests.tiny.random_weights import (
    BLOCK_SHAPES,
    affine,
    block_bytes,
    random_bytes,
    tokens,
    uniform,
    weight,
    words,
)


def splitmix64(seed: int, index: int) -> int:
    """Word `index` of SplitMix64, in Python's own integers."""
    mask = (1 << 64) - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_words_are_splitmix64_keyed_by_the_name() -> None:
    key = int.from_bytes(hashlib.sha256(b"blk.0").digest()[:8], "little")
    assert words("blk.0", 5).tolist() == [splitmix64(key, i) for i in range(5)]


def test_splitmix64_gives_its_published_first_word() -> None:
    assert splitmix64(0, 0) == 0xE220A8397B1DCDAF


def test_any_part_of_a_stream_can_be_made_alone() -> None:
    assert words("a", 70)[13:].tolist() == words("a", 57, start=13).tolist()


@pytest.mark.parametrize("n", [1, 2, 3, (1 << 16) - 1, 1 << 16, (1 << 16) + 3])
def test_uniform_takes_each_word_as_two_values_of_24_bits(n: int) -> None:
    halves = [part for word in words("u", n).tolist() for part in (word & 0xFFFFFFFF, word >> 32)]
    expected = [((half >> 8) - (1 << 23)) * 2.0**-23 for half in halves[:n]]
    assert uniform("u", (n,)).tolist() == expected


def test_affine_has_its_center_and_spread() -> None:
    values = affine("c", (300, 7), 2.0, 0.5)
    assert values.shape == (300, 7)
    assert 1.5 <= values.min() < 1.51
    assert 2.49 < values.max() <= 2.5


def test_weight_has_its_standard_deviation() -> None:
    assert float(weight("w", (40_000,), 0.3).std()) == pytest.approx(0.3, rel=0.02)


def test_a_shorter_token_sequence_starts_a_longer_one() -> None:
    assert tokens("t", 9, 211).tolist() == tokens("t", 30, 211)[:9].tolist()
    assert set(tokens("t", 5_000, 211).tolist()) == set(range(211))


def test_streams_of_other_names_differ() -> None:
    assert random_bytes("a", 40).tolist() != random_bytes("b", 40).tolist()


@pytest.mark.parametrize("type_name", BLOCK_SHAPES)
def test_blocks_hold_values_of_about_the_deviation_asked_for(type_name: str) -> None:
    blocks = block_bytes("b", 3_000, type_name, 0.05)
    values = dequantize(TYPES[type_name], blocks)
    assert float(values.std()) == pytest.approx(0.05, rel=0.25)
    assert abs(float(values.mean())) < 0.006


@pytest.mark.parametrize("type_name", BLOCK_SHAPES)
def test_every_byte_of_a_block_varies(type_name: str) -> None:
    blocks = block_bytes("b", 2_000, type_name, 0.05)
    assert all(len(np.unique(column)) > 2 for column in blocks.T)
