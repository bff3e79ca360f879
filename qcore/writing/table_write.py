"""Write a query's rows to Parquet files, which appear when all are complete.

Each driver's TableWrite writes a file of its own in a hidden folder and outputs one row that describes it. TableCommit,
after all of them, renames the files and outputs these rows. Both are operators in Python, because pyarrow does their
work, one call a batch.
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
from qcore.writing.file_sets import StagingFolder, match_file_schema, replace_file, resolve_target, writing
from qcore_ext.ground.fault import fault_site

pq = late_module("pyarrow.parquet")
# The output of a write: one row a file.
WRITTEN = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
ROW_GROUP_ROWS = 1 << 17
COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


class ParquetRows:
    """Writes batches to a Parquet file, in row groups of `row_group_rows` rows."""

    def __init__(
        self, target: str | IO[bytes], schema: pa.Schema, compression: str, row_group_rows: int = ROW_GROUP_ROWS
    ) -> None:
        self._schema = storable(schema)
        self._row_group_rows = row_group_rows
        self._held: list[pa.RecordBatch] = []
        self._n_held = 0
        fault_site("write_open")
        self._writer = pq.ParquetWriter(target, self._schema, compression=compression)
        #: Rows taken so far.
        self.n_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._held.append(batch)
        self._n_held += batch.num_rows
        self.n_rows += batch.num_rows
        if self._n_held >= self._row_group_rows:
            self._flush()

    def _flush(self) -> None:
        if self._n_held:
            rows = pa.Table.from_batches([_convert(batch, self._schema) for batch in self._held])
            fault_site("write_rows")
            self._writer.write_table(rows, row_group_size=self._row_group_rows)
        self._held, self._n_held = [], 0

    def close(self) -> None:
        """Write the remaining rows and the footer."""
        self._flush()
        fault_site("write_close")
        self._writer.close()

    def abandon(self) -> None:
        """Close the file without the remaining rows: it is going to be removed."""
        self._held = []
        self._writer.close()


def storable(schema: pa.Schema) -> pa.Schema:
    """The schema with plain strings and lists in place of views, which every version of pyarrow can write."""
    return pa.schema([field.with_type(_storable_type(field.type)) for field in schema])


def _convert(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        with_type(column, field.type) if pa.types.is_nested(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
    """

    def __init__(self, path: str, schema: pa.Schema, single: bool, compression: str, row_group_rows: int) -> None:
        self.path = path
        self.single = single
        self.schema = schema
        self._options = (compression, row_group_rows)
        self._staging = StagingFolder(resolve_target(path, "a write of one file") if single else path)
        # Removes the folder also if the query ends before all of its operators have begun.
        weakref.finalize(self, self._staging.remove)
        self.given_up = False

    def open(self, name: str) -> tuple[str, ParquetRows]:
        """Open a driver's file; return its temporary path and its writer."""
        path = self._staging.file(name)
        with writing(self.path):
            return path, ParquetRows(path, self.schema, *self._options)

    def commit(self, names: Sequence[str]) -> list[str]:
        """Rename the files, which are all complete now, and return their paths."""
        if not self.single:
            self._staging.become_target()
            return [os.path.join(self.path, name) for name in names]
        with writing(self.path):
            replace_file(self._staging.file(names[0]), self._staging.target)
        self._staging.remove()
        return [self.path]

    def give_up(self) -> None:
        """Remove the files: the write failed or was stopped. Drivers that still write remove theirs at close."""
        self.given_up = True
        self._staging.remove()


class TableWrite(Operator):
    """Writes the rows of one driver to a file and outputs one row about it. Without rows there is no file."""

    def __init__(self, state: TableWriteState, driver: int) -> None:
        self._state = state
        self._name = f"part-{driver:05d}.parquet"
        self._path = ""
        self._file: ParquetRows | None = None
        self._output: pa.RecordBatch | None = None

    def output_schema(self, schema: Any) -> pa.Schema:
        return WRITTEN

    def bind(self, schema: pa.Schema) -> None:
        # Raises before a row with another schema is written.
        match_file_schema(pa.RecordBatch.from_pylist([], schema), self._state.schema, self._state.path)

    def add_input(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        batch = match_file_schema(batch, self._state.schema, self._state.path)
        if self._file is None:
            self._path, self._file = self._state.open(self._name)
        with writing(self._state.path):
            self._file.write(batch)

    def finish(self) -> None:
        if self._file is not None:
            with writing(self._state.path):
                self._file.close()
                n_bytes = os.path.getsize(self._path)
            self._output = describe_files([(self._name, self._file.n_rows, n_bytes)])
            self._file = None

    def get_output(self) -> pa.RecordBatch | None:
        output, self._output = self._output, None
        return output

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.abandon()
            except (OSError, pa.ArrowException):
                pass  # the error that stopped the query matters more, and the file is removed anyway
            finally:
                self._file = None
                self._state.give_up()
        elif self._state.given_up:
            # TableCommit was closed first, and this driver made a file afterwards.
            self._state.give_up()


class TableCommit(Operator):
    """Renames the files of all drivers and outputs one row for each. A write has one TableCommit."""

    def __init__(self, state: TableWriteState) -> None:
        self._state = state
        self._files: list[tuple[str, int, int]] = []
        self._committed = False
        self._output: pa.RecordBatch | None = None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self._files += [(row["path"], row["rows"], row["bytes"]) for row in batch.to_pylist()]

    def finish(self) -> None:
        if not self._files:
            # Without rows there is still one file, which holds the schema.
            name = "part-00000.parquet"
            path, file = self._state.open(name)
            with writing(self._state.path):
                file.close()
                self._files = [(name, 0, os.path.getsize(path))]
        files = sorted(self._files)
        paths = self._state.commit([name for name, _, _ in files])
        self._committed = True
        self._output = describe_files([(path, *rest) for path, (_, *rest) in zip(paths, files, strict=True)])

    def get_output(self) -> pa.RecordBatch | None:
        output, self._output = self._output, None
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
