"""Two backends side by side: each op of the chosen parts runs in both, from the same inputs.

The reference's results go on, so errors do not add up. In parts that are not chosen the fast
backend works alone. What the reference saw at the borders of layers, and which experts it chose, is
kept for a second pass (`forced`).
"""

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from junto.measure.difference import EXACT, ROUNDED, TWICE_ROUNDED, Difference, difference
from junto.measure.onlooker import Onlooker
from junto.measure.places import Part, Places
from junto.measure.twins import Twins
from junto.ops.contract import Ops, Routing, Weight
from junto.ops.views import F32, DeltaView, KVView


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of a report.

    part    where in the model
    what    op, tensor, or what else was compared
    """

    part: Part
    what: str
    difference: Difference
    bound: float

    @property
    def is_ok(self) -> bool:
        """Whether the error is within the bound."""
        return self.difference.worst <= self.bound


@dataclasses.dataclass(frozen=True, slots=True)
class Border:
    """The residual stream [n_tok, n_embd] at the beginning of a part."""

    part: Part
    is_chosen: bool
    stream: F32


@dataclasses.dataclass(slots=True)
class Tape:
    """What a pass leaves for the next one.

    borders    of the chosen parts and of the parts after them, in order
    routings   what every `route` gave, in order
    """

    borders: list[Border] = dataclasses.field(default_factory=list)
    routings: list[Routing] = dataclasses.field(default_factory=list)


class Lockstep(Onlooker):
    """The fast backend and the reference; `rows` and `tape` hold what was found."""

    def __init__(
        self,
        fast: Ops,
        reference: Ops,
        twins: Twins,
        places: Places,
        chosen: Collection[Part],
        progress: Callable[[Part], None],
    ) -> None:
        super().__init__(fast)
        self.tape = Tape()
        self._reference = reference
        self._twins = twins
        self._places = places
        self._chosen = chosen
        self._progress = progress
        self._was_chosen = False
        self._found: dict[tuple[Part, str], Row] = {}

    @property
    def rows(self) -> list[Row]:
        """The worst of each op and tensor, in the order in which they first ran."""
        return list(self._found.values())

    @contextmanager
    def step(self) -> Iterator[None]:
        """One pass begins."""
        self._places.restart()
        self._was_chosen = False
        with self.ops.step():
            yield

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op in both backends where the part is chosen, and compare."""
        stream = self._places.stream((*args, *kwargs.values()))
        part = self._places.part
        is_chosen = part in self._chosen
        if stream is not None:
            self._record(part, stream, is_chosen)
        result = self._both(part, op, args, kwargs) if is_chosen else self._fast(op, args, kwargs)
        if isinstance(result, Routing):
            self.tape.routings.append(result)
        return result

    def _record(self, part: Part, stream: F32, is_chosen: bool) -> None:
        if is_chosen or self._was_chosen:
            self.tape.borders.append(Border(part, is_chosen, stream.copy()))
        if is_chosen:
            self._progress(part)
        self._was_chosen = is_chosen

    def _fast(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().compute(op, args, kwargs)

    def _both(self, part: Part, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        copies = [_own_state(value) for value in args]
        got = self._fast(op, tuple(copies), kwargs)
        theirs = {name: self._for_reference(value) for name, value in kwargs.items()}
        expected = getattr(self._reference, op)(*map(self._for_reference, args), **theirs)
        label, bound = self._label(op, (*args, *kwargs.values()))
        self._note(part, label, difference(expected, got), bound)
        for true, state in zip(args, copies, strict=True):
            if state is not true:
                self._note(part, f"{op}: state", difference(_state(true), _state(state)), EXACT)
        return expected

    def _for_reference(self, value: Any) -> Any:
        return self._twins[id(value)].weight if isinstance(value, Weight) else value

    def _label(self, op: str, operands: tuple[Any, ...]) -> tuple[str, float]:
        """What to call an op on these operands, and how far it may be off."""
        twins = [self._twins[id(value)] for value in operands if isinstance(value, Weight)]
        if not twins or op == "embed":
            return op, EXACT
        types = ", ".join(dict.fromkeys(twin.type for twin in twins))
        name = twins[0].name if len(twins) == 1 else op
        if all(twin.is_float for twin in twins):
            return f"{name} ({types})", EXACT
        return f"{name} ({types})", ROUNDED if len(twins) == 1 else TWICE_ROUNDED

    def _note(self, part: Part, what: str, found: Difference, bound: float) -> None:
        row = self._found.get((part, what))
        worst = found.joined(row.difference) if row else found
        self._found[part, what] = Row(part, what, worst, bound)


def _own_state(value: Any) -> Any:
    """A copy of what ops write to; the value itself where it is only read."""
    return copy.deepcopy(value) if isinstance(value, KVView | DeltaView) else value


def _state(view: KVView | DeltaView) -> tuple[F32, ...]:
    """The float arrays of a view."""
    values = (getattr(view, field.name) for field in dataclasses.fields(view))
    arrays = (value for value in values if isinstance(value, np.ndarray))
    return tuple(array for array in arrays if np.issubdtype(array.dtype, np.floating))
