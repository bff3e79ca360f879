"""Write a query's rows to Parquet files, which appear when all are complete.

Each driver's TableWrite writes a file of its own in a hidden folder and outputs its name. TableCommit, after all of
them, gives all files the widest schema, renames them and outputs a row about each. Both are operators in Python,
because pyarrow does their work, one call a batch.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.functions.nested import with_type
from qcore.late_module import late_module
from qcore.protocols import Operator
from qcore.record import record
from qcore.writing.file_sets import StagingFolder, replace_file, resolve_target, writing
from qcore.writing.growing_file import Batches, GrowingFile, GrowingSchema
from qcore_ext.ground.fault import fault_site
from qcore_ext.ground.memory import Account, Reservation

pq = late_module("pyarrow.parquet")
# The output of a write: one row a file.
WRITTEN = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
# What each driver tells the commit.
NAMES = pa.schema([("name", pa.string())])
ROW_GROUP_ROWS = 1 << 17
# Rows that are read at a time from a file that is written anew.
READ_ROWS = 1 << 13
# Memory that it takes to return the rows about the files: their own, an eighth more, and a copy in growing buffers.
ROOM_FACTOR, ROOM_BYTES = 4, 1024
COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


class ParquetRows:
    """Writes batches to a Parquet file, in row groups of `row_group_rows` rows.

    The rows of a row group are kept until it is complete. `account`, if given, is charged for them.
    """

    def __init__(
        self,
        target: str | IO[bytes],
        schema: pa.Schema,
        compression: str,
        row_group_rows: int = ROW_GROUP_ROWS,
        account: Account | None = None,
    ) -> None:
        self._schema = storable(schema)
        self._row_group_rows = row_group_rows
        self._held: list[pa.RecordBatch] = []
        self._n_held = 0
        self._charged = Reservation(account) if account is not None else None
        fault_site("write_open")
        self._writer = pq.ParquetWriter(target, self._schema, compression=compression)
        #: Rows taken so far.
        self.n_rows = 0

    def write(self, batch: pa.RecordBatch, charged: bool = True) -> None:
        """Append a batch. If its own columns are `charged` already, only those made from them are."""
        rows = _convert(batch, self._schema)
        if self._charged is not None:
            self._charged.add(_new_bytes(rows, batch) if charged else rows.nbytes)
        self._held.append(rows)
        self._n_held += rows.num_rows
        self.n_rows += rows.num_rows
        if self._n_held >= self._row_group_rows:
            self._flush()

    def _flush(self) -> None:
        if self._n_held:
            fault_site("write_rows")
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=self._row_group_rows)
        self._drop()

    def _drop(self) -> None:
        self._held, self._n_held = [], 0
        if self._charged is not None:
            self._charged.give_back()

    def close(self) -> None:
        """Write the remaining rows and the footer."""
        self._flush()
        fault_site("write_close")
        self._writer.close()

    def abandon(self) -> None:
        """Close the file without the remaining rows: it is going to be removed."""
        self._drop()
        self._writer.close()


@record(frozen=True)
class ParquetFormat:
    """Parquet files with a compression and a number of rows of each row group."""

    compression: str
    row_group_rows: int

    def open(self, path: str, schema: pa.Schema, account: Account) -> ParquetRows:
        """Begin a file. The account is charged for rows that wait for their row group."""
        return ParquetRows(path, schema, self.compression, self.row_group_rows, account)

    def read(self, path: str) -> Batches:
        """Read the batches of a complete file, in the types that they were written from."""
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=READ_ROWS, use_threads=False)


def storable(schema: pa.Schema) -> pa.Schema:
    """The schema with plain strings and lists in place of views, which every version of pyarrow can write."""
    return pa.schema([field.with_type(_storable_type(field.type)) for field in schema])


def _convert(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        with_type(column, field.type) if pa.types.is_nested(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _new_bytes(rows: pa.RecordBatch, batch: pa.RecordBatch) -> int:
    """Bytes of the columns of `rows` that are not those of `batch`, which they were made from."""
    columns = zip(rows.columns, batch.columns, strict=True)
    return sum(new.nbytes for new, old in columns if not new.type.equals(old.type))


def _storable_type(type_: pa.DataType) -> pa.DataType:
    if type_ == pa.string_view():
        return pa.string()
    if type_ == pa.binary_view():
        return pa.binary()
    if isinstance(type_, (pa.ListType, pa.ListViewType)):
        return pa.list_(type_.value_field.with_type(_storable_type(type_.value_type)))
    if isinstance(type_, (pa.LargeListType, pa.LargeListViewType)):
        return pa.large_list(type_.value_field.with_type(_storable_type(type_.value_type)))
    if isinstance(type_, pa.StructType):
        return pa.struct([field.with_type(_storable_type(field.type)) for field in type_])
    return type_


class TableWriteState:
    """The state that the operators of one write share.

    Parameters
    ----------
    path : str
        The file, or the folder that gets one file for each driver.
    schema : pyarrow.Schema
        Schema of the rows.
    single : bool
        Write one file, not a folder.
    compression : str
        One of COMPRESSIONS.
    row_group_rows : int
        Number of rows of each row group.
    account : Account
        Pays for rows that are converted to a wider schema.
    """

    def __init__(
        self, path: str, schema: pa.Schema, single: bool, compression: str, row_group_rows: int, account: Account
    ) -> None:
        self.path = path
        self.single = single
        #: The schema of the files; bind() of the drivers' operators widens it.
        self.schema = GrowingSchema(schema)
        self._format = ParquetFormat(compression, row_group_rows)
        self._account = account
        self._files: dict[str, GrowingFile] = {}
        self._staging = StagingFolder(resolve_target(path, "a write of one file") if single else path)
        # Removes the folder also if the query ends before all of its operators have begun.
        weakref.finalize(self, self._staging.remove)
        self.given_up = False

    def file(self, name: str) -> GrowingFile:
        """Make a driver's file."""
        self._files[name] = GrowingFile(self._staging, name, self.schema, self._format, self._account)
        return self._files[name]

    def complete(self, name: str) -> tuple[int, int]:
        """Give a file the schema of all files. All drivers have finished. Return its rows and bytes."""
        with writing(self.path):
            return self._files[name].n_rows, self._files[name].complete()

    def path_of(self, name: str) -> str:
        """The path that a file has after commit()."""
        return self.path if self.single else os.path.join(self.path, name)

    def commit(self, names: Sequence[str]) -> None:
        """Rename the files, which are all complete now."""
        if not self.single:
            self._staging.become_target()
            return
        with writing(self.path):
            replace_file(self._staging.file(names[0]), self._staging.target)
        self._staging.remove()

    def room_for(self, rows: pa.RecordBatch) -> Reservation:
        """Reserve the memory that it takes to return rows. MemoryLimitError if there is not enough."""
        room = Reservation(self._account)
        room.add(ROOM_FACTOR * rows.nbytes + ROOM_BYTES)
        return room

    def give_up(self) -> None:
        """Remove the files: the write failed or was stopped. Drivers that still write remove theirs at close."""
        self.given_up = True
        self._staging.remove()


