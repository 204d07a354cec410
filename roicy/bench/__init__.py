"""What ``python -m roicy bench`` and ``demo`` run; ``import roicy`` does not load it."""
