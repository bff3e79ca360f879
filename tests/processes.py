"""Tests in several processes (pytest-xdist): which tests share a process, and which run while no other test runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# Files outside of tests/spark with a test that uses the fixture `spark`.
SPARK_FILES = ("tests/test_dialects.py", "tests/sql/test_dialect_words.py")
# Files with few long tests and no fixtures. Their tests run last, in any free process.
SPREAD_FILES = ("tests/parquet/test_pages.py", "tests/test_bytes_fuzz.py", "tests/functions/test_stopping_functions.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process, which makes the file's fixtures once; all tests of Spark use one JVM."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path: str = super()._split_scope(nodeid)
            if path in SPREAD_FILES:
                return nodeid
            return "spark" if path.startswith("tests/spark/") or path in SPARK_FILES else path

    return ByFile(config, log)


class Turns:
    """Tests marked `alone` run while no other process runs a test.

    Each test holds a lock on this folder: a test marked `alone` an exclusive one, any other a shared one. A process
    locks this file while it waits for that lock, so that no new test starts before a test that waits for its turn.
    """

    def __init__(self) -> None:
        self.queue, self.running = os.open(__file__, os.O_RDONLY), os.open(HERE, os.O_RDONLY)
        self.holds_alone = False

    def begin(self, is_alone: bool) -> None:
        if self.holds_alone:
            return
        fcntl.flock(self.queue, fcntl.LOCK_EX)
        fcntl.flock(self.running, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(self.queue, fcntl.LOCK_UN)
        self.holds_alone = is_alone

    def end(self, next_is_alone: bool) -> None:
        if not (self.holds_alone and next_is_alone):
            fcntl.flock(self.running, fcntl.LOCK_UN)
            self.holds_alone = False

    def close(self) -> None:
        os.close(self.queue)
        os.close(self.running)


TURNS = Turns() if "PYTEST_XDIST_WORKER" in os.environ else None


def is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Wait for this test's turn; the time is not charged to the test's timeout."""
    if TURNS is None:
        return (yield)
    TURNS.begin(is_alone(item))
    try:
        return (yield)
    finally:
        TURNS.end(is_alone(nextitem))
