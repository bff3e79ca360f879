"""The progress bar."""

from __future__ import annotations

import io

from qcore.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_bar_grow_and_go() -> None:
    terminal = Terminal()
    with ProgressBar("scan", terminal) as bar:
        bar.update(1, 4)
        bar.update(4, 4)
    drawn = terminal.getvalue()
    assert "scan" in drawn
    assert "4/4 splits" in drawn
    assert drawn.endswith("\r\x1b[K")


def test_redraws_are_rare_but_the_end_is_drawn() -> None:
    terminal = Terminal()
    bar = ProgressBar("scan", terminal)
    for n_done in range(1000):
        bar.update(n_done, 1000)
    bar.update(1000, 1000)
    assert terminal.getvalue().count("splits") <= 3
    assert "1000/1000" in terminal.getvalue()


def test_a_file_sees_nothing() -> None:
    file = io.StringIO()
    with ProgressBar("scan", file) as bar:
        bar.update(1, 1)
    assert file.getvalue() == ""
