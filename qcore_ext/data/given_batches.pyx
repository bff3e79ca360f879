"""Checksums of the batches of a source, in checked mode, to find a source that changes batches it has returned.

The engine reads a batch in place, without a copy, for as long as it needs it. A source that writes its next rows into
the same memory changes earlier rows, and thus the result of the query.
"""

import os
import zlib

from qcore_ext.ground.status import ExecutionError

# The number of batches that are checked. This finds a source that reuses up to so many buffers in turn. The batches
# stay in memory while they are checked.
KEPT = 8


def checked_mode():
    """Whether this process runs in checked mode: QCORE_DEBUG is set and not 0."""
    return os.environ.get("QCORE_DEBUG", "0") not in ("", "0")


def checksums(batch):
    """Return a checksum of the rows of each column. Other bytes of the buffers may change."""
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
    """The last batches of one source, with checksums computed when the source returned them."""

    def __init__(self):
        self.kept = []          # of [batch, checksums]

    def add(self, batch):
        """Add a batch to check."""
        self.kept.append((batch, checksums(batch)))
        if len(self.kept) > KEPT:
            self.check_one(*self.kept.pop(0))

    def check_one(self, batch, before):
        now = checksums(batch)
        for name, was, given in zip(batch.schema.names, before, now, strict=True):
            if was != given:
                self.kept = []
                raise ExecutionError(
                    f"changed column {name!r} of a batch after returning it; the engine reads a batch's memory "
                    "without a copy: use new buffers for each batch, or return a copy of a buffer that is reused"
                )

    def check_last(self):
        """Raise ExecutionError if the last batch has changed."""
        if self.kept:
            self.check_one(*self.kept[len(self.kept) - 1])

    def check_all(self):
        """Raise ExecutionError if one of the batches has changed. After this call none is checked any more."""
        kept, self.kept = self.kept, []
        for batch, before in kept:
            self.check_one(batch, before)
