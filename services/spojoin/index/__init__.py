"""Window indexes built of kernels."""
