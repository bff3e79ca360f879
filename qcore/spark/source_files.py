"""Checks of the files of a scan that Spark planned: whether they changed since, and which calendar their dates use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from qcore.connectors.parquet.footer import FOOTERS, ParquetFooter
from qcore.connectors.storage import locate, read_in_threads
from qcore.record import record

VERSION_KEY = b"org.apache.spark.version"
VERSION = re.compile(rb"(\d+)\.(\d+)")
CORRECTED = "CORRECTED"
NANOS_OF_MILLI, NANOS_OF_SECOND = 10**6, 10**9


@record(frozen=True)
class FileStamp:
    """The size of a file in bytes and its modification time in ms (0: unknown) when Spark planned the scan."""

    n_bytes: int
    changed_millis: int


@record(frozen=True)
class Calendars:
    """How Spark reads dates and instants of files that do not name the version of Spark that wrote them.

    The values of spark.sql.parquet.datetimeRebaseModeInRead and int96RebaseModeInRead, or of the read's own options.
    """

    dates: str = CORRECTED
    int96: str = CORRECTED


def footers_of(paths: Iterable[str]) -> list[ParquetFooter]:
    """Return the footers of files."""
    return read_in_threads(lambda path: FOOTERS.get(locate(path)), list(paths))


def legacy_column(
    footer: ParquetFooter, fields: Sequence[pa.Field], calendars: Calendars, same_case: bool
) -> str | None:
    """Return a column whose values Spark converts to another calendar while it reads the file, or None.

    Such a file must be read by Spark. Before version 3.0 (3.1 for INT96) Spark wrote dates and instants before October
    1582 in the Julian calendar. Later versions do so if configured, and then mark the footer. Such instants before 1900
    also have offsets of local mean time.
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
    """Describe how a file changed since Spark planned its scan; None if no change is visible."""
    if planned is None:
        return None
    n_bytes, changed_nanos = footer.stamp
    if n_bytes != planned.n_bytes:
        return f"it had {planned.n_bytes} bytes and has {n_bytes}"
    if not planned.changed_millis or not changed_nanos:
        return None
    # On remote storage a listing has fractions of a second, and the status of a single file does not.
    unit = NANOS_OF_MILLI if footer.location.filesystem is None else NANOS_OF_SECOND
    if changed_nanos // unit == planned.changed_millis * NANOS_OF_MILLI // unit:
        return None
    return f"it was last changed {changed_nanos / NANOS_OF_SECOND - planned.changed_millis / 1000:.3f} s later"
