"""Checks of Arrow data that this process did not make, before its pointers are used.

Such data may be malformed: offsets outside their buffer, indices outside their dictionary, text that is not UTF-8.
pyarrow compares lengths with the sizes of buffers (`validate()`, a few microseconds an array). The checks that need a
pass over the rows are in `qcore_ext.data.checked_stream`. For the strings of tables in memory they are in
`qcore_ext.data.row_check`, which runs when rows are first loaded and are in the cache.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import re
import weakref
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from qcore.errors import ExecutionError
from qcore_ext.data.checked_stream import check_batch
from qcore_ext.data.row_check import RowChecks

# Values of a BatchStream's `trust`. At import the engine makes the checks that they do not cover.
TRUST_NOTHING = "nothing"
TRUST_LAYOUT = "layout"  # pyarrow decoded the batches: only text is unchecked
TRUST_EVERYTHING = "everything"  # this process made or checked the batches

REMEDY = "its file is damaged or its producer is broken"

# How pyarrow begins the message of an error in a column of a batch.
_COLUMN = re.compile(r"In column (?P<number>\d+): (?:Invalid: )?(?P<what>.*)", re.DOTALL)


def is_trusted(source: object) -> bool:
    """Whether a source's `trust` excludes every check, as that of a query's result does."""
    return getattr(source, "trust", TRUST_NOTHING) == TRUST_EVERYTHING


def require_sound(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Return the batch, checked. ExecutionError that names `where` and the column if it is malformed."""
    try:
        batch.validate()
        check_batch(batch)
    except (pa.ArrowException, ExecutionError) as error:
        raise ExecutionError(f"{where}: {explain(batch, error)}") from error
    return batch


def explain(batch: pa.RecordBatch, error: Exception) -> str:
    """Describe an error in a batch, with the column's name. pyarrow's messages have only its number.

    The batch's columns are not read. To make the array of a malformed map, pyarrow ends the process.
    """
    if isinstance(error, ExecutionError):
        return str(error)
    found = _COLUMN.match(str(error))
    if found is not None:
        with contextlib.suppress(UnicodeDecodeError):
            name = batch.schema.field(int(found["number"])).name
            return f"column {name!r} of an Arrow batch is malformed: {found['what']}; {REMEDY}"
    return f"an Arrow batch is malformed: {error}; {REMEDY}"


def needs_a_pass(type: pa.DataType) -> bool:
    """Whether malformed values of the type are dangerous, and only reading each value finds them."""
    return not (pa.types.is_primitive(type) or pa.types.is_decimal(type) or pa.types.is_null(type))


def _data_bytes(chunk: pa.Array) -> int:
    """The size of the buffer that offsets point into; 0 for views, whose arrays contain the sizes."""
    type = chunk.type
    if pa.types.is_string_view(type) or pa.types.is_binary_view(type):
        return 0
    data = chunk.buffers()[2]
    return 0 if data is None else int(data.size)


def is_text(type: pa.DataType) -> bool:
    """Whether the type is one of strings or bytes, whose rows are checked when they are first loaded."""
    return (
        pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)
        or pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type)
    )  # fmt: skip


class SoundColumns:
    """The rows of a Table's columns that were checked. Any thread may use it.

    Strings are checked when a query first loads them, and not again while the Table lives. A chunk of another type,
    whose values may point into other arrays, is checked as a whole when a driver is about to read some of its rows.
    """

    _known: ClassVar[dict[int, tuple[weakref.ref[pa.Table], SoundColumns]]] = {}

    def __init__(self, data: pa.Table) -> None:
        self._starts: dict[str, list[int]] = {}
        #: Chunks that are known to be sound as a whole.
        self._good: set[tuple[str, int]] = set()
        #: Checks of chunks of strings that were read.
        self._checks: dict[tuple[str, int], RowChecks] = {}
        try:
            data.validate()
        except pa.ArrowException:
            for batch in data.to_batches():
                require_sound(batch, "the Arrow table")
            raise

    @classmethod
    def of(cls, data: pa.Table) -> SoundColumns:
        """Return the record of a Table. ExecutionError if its buffers are too small for its lengths."""
        key = id(data)
        held = cls._known.get(key)
        if held is not None and held[0]() is data:
            return held[1]
        checked = cls(data)
        cls._known[key] = weakref.ref(data, lambda _: cls._known.pop(key, None)), checked
        return checked

    def require(self, data: pa.Table, columns: Sequence[str], start: int, length: int) -> None:
        """Check rows, and others near them. ExecutionError if one is malformed. `data` is the Table or an equal one."""
        for name in columns:
            for check, first in self._unknown(data, name, start, length):
                check.require(start - first, length)

    def to_check(self, data: pa.Table, columns: Sequence[str], start: int, length: int) -> list[list[RowChecks]] | None:
        """Return the `row_checks` of a stream over rows of the columns; None if nothing is left to check.

        Columns that are checked by chunks are checked in this call. ExecutionError if one is malformed.
        """
        checks = [[check for check, _ in self._unknown(data, name, start, length)] for name in columns]
        return checks if any(checks) else None

    def text_checks(self, data: pa.Table, columns: Sequence[str]) -> list[list[RowChecks]]:
        """Return for each column the checks of its chunks that have rows, in order, including sound ones.

        No checks for a column of another type than strings.
        """
        checks: list[list[RowChecks]] = []
        for name in columns:
            values = data.column(name)
            chunks = enumerate(values.chunks) if is_text(values.type) else ()
            checks.append([self._text_check(name, number, chunk) for number, chunk in chunks if len(chunk) > 0])
        return checks

    def _text_check(self, name: str, number: int, chunk: pa.Array) -> RowChecks:
        """The check of a chunk of strings. Two drivers may make it at the same time."""
        check = self._checks.get((name, number))
        if check is None:
            check = self._checks.setdefault((name, number), RowChecks(name, chunk, _data_bytes(chunk)))
        return check

    def _unknown(self, data: pa.Table, name: str, start: int, length: int) -> list[tuple[RowChecks, int]]:
        """The checks of strings that are not known to be sound as a whole, and their first rows."""
        values = data.column(name)
        if not needs_a_pass(values.type):
            return []
        starts = self._starts.get(name)
        if starts is None:
            starts = list(itertools.accumulate((len(chunk) for chunk in values.chunks), initial=0))
            self._starts[name] = starts
        first = max(0, bisect.bisect_right(starts, start) - 1)
        checks = []
        for number in range(first, min(bisect.bisect_left(starts, start + length), values.num_chunks)):
            if (name, number) not in self._good:
                check = self._check_of(name, number, values.chunk(number))
                if check is not None:
                    checks.append((check, starts[number]))
        return checks

    def _check_of(self, name: str, number: int, chunk: pa.Array) -> RowChecks | None:
        """The check of a chunk of strings; None if the chunk is sound."""
        key = (name, number)
        if not is_text(chunk.type):
            require_sound(pa.RecordBatch.from_arrays([chunk], [name]), "the Arrow table")
            self._good.add(key)
            return None
        check = self._text_check(name, number, chunk)
        if check.n_left == 0:
            self._good.add(key)
            return None
        return check
