"""DataFrames that are scans of Parquet files are read by the engine, in Spark's sections (SPEC S1)."""

from __future__ import annotations

import datetime
import decimal
import os
import urllib.parse
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from reading import read_splits, read_table

from oracle import assert_same_rows
from qcore.connectors.sources import table_from
from qcore.connectors.view import ViewTable
from qcore.errors import ExecutionError, PlanError
from qcore.spark.exchange import DIRECTORY_CONF, SparkTable
from qcore.spark.scan_plan import file_path
from qcore.spark.source import SparkFileTable, spark_table
from sweeps import every

ROWS = [
    {
        "id": i,
        "small": i % 7 - 3,
        "price": None if i % 11 == 0 else decimal.Decimal(i) / 4,
        "word": None if i % 13 == 0 else ["alpha", "beta", "gamma_1", "delta%"][i % 4],
        "day": datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 50),
        "at": datetime.datetime(2024, 3, 10, 1, 30, tzinfo=datetime.UTC) + datetime.timedelta(minutes=17 * i),
        "ratio": float("nan") if i % 17 == 0 else i / 8,
        "flag": i % 3 == 0,
    }
    for i in range(3000)
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("price", pa.decimal128(9, 2)),
        ("word", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ratio", pa.float64()),
        ("flag", pa.bool_()),
    ]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    pq.write_table(table.slice(0, 1800), folder / "1.parquet", row_group_size=300, store_decimal_as_integer=True)
    pq.write_table(table.slice(1800), folder / "2.parquet", row_group_size=500)
    return folder


