"""A task that fails is tried again: the rows of the successful attempt are read, all and once (SPEC S1, S3).

The writer of partitions sees a failure of its input as the end of the input, because Spark then closes the stream of
the Python worker. Only Spark's report that the task succeeded shows that the rows are complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read_split, read_table

import qcore
from qcore.connectors.sources import table_from
from qcore.errors import ExecutionError
from qcore.spark.exchange import DIRECTORY_CONF, Exchange, PartitionSplits, SparkTable
from sweeps import every

# Executors cannot import the tests.
pytest.importorskip("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])
N_ROWS = 400_000
BATCHES_BEFORE = 12


IDS = pa.schema([("id", pa.int64())])


@pytest.fixture(autouse=True)
def exchange_dir(tmp_path: Path, conf: Any) -> Path:
    conf(DIRECTORY_CONF, str(tmp_path))
    return tmp_path


def failing_first(fail: Callable[[], None]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow and mapInPandas: returns some batches, then fails in the first attempt of a task."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if number == BATCHES_BEFORE and TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]
                fail()
            yield batch

    return pass_on


def raise_error() -> None:
    raise ValueError("the first attempt fails")


def leave_process() -> None:
    import os

    os._exit(3)


def check_all_rows(df: Any, n_rows: int = N_ROWS) -> None:
    table = table_from(df)
    assert isinstance(table, SparkTable)
    ids = read_table(table).column("id").to_numpy()
    assert len(ids) == n_rows
    ids.sort()
    assert (ids == range(n_rows)).all()


@pytest.mark.parametrize("fail", every(2, [raise_error, leave_process]))
def test_a_function_over_arrow_batches(spark: Any, fail: Callable[[], None]) -> None:
    check_all_rows(spark.range(0, N_ROWS, 1, 2).mapInArrow(failing_first(fail), "id long"))


@pytest.mark.sweep
def test_a_function_over_frames(spark: Any) -> None:
    check_all_rows(spark.range(0, N_ROWS, 1, 2).mapInPandas(failing_first(raise_error), "id long"))


@pytest.mark.sweep
def test_a_pandas_udf(spark: Any) -> None:
    from pyspark.sql.functions import pandas_udf

    def same(parts: Any) -> Any:
        yield from failing_first(raise_error)(parts)

    import pandas as pd

    same.__annotations__ = {"parts": Iterator[pd.Series], "return": Iterator[pd.Series]}
    check_all_rows(spark.range(0, N_ROWS, 1, 2).select(pandas_udf(same, "long")("id").alias("id")))


@pytest.mark.sweep
def test_a_map_over_an_rdd(spark: Any) -> None:
    def row(number: int) -> tuple[int]:
        from pyspark import TaskContext

        if number % 50_000 == 30_000 and TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]
            raise ValueError("the first attempt fails")
        return (number,)

    rows = spark.sparkContext.parallelize(range(100_000), 2).map(row)
    check_all_rows(spark.createDataFrame(rows, "id long"), 100_000)


@pytest.mark.sweep
def test_rows_of_files(spark: Any, tmp_path: Path) -> None:
    """A function of the user is between the files and the query."""
    data = tmp_path / "files"
    data.mkdir()
    rows = pa.table({"id": range(N_ROWS), "price": [i / 4 for i in range(N_ROWS)]})
    pq.write_table(rows, data / "1.parquet", row_group_size=50_000)
    failing = spark.read.parquet(str(data)).mapInArrow(failing_first(raise_error), "id long, price double")
    result = qcore.sql("select count(*) as n, sum(id) as i, sum(price) as p from f", {"f": failing}, threads=2)
    total = N_ROWS * (N_ROWS - 1) // 2
    assert result.to_arrow().to_pylist() == [{"n": N_ROWS, "i": total, "p": total / 4}]


def test_a_failure_in_a_stage_before_the_last(spark: Any) -> None:
    failing = spark.range(0, N_ROWS, 1, 2).mapInArrow(failing_first(leave_process), "id long")
    table = table_from(failing.groupBy((failing.id % 5).alias("k")).count())
    counts = read_table(table)
    assert sorted(zip(counts["k"].to_pylist(), counts["count"].to_pylist(), strict=True)) == [
        (k, N_ROWS // 5) for k in range(5)
    ]


def test_a_task_that_always_fails_fails_the_query(spark: Any) -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        yield next(batches)
        raise ValueError("every attempt fails")

    with pytest.raises(ExecutionError, match="every attempt fails"):
        read_table(table_from(spark.range(0, 100_000, 1, 2).mapInArrow(fail, "id long")))


def test_files_that_no_task_named_are_not_read(spark: Any, exchange_dir: Path) -> None:
    """Files of failed attempts, and of attempts that Spark killed because another was faster."""
    exchange = Exchange(spark.range(2), str(exchange_dir), IDS)
    rows = pa.table({"id": [7]})
    for name in ("part-000000-aaa.arrow", "part-000009-bbb.arrow"):
        with pa.ipc.new_file(os.path.join(exchange.folder, name), rows.schema) as writer:
            writer.write_table(rows)
    table = SparkTable(spark.range(2), pa.schema([("id", pa.int64())]), "")
    read = [read_split(table, split, ("id",)) for split in PartitionSplits(exchange)]
    assert sorted(pa.concat_tables(read).column("id").to_pylist()) == [0, 1]
