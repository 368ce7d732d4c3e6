"""Tokens a second to expect from this machine, estimated from its memory's bandwidth.

Decoding reads each active weight once a token, and a large model's do not fit the processor's
caches, so bandwidth bounds it. Arithmetic, attention over a long context and everything else make
it slower; this is an upper estimate, not a measurement.
"""

from dataclasses import dataclass
from statistics import median

from junto import _kernels
from junto.ops.cpu.backend import choose_level
from junto.ops.cpu.processors import default_threads

N_READ = 96 << 20
"""Bytes of a pass, beyond what caches hold."""

N_RUN = 5


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """What bandwidth allows.

    read_gb_per_s      measured now, for about a quarter of a second
    tokens_per_s       of one sequence
    """

    n_bytes_token: int
    read_gb_per_s: float
    tokens_per_s: float


def estimate(n_bytes_token: int) -> SpeedEstimate:
    """Measure how fast memory is read, and divide by what a token reads."""
    pool = _kernels.ThreadPool(default_threads())
    rate = median(_kernels.peak_read(choose_level(None), pool, N_READ, N_RUN))
    return SpeedEstimate(n_bytes_token, rate / 1e9, rate / max(1, n_bytes_token))
