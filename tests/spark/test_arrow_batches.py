"""Spark's rows as Arrow batches in its tasks: the same rows both ways, in batches that are never large (SPEC S1)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reading import read_table
from spark_rows import DECIMALS, EVERY_TYPE

from oracle import assert_same_rows
from qcore.connectors.sources import table_from
from qcore.errors import ExecutionError
from qcore.spark import arrow_batches
from qcore.spark.arrow_batches import BATCH_BYTES_CONF, BATCH_ROWS_CONF, batch_rdd, rows_of_batch, run_over_batches
from qcore.spark.exchange import DIRECTORY_CONF

BATCHES = "n_rows long"
IDS = pa.schema([("id", pa.int64())])
TEXT = pa.schema([("s", pa.string())])


def row_counter() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function, which executors can have, that gives the number of rows of each batch."""

    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows])], names=["n_rows"])

    return count_rows


@pytest.fixture(params=["messages", "map"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """How batches come: as messages of an RDD, or by mapInArrow."""
    if request.param == "map":
        monkeypatch.setattr(arrow_batches, "batch_rdd", lambda *given: None)
    return str(request.param)


@pytest.fixture(autouse=True)
def exchange_dir(tmp_path: Path, conf: Any) -> Path:
    conf(DIRECTORY_CONF, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_values_are_the_same_both_ways(way: str, zone: str, spark: Any, conf: Any) -> None:
    """Also of partitions without rows, and of nested columns."""
    conf("spark.sql.session.timeZone", zone)
    for df in (spark.sql(EVERY_TYPE), spark.sql(DECIMALS), spark.sql(EVERY_TYPE).where("id % 50 = 7").repartition(5)):
        read, expected = read_table(table_from(df)), df.toArrow()
        for name in df.columns:
            wanted = expected.column(name)
            if pa.types.is_timestamp(wanted.type) and wanted.type.tz is not None:
                wanted = wanted.cast(pa.timestamp("us", "UTC"))
            assert sorted(map(str, read.column(name).to_pylist())) == sorted(map(str, wanted.to_pylist())), name


def test_rows_that_spark_computes_in_stages(way: str, spark: Any) -> None:
    """Adaptive execution runs the first stages when the RDD is made."""
    df = spark.range(0, 50_000, 1, 3).selectExpr("id % 1000 as k", "concat('text ', id % 7) as s", "id as v")
    df = df.groupBy("k", "s").sum("v").withColumnRenamed("sum(v)", "v")
    assert_same_rows(read_table(table_from(df)), df.toArrow())


def test_messages_are_the_way_of_this_spark(spark: Any) -> None:
    """Otherwise the tests above would compare mapInArrow with itself."""
    found = batch_rdd(spark.range(3).selectExpr("'x' as s"), 500)
    assert found is not None
    assert pa.ipc.read_schema(pa.py_buffer(found[1])).types == [pa.string()]


def test_large_texts_also_have_offsets_of_32_bits(spark: Any, conf: Any) -> None:
    """Whatever the session prefers: layouts of messages and of their schema are the same."""
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    df = spark.range(0, 3000, 1, 1).selectExpr("concat('text ', id) as s", "id")
    assert_same_rows(read_table(table_from(df)), df.toArrow().cast(pa.schema([("s", pa.string()), ("id", pa.int64())])))


def test_another_layout_is_an_error(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema that does not belong to the messages is found by the sizes of their buffers."""
    found = batch_rdd(spark.range(0, 3000, 1, 1).selectExpr("concat('text ', id) as s"), 500)
    assert found is not None
    other = pa.schema([("s", pa.large_string())]).serialize().to_pybytes()
    monkeypatch.setattr(arrow_batches, "batch_rdd", lambda *given: (found[0], other))
    with pytest.raises(Exception, match=r"ArrowInvalid|ArrowIndexError"):
        run_over_batches(spark.range(1), TEXT, row_counter(), BATCHES)


def test_batches_that_are_never_large() -> None:
    """The limit of the session counts too; 0 is none."""
    wide = pa.schema([("a", pa.int64()), ("b", pa.decimal128(38, 2)), ("c", pa.bool_())])
    assert [rows_of_batch(wide, limit) for limit in (10_000, 100, 0)] == [10_000, 100, (64 << 20) // 25]
    for type_ in (pa.string(), pa.list_(pa.float32()), pa.struct([("x", pa.int8())]), pa.map_(pa.int8(), pa.string())):
        schema = wide.append(pa.field("s", type_))
        assert [rows_of_batch(schema, limit) for limit in (10_000, 100, 0)] == [500, 100, 500]
    for type_ in (pa.binary(), pa.list_(pa.binary()), pa.map_(pa.int8(), pa.struct([("x", pa.binary())]))):
        assert rows_of_batch(wide.append(pa.field("b", type_)), 10_000) is None


@pytest.mark.parametrize(
    ("columns", "schema", "setting", "n_rows"),
    [
        ("id", IDS, "10000", [10_000, 2000]),
        ("id", IDS, "5000", [5000, 5000, 2000]),
        ("id", IDS, "0", [12_000]),
        ("'x' as s", TEXT, "10000", [500] * 24),
        ("'x' as s", TEXT, "300", [300] * 40),
        ("cast('x' as binary) as b", pa.schema([("b", pa.binary())]), "10000", [10_000, 2000]),
    ],
)
def test_rows_of_a_batch(
    columns: str, schema: pa.Schema, setting: str, n_rows: list[int], spark: Any, conf: Any
) -> None:
    conf(BATCH_ROWS_CONF, setting)
    df = spark.range(0, 12_000, 1, 1).selectExpr(columns)
    assert [row[0] for row in run_over_batches(df, schema, row_counter(), BATCHES)] == n_rows


def test_a_limit_of_bytes_that_the_session_has(spark: Any, conf: Any) -> None:
    """mapInArrow keeps it, and messages cannot."""
    df = spark.range(0, 3000, 1, 1).selectExpr("repeat('x', 1000) as s")
    (first, *_) = run_over_batches(df, TEXT, row_counter(), BATCHES)
    assert first[0] == 500
    conf(BATCH_BYTES_CONF, "20000")
    for rows, schema in ((df, TEXT), (spark.range(0, 9000, 1, 1), IDS)):
        found = run_over_batches(rows, schema, row_counter(), BATCHES)
        assert len(found) > 3, "20,000 bytes and a row more"


def test_an_error_of_the_query_does_not_mean_that_spark_has_no_messages(spark: Any) -> None:
    """It comes when the RDD is made, which runs the job of a broadcast. A dead worker is a Java error of Spark."""
    from py4j.protocol import Py4JJavaError

    def leave(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        yield from batches
        os._exit(3)

    def failing() -> Any:
        return spark.range(10).crossJoin(spark.range(0, 2, 1, 1).mapInArrow(leave, "k long"))

    with pytest.raises(Py4JJavaError, match="Job aborted due to stage failure"):
        batch_rdd(failing(), 500)
    with pytest.raises(ExecutionError, match="a task failed too often"):
        read_table(table_from(failing()))


@pytest.mark.parametrize(
    ("schema", "is_set", "n_batches"),
    [(TEXT, False, [1]), (IDS, False, range(35, 50)), (IDS, True, range(18, 25))],
)
def test_spark_adds_up_no_bytes_of_small_batches(
    schema: pa.Schema, is_set: bool, n_batches: Any, spark: Any, conf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where batches come by mapInArrow. The limit for a job is that of the session, if it is set there."""
    monkeypatch.setattr(arrow_batches, "batch_rdd", lambda *given: None)
    monkeypatch.setattr(arrow_batches, "NO_BYTES_LIMIT", 1000)
    if is_set:
        conf(BATCH_BYTES_CONF, "2000")
    found: list[int] = []

    def count_batches() -> None:
        found.append(len(run_over_batches(spark.range(0, 5000, 1, 1), schema, row_counter(), BATCHES)))

    # A thread of its own, because the limit is a property of the thread.
    job = threading.Thread(target=count_batches)
    job.start()
    job.join(60)
    assert found[0] in n_batches
