"""What this machine gives at most, measured now: memory bandwidth, 8-bit and float32 arithmetic."""

from dataclasses import asdict, dataclass
from typing import Any

from junto import _kernels
from junto.measure.spread import Spread
from junto.measure.work import Work

N_READ = 512 << 20
"""Bytes of a read: far beyond what the caches of a processor hold."""

N_RUN = 7


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the machine with a level's instructions and a number of threads.

    read_gb_per_s      streaming reads of memory
    dot_gop_per_s      8-bit dot products, as the level's kernels form them
    fma_gflop_per_s    float32 multiply-add
    """

    read_gb_per_s: Spread
    dot_gop_per_s: Spread
    fma_gflop_per_s: Spread

    def seconds_of_arithmetic(self, work: Work) -> float:
        """How long the products of some work would take at these limits."""
        int8, float32 = self.dot_gop_per_s.median, self.fma_gflop_per_s.median
        return (work.n_int8 / int8 + work.n_float / float32) / 1e9

    def seconds_of_memory(self, work: Work) -> float:
        """How long the reads of some work would take."""
        return work.n_bytes / self.read_gb_per_s.median / 1e9

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {name: Spread(**spread).as_json() for name, spread in asdict(self).items()}


def measure_limits(level: str, n_threads: int) -> Limits:
    """Measure for about a second."""
    pool = _kernels.ThreadPool(n_threads)
    return Limits(
        _spread(_kernels.peak_read(level, pool, N_READ, N_RUN)),
        _spread(_kernels.peak_dot(level, pool, N_RUN)),
        _spread(_kernels.peak_fma(level, pool, N_RUN)),
    )


def _spread(rates: list[float]) -> Spread:
    return Spread.of([rate / 1e9 for rate in rates])
