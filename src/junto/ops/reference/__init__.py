"""The NumPy backend: every op written plainly in float32, to be read and to be trusted.

It is what the other backends are tested against. It promises right numbers (1e-5 whatever the
batching), not speed and not equal bits.
"""

from junto.ops.reference.backend import Reference

__all__ = ["Reference"]
