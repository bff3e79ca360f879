"""Batches of a source, watched in checked mode: their contents must not change any more. SPEC H3.

The engine reads a batch in place, without a copy, as long as it needs it. A source that writes its next rows into the
same memory changes rows that it gave before, and so the query's answer.
"""

import os
import zlib

from qcore_ext.ground.status import ExecutionError

# Number of the last batches that are watched. A source that reuses up to this many buffers in turn is found. The
# batches stay in memory meanwhile.
KEPT = 8


def checked_mode():
    """Whether this process runs in checked mode: QCORE_DEBUG is set and not 0."""
    return os.environ.get("QCORE_DEBUG", "0") not in ("", "0")


def checksums(batch):
    """Return one number for each column, computed from its rows only: bytes beside them in the buffers may change."""
    import pyarrow

    numbers = []
    for field, values in zip(batch.schema, batch.columns, strict=True):
        schema = pyarrow.schema([field])
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pyarrow.record_batch([values], schema=schema))
        numbers.append(zlib.crc32(sink.getvalue()))
    return numbers


class GivenBatches:
    """The last batches of one source, with checksums of the time when it gave them."""

    def __init__(self):
        self.kept = []          # of [batch, checksums]

    def add(self, batch):
        """Watch one more batch."""
        self.kept.append((batch, checksums(batch)))
        if len(self.kept) > KEPT:
            self.check_one(*self.kept.pop(0))

    def check_one(self, batch, before):
        now = checksums(batch)
        for name, was, given in zip(batch.schema.names, before, now, strict=True):
            if was != given:
                self.kept = []
                raise ExecutionError(
                    f"changed column {name!r} of a batch after it had given it; the engine reads a batch's memory "
                    "without a copy: give every batch buffers of its own, or a copy of one that is used again"
                )

    def check_last(self):
        """Raise ExecutionError if the last batch has changed."""
        if self.kept:
            self.check_one(*self.kept[len(self.kept) - 1])

    def check_all(self):
        """Raise ExecutionError if a watched batch has changed. Then stop watching all of them."""
        kept, self.kept = self.kept, []
        for batch, before in kept:
            self.check_one(batch, before)
