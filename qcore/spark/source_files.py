"""Files of a scan that Spark planned: the same still, and of a calendar that is ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from qcore.connectors.parquet.footer import FOOTERS, ParquetFooter
from qcore.connectors.storage import locate

VERSION_KEY = b"org.apache.spark.version"
VERSION = re.compile(rb"(\d+)\.(\d+)")
CORRECTED = "CORRECTED"
NANOS_OF_MILLI, NANOS_OF_SECOND = 10**6, 10**9
FOOTER_THREADS = 8


@dataclass(frozen=True)
class FileStamp:
    """What Spark knew of a file when it planned: bytes, and when it was changed, in ms (0: not known)."""

    n_bytes: int
    changed_millis: int


@dataclass(frozen=True)
class Calendars:
    """How Spark reads dates and instants of files that do not say which Spark wrote them, or whether any did.

    The values of spark.sql.parquet.datetimeRebaseModeInRead and int96RebaseModeInRead, or of the read's own options.
    """

    dates: str = CORRECTED
    int96: str = CORRECTED


def footers_of(paths: Iterable[str]) -> list[ParquetFooter]:
    """The footers of files, read by several threads: each costs a round trip on remote storage."""
    with ThreadPoolExecutor(FOOTER_THREADS, "qcore-footer") as pool:
        return list(pool.map(lambda path: FOOTERS.get(locate(path)), paths))


def legacy_column(
    footer: ParquetFooter, fields: Sequence[pa.Field], calendars: Calendars, same_case: bool
) -> str | None:
    """A column of which Spark moves values to another calendar as it reads the file, and so only Spark can; or None.

    Until version 3.0 Spark wrote dates and instants by the Julian calendar before October 1582 (instants of INT96
    until 3.1); it says so in the footer when a later version was told to. Instants have offsets of local mean time
    besides, up to 1900.
    """
    wanted = {field.name if same_case else field.name.lower() for field in fields if _is_moved(field.type)}
    for held in footer.schema:
        name = held.name if same_case else held.name.lower()
        leaf = footer.leaf(held.name)
        if name not in wanted or leaf is None:
            continue
        is_int96 = footer.metadata.schema.column(leaf).physical_type == "INT96"
        if (is_int96 or _is_moved_as_stored(held.type)) and _is_legacy(footer, calendars, is_int96):
            return str(held.name)
    return None


def _is_moved(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is not None))


def _is_moved_as_stored(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def _is_legacy(footer: ParquetFooter, calendars: Calendars, is_int96: bool) -> bool:
    said: Mapping[bytes, bytes] = footer.metadata.metadata or {}
    version = said.get(VERSION_KEY)
    if version is None:
        return (calendars.int96 if is_int96 else calendars.dates) != CORRECTED
    number = VERSION.match(version)
    if number is None or (int(number[1]), int(number[2])) < ((3, 1) if is_int96 else (3, 0)):
        return True
    return (b"org.apache.spark.legacyINT96" if is_int96 else b"org.apache.spark.legacyDateTime") in said


def change_of(footer: ParquetFooter, planned: FileStamp | None) -> str | None:
    """What has changed of a file since Spark planned its scan; None if nothing has that can be seen."""
    if planned is None:
        return None
    n_bytes, changed_nanos = footer.stamp
    if n_bytes != planned.n_bytes:
        return f"it had {planned.n_bytes} bytes and has {n_bytes}"
    if not planned.changed_millis or not changed_nanos:
        return None
    # Listings of remote storage know fractions of a second that its single files do not tell.
    unit = NANOS_OF_MILLI if footer.location.filesystem is None else NANOS_OF_SECOND
    if changed_nanos // unit == planned.changed_millis * NANOS_OF_MILLI // unit:
        return None
    return f"it was last changed {changed_nanos / NANOS_OF_SECOND - planned.changed_millis / 1000:.3f} s later"
