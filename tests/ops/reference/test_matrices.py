"""Embedding and linear over stored weights: what is decoded, what is kept, what is refused.

Tolerance 1e-6 of the largest result: sums of at most 128 products in float32.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from junto.errors import ModelError, RequestError
from junto.formats.quant_types import TYPES, U8
from junto.formats.quants import dequantize
from junto.formats.tensor import Tensor
from junto.ops.contract import Weight
from junto.ops.reference import Reference, matrices
from junto.ops.views import F32, I32
from tests.ops.nearness import SIZES, assert_near, normal

ROUNDINGS = 1e-6


def plain(values: F32) -> Tensor:
    return Tensor.from_array("w", values, "memory")


def q8_0(seed: int, n_out: int, n_in: int) -> tuple[Tensor, F32]:
    """A tensor of 34-byte blocks (float16 scale, 32 int8), and the values they stand for."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.01, 0.1, (n_out, n_in // 32, 1)).astype(np.float16)
    quants = rng.integers(-127, 128, (n_out, n_in // 32, 32), np.int8)
    blocks = np.concatenate([scale.view(np.uint8), quants.view(np.uint8)], axis=-1)
    data = blocks.reshape(n_out, -1)
    values = (scale.astype(np.float32) * quants).reshape(n_out, n_in)
    return Tensor("w", (n_out, n_in), TYPES["Q8_0"], "memory", lambda: data), values


def counted(tensor: Tensor, reads: list[int]) -> Tensor:
    """The same tensor, noting each read."""

    def read() -> U8:
        reads.append(tensor.n_bytes)
        return tensor.data

    return Tensor(tensor.name, tensor.shape, tensor.type, tensor.source, read)


def token_ids(*ids: int) -> I32:
    return np.array(ids, np.int32)


@pytest.mark.parametrize("n_in", SIZES)
@pytest.mark.parametrize("n_tok", [1, 3])
def test_linear_is_x_times_transposed_weight_plus_bias(n_in: int, n_tok: int) -> None:
    x, values, bias = normal(1, n_tok, n_in), normal(2, 7, n_in), normal(3, 7)
    ops = Reference()
    exact = x.astype(np.float64) @ values.T.astype(np.float64)
    assert_near(ops.linear(x, ops.weight(plain(values))), exact, ROUNDINGS)
    assert_near(ops.linear(x, ops.weight(plain(values)), bias), exact + bias, ROUNDINGS)


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_linear_of_quantised_weight_equals_its_values_product(budget: int) -> None:
    tensor, values = q8_0(1, 7, 96)
    x, ops = normal(2, 5, 96), Reference(decoded_budget=budget)
    exact = x.astype(np.float64) @ values.T.astype(np.float64)
    assert_near(ops.linear(x, ops.weight(tensor)), exact, ROUNDINGS)


@pytest.mark.parametrize("slab_bytes", [1, 96 * 4, 3 * 96 * 4, 96 * 4 * 7, 1 << 20])
def test_slabs_equal_the_whole(slab_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row at a time even if a row is larger than a slab; a last slab that is not full."""
    tensor, _ = q8_0(1, 7, 96)
    x, bias = normal(2, 5, 96), normal(3, 7)
    whole = Reference()
    expected = whole.linear(x, whole.weight(tensor), bias)
    monkeypatch.setattr(matrices, "SLAB_BYTES", slab_bytes)
    reads: list[int] = []
    ops = Reference(decoded_budget=0)
    y = ops.linear(x, ops.weight(counted(tensor, reads)), bias)
    assert_near(y, expected, ROUNDINGS)
    assert len(reads) == -(-7 // max(1, slab_bytes // (96 * 4)))


def test_budget_keeps_the_first_matrices_that_fit_and_no_more() -> None:
    reads: list[list[int]] = [[], [], [], []]
    ops = Reference(decoded_budget=8 * 32 * (7 + 5))
    weights = [
        ops.weight(counted(q8_0(i, n_out, 32)[0], r))
        for i, (n_out, r) in enumerate(zip((7, 6, 5, 1), reads, strict=True))
    ]
    for _ in range(3):
        for weight in weights:
            ops.linear(normal(1, 2, 32), weight)
    assert [len(r) for r in reads] == [1, 3, 1, 3]
    kept = [matrices.stored(weight).decoded is not None for weight in weights]
    assert kept == [True, False, True, False]


def test_embedding_decodes_the_asked_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[int, ...]] = []

    def watched(tensor: Tensor) -> F32:
        decoded.append(tensor.shape)
        return dequantize(tensor.type, tensor.data)

    monkeypatch.setattr(Tensor, "float32", watched)
    tensor, values = q8_0(4, 300, 64)
    ops = Reference()
    table = ops.weight(tensor)
    y = ops.embed(table, token_ids(299, 0, 7, 299))
    np.testing.assert_array_equal(y, values[[299, 0, 7, 299]])
    assert decoded == [(4, 64)]
    assert matrices.stored(table).decoded is None


def test_tied_embedding_reads_the_kept_head() -> None:
    reads: list[int] = []
    tensor, values = q8_0(4, 70, 64)
    ops = Reference()
    table = ops.weight(counted(tensor, reads))
    ops.linear(normal(1, 1, 64), table)
    np.testing.assert_array_equal(ops.embed(table, token_ids(69, 3)), values[[69, 3]])
    assert len(reads) == 1


@pytest.mark.parametrize("token_id", [-1, 70, 2**31 - 1])
@pytest.mark.parametrize("is_kept", [False, True])
def test_token_outside_the_vocabulary_is_refused(token_id: int, is_kept: bool) -> None:
    ops = Reference()
    table = ops.weight(plain(normal(1, 70, 5)))
    if is_kept:
        ops.linear(normal(2, 1, 5), table)
    with pytest.raises(RequestError) as caught:
        ops.embed(table, token_ids(3, token_id, 69))
    message = f"token id {token_id} is outside the vocabulary of 70 tokens"
    assert str(caught.value) == message


def test_embedding_does_not_hand_out_the_kept_matrix() -> None:
    ops, values = Reference(), normal(1, 70, 5)
    table = ops.weight(plain(values.copy()))
    ops.linear(normal(2, 1, 5), table)
    ops.embed(table, token_ids(3))[...] = 99
    np.testing.assert_array_equal(ops.embed(table, token_ids(3)), values[[3]])


def test_weight_knows_its_name_and_shape() -> None:
    stack = plain(normal(1, 4, 3, 2))
    experts: Sequence[Tensor] = [stack[0], stack[1], stack[2], stack[3]]
    assert Reference().weight(stack).shape == (4, 3, 2)
    assert Reference().weight(experts).shape == (4, 3, 2)
    assert Reference().weight(experts).name == "w"


def test_weight_of_another_backend_is_refused() -> None:
    foreign = Weight("blk.0.attn_q.weight", (7, 5), handle=object())
    message = "weight 'blk.0.attn_q.weight' was made by another backend"
    with pytest.raises(TypeError, match=message):
        Reference().linear(normal(1, 2, 5), foreign)
    with pytest.raises(TypeError, match=message):
        Reference().embed(foreign, token_ids(1))


def test_columns_that_do_not_fit_are_named() -> None:
    ops = Reference()
    with pytest.raises(ModelError) as caught:
        ops.linear(normal(1, 2, 6), ops.weight(plain(normal(2, 7, 5))))
    assert str(caught.value) == "linear: x has 6 columns, 'w' has 5; both must equal n_in"
