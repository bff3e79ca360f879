"""A progress bar for splits, on terminals."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

BAR_WIDTH = 30
# Redraws a second at most: a terminal is slower than a split.
REDRAW_SECONDS = 0.1


class ProgressBar:
    """Shows how many splits of a query are done. Writes nothing if `stream` is not a terminal.

    Parameters
    ----------
    label : str
        Text in front of the bar.
    stream : text file, optional
        Where to draw; by default standard error.

    Examples
    --------
    >>> with ProgressBar("Q1") as bar:
    ...     bar.update(3, 10)
    """

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.shown = self.stream.isatty()
        self._drawn_at = 0.0
        self._began_at = time.monotonic()

    def update(self, n_done: int, n_total: int) -> None:
        """Draw the bar, at most every REDRAW_SECONDS; `n_done == n_total` is always drawn."""
        now = time.monotonic()
        if not self.shown or (n_done < n_total and now - self._drawn_at < REDRAW_SECONDS):
            return
        self._drawn_at = now
        self.stream.write(f"\r{self.line(n_done, n_total)}\x1b[K")
        self.stream.flush()

    def line(self, n_done: int, n_total: int) -> str:
        """Return the bar as text."""
        filled = BAR_WIDTH * n_done // n_total if n_total else 0
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        return f"{self.label} {bar} {n_done}/{n_total} splits {time.monotonic() - self._began_at:.1f} s"

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
