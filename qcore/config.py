"""Version and settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from qcore.access import ANY_FILE, FileAccess
from qcore.errors import SettingError
from qcore_ext.ground.memory_pool import MemoryPool

VERSION = "0.1.0"

#: Bytes of a unit, by its name in lower case: KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB of 1024.
UNIT_BYTES = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
BYTES_MAX = 2**63 - 1


def default_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bytes_of(value: int | str | None, name: str) -> int | None:
    """A number of bytes as a setting gives it: a whole number, or a text such as '512MB' or '1.5 GiB'.

    Capitals and blanks do not matter. None stays None.

    Raises
    ------
    SettingError
        It is neither, it has another unit, or it is not positive.

    Examples
    --------
    >>> bytes_of("64 MB", "memory_limit"), bytes_of("1.5GiB", "memory_limit")
    (64000000, 1610612736)
    """
    if value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*)\s*", value)
        if found is None or found[2].lower() not in UNIT_BYTES:
            raise SettingError(
                f"{name} is a number of bytes or a text such as '512MB' or '1.5 GiB', not {value!r}; units are B, "
                "KB, MB, GB and TB (powers of 1000), KiB, MiB, GiB and TiB (powers of 1024)"
            )
        n_bytes = int(Decimal(found[1]) * UNIT_BYTES[found[2].lower()])
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        n_bytes = value.__index__()
    else:
        raise SettingError(f"{name} is a whole number of bytes or a text such as '512MB', not {value!r}")
    if n_bytes <= 0:
        raise SettingError(f"{name} must be positive, not {value}")
    return min(n_bytes, BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session runs its queries with.

    Attributes
    ----------
    threads : int
        Worker threads, and drivers of a pipeline that can be split.
    memory_limit : int or None
        Bytes the operators of one query may keep; None is no limit.
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
    batch_rows: int = 65_536
    timeout: float | None = None
    memory_pool: MemoryPool | None = field(default=None, repr=False, compare=False)
    file_access: FileAccess = ANY_FILE
    change: Callable[..., None] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def make(
        threads: int | None = None,
        memory_limit: int | str | None = None,
        batch_rows: int | None = None,
        timeout: float | None = None,
    ) -> Settings:
        """Settings with defaults filled in; SettingError where one makes no sense. bytes_of says what a limit is."""
        for name, value in (("threads", threads), ("batch_rows", batch_rows), ("timeout", timeout)):
            if value is not None and value <= 0:
                raise SettingError(f"{name} must be positive, not {value}")
        limit = bytes_of(memory_limit, "memory_limit")
        return Settings(threads or default_threads(), limit, batch_rows or 65_536, timeout)
