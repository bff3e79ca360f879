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


class SoundColumns:
    """Which chunks of a Table's columns were found sound. Any thread.

    Chunks are checked when they are first read, and then not again as long as the Table lives, however often it is
    queried.
    """

    _known: ClassVar[dict[int, tuple[weakref.ref[pa.Table], SoundColumns]]] = {}

    def __init__(self, data: pa.Table) -> None:
        self._starts: dict[str, list[int]] = {}
        self._good: set[tuple[str, int]] = set()
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
        """ExecutionError when the rows, or others of their chunks, are malformed. `data` is the Table, or its equal."""
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
                    # Drivers that come at once check it all: cheaper than to wait, and polls take no lock.
                    require_sound(pa.RecordBatch.from_arrays([values.chunk(number)], [name]), "the Arrow table")
                    self._good.add((name, number))
