"""Tasks of Spark write the partitions of a DataFrame as Arrow files, which are read one by one (SPEC S1)."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reading import read_split, read_table
from spark_rows import DECIMALS, EVERY_TYPE

from oracle import assert_same_rows
from qcore.connectors.sources import table_from
from qcore.errors import ExecutionError, PlanError
from qcore.spark.exchange import (
    DIRECTORY_CONF,
    Exchange,
    PartitionSplit,
    PartitionSplits,
    SparkTable,
    carried_column,
    exchange_folder,
)
from qcore.spark.types import arrow_schema, arrow_type

IDS = pa.schema([("id", pa.int64())])


@pytest.fixture
def exchange_dir(tmp_path: Path, conf: Any) -> Path:
    conf(DIRECTORY_CONF, str(tmp_path))
    return tmp_path


def test_every_type(spark: Any, exchange_dir: Path) -> None:
    df = spark.sql(EVERY_TYPE)
    table = table_from(df)
    assert isinstance(table, SparkTable)
    read = read_table(table)
    expected = df.toArrow()
    for name in df.columns:
        got, wanted = read.column(name), expected.column(name)
        if name == "at":
            wanted = wanted.cast(pa.timestamp("us", "UTC"))
        assert sorted(map(str, got.to_pylist())) == sorted(map(str, wanted.to_pylist())), name
    assert read.schema.field("at").type == pa.timestamp("us", "UTC")


def test_aggregates_and_wanted_columns_only(spark: Any, exchange_dir: Path) -> None:
    df = spark.range(10_000).selectExpr("id % 10 as k", "id as v", "uuid() as noise").groupBy("k").sum("v")
    table = table_from(df)
    assert_same_rows(read_table(table), df.toArrow())
    assert sorted(read_table(table, ("k",)).column("k").to_pylist()) == list(range(10))
    splits = list(table.splits((), None, 2))
    assert sum(read_split(table, split, ()).num_rows for split in splits) == 10


def test_decimals_are_carried_as_integers(spark: Any, exchange_dir: Path) -> None:
    df = spark.sql(DECIMALS)
    table = table_from(spark.createDataFrame(df.collect(), df.schema).repartition(3))
    assert isinstance(table, SparkTable)
    read = read_table(table)
    assert read.schema.types == arrow_schema(df.schema.jsonValue()).types
    assert_same_rows(read, df.toArrow())
    types = {name: carried_column(df, name, table.schema.field(name).type) for name in df.columns}
    carried = dict(df.select(*(column.alias(name) for name, column in types.items())).dtypes)
    assert carried.pop("longer`s") == "decimal(19,1)"
    assert set(carried.values()) == {"bigint"}


def test_a_decimal_stays_one_where_spark_has_no_such_class(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    df = spark.range(3).selectExpr("cast(id as decimal(9,2)) as d")
    column = df["d"]
    monkeypatch.setattr(type(column), "_jc", property(lambda self: "no column"), raising=False)
    monkeypatch.setattr(type(df), "__getitem__", lambda self, name: column)
    assert carried_column(df, "d", pa.decimal128(9, 2)) is column


def test_odd_column_names(spark: Any, exchange_dir: Path) -> None:
    df = spark.range(3).selectExpr("id as `a.b`", "id + 1 as `c d`", "id * 2 as `e``f`", "id as `select`")
    assert_same_rows(read_table(table_from(df)), df.toArrow(), check_names=True)


@pytest.mark.sweep
def test_partitions_come_while_the_job_runs(spark: Any, exchange_dir: Path) -> None:
    """S1: two cores, four partitions, of which the later ones are slow. The first is read long before the job ends."""
    df = spark.range(0, 4, 1, 4).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 1000L * id) as slept")
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # start a Python worker
    table = table_from(df.select("id", "slept"))
    started = time.monotonic()
    moments = []
    for split in table.splits(("id", "slept"), None, 2):
        moments.append(time.monotonic() - started)
        assert read_split(table, split, ("id", "slept")).num_rows == 1
    assert len(moments) == 4 and moments[-1] - moments[0] > 1.5


def test_files_go_as_they_are_read_and_the_folder_at_the_end(spark: Any, exchange_dir: Path) -> None:
    table = table_from(spark.range(0, 1000, 1, 3).selectExpr("id + 0 as id"))
    splits = list(table.splits(("id",), None, 2))
    folder = Path(splits[0].path).parent  # type: ignore[attr-defined]
    assert folder.parent == exchange_dir and len(list(folder.iterdir())) == 3
    assert oct(folder.stat().st_mode)[-3:] == "700"
    for left, split in zip((2, 1, 0), splits, strict=True):
        stream = table.open(split, ("id",), None, 100)
        assert len(list(folder.iterdir())) == left
        assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows > 300
        stream.close()
    del splits, split, stream
    gc.collect()
    assert not folder.exists()


def test_empty_partitions_and_empty_results(spark: Any, exchange_dir: Path) -> None:
    df = spark.range(0, 2, 1, 5).selectExpr("id + 0 as id")
    assert sorted(read_table(table_from(df)).column("id").to_pylist()) == [0, 1]
    assert read_table(table_from(df.where("id + 0 > 5"))).num_rows == 0


def test_a_failing_task_is_named(spark: Any, exchange_dir: Path) -> None:
    df = spark.range(10).selectExpr("assert_true(id < 5, 'too large for us') as x", "id")
    with pytest.raises(ExecutionError, match=r"the Spark job failed: .*too large for us"):
        read_table(table_from(df))
    gc.collect()
    assert read_table(table_from(spark.range(3).selectExpr("id + 1 as id"))).num_rows == 3, "the next query runs"


def test_stopping_early_cancels_the_job(spark: Any, exchange_dir: Path) -> None:
    df = spark.range(0, 40, 1, 40).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 200L * id) as slept")
    splits = iter(table_from(df).splits(("slept",), None, 2))
    first = next(splits)
    started = time.monotonic()
    splits.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 40, "the job's 78 s of sleeping partitions are not waited for"
    deadline = time.monotonic() + 60
    while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert "qcore-spark-job" not in {thread.name for thread in threading.enumerate()}
    folder = Path(first.path).parent  # type: ignore[attr-defined]
    del first, splits
    gc.collect()
    assert not folder.exists()


def test_a_file_without_the_rows_its_task_reported_is_refused(spark: Any, exchange_dir: Path) -> None:
    """A shared folder may show a part of a file, or not show it at all."""
    table = table_from(spark.range(0, 1000, 1, 3).selectExpr("id + 0 as id"))
    cut, other, gone = list(table.splits(("id",), None, 2))
    rows = pa.table({"id": [1]})
    os.truncate(cut.path, 100)  # type: ignore[attr-defined]
    with pytest.raises(ExecutionError, match="has 100 bytes, and its task wrote"):
        table.open(cut, ("id",), None, 100)
    with pa.ipc.new_file(other.path, rows.schema) as writer:  # type: ignore[attr-defined]
        writer.write_table(rows)
    shorter = replace(other, n_bytes=os.path.getsize(other.path))  # type: ignore[attr-defined, type-var]
    with pytest.raises(ExecutionError, match="has 1 rows, and its task wrote 33"):
        table.open(shorter, ("id",), None, 100)
    os.unlink(gone.path)  # type: ignore[attr-defined]
    with pytest.raises(ExecutionError, match=r"does not exist here: set spark\.qcore\.exchange\.dir"):
        table.open(gone, ("id",), None, 100)


def test_files_read_early_are_those_of_the_result(spark: Any, exchange_dir: Path) -> None:
    """Reports that arrive while the job runs are compared with the job's result."""
    exchange = Exchange(spark.range(0, 4, 1, 2), str(exchange_dir), IDS)
    splits = PartitionSplits(exchange)
    assert exchange.wait(60)
    written = {file.partition: file for file in exchange.list_reported()}
    exchange.check(written)
    for wrong in ({}, {**written, 1: written[1]._replace(name="part-000001-x.arrow")}):
        with pytest.raises(ExecutionError, match="run the query again"):
            exchange.check(wrong)
    splits.close()


