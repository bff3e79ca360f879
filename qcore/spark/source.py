"""Spark DataFrames as tables. A scan of Parquet files is read from the files, anything else from Spark's partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qcore.connectors.base import BatchStream, FileSplit, Split, Table, TableStatistics, select_fields
from qcore.connectors.files import open_file
from qcore.connectors.parquet.footer import FOOTERS, ParquetFooter
from qcore.connectors.parquet.statistics import FooterStatistics
from qcore.connectors.parquet.table import SPLIT_ROWS, check_section, constants_may_pass, split_file
from qcore.connectors.storage import locate
from qcore.connectors.view import ViewTable
from qcore.errors import ExecutionError, PlanError, QcoreError
from qcore.expression.tree import Expr
from qcore.spark.exchange import SparkTable, session_zone
from qcore.spark.predicates import Untranslated
from qcore.spark.scan_plan import FileScan, file_scan
from qcore.spark.source_files import change_of
from qcore.spark.spark_job import is_connect
from qcore.spark.types import arrow_schema


class SparkFileTable:
    """The file sections that Spark planned, read by qcore's Parquet reader with Spark's rules for columns."""

    def __init__(self, scan: FileScan, time_zone: str | None = None) -> None:
        self.schema = scan.schema
        #: The time zone of the Spark session. It is the default of a qcore session in Spark's dialect.
        self.time_zone = time_zone
        #: Spark's file partitions as sections of files.
        self.file_splits = scan.splits
        self._stamps = scan.stamps
        self._ignore_case = scan.ignore_case

    def statistics(self) -> TableStatistics:
        """Return the number of rows and statistics of columns, from the footers."""
        rows = 0
        files = {}
        for split in self.file_splits:
            footer = self._footer(split, PlanError)
            files[split.path, split.partition_values] = footer.location
            rows += sum(footer.group_rows[group] for group in footer.groups_in(split.start, split.length))
        listed = [(location, constants) for (_, constants), location in files.items()]
        return TableStatistics(rows, FooterStatistics(self.schema, listed, self._ignore_case))

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List Spark's sections, cut at row groups. Row groups in which no row can pass `filter` are left out."""
        select_fields(self.schema, columns, "the Spark DataFrame")
        for split in self.file_splits:
            if not constants_may_pass(dict(split.partition_values), self.schema, filter):
                continue
            footer = self._footer(split, ExecutionError)
            check_section(split, footer.size)
            groups = footer.groups_in(split.start, split.length)
            yield from split_file(footer, split.partition_values, split.path, filter, SPLIT_ROWS, groups)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read the row groups whose middle byte is in the section."""
        if not isinstance(split, FileSplit):
            raise ExecutionError(f"a Spark file scan cannot read a {type(split).__name__}: add FileSplits")
        wanted = select_fields(self.schema, columns, "the Spark DataFrame")
        self._footer(split, ExecutionError)
        return open_file(
            split, locate(split.path), wanted, filter, batch_rows, absent_is_null=True, ignore_case=self._ignore_case
        )

    def _footer(self, split: FileSplit, error: type[QcoreError]) -> ParquetFooter:
        """Return the footer of a split's file. Raise `error` if the file changed since Spark planned the scan."""
        try:
            footer = FOOTERS.get(locate(split.path))
        except PlanError as lost:
            raise error(str(lost)) from lost
        change = change_of(footer, self._stamps.get(split.path))
        if change is not None:
            raise error(
                f"{split.path} has changed since Spark planned to read it: {change}. Make the DataFrame again; for a "
                "table of Spark's catalog call spark.catalog.refreshTable() first"
            )
        return footer


def spark_table(df: Any) -> Table:
    """Make a table of a Spark DataFrame, classic or Connect.

    If the DataFrame only reads, filters and selects columns of Parquet files, qcore reads these files, in the sections
    that Spark planned. Otherwise Spark computes the DataFrame, and each partition is read when its task has finished.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A DataFrame that is not streaming.

    Raises
    ------
    PlanError
        The DataFrame is streaming, has a type without an Arrow type, or compares strings by a collation.
    """
    if not hasattr(df, "mapInArrow"):
        raise PlanError(f"a {type(df).__module__}.{type(df).__name__} is not a Spark DataFrame")
    if df.isStreaming:
        raise PlanError("a streaming Spark DataFrame has no end: write it to files, and read these")
    schema = arrow_schema(df.schema.jsonValue())
    if is_connect(df):
        return SparkTable(df, schema, "Spark Connect does not show its plans")
    try:
        scan = file_scan(df)
    except (Untranslated, OverflowError) as reason:
        return SparkTable(df, schema, str(reason))
    return _view(SparkFileTable(scan, session_zone(df)), scan, schema)


def _view(table: SparkFileTable, scan: FileScan, schema: pa.Schema) -> Table:
    if scan.predicate is None and scan.columns == tuple(schema.names) == tuple(scan.schema.names):
        return table
    return ViewTable(schema, table, scan.columns, scan.predicate)
