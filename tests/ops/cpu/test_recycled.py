"""Memory of results is taken again only when nobody holds it."""

import numpy as np

from junto.ops.cpu.recycled import N_BYTES_LEAST, N_STEP_KEPT, Recycler

SHAPE = (3, N_BYTES_LEAST // 4)


def address(array: np.ndarray) -> int:
    """Where an array lies."""
    return int(array.__array_interface__["data"][0])


def test_left_memory_is_taken_again() -> None:
    recycler = Recycler()
    first = address(recycler.empty(SHAPE, np.float32))
    again = recycler.empty(SHAPE, np.int32)
    assert address(again) == first
    assert again.shape == SHAPE
    assert again.dtype == np.int32
    assert recycler.n_bytes == again.nbytes


def test_arrays_begin_with_a_cache_line() -> None:
    recycler = Recycler()
    sizes = [(n, N_BYTES_LEAST + n) for n in (1, 3, 64, 500)]
    held = [recycler.empty(size, np.float32) for size in sizes]
    assert [address(array) % 64 for array in held] == [0] * len(sizes)


def test_memory_that_a_view_holds_is_not_taken() -> None:
    recycler = Recycler()
    held = recycler.empty(SHAPE, np.float32)[1:, ::7].T
    held[:] = 5
    other = recycler.empty(SHAPE, np.float32)
    other[:] = 7
    assert (held == 5).all()
    assert recycler.n_bytes == 2 * other.nbytes


def test_a_smaller_array_takes_a_place_of_at_most_twice_its_size() -> None:
    recycler = Recycler()
    place = address(recycler.empty((4, N_BYTES_LEAST), np.uint8))
    assert address(recycler.empty((2, N_BYTES_LEAST), np.uint8)) == place
    assert address(recycler.empty((2, N_BYTES_LEAST - 1), np.uint8)) != place


def test_small_arrays_are_numpys_own() -> None:
    recycler = Recycler()
    recycler.empty((N_BYTES_LEAST - 1,), np.uint8)
    assert recycler.n_bytes == 0


def test_what_no_step_wants_is_forgotten_but_stays_valid() -> None:
    recycler = Recycler()
    held = recycler.empty(SHAPE, np.float32)
    held[:] = 3
    for _ in range(N_STEP_KEPT):
        recycler.begin_step()
    assert recycler.n_bytes == held.nbytes
    recycler.begin_step()
    assert recycler.n_bytes == 0
    assert (held == 3).all()
