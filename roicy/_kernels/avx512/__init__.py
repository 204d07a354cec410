"""Kernels for x86-64-v4: AVX-512. Nothing is imported here: _dispatch chooses."""
