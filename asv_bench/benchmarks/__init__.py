"""The ASV suite of roicy; CONTRIBUTING.md says how to run it and what to trust."""
