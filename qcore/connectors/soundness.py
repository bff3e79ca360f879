"""Arrow data that this process did not make, checked before anything follows its pointers.

Data from outside may lie: offsets that leave their buffer, indices outside their dictionary, text that is not UTF-8.
pyarrow knows the sizes of buffers and compares lengths with them (`validate()`, a few microseconds an array); what
needs a pass over the rows is done by `qcore_ext.data.checked_stream`: 3 ms for 4 million strings of 8 bytes, where
pyarrow's `validate(full=True)` takes 22; a string view takes 1.6 ns where all are short and alike, 4 to 7 otherwise.
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

# What a BatchStream's `trust` says of its batches; what is not known is checked where the engine takes them over.
TRUST_NOTHING = "nothing"
TRUST_LAYOUT = "layout"  # pyarrow decoded them: only text is as it was found
TRUST_EVERYTHING = "everything"  # made by this process, or checked

# As few as a split has: splits may end within a section, which two drivers check then.
SECTION_ROWS = 16 * 1024

REMEDY = "its file is damaged or its producer is broken"


def is_trusted(source: object) -> bool:
    """Whether a source says that its batches were made by this process, as results of queries do."""
    return getattr(source, "trust", TRUST_NOTHING) == TRUST_EVERYTHING


def require_sound(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """The batch. ExecutionError naming `where` and the column when it is malformed."""
    try:
        batch.validate()
        check_batch(batch)
    except (pa.ArrowException, ExecutionError) as error:
        raise ExecutionError(f"{where}: {explain(batch, error)}") from error
    return batch


def explain(batch: pa.RecordBatch, error: Exception) -> str:
    """What is wrong with a batch, with the column's name, which pyarrow gives the number of."""
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


def _needs_a_pass(type: pa.DataType) -> bool:
    return not (pa.types.is_primitive(type) or pa.types.is_decimal(type) or pa.types.is_null(type))


def _has_parts(type: pa.DataType) -> bool:
    """Whether values point into other arrays, all of which are checked with any of their rows."""
    return pa.types.is_nested(type) or pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type)


class SoundColumns:
    """Which rows of a Table's columns were found sound. Any thread.

    They are checked when they are first read, and then not again as long as the Table lives, however often it is
    queried: a driver checks what it is about to read, by sections of a chunk, or whole chunks where their values point
    into other arrays.
    """

    _known: ClassVar[dict[int, tuple[weakref.ref[pa.Table], SoundColumns]]] = {}

    def __init__(self, data: pa.Table) -> None:
        self._starts: dict[str, list[int]] = {}
        self._good: set[tuple[str, int]] = set()
        #: Of chunks that are not all good: 1 for each section that is.
        self._sections: dict[tuple[str, int], bytearray] = {}
        try:
            data.validate()
        except pa.ArrowException:
            for batch in data.to_batches():
                require_sound(batch, "the Arrow table")
            raise

    @classmethod
    def of(cls, data: pa.Table) -> SoundColumns:
        """What is known of a Table. ExecutionError when its buffers are too small for its lengths."""
        key = id(data)
        held = cls._known.get(key)
        if held is not None and held[0]() is data:
            return held[1]
        made = cls(data)
        cls._known[key] = weakref.ref(data, lambda _: cls._known.pop(key, None)), made
        return made

    def require(self, data: pa.Table, columns: Sequence[str], start: int, length: int) -> None:
        """ExecutionError when the rows, or others near them, are malformed. `data` is the Table, or its equal."""
        for name in columns:
            values = data.column(name)
            if not _needs_a_pass(values.type):
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
        """The same of the rows of a chunk from `low` to `high`, both perhaps beyond it."""
        key = (name, number)
        if len(chunk) <= SECTION_ROWS or _has_parts(chunk.type):
            # Drivers that come at once check it all: cheaper than to wait, and polls take no lock.
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
