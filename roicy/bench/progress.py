"""
How far work has come: a line that is renewed on a terminal, and elsewhere one every ten seconds.

Both go to the standard error, and nothing is shown of work that takes less than two seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

FIRST, PERIOD = 2.0, 10.0  # seconds until a terminal shows the line, and between lines elsewhere
RENEWED = 0.5  # seconds between renewals on a terminal
COLUMNS = 79


class Progress:
    """
    Work of so many parts, which `update` counts; `now` says which of them goes on.

    A thread shows the line, so that a part is seen that takes minutes by itself.
    """

    def __init__(self, title: str, total: int = 0):
        self.title, self.total, self.done, self.part = title, total, 0, ""
        self.ended = threading.Event()
        self.on_terminal = sys.stderr.isatty()
        self.shown = False
        self.thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Progress:
        self.start = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self.thread.join()
        if self.shown and self.on_terminal:
            print("\r" + " " * COLUMNS + "\r", end="", file=sys.stderr, flush=True)

    def now(self, part: str) -> None:
        """Say which part of the work goes on."""
        self.part = part

    def update(self) -> None:
        """Count a part that is done."""
        self.done += 1

    def line(self) -> str:
        """Return what is shown."""
        count = f" {self.done} of {self.total}" if self.total else ""
        part = f", {self.part}" if self.part else ""
        return f"{self.title}:{count}{part}, {time.monotonic() - self.start:.0f} s"[:COLUMNS]

    def _show(self) -> None:
        wait = FIRST if self.on_terminal else PERIOD
        while not self.ended.wait(wait):
            self.shown, wait = True, RENEWED if self.on_terminal else PERIOD
            line = f"\r{self.line():<{COLUMNS}}" if self.on_terminal else self.line() + "\n"
            print(line, end="", file=sys.stderr, flush=True)