class TableWrite(Operator):
    """Writes the rows of one driver to a file and outputs its name. Without rows there is no file."""

    def __init__(self, state: TableWriteState, driver: int) -> None:
        self._state = state
        self._name = f"part-{driver:05d}.parquet"
        self._file: GrowingFile | None = None
        self._output: pa.RecordBatch | None = None

    def output_schema(self, schema: Any) -> pa.Schema:
        return NAMES

    def bind(self, schema: pa.Schema) -> None:
        # The files of all drivers get the widest schema, also if no row of this driver needs it.
        self._state.schema.grow(schema)

    def add_input(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._file is None:
            self._file = self._state.file(self._name)
        with writing(self._state.path):
            self._file.write(batch)

    def finish(self) -> None:
        if self._file is not None:
            with writing(self._state.path):
                self._file.close()
            self._output = pa.record_batch([[self._name]], schema=NAMES)
            self._file = None

    def get_output(self) -> pa.RecordBatch | None:
        output, self._output = self._output, None
        return output

    def close(self) -> None:
        if self._file is not None:
            self._file.abandon()
            self._file = None
            self._state.give_up()
        elif self._state.given_up:
            # TableCommit was closed first, and this driver made a file afterwards.
            self._state.give_up()


class TableCommit(Operator):
    """Completes the files of all drivers, renames them and outputs one row for each. A write has one TableCommit."""

    def __init__(self, state: TableWriteState) -> None:
        self._state = state
        self._names: list[str] = []
        self._committed = False
        self._output: pa.RecordBatch | None = None
        self._room: Reservation | None = None

    def output_schema(self, schema: Any) -> pa.Schema:
        return WRITTEN

    def add_input(self, batch: pa.RecordBatch) -> None:
        self._names += batch.column(0).to_pylist()

    def finish(self) -> None:
        if not self._names:
            # Without rows there is still one file, which holds the schema.
            self._names = ["part-00000.parquet"]
            self._state.file(self._names[0])
        names = sorted(self._names)
        self._output = describe_files([(self._state.path_of(name), *self._state.complete(name)) for name in names])
        # A query whose files have appeared must not fail because there is no memory for the rows about them.
        self._room = self._state.room_for(self._output)
        self._state.commit(names)
        self._committed = True

    def get_output(self) -> pa.RecordBatch | None:
        output, self._output = self._output, None
        if self._room is not None:
            self._room.give_back()
            self._room = None
        return output

    def close(self) -> None:
        if not self._committed:
            self._state.give_up()


def describe_files(files: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """A batch of the schema WRITTEN, with one row for each file: path, rows, bytes."""
    columns = [pa.array(values, field.type) for values, field in zip(zip(*files, strict=True), WRITTEN, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=WRITTEN)


def check_options(compression: str, row_group_rows: int, where: str) -> None:
    """Raise PlanError for an unknown compression or an invalid number of rows."""
    if compression not in COMPRESSIONS:
        raise PlanError(f"{where}: compression is one of {', '.join(COMPRESSIONS)}, not {compression!r}")
    if not isinstance(row_group_rows, int) or isinstance(row_group_rows, bool) or row_group_rows < 1:
        raise PlanError(f"{where}: row_group_rows must be 1 or more, not {row_group_rows!r}")
