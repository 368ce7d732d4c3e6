"""A pass of the fast backend alone, held to what the reference saw.

Each chosen layer is given the residual stream that the reference had at its beginning, and the
experts that the reference chose: a near-tie in a router is no error of a kernel. What the layer
adds to the stream is compared with what the reference's layer added.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from junto.measure.difference import Difference, difference
from junto.measure.lockstep import Border, Tape
from junto.measure.onlooker import Onlooker
from junto.measure.places import Part, Places
from junto.ops.contract import Ops
from junto.ops.views import F32


class Forced(Onlooker):
    """The fast backend on the reference's streams; `found` holds an error for each layer.

    With `holds_stream` false only the choice of experts is the reference's.
    """

    def __init__(self, fast: Ops, places: Places, tape: Tape, *, holds_stream: bool = True) -> None:
        super().__init__(fast)
        self.found: dict[Part, Difference] = {}
        self._places = places
        self._borders = iter(tape.borders if holds_stream else ())
        self._routings = iter(tape.routings)
        self._next = next(self._borders, None)
        self._before: Border | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """One pass begins."""
        self._places.restart()
        self._before = None
        with self.ops.step():
            yield

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op, after its input has been set where a chosen layer begins."""
        stream = self._places.stream((*args, *kwargs.values()))
        if stream is not None and self._next is not None and self._next.part == self._places.part:
            self._meet(stream, self._next)
            self._next = next(self._borders, None)
        if op == "route":
            return next(self._routings)
        return super().compute(op, args, kwargs)

    def _meet(self, stream: F32, border: Border) -> None:
        """Compare a stream with the reference's, and put that in its place."""
        before = self._before
        if before is not None and before.stream.shape == border.stream.shape:
            error = difference(border.stream - before.stream, stream - before.stream)
            self.found[before.part] = error.joined(self.found.get(before.part, Difference()))
        # In place: the model adds the layer's output to this very array. Rows of an embedding may
        # be the file's own bytes; they are the same in both backends.
        if stream.flags.writeable:
            stream[...] = border.stream
        self._before = border if border.is_chosen else None
