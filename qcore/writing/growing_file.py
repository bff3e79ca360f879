"""A file whose schema may grow while it is written: begun anew with each wider schema, and made one file at the end.

A file has one schema. Rows are written at once, so a file whose schema stays costs nothing more. When rows with a new
column or a wider type come, the file so far becomes a *segment*, and a further segment begins. When all rows of the
write have come, files that lack something of the widest schema are written anew from their segments.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator
from typing import Protocol

import pyarrow as pa

from qcore.expression.types import plain
from qcore.writing.file_sets import StagingFolder
from qcore_ext.compute.arrow_call import look
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.fault import fault_site
from qcore_ext.ground.memory import Account


class RowsWriter(Protocol):
    """Writes batches of one schema to a file of one format."""

    def write(self, batch: pa.RecordBatch, charged: bool = True) -> None:
        """Append a batch. Rows that the writer keeps are charged, unless their batch is `charged` already."""

    def close(self) -> None:
        """Write what is left and close the file."""

    def abandon(self) -> None:
        """Close the file, which is going to be removed."""


Batches = Generator[pa.RecordBatch, None, None]


class WriteFormat(Protocol):
    """How the files of one write are written, and how their segments are read again."""

    def open(self, path: str, schema: pa.Schema, account: Account) -> RowsWriter:
        """Begin a file. The account pays for rows that the writer keeps."""

    def read(self, path: str) -> Batches:
        """Read the batches of a complete file. The file is closed when the iterator ends or is closed."""


class ArrowRows:
    """Writes batches to an Arrow IPC file."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        fault_site("write_open")
        self._writer = pa.ipc.new_file(path, schema)

    def write(self, batch: pa.RecordBatch, charged: bool = True) -> None:
        """Append a batch. No rows are kept."""
        fault_site("write_rows")
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer."""
        fault_site("write_close")
        self._writer.close()

    def abandon(self) -> None:
        """Close the file, which is going to be removed."""
        self._writer.close()


class ArrowFormat:
    """Arrow IPC files."""

    def open(self, path: str, schema: pa.Schema, account: Account) -> ArrowRows:
        """Begin a file."""
        return ArrowRows(path, schema)

    def read(self, path: str) -> Batches:
        """Read the batches of a complete file."""
        with pa.OSFile(path) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)


class GrowingSchema:
    """The schema of the files of one write: the widest so far. Any thread may use it.

    Parameters
    ----------
    schema : pyarrow.Schema
        The declared schema of the rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._lock = threading.Lock()
        #: The schema now.
        self.now = schema

    def grow(self, given: pa.Schema) -> pa.Schema:
        """Make the schema hold rows of another one, and return it.

        Raises
        ------
        SchemaChangeError
            Types of a column do not widen into one.
        """
        with self._lock:
            self.now = union_of(self.now, given)
            return self.now


def union_of(schema: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The columns of both schemas, those of `schema` first; `schema` itself if it has rows of `given`."""
    if schema.equals(given):
        return schema
    wide = pa.schema(widen_schemas(Schema(schema), Schema(given)))
    return schema if wide.equals(schema) else wide


def widen_rows(
    batch: pa.RecordBatch, schema: pa.Schema, account: Account, payer: Account | None = None
) -> pa.RecordBatch:
    """Convert a batch to a schema that holds its rows: columns by name, null where it lacks one.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The rows.
    schema : pyarrow.Schema
        The schema to convert to.
    account : Account
        Pays for converted columns while the rows are converted.
    payer : Account, optional
        Pays for `batch` itself while it is converted. None: it is paid for already.
    """
    if payer is None:
        if batch.schema.equals(schema):
            return batch
        if set(schema.names) == set(batch.schema.names) and all(
            plain(field.type) == plain(batch.schema.field(field.name).type) for field in schema
        ):
            return batch.select(schema.names).cast(schema)
    rows = pa.record_batch(Widener(account).widen(PyBatch.from_arrow(batch, payer), Schema(schema)))
    return rows if rows.schema.equals(schema) else rows.cast(schema)


class GrowingFile:
    """One file of a write. One thread at a time may use it.

    Parameters
    ----------
    staging : StagingFolder
        The folder of the files that are not complete. Its owner removes it when the write fails.
    name : str
        The file's name.
    schema : GrowingSchema
        The schema of all files of the write.
    format : WriteFormat
        How it is written.
    account : Account
        Pays for converted rows.
    """

    def __init__(
        self, staging: StagingFolder, name: str, schema: GrowingSchema, format: WriteFormat, account: Account
    ) -> None:
        self._staging = staging
        self._schema = schema
        self._format = format
        self._account = account
        self._name = name
        #: Complete segments in the order of their rows, each with its schema.
        self._segments: list[tuple[str, pa.Schema]] = []
        self._writer: RowsWriter | None = None
        #: Where the writer writes, and what.
        self._path, self._written = "", schema.now
        #: The schema of the last batch, whose rows `_written` holds.
        self._given: pa.Schema | None = None
        #: Rows so far.
        self.n_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch. SchemaChangeError if its types and those of the file do not widen into one."""
        if self._writer is None:
            self._open(self._schema.grow(batch.schema))
        elif not batch.schema.equals(self._given) and union_of(self._written, batch.schema) is not self._written:
            self._end_segment()
            self._open(self._schema.grow(batch.schema))
        self._given = batch.schema
        assert self._writer is not None
        self._writer.write(widen_rows(batch, self._written, self._account))
        self.n_rows += batch.num_rows

    def _open(self, schema: pa.Schema) -> None:
        self._path = self._staging.segment() if self._segments else self._staging.file(self._name)
        self._written = schema
        self._writer = self._format.open(self._path, schema, self._account)

    def _end_segment(self) -> None:
        """Close the file so far, and keep its rows."""
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        self._segments.append((self._path, self._written))

    def close(self) -> None:
        """End the rows. Without rows there is no file yet."""
        if self._writer is not None:
            self._end_segment()

    def complete(self) -> int:
        """Make the file one with the schema of all files, which grows no more, and return its size in bytes."""
        schema = self._schema.now
        path = self._staging.file(self._name)
        try:
            self.close()
            if not self._segments:
                self._open(schema)
                self._end_segment()
            elif self._segments != [(path, schema)]:
                self._merge(path, schema)
        except BaseException:
            self.abandon()
            raise
        return os.path.getsize(path)

    def _merge(self, path: str, schema: pa.Schema) -> None:
        """Write all segments to one file in their order, and remove them."""
        segments = self._segments
        self._open(schema)
        assert self._writer is not None
        for segment, _ in segments:
            rows = self._format.read(segment)
            try:
                for batch in rows:
                    look()
                    self._writer.write(widen_rows(batch, schema, self._account, payer=self._account), charged=False)
            finally:
                rows.close()
            if segment != path:
                os.unlink(segment)
        self._end_segment()
        os.replace(self._path, path)
        self._segments = [(path, schema)]

    def abandon(self) -> None:
        """Close the open file: all files are going to be removed."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        # The error that stopped the write matters more, and the file is removed anyway.
        with contextlib.suppress(OSError, pa.ArrowException):
            writer.abandon()
