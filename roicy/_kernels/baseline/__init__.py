"""Kernels for any processor. Nothing is imported here: _dispatch chooses."""
