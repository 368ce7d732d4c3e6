"""A lazy tensor selects along its first axis without a read and decodes what it selected."""

import numpy as np
import pytest

from junto.errors import FormatError
from junto.formats.quant_types import F32, TYPES, U8
from junto.formats.tensor import Tensor

VALUES: F32 = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)


@pytest.fixture
def cube() -> Tensor:
    return Tensor.from_array("cube", VALUES, "memory")


def q8_0(shape: tuple[int, ...]) -> Tensor:
    data = np.random.default_rng(3).integers(0, 100, (*shape[:-1], shape[-1] // 32 * 34), np.uint8)
    return Tensor("q", shape, TYPES["Q8_0"], "memory", lambda: data)


def test_array_comes_back_as_it_was(cube: Tensor) -> None:
    assert (cube.shape, cube.n_bytes, len(cube)) == ((2, 3, 5), 120, 2)
    assert cube.data.shape == (2, 3, 20)
    np.testing.assert_array_equal(cube.float32(), VALUES)


def test_transposed_array_is_stored_in_its_own_order() -> None:
    np.testing.assert_array_equal(Tensor.from_array("t", VALUES.T, "memory").float32(), VALUES.T)


@pytest.mark.parametrize("shape", [(), (7,)])
def test_scalar_and_vector_have_one_row_of_bytes(shape: tuple[int, ...]) -> None:
    tensor = Tensor.from_array("t", np.full(shape, 2.5, np.float32), "memory")
    assert tensor.data.shape == (tensor.n_bytes,)
    assert tensor.float32().shape == shape
    assert (tensor.float32() == 2.5).all()


@pytest.mark.parametrize(
    "index", [1, -1, slice(1, None), slice(None, None, 2), np.array([1, 0, 1])]
)
def test_selection_equals_numpys(cube: Tensor, index: int | slice) -> None:
    np.testing.assert_array_equal(cube[index].float32(), VALUES[index])
    assert cube[index].shape == VALUES[index].shape


def test_selection_of_quantised_rows_equals_rows_of_the_whole() -> None:
    tensor = q8_0((3, 5, 64))
    np.testing.assert_array_equal(tensor[2][1:4].float32(), tensor.float32()[2, 1:4])
    assert tensor[2].n_bytes == tensor[2].data.nbytes == 5 * 68


def test_int_and_slice_share_memory_with_the_file(cube: Tensor) -> None:
    assert np.shares_memory(cube[1][0:2].data, cube.data)


def test_nothing_is_read_before_data_is_asked_for() -> None:
    reads = []

    def read() -> U8:
        reads.append("read")
        return np.ones((4, 6), np.uint8)

    whole = Tensor("t", (4, 6), TYPES["I8"], "memory", read)
    part = whole[np.array([3, 1])]
    assert (part.shape, part.n_bytes, reads) == ((2, 6), 12, [])
    assert part.float32().sum() == 12
    assert reads == ["read"]


def test_iteration_ends_after_the_last_row(cube: Tensor) -> None:
    assert [matrix.shape for matrix in cube] == [(3, 5), (3, 5)]  # type: ignore[attr-defined]


def test_index_out_of_range_fails_at_once(cube: Tensor) -> None:
    with pytest.raises(IndexError):
        cube[2]


def test_vector_and_scalar_have_no_rows(cube: Tensor) -> None:
    with pytest.raises(TypeError, match="has no rows to select"):
        cube[0][0][0]
    with pytest.raises(TypeError, match="has no length"):
        len(Tensor.from_array("s", np.array(1, np.float32), "memory"))


def test_undecodable_type_is_refused_with_file_and_tensor() -> None:
    tensor = Tensor(
        "blk.0.w", (2, 50), TYPES["F8_E5M2"], "m.gguf", lambda: np.zeros((2, 50), np.uint8)
    )
    with pytest.raises(
        FormatError, match=r"m\.gguf: tensor 'blk\.0\.w': type F8_E5M2 cannot be decoded"
    ):
        tensor.float32()
