"""Targets of the fuzzer: calls that are made from strings of bytes, and what must hold."""
