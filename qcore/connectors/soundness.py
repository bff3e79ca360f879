"""Checks of Arrow data that this process did not make, before anything follows its pointers.

Such data may be malformed: offsets outside their buffer, indices outside their dictionary, text that is not UTF-8.
pyarrow compares lengths with the sizes of buffers (`validate()`, a few microseconds an array). The checks that need a
pass over the rows are in `qcore_ext.data.checked_stream`: 3 ms for 4 million strings of 8 bytes, against 22 ms of
pyarrow's `validate(full=True)`. A string view takes 1.6 ns if all are short and equal in form, else 4 to 7 ns.
"""

from __future__ import annotations

import bisect
import itertools
import weakref
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from qcore.errors import ExecutionError
from qcore_ext.data.checked_stream import check_batch

# Values of a BatchStream's `trust`. The engine checks at import what they exclude.
TRUST_NOTHING = "nothing"
TRUST_LAYOUT = "layout"  # pyarrow decoded the batches: only text is unchecked
TRUST_EVERYTHING = "everything"  # this process made or checked the batches

# The smallest size of a split. A section that two splits share may be checked by two drivers.
SECTION_ROWS = 16 * 1024

REMEDY = "its file is damaged or its producer is broken"


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
    """Describe an error in a batch, with the column's name. pyarrow's messages have only its number."""
    if isinstance(error, ExecutionError):
        return str(error)
    for i, values in enumerate(batch.columns):
        try:
            name = batch.schema.field(i).name
            values.validate()
        except UnicodeDecodeError:
            continue
        except pa.ArrowException as found:
            return f"column {name!r} of an Arrow batch is malformed: {found}; {REMEDY}"
    return f"an Arrow batch is malformed: {error}; {REMEDY}"


def needs_a_pass(type: pa.DataType) -> bool:
    """Whether malformed values of the type are dangerous, and only a look at each value finds them."""
    return not (pa.types.is_primitive(type) or pa.types.is_decimal(type) or pa.types.is_null(type))


def _has_parts(type: pa.DataType) -> bool:
    """Whether values point into other arrays, which are checked as a whole with any of the rows."""
    return pa.types.is_nested(type) or pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type)


class SoundColumns:
    """The rows of a Table's columns that were checked. Any thread may use it.

    Rows are checked when they are first read, and not again while the Table lives. A driver checks the sections of a
    chunk that it is about to read, or the whole chunk if its values point into other arrays.
    """

    _known: ClassVar[dict[int, tuple[weakref.ref[pa.Table], SoundColumns]]] = {}

    def __init__(self, data: pa.Table) -> None:
        self._starts: dict[str, list[int]] = {}
        self._good: set[tuple[str, int]] = set()
        #: For chunks that are partly checked: a byte for each section, 1 if it is.
        self._sections: dict[tuple[str, int], bytearray] = {}
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
        """Check rows, and others near them; ExecutionError if one is malformed. `data`: the Table, or its equal."""
        for name in columns:
            values = data.column(name)
            if not needs_a_pass(values.type):
                continue
            starts = self._starts.get(name)
            if starts is None:
                starts = list(itertools.accumulate((len(chunk) for chunk in values.chunks), initial=0))
                self._starts[name] = starts
            first = max(0, bisect.bisect_right(starts, start) - 1)
            for number in range(first, min(bisect.bisect_left(starts, start + length), values.num_chunks)):
                if (name, number) not in self._good:
                    low = start - starts[number]
                    self._require_rows(name, number, values.chunk(number), low, low + length)

    def _require_rows(self, name: str, number: int, chunk: pa.Array, low: int, high: int) -> None:
        """Check the rows of a chunk from `low` to `high`; both may be outside of it."""
        key = (name, number)
        if len(chunk) <= SECTION_ROWS or _has_parts(chunk.type):
            # Two drivers may check the same rows at once: that is cheaper than a lock, and polls take none.
            require_sound(pa.RecordBatch.from_arrays([chunk], [name]), "the Arrow table")
            self._good.add(key)
            return
        done = self._sections.setdefault(key, bytearray(-(-len(chunk) // SECTION_ROWS)))
        first, last = max(0, low) // SECTION_ROWS, min(len(done), -(-high // SECTION_ROWS))
        while first < last and done[first]:
            first += 1
        while first < last and done[last - 1]:
            last -= 1
        if first < last:
            rows = chunk.slice(first * SECTION_ROWS, (last - first) * SECTION_ROWS)
            require_sound(pa.RecordBatch.from_arrays([rows], [name]), "the Arrow table")
            done[first:last] = b"\1" * (last - first)
        if all(done):
            self._good.add(key)
