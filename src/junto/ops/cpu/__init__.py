"""The CPU backend: C++ kernels on packed weights, chosen at run time for the machine.

Within one instruction set its results are the same bits whatever the batch, the cut of a prompt or
the number of threads.
"""

from junto.ops.cpu.backend import Cpu

__all__ = ["Cpu"]
