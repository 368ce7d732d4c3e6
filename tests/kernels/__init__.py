"""Each C++ kernel against its NumPy reference."""
