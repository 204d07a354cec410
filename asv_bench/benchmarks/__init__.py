"""The ASV suite of roicy; asv_bench/README.md says how to run it and what to trust."""
