"""Kernels for x86-64-v3: AVX2, FMA. Nothing is imported here: _dispatch chooses."""
