"""Make a Table of any object that a user may pass as a data source."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment, logical_schema, require_same, unify_schemas
from qcore.connectors.arrow import ArrowTable, DatasetTable, StreamTable
from qcore.connectors.base import Table, check_policy, under_policy
from qcore.connectors.files import FileTable
from qcore.connectors.soundness import SoundColumns, is_trusted
from qcore.connectors.storage import FoundFile, Location
from qcore.errors import PlanError
from qcore_ext.data.checked_stream import CheckedBatch, CheckedStream

# Packages whose frames a module of qcore makes tables of, imported when needed: package -> (module, function).
FOREIGN_FRAMES = {"pyspark": ("qcore.spark.source", "spark_table")}
# Packages with frames in memory. Their frames are converted to Arrow tables, so that they have splits and a row count.
MEMORY_FRAMES = frozenset({"pandas", "polars", "pyarrow", "modin", "cudf", "arro3", "nanoarrow"})
SUPPORTED = (
    "a path, glob or list of files, Arrow data, a pandas or polars frame, a pyarrow Dataset, or a Spark DataFrame"
)


def table_from(source: Any, on_schema_change: str | None = None, trusted: bool = False) -> Table:
    """Make a Table of a source.

    Parameters
    ----------
    source : object
        A path, URL, glob, folder or list of files; a pair of any of those and a pyarrow or fsspec filesystem; a pyarrow
        Table, RecordBatch, RecordBatchReader or Dataset; an object with `__arrow_c_stream__` or `__arrow_c_array__`; a
        list of pyarrow RecordBatches; a Spark DataFrame; or a Table, which is returned unchanged.
    on_schema_change : {'evolve', 'error'}, optional
        For files, or batches of a list, with different schemas. 'evolve' (the default): columns are matched by name,
        types are widened (see qcore_ext.data.widening), and a missing column is null. 'error': raise SchemaChangeError.
    trusted : bool
        Read Arrow data in memory and Arrow streams without checking them.

    Raises
    ------
    PlanError
        There is no such file, it is damaged, or the object is of no supported kind.
    SchemaChangeError
        Schemas differ under 'error', or types do not widen into one.

    Examples
    --------
    >>> table_from(pa.table({"a": [1, 2]})).statistics().row_count
    2
    """
    check_policy(on_schema_change)
    if isinstance(source, (str, os.PathLike)):
        return FileTable(source, on_schema_change=on_schema_change or "evolve")
    if isinstance(source, pa.Table):
        return ArrowTable(source, trusted)
    if isinstance(source, pa.RecordBatch):
        return ArrowTable(pa.Table.from_batches([source]), trusted)
    if "pyarrow.dataset" in sys.modules and isinstance(source, pa.dataset.Dataset):
        return _dataset_table(source)
    if isinstance(source, (list, tuple)):
        return _sequence_table(source, on_schema_change or "evolve", trusted)
    packages = [kind.__module__.partition(".")[0] for kind in type(source).__mro__]
    for package, (module, function) in FOREIGN_FRAMES.items():
        if package in packages:
            return getattr(importlib.import_module(module), function)(source)
    if hasattr(source, "__arrow_c_stream__"):
        if packages[0] not in MEMORY_FRAMES or hasattr(source, "__next__"):
            return StreamTable(source, trusted)
        return ArrowTable(table_of_stream(source, trusted), trusted)
    if hasattr(source, "__arrow_c_array__"):
        batch = pa.record_batch(source if trusted else CheckedBatch(source))
        return ArrowTable(pa.Table.from_batches([batch]), trusted)
    if isinstance(source, Table):
        return under_policy(source, on_schema_change)
    raise PlanError(f"a {type(source).__module__}.{type(source).__qualname__} is not a table source; use {SUPPORTED}")


def table_of_stream(source: Any, trusted: bool = False) -> pa.Table:
    """Read all rows of an object with `__arrow_c_stream__`, checked before pyarrow reads them.

    Objects of pyarrow, and of pandas, which uses pyarrow, are not checked here: pyarrow knows the sizes of their
    buffers, and ArrowTable checks them.
    """
    made_by_pyarrow = any(kind.__module__.partition(".")[0] in ("pyarrow", "pandas") for kind in type(source).__mro__)
    return pa.table(source if trusted or made_by_pyarrow or is_trusted(source) else CheckedStream(source))


def _sequence_table(source: list[Any] | tuple[Any, ...], on_schema_change: str, trusted: bool) -> Table:
    if not source:
        raise PlanError(f"an empty {type(source).__name__} is not a table source; use {SUPPORTED}")
    if all(isinstance(part, (str, os.PathLike)) for part in source):
        return FileTable(source, on_schema_change=on_schema_change)
    if all(isinstance(part, (pa.RecordBatch, pa.Table)) for part in source):
        return ArrowTable(_one_table(source, on_schema_change, trusted), trusted)
    if len(source) == 2 and isinstance(source[0], (str, os.PathLike, list, tuple)):
        return FileTable(source[0], source[1], on_schema_change=on_schema_change)
    kinds = ", ".join(sorted({type(part).__name__ for part in source}))
    raise PlanError(f"a {type(source).__name__} of {kinds} is not a table source; use {SUPPORTED}")


def _one_table(parts: list[Any] | tuple[Any, ...], on_schema_change: str, trusted: bool) -> pa.Table:
    """Concatenate RecordBatches and Tables under the union of their schemas."""
    tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
    if any(not table.schema.equals(tables[0].schema) for table in tables[1:]):
        for table in () if trusted else tables:
            SoundColumns.of(table).require(table, table.column_names, 0, table.num_rows)
        named = [(f"batch {i}", logical_schema(table.schema, f"batch {i}")) for i, table in enumerate(tables)]
        schema = require_same(named) if on_schema_change == "error" else unify_schemas(named)
        tables = [
            Alignment(table.schema, list(schema), where, absent_is_null=True).table(table)
            for (where, _), table in zip(named, tables, strict=True)
        ]
        tables = [table.cast(schema) for table in tables]
    return pa.concat_tables(tables)


def _dataset_table(dataset: pa.dataset.Dataset) -> Table:
    """Parquet files without a filter are read by qcore's reader, everything else by the dataset's own scanner."""
    import pyarrow.dataset as pads  # imports pandas, so only programs that use it already do

    filtered = bool(getattr(dataset, "_scan_options", None))
    if filtered or not isinstance(dataset, pads.FileSystemDataset):
        return DatasetTable(dataset)
    if not isinstance(dataset.format, pads.ParquetFileFormat) or not dataset.files:
        return DatasetTable(dataset)
    local = isinstance(dataset.filesystem, pa.fs.LocalFileSystem)
    found = []
    for fragment in dataset.get_fragments():
        values = pads.get_partition_keys(fragment.partition_expression)
        texts = tuple((name, None if value is None else str(value)) for name, value in values.items())
        found.append(FoundFile(Location(fragment.path, None if local else dataset.filesystem), texts))
    return FileTable(found, schema=dataset.schema)
