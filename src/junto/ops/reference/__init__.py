"""The NumPy backend: every op written plainly, to be read and to be trusted.

It is what the other backends are tested against. Activations are float32 and long sums run in
float64, so that what is fed together does not show: 1e-5 is promised, 1e-11 measured. Speed is not.
"""

from junto.ops.reference.backend import Reference

__all__ = ["Reference"]
