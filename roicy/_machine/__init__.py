"""What the machine has, and what a process may use of it: instruction sets, threads, memory."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as of typing, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def renew_after_fork(module: dict[str, Any], **make: Callable[[], Any]) -> None:
    """Set names of a module anew in each child of a fork, where nobody would release its locks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            after_in_child=lambda: module.update({name: make[name]() for name in make})
        )
