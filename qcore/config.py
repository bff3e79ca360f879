"""Version and settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import field
from decimal import Decimal

from qcore.access import ANY_FILE, FileAccess
from qcore.errors import SettingError
from qcore.record import record
from qcore_ext.ground.memory_pool import MemoryPool

VERSION = "0.1.0"

#: Bytes of a unit by its name in lower case. KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB of 1024.
UNIT_BYTES = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
BYTES_MAX = 2**63 - 1


def default_threads() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bytes_of(value: int | str | None, name: str) -> int | None:
    """Parse a setting in bytes: a whole number, or a text such as '512MB' or '1.5 GiB'.

    Case and blanks do not matter. Units are B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).
    None stays None. Values above 2**63 - 1 become 2**63 - 1.

    Raises
    ------
    SettingError
        The value is neither, has an unknown unit, or is not positive. The message names the setting `name`.

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


@record(frozen=True, slots=True)
class Settings:
    """The settings that a query runs with.

    Attributes
    ----------
    threads : int
        Number of worker threads, and of drivers of each pipeline that can be split.
    memory_limit : int or None
        Bytes that the operators of one query may keep; None: no limit.
    batch_rows : int
        Rows of a batch that sources aim at.
    timeout : float or None
        Seconds after which a query stops with Timeout; None: never.
    memory_pool : MemoryPool or None
        Pool that limits the memory of all queries of the session together; None: no common limit.
    file_access : FileAccess
        Files that the text of queries may name, and that plans may write.
    change : callable or None
        Changes settings of the session that runs the query; its later queries use them. None: there is no session.
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
        """Return settings with defaults filled in; `memory_limit` as `bytes_of` parses it.

        Raises
        ------
        SettingError
            A value is not positive, or `memory_limit` is not a number of bytes.
        """
        for name, value in (("threads", threads), ("batch_rows", batch_rows), ("timeout", timeout)):
            if value is not None and value <= 0:
                raise SettingError(f"{name} must be positive, not {value}")
        limit = bytes_of(memory_limit, "memory_limit")
        return Settings(threads or default_threads(), limit, batch_rows or 65_536, timeout)
