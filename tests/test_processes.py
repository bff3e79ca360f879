"""Tests in several processes: tests that run alone, and files that share a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import processes
from processes import Turns

# Enough time for a thread that need not wait. A longer time does not fail the test.
PAUSE = 0.05


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Turns]]:
    """A function that makes the turns of a process, over locks of this test."""
    queue = tmp_path / "queue"
    queue.touch()
    monkeypatch.setattr(processes, "__file__", str(queue))
    monkeypatch.setattr(processes, "HERE", tmp_path)
    made: list[Turns] = []

    def new() -> Turns:
        made.append(Turns())
        return made[-1]

    yield new
    for one in made:
        one.close()


class Process(threading.Thread):
    """A test in its own process. `began` is set when it has its turn, and `may_end` ends it."""

    def __init__(self, turns: Turns, is_alone: bool) -> None:
        super().__init__(daemon=True)
        self.turns, self.is_alone = turns, is_alone
        self.began, self.may_end = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        self.turns.begin(self.is_alone)
        self.began.set()
        self.may_end.wait(60)
        self.turns.end(next_is_alone=False)

    def end(self) -> None:
        self.may_end.set()
        self.join(60)


def test_a_test_marked_alone_waits_for_others_and_they_for_it(turns: Callable[[], Turns]) -> None:
    first, second = Process(turns(), is_alone=False), Process(turns(), is_alone=False)
    assert first.began.wait(60) and second.began.wait(60)
    alone = Process(turns(), is_alone=True)
    first.end()
    time.sleep(PAUSE)
    # It waits for the second test, and the next one waits for it.
    behind = Process(turns(), is_alone=False)
    time.sleep(PAUSE)
    assert not alone.began.is_set() and not behind.began.is_set()
    second.end()
    assert alone.began.wait(60)
    time.sleep(PAUSE)
    assert not behind.began.is_set()
    alone.end()
    assert behind.began.wait(60)
    behind.end()


def test_tests_marked_alone_that_follow_each_other_take_one_turn(turns: Callable[[], Turns]) -> None:
    mine = turns()
    mine.begin(is_alone=True)
    other = Process(turns(), is_alone=False)
    mine.end(next_is_alone=True)
    mine.begin(is_alone=True)
    time.sleep(PAUSE)
    assert not other.began.is_set()
    mine.end(next_is_alone=False)
    assert other.began.wait(60)
    other.end()


def test_files_that_take_a_spark_session_share_a_process() -> None:
    """SPARK_FILES lists the files outside of tests/spark that have a test with the fixture `spark`."""
    here = Path(__file__).parent
    takes = {
        path.relative_to(here.parent).as_posix()
        for path in here.rglob("test_*.py")
        if "(spark: Any" in path.read_text() and path != Path(__file__)
    }
    assert {path for path in takes if not path.startswith("tests/spark/")} == set(processes.SPARK_FILES)
    assert all((here.parent / path).exists() for path in processes.SPREAD_FILES)
