"""C++ kernels of junto."""

def cpu_features() -> list[str]:
    """
    Name the instruction sets that both the CPU and the operating system support.

    On x86 for example 'avx2', 'fma', 'avx512f', 'avx512vnni'; on aarch64 'neon';
    elsewhere nothing.
    """