def rows_of(df: Any) -> pa.Table:
    """The rows by Spark, as the oracle, for small data."""
    table = df.toArrow()
    columns = []
    for field in table.schema:
        zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
        column = table.column(field.name)
        columns.append(column.cast(pa.timestamp("us", "UTC")) if zoned else column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def rows_read(table: Any) -> pa.Table:
    """The rows that the connector reads, without the filter of a view."""
    if isinstance(table, ViewTable):
        read = read_table(table.table, tuple(dict.fromkeys(table.columns)))
        return pa.Table.from_arrays([read.column(name) for name in table.columns], names=table.schema.names)
    return read_table(table)


def test_plain_scan(spark: Any, folder: Path) -> None:
    """S1."""
    df = spark.read.parquet(str(folder))
    table = table_from(df)
    assert isinstance(table, SparkFileTable)
    assert table.schema.types == SCHEMA.types
    assert table.statistics().row_count == 3000
    assert_same_rows(rows_read(table), rows_of(df))


def test_sections_of_one_file_add_up(spark: Any, folder: Path, conf: Any) -> None:
    """Sections begin within row groups. Spark and qcore assign a row group by its middle byte."""
    conf("spark.sql.files.maxPartitionBytes", "10000")
    df = spark.read.parquet(str(folder))
    table = spark_table(df)
    assert isinstance(table, SparkFileTable)
    assert len(table.file_splits) > 8
    assert_same_rows(read_splits(table, table.file_splits, SCHEMA.names), rows_of(df))
    assert_same_rows(rows_read(table), rows_of(df))


def test_version_two_scan(spark: Any, folder: Path, conf: Any) -> None:
    conf("spark.sql.sources.useV1SourceList", "")
    df = spark.read.parquet(str(folder))
    table = spark_table(df)
    assert isinstance(table, SparkFileTable)
    assert_same_rows(rows_read(table), rows_of(df))
    df = df.where("id < 10").select("word")
    assert isinstance(spark_table(df), ViewTable)
    assert isinstance(spark_table(spark.read.parquet(str(folder)).groupBy().count()), SparkTable)


def test_selection_renaming_and_order(spark: Any, folder: Path) -> None:
    df = spark.read.parquet(str(folder)).selectExpr("word as w", "id", "id as again", "small")
    table = spark_table(df)
    assert isinstance(table, ViewTable)
    assert table.schema.names == ["w", "id", "again", "small"] and table.columns == ("word", "id", "id", "small")
    assert_same_rows(rows_read(table), rows_of(df))


CONDITIONS = [
    "id < 100 and small >= 0",
    "price > 100.25 or price is null",
    "not (word = 'alpha') and word is not null",
    "word in ('alpha', 'beta')",
    "word in ('alpha','b','c','d','e','f','g','h','i','j','k','beta')",
    "word like 'al%' or word like '%ta' or word like '%mm%'",
    "day between date '2024-01-05' and date '2024-01-09'",
    "at < timestamp '2024-03-10 05:00:00'",
    "ratio > 370.0",
    "370.0 <= ratio",
    "ratio < 3.5",
    "flag and small <> 2",
    "not flag",
    "small + 0 = small or true",
    "price < cast(50 as decimal(12, 3))",
    "cast(small as bigint) > 1",
]


@pytest.mark.parametrize("condition", every(3, CONDITIONS))
def test_filters_become_expressions(spark: Any, folder: Path, condition: str, conf: Any) -> None:
    """pyarrow evaluates the translated expression. The rows that pass are those of Spark."""
    # With this setting Spark prunes row groups by statistics without NaN, although NaN > 370 is true in Spark.
    conf("spark.sql.parquet.filterPushdown", "false")
    df = spark.read.parquet(str(folder)).where(condition)
    table = spark_table(df)
    if isinstance(table, SparkFileTable):  # Spark simplified the condition away
        assert_same_rows(rows_read(table), rows_of(df))
        return
    assert isinstance(table, ViewTable), getattr(table, "reason", "")
    read = read_table(table.table, None, table.predicate)
    passing = read.filter(arrow_expression(table.predicate))
    assert_same_rows(passing.select(df.columns), rows_of(df))


def arrow_expression(expr: Any) -> pc.Expression:
    """A qcore expression as an expression of pyarrow."""
    from qcore.expression import tree as e

    if isinstance(expr, e.Column):
        return pc.field(expr.name)
    if isinstance(expr, e.Literal):
        return pc.scalar(pa.scalar(expr.value, expr.type))
    if isinstance(expr, e.Cast):
        return arrow_expression(expr.argument).cast(expr.to)
    if isinstance(expr, e.In):
        return arrow_expression(expr.argument).isin(pa.array([v.value for v in expr.values], expr.values[0].type))
    parts = [arrow_expression(part) for part in expr.arguments]
    if expr.function == "like":
        return pc.match_like(parts[0], expr.arguments[1].value)
    return {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "not": lambda a: ~a,
        "equal": lambda a, b: a == b,
        "not_equal": lambda a, b: a != b,
        "less": lambda a, b: a < b,
        "less_equal": lambda a, b: a <= b,
        "greater": lambda a, b: a > b,
        "greater_equal": lambda a, b: a >= b,
        "is_null": lambda a: a.is_null(),
        "is_not_null": lambda a: a.is_valid(),
    }[expr.function](*parts)


REFUSED = [
    ("groupBy", lambda df: df.groupBy("word").count(), "HashAggregateExec"),
    ("sort", lambda df: df.sort("id"), "SortExec"),
    ("limit", lambda df: df.limit(5), "LimitExec"),
    ("sample", lambda df: df.sample(0.5, seed=1), "SampleExec"),
    ("computed column", lambda df: df.selectExpr("id + 1 as next"), "computed"),
    ("computed condition", lambda df: df.where("id % 5 = 1"), "%"),
    ("join", lambda df: df.alias("a").crossJoin(df.selectExpr("day as other").distinct()), "sources"),
    ("metadata", lambda df: df.select("id", "_metadata.file_size"), "file_size|_metadata"),
    ("floats", lambda df: df.where("ratio >= double('NaN')"), "NaN"),
]


@pytest.mark.parametrize(("what", "make", "reason"), REFUSED, ids=[what for what, _, _ in REFUSED])
def test_more_than_a_scan_is_left_to_spark(spark: Any, folder: Path, what: str, make: Any, reason: str) -> None:
    table = spark_table(make(spark.read.parquet(str(folder))))
    assert isinstance(table, SparkTable)
    assert pc.any(pc.match_substring_regex(pa.array([table.reason]), reason)).as_py(), table.reason


def test_other_sources_are_left_to_spark(spark: Any, folder: Path, tmp_path: Path) -> None:
    assert "RangeExec" in spark_table(spark.range(5)).reason  # type: ignore[attr-defined]
    spark.range(5).write.mode("overwrite").json(str(tmp_path / "j"))
    assert "JsonFileFormat" in spark_table(spark.read.json(str(tmp_path / "j"))).reason  # type: ignore[attr-defined]
    nested = spark.range(3).selectExpr("struct(id) as s")
    nested.write.parquet(str(tmp_path / "n"))
    assert "struct" in spark_table(spark.read.parquet(str(tmp_path / "n"))).reason  # type: ignore[attr-defined]


@pytest.mark.sweep
def test_collations_of_files(spark: Any, tmp_path: Path, conf: Any) -> None:
    """An error for a column that is read. Spark evaluates a condition with such a column."""
    conf(DIRECTORY_CONF, str(tmp_path))
    rows = spark.sql("select w collate utf8_lcase as s, w as plain from values ('a'), ('A'), ('b') as t(w)")
    rows.write.parquet(str(tmp_path / "t"))
    read = spark.read.parquet(str(tmp_path / "t"))
    for df in (read, read.select("s"), read.where("s = 'a'")):
        with pytest.raises(PlanError, match="column 's' has the Spark collation UTF8_LCASE"):
            spark_table(df)
    assert isinstance(spark_table(read.select("plain")), SparkFileTable)
    conditions = ("s = 'a'", "plain collate utf8_lcase = 'a'", "plain = 'A' collate utf8_lcase", "s like 'A%'",
                  "s in ('A', 'c')", "startswith(plain, 'A' collate utf8_lcase)", "s < 'b'")  # fmt: skip
    for condition in conditions:
        df = read.where(condition).select("plain")
        table = spark_table(df)
        assert isinstance(table, SparkTable), condition
        assert sorted(read_table(table)["plain"].to_pylist()) == ["A", "a"], condition
    bytes_ = spark_table(read.selectExpr("s collate utf8_binary as s").where("s = 'a'"))
    assert read_table(bytes_)["s"].to_pylist() == ["a"]


def test_partition_columns_and_odd_names(spark: Any, tmp_path: Path) -> None:
    """Paths are URL-encoded, and must be decoded exactly once."""
    values = ["a%20b /x=1", "plain", "ü", None]
    df = spark.createDataFrame([(i, values[i % 4], i % 2) for i in range(40)], "id long, p string, q int")
    df.write.partitionBy("p", "q").parquet(str(tmp_path / "odd dir%41"))
    read = spark.read.parquet(str(tmp_path / "odd dir%41"))
    table = spark_table(read)
    assert isinstance(table, SparkFileTable)
    assert_same_rows(rows_read(table), rows_of(read))
    pruned = read.where("p = 'plain' and q = 1").select("id")
    view = spark_table(pruned)
    assert {dict(s.partition_values)["p"] for s in view.table.file_splits} == {"plain"}  # type: ignore[attr-defined]


@pytest.mark.sweep
def test_partition_values_like_the_text_around_them(spark: Any, tmp_path: Path) -> None:
    """Values of folders contain parts of the text from which paths and values are parsed."""
    values = ["x,5", "null", None, "a], path: b", "5], path: file:/c, range: 0-9, partition values: [7", "plain", "007"]
    rows = [(i, value, i % 3 or None) for i, value in enumerate(values * 3)]
    df = spark.createDataFrame(rows, "id long, p string, q int")
    for number, folders in enumerate((("p",), ("p", "q"), ("q", "p"), ("q",))):
        df.write.partitionBy(*folders).parquet(str(tmp_path / str(number)))
        read = spark.read.schema(df.schema).parquet(str(tmp_path / str(number)))
        table = spark_table(read)
        assert isinstance(table, SparkFileTable)
        assert_same_rows(rows_read(table), rows_of(read))


@pytest.mark.sweep
def test_values_of_folders_take_few_calls(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A py4j call takes 0.1 to 0.3 ms. There must be fewer calls than folders."""
    from py4j.java_gateway import JavaMember

    called, n_calls = JavaMember.__call__, [0]

    def count(self: Any, *arguments: Any) -> Any:
        n_calls[0] += 1
        return called(self, *arguments)

    found = []
    for n_folders in (5, 60):
        path = str(tmp_path / str(n_folders))
        spark.range(n_folders).selectExpr("id", "concat('v', id) as p", "id as q").write.partitionBy("p", "q").parquet(
            path
        )
        read = spark.read.parquet(path)
        with monkeypatch.context() as patch:
            patch.setattr(JavaMember, "__call__", count)
            n_calls[0] = 0
            assert isinstance(spark_table(read), SparkFileTable)
            found.append(n_calls[0])
    assert found[1] - found[0] < 55


def test_partition_values_of_every_type(spark: Any, tmp_path: Path) -> None:
    df = spark.range(4).selectExpr(
        "id",
        "date_add(date '2020-02-27', cast(id as int)) as d",
        "cast(id as decimal(10,2)) as c",
        "timestamp '2020-01-01 12:34:56.5' as t",
        "id = 2 as b",
        "id * 3000000000 as l",
    )
    df.write.partitionBy("d", "c", "t", "b", "l").parquet(str(tmp_path / "p"))
    read = spark.read.schema(df.schema).parquet(str(tmp_path / "p"))
    table = spark_table(read)
    assert isinstance(table, SparkFileTable)
    assert_same_rows(rows_read(table), rows_of(read))


def test_two_schemas_one_table(spark: Any, tmp_path: Path) -> None:
    """Files with other cases, orders and widths of columns, missing columns, and both kinds of timestamps."""
    at = datetime.datetime(2020, 6, 1, 12, 0, tzinfo=datetime.UTC)
    old = pa.table(
        {
            "ID": pa.array([1, 2], pa.int32()),
            "Price": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(9, 2)),
            "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        }
    )
    new = pa.table(
        {
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "extra": ["x"],
            "id": pa.array([3], pa.int64()),
            "price": pa.array([decimal.Decimal("3.50")], pa.decimal128(12, 2)),
        }
    )
    (tmp_path / "t").mkdir()
    pq.write_table(old, tmp_path / "t" / "old.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(new, tmp_path / "t" / "new.parquet", store_decimal_as_integer=True)
    read = spark.read.schema("id long, price decimal(12,2), extra string, at timestamp").parquet(str(tmp_path / "t"))
    table = spark_table(read)
    assert isinstance(table, SparkFileTable)
    assert_same_rows(rows_read(table), rows_of(read))


ANCIENT = """
select id, date_add(date '1500-01-01', cast(id * 20000 as int)) as day,
       timestamp '1500-01-01 00:00:00' + make_interval(0, 0, 0, cast(id * 20000 as int)) as at
from range(20)
"""


@pytest.mark.parametrize("stored", ["TIMESTAMP_MICROS", "INT96"])
def test_files_in_the_legacy_calendar_are_left_to_spark(spark: Any, tmp_path: Path, conf: Any, stored: str) -> None:
    conf(DIRECTORY_CONF, str(tmp_path))
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    conf("spark.sql.parquet.int96RebaseModeInWrite", "LEGACY")
    conf("spark.sql.parquet.outputTimestampType", stored)
    spark.sql(ANCIENT).write.parquet(str(tmp_path / "t"))
    read = spark.read.parquet(str(tmp_path / "t"))
    for column in ("day", "at"):
        table = spark_table(read.select("id", column))
        assert isinstance(table, SparkTable), column
        assert f"the column {column} of {tmp_path}" in table.reason and "legacy calendar" in table.reason
        assert_same_rows(read_table(table), rows_of(read.select("id", column)))
    assert isinstance(spark_table(read.select("id")), SparkFileTable)


def test_which_files_are_in_the_legacy_calendar(spark: Any, tmp_path: Path) -> None:
    """The footer names the version of Spark. Without a version the mode of Spark's session decides."""
    rows = pa.table({
        "day": pa.array([datetime.date(1500, 1, 1)]), "at": pa.array([0], pa.timestamp("us", "UTC")),
        "local": pa.array([0], pa.timestamp("us")), "id": [1],
    })  # fmt: skip

    def tables(version: str | None, int96: bool = False, **options: str) -> dict[str, Any]:
        said = {"org.apache.spark.version": version} if version else {}
        path = tmp_path / f"{version}-{int96}.parquet"
        pq.write_table(rows.replace_schema_metadata(said), path, use_deprecated_int96_timestamps=int96)
        declared = "day date, AT timestamp, local timestamp_ntz, id long"
        read = spark.read.schema(declared).options(**options).parquet(str(path))
        return {name: isinstance(spark_table(read.select(name)), SparkTable) for name in ("day", "at", "local", "id")}

    none = {"day": False, "at": False, "local": False, "id": False}
    both = {**none, "day": True, "at": True}
    assert tables("2.4.8") == both
    assert tables("3.0.1") == none
    assert tables("10.0.0") == none
    assert {**tables("3.0.1", int96=True), "local": False} == {**none, "at": True}
    assert tables(None) == none
    assert tables(None, datetimeRebaseMode="legacy") == both
    assert tables("3.2.0", datetimeRebaseMode="legacy") == none


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("partitioned", [False, True])
def test_files_that_changed_are_named(spark: Any, tmp_path: Path, conf: Any, version: int, partitioned: bool) -> None:
    if version == 2:
        conf("spark.sql.sources.useV1SourceList", "")
    folder = tmp_path / "t" / "p=1" if partitioned else tmp_path / "t"
    folder.mkdir(parents=True)
    file = folder / "1.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), file)
    table = spark_table(spark.read.parquet(str(tmp_path / "t")))
    assert read_table(table)["a"].to_pylist() == [1, 2, 3]
    split = next(iter(table.splits(("a",), None, 1)))
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000))
    with pytest.raises(ExecutionError, match=r"1\.parquet has changed .* it was last changed 0\.00\d s later"):
        table.open(split, ("a",), None, 100)
    with pytest.raises(ExecutionError, match="has changed"):
        list(table.splits(("a",), None, 1))
    with pytest.raises(PlanError, match="has changed"):
        table.statistics()
    pq.write_table(pa.table({"a": range(1000)}), file)
    with pytest.raises(ExecutionError, match=rf"it had {before.st_size} bytes and has {file.stat().st_size}"):
        table.open(split, ("a",), None, 100)
    file.unlink()
    with pytest.raises(ExecutionError, match=r"no such file: .*1\.parquet"):
        table.open(split, ("a",), None, 100)


