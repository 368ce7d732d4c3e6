"""Arrays of a step that is recorded: they can be shaped, cut and added, and tell of anything else.

What a model does with arrays between ops must be recorded too, or change no value. So ops give it
these instead of arrays. Cutting and shaping give views; sums and what must be copied become calls
of a plan. All else works as on the array itself, but the record is told and given up: it may
depend on values, which are others in the next step.
"""

from collections.abc import Iterator
from types import EllipsisType
from typing import Any, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from junto.ops.contract import Angles, Routing
from junto.ops.cpu.arena import Lease


class Record(Protocol):
    """What traced arrays ask of the step under record."""

    def give_up(self, why: str) -> None:
        """The step cannot be recorded."""
        ...

    def copied(self, x: "Traced") -> "Traced":
        """A contiguous copy, made again in each run."""
        ...

    def summed(self, a: "Traced", b: "Traced") -> "Traced":
        """The sum of two arrays of one shape, made again in each run."""
        ...


class Traced(NDArrayOperatorsMixin):
    """An array whose values each run makes anew, in the same place.

    lease   of its place in an arena; views share it
    given   the field of `Batch` that it is; "" for any other
    """

    def __init__(
        self, array: Any, record: Record, lease: Lease | None = None, given: str = ""
    ) -> None:
        self.array = array
        self.given = given
        self._lease = lease
        self._record = record

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return int(self.array.ndim)

    @property
    def size(self) -> int:
        """How many values there are."""
        return int(self.array.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Traced) and key.given == "logit_rows" and len(key) == len(self):
            return self  # plans are for steps that want the logits of every row, in order
        part = self.array[plain(key)]
        if _is_basic(key) and isinstance(part, np.ndarray):
            return self._view(part)
        self._record.give_up("an index that depends on values, or takes a single one")
        return part

    def reshape(self, *shape: Any) -> "Traced":
        """The same values in other axes: a view where one can be, else a recorded copy."""
        view = self.array.reshape(*shape)
        if np.may_share_memory(view, self.array):
            return self._view(view)
        return self._record.copied(self).reshape(*shape)

    def swapaxes(self, a: int, b: int) -> "Traced":
        """Two axes exchanged: a view."""
        return self._view(self.array.swapaxes(a, b))

    def _view(self, array: Any) -> "Traced":
        return Traced(array, self._record, self._lease)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.add and method == "__call__" and not kwargs and _can_be_summed(*inputs):
            return self._record.summed(*inputs)
        self._record.give_up(f"numpy.{ufunc.__name__}")
        return getattr(ufunc, method)(*plain(inputs), **plain(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.split and isinstance(args[0], Traced) and not _has_traced(args[1:]):
            return [self._view(part) for part in np.split(args[0].array, *args[1:], **kwargs)]
        self._record.give_up(f"numpy.{function.__name__}")
        return function(*plain(args), **plain(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._record.give_up("an array made of a traced one")
        return np.array(self.array, dtype=dtype, copy=copy)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._record.give_up("values set")
        self.array[plain(key)] = plain(value)

    def __float__(self) -> float:
        self._record.give_up("a single value")
        return float(self.array)

    def __int__(self) -> int:
        self._record.give_up("a single value")
        return int(self.array)

    def __bool__(self) -> bool:
        self._record.give_up("a single value")
        return bool(self.array)

    def __getattr__(self, name: str) -> Any:
        self._record.give_up(f"ndarray.{name}")
        return getattr(self.array, name)


class Opaque:
    """What a model may hand on to ops, and nothing else: asked for more, the record is given up."""

    def __init__(self, hidden: Any, record: Record) -> None:
        self._hidden = hidden
        self._record = record

    def __getattr__(self, name: str) -> Any:
        self._record.give_up(f"{type(self._hidden).__name__}.{name}")
        return getattr(self._hidden, name)


def plain(value: Any) -> Any:
    """A value with arrays for traced ones, however deep."""
    match value:
        case Traced():
            return value.array
        case Opaque():
            return value._hidden
        case tuple() | list():
            return type(value)(plain(part) for part in value)
        case dict():
            return {key: plain(part) for key, part in value.items()}
        case Angles():
            return Angles(plain(value.cos), plain(value.sin), value.pairs)
        case Routing():
            return Routing(plain(value.expert_ids), plain(value.weights))
    return value


def _has_traced(values: Any) -> bool:
    return any(isinstance(value, Traced) for value in values)


def _is_basic(key: Any) -> bool:
    """Whether an index gives a view, and asks no array where to cut."""
    parts = key if isinstance(key, tuple) else (key,)
    basic = int | slice | EllipsisType | None
    return all(isinstance(part, basic) and not isinstance(part, bool) for part in parts)


def _can_be_summed(a: Any, b: Any) -> bool:
    are_traced = isinstance(a, Traced) and isinstance(b, Traced)
    return are_traced and a.shape == b.shape and a.dtype == b.dtype == np.float32
