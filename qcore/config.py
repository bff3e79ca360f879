"""Version and settings. Floor P0."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from qcore.access import ANY_FILE, FileAccess
from qcore_ext.ground.memory_pool import MemoryPool

VERSION = "0.1.0"


def default_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session runs its queries with.

    Attributes
    ----------
    threads : int
        Worker threads, and drivers of a pipeline that can be split.
    memory_limit : int or None
        Bytes the operators of one query may keep; None is no limit.
    spill_dir : str or None
        Where operators may write what memory cannot hold; None is nowhere.
    batch_rows : int
        Rows of a batch that sources aim at.
    timeout : float or None
        Seconds after which a query stops with Timeout; None is never.
    memory_pool : MemoryPool or None
        What the operators of all queries of the session keep their memory in; None: each query by itself.
    file_access : FileAccess
        Which files the text of queries may name, and plans write.
    change : callable or None
        Changes settings of the session that runs the query, for its later ones; None where there is no session.
    """

    threads: int
    memory_limit: int | None = None
    spill_dir: str | None = None
    batch_rows: int = 65_536
    timeout: float | None = None
    memory_pool: MemoryPool | None = field(default=None, repr=False, compare=False)
    file_access: FileAccess = ANY_FILE
    change: Callable[..., None] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def make(
        threads: int | None = None,
        memory_limit: int | None = None,
        spill_dir: str | None = None,
        batch_rows: int | None = None,
        timeout: float | None = None,
    ) -> Settings:
        """Settings with defaults filled in; ValueError where one makes no sense."""
        for name, value in (
            ("threads", threads), ("memory_limit", memory_limit), ("batch_rows", batch_rows), ("timeout", timeout),
        ):  # fmt: skip
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, not {value}")
        return Settings(threads or default_threads(), memory_limit, spill_dir, batch_rows or 65_536, timeout)
