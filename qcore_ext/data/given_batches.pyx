"""Batches that a source gave, watched in checked mode: what is in them must not change any more. SPEC H3.

The engine reads a batch where it lies, without a copy, for as long as it needs it. A source that writes the next rows
into the same memory changes rows that were given already, and the query's answer with them.
"""

import os
import zlib

from qcore_ext.ground.status import ExecutionError

# How many of the last batches are watched: a source that goes round as many buffers is found, one of more is not. They
# stay in memory meanwhile.
KEPT = 8


def checked_mode():
    """Whether this process runs in checked mode: QCORE_DEBUG is set, and not to 0."""
    return os.environ.get("QCORE_DEBUG", "0") not in ("", "0")


def checksums(batch):
    """One number a column, of the rows in it alone: what lies beside them in the same buffers may change."""
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
    """The last batches of one source, and what was in them when it gave them."""

    def __init__(self):
        self.kept = []          # of [batch, checksums]

    def add(self, batch):
        """Watch one more."""
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
        """ExecutionError when the last batch is no longer what it was."""
        if self.kept:
            self.check_one(*self.kept[len(self.kept) - 1])

    def check_all(self):
        """The same of all that are watched, which are let go then."""
        kept, self.kept = self.kept, []
        for batch, before in kept:
            self.check_one(batch, before)
