"""Window indexes, built from kernels."""
