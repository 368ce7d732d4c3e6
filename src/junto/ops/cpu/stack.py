"""A packed matrix, or one an expert: each is packed once, whoever asks first.

It knows neither who needs an expert nor when there is time for the others.
"""

from collections.abc import Iterable, Sequence
from threading import Lock

from junto._kernels import PackedMatrix, ThreadPool
from junto.formats.mapped_file import forget_pages
from junto.formats.tensor import Tensor


class Stack:
    """A packed matrix whose experts come one by one; several threads may ask for them.

    matrix     all experts; what lies where one is missing means nothing
    is_whole   none is missing, so nobody needs to ask
    """

    def __init__(self, matrix: PackedMatrix, experts: Tensor | Sequence[Tensor] = ()) -> None:
        """Nothing is packed yet: `experts` are the stored parts; without any all are there."""
        self.matrix = matrix
        self._experts = experts
        self._missing = set(range(len(experts)))
        self._lock = Lock()
        self.is_whole = not self._missing

    @property
    def n_missing_bytes(self) -> int:
        """Bytes of the packed form that are still to be written."""
        if self.is_whole:
            return 0
        missing, experts = len(self._missing), max(1, len(self._experts))
        return self.matrix.n_bytes * missing // experts

    def need(self, experts: Iterable[int], pool: ThreadPool) -> None:
        """See to it that these are packed; waits where another thread is just packing one."""
        with self._lock:
            for expert in sorted(self._missing.intersection(experts)):
                self._pack(expert, pool)

    def pack_one(self, pool: ThreadPool) -> int:
        """Pack the first that is missing -> its bytes as stored; 0 if none is."""
        with self._lock:
            return self._pack(min(self._missing), pool) if self._missing else 0

    def _pack(self, expert: int, pool: ThreadPool) -> int:
        rows = self._experts[expert].data
        self.matrix.fill(expert, rows, pool)
        forget_pages(rows)
        self._missing.discard(expert)
        if not self._missing:
            self._experts, self.is_whole = (), True
        return rows.nbytes