def test_executors_elsewhere_need_a_shared_folder(spark: Any, conf: Any, monkeypatch: pytest.MonkeyPatch) -> None:

    class Conf:
        def __init__(self, values: dict[str, str]) -> None:
            self.values = values

        def get(self, name: str, default: Any) -> Any:
            return self.values.get(name, default)

    class Session:
        def __init__(self, **values: str) -> None:
            self.conf = Conf({name.replace("_", "."): value for name, value in values.items()})

    with pytest.raises(PlanError, match=r"set spark\.qcore\.exchange\.dir"):
        exchange_folder(Session(spark_master="spark://host:7077"))
    with pytest.raises(PlanError, match="must be an absolute path"):
        exchange_folder(Session(spark_master="local[2]", spark_qcore_exchange_dir="tmp"))
    assert exchange_folder(Session(spark_master="local[2]", spark_qcore_exchange_dir="/x")) == "/x"


def test_streaming_frames_are_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(PlanError, match="streaming Spark DataFrame has no end"):
        table_from(stream)


def test_types_without_an_arrow_type_are_named(spark: Any) -> None:
    with pytest.raises(PlanError, match="column 'gap' has the Spark type interval year to month"):
        table_from(spark.sql("select interval '1-2' year to month as gap"))
    with pytest.raises(PlanError, match="two columns named 'id'"):
        table_from(spark.range(2).selectExpr("id", "id"))


COLLATED = [
    ("'A' collate utf8_lcase as s", "column 's' has the Spark collation UTF8_LCASE"),
    ("array('a' collate unicode_ci) as l", "column 'l' has the Spark collation UNICODE_CI"),
    ("map('k' collate unicode, 1) as m", "column 'm' has the Spark collation UNICODE,"),
    ("map(1, 'v' collate unicode) as m", "column 'm' has the Spark collation UNICODE,"),
    ("struct(1 as y, struct('a' collate utf8_lcase as x) as t) as st", "column 'st.t.x' has the Spark collation UTF8"),
    ("array(struct('a' collate utf8_lcase as x)) as las", "column 'las.x' has the Spark collation UTF8_LCASE"),
]


@pytest.mark.parametrize(("column", "message"), COLLATED)
def test_strings_not_compared_by_bytes_are_refused(spark: Any, column: str, message: str) -> None:
    with pytest.raises(PlanError, match=f"{message}.* collate UTF8_BINARY` in Spark"):
        table_from(spark.sql(f"select 1 as one, {column}"))


def test_a_type_of_another_collation_is_refused() -> None:
    with pytest.raises(PlanError, match="'s' has the Spark collation UTF8_LCASE"):
        arrow_type("string collate UTF8_LCASE", "s")
    assert arrow_type("string collate UTF8_BINARY", "s") == pa.string()


def test_a_partition_split_stays_in_the_process(spark: Any, exchange_dir: Path) -> None:
    split = PartitionSplit("/x", 0, 0, Exchange(spark.range(1), str(exchange_dir), IDS))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(split)
