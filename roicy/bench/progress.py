"""How far work has come, on the standard error."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

RENEWED, PERIOD = 1.0, 10.0  # seconds between renewals on a terminal, and between lines elsewhere
COLUMNS = 79


class Progress(threading.Thread):
    """A line about work of so many parts; `begin` says which of them begins.

    The line is renewed on a terminal, and elsewhere printed every ten seconds.  A thread does it,
    so that a part is seen that takes minutes by itself.
    """

    def __init__(self, title: str, total: int = 0):
        super().__init__(daemon=True)
        self.title, self.total, self.begun, self.part = title, total, 0, ""
        self.ended, self.since = threading.Event(), time.monotonic()

    def __enter__(self) -> Progress:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self.join()

    def begin(self, part: str) -> None:
        """Say which part begins."""
        self.begun, self.part = self.begun + 1, part

    def run(self) -> None:
        """Show the line until the work ends."""
        on_terminal, shown = sys.stderr.isatty(), ""
        while not self.ended.wait(RENEWED if on_terminal else PERIOD):
            part = f" {self.begun} of {self.total}, {self.part}," if self.begun else ""
            shown = f"{self.title}:{part} {time.monotonic() - self.since:.0f} s"[:COLUMNS]
            line = f"\r{shown:<{COLUMNS}}" if on_terminal else f"{shown}\n"
            print(line, end="", file=sys.stderr, flush=True)
        if shown and on_terminal:
            print(f"\r{'':<{COLUMNS}}\r", end="", file=sys.stderr, flush=True)