def test_case_sensitive_sessions(spark: Any, tmp_path: Path, conf: Any) -> None:
    conf("spark.sql.caseSensitive", "true")
    pq.write_table(pa.table({"A": [1], "a": [2]}), tmp_path / "t.parquet")
    read = spark.read.schema("a long").parquet(str(tmp_path / "t.parquet"))
    assert rows_read(spark_table(read)).to_pydict() == {"a": [2]}


def test_empty_result_of_a_scan(spark: Any, folder: Path) -> None:
    table = spark_table(spark.read.parquet(str(folder)).where("id < -5"))
    assert isinstance(table, ViewTable)
    assert list(table.table.splits(("id",), table.predicate, 2)) == []


def test_a_registered_table_and_sql(spark: Any, folder: Path) -> None:
    spark.read.parquet(str(folder)).createOrReplaceTempView("rows_view")
    table = spark_table(spark.sql("select id, word from rows_view where day > '2024-02-01'"))
    assert isinstance(table, ViewTable)


def test_paths() -> None:
    assert file_path("file:///a%20b/c%2541") == "/a b/c%41"
    assert file_path("file:/a") == "/a"
    assert file_path("s3a://bucket/a%20b") == "s3://bucket/a%20b"
    assert file_path("hdfs://host/a") == "hdfs://host/a"
    assert urllib.parse.unquote("%2541") == "%41"
