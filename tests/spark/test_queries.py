"""Queries over Spark DataFrames return what Spark returns (SPEC S1)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import ExecutionError
from qcore.spark.exchange import DIRECTORY_CONF
from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

Q1 = """
select l_returnflag, l_linestatus, sum(l_quantity) as qty, sum(l_extendedprice * (1 - l_discount)) as price,
       avg(l_discount) as discount, count(*) as n
from lineitem where l_shipdate <= date '1998-09-02' group by l_returnflag, l_linestatus
"""
Q3 = """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate
"""


@pytest.fixture(scope="module")
def frames(spark: Any, tpch_dir: Path) -> dict[str, Any]:
    return {name: spark.read.parquet(str(tpch_dir / f"{name}.parquet")) for name in ("lineitem", "orders", "customer")}


@pytest.mark.parametrize("query", every(2, [Q1, Q3]), ids=["Q1", "Q3"])
def test_scans_of_files(spark: Any, frames: dict[str, Any], query: str) -> None:
    """S1."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    assert_same_rows(qcore.sql(query, frames, threads=2), spark.sql(query).toArrow(), rel_tol=1e-6, abs_tol=1e-6)


def test_the_frame_s_own_filter_and_names(frames: dict[str, Any]) -> None:
    """The DataFrame's filter reads a column that the query does not read, and the query has its own filter."""
    kept = frames["lineitem"].where("l_shipmode in ('AIR', 'MAIL') and l_quantity > 10")
    frame = kept.selectExpr("l_orderkey as o", "l_tax as t", "l_linenumber as n")
    result = qcore.sql("select n, count(*) as c, sum(t) as t from f where o < 3000 group by n", {"f": frame}, threads=2)
    expected = frame.where("o < 3000").groupBy("n").agg({"o": "count", "t": "sum"})
    assert_same_rows(result, expected.select("n", "count(o)", "sum(t)").toArrow())
    counted = qcore.sql("select count(*) as c from f", {"f": frame}, threads=2).to_arrow()
    assert counted.column("c").to_pylist() == [frame.count()]


def test_dataframes_that_spark_must_compute(frames: dict[str, Any], tmp_path: Path, conf: Any) -> None:
    """S1."""
    conf(DIRECTORY_CONF, str(tmp_path))
    frame = frames["lineitem"].groupBy("l_orderkey").sum("l_quantity").withColumnRenamed("sum(l_quantity)", "q")
    query = "select o_orderpriority, sum(q) as q from f join orders on l_orderkey = o_orderkey group by o_orderpriority"
    result = qcore.sql(query, {"f": frame, "orders": frames["orders"]}, threads=2)
    expected = frame.join(frames["orders"], frame.l_orderkey == frames["orders"].o_orderkey)
    assert_same_rows(result, expected.groupBy("o_orderpriority").sum("q").toArrow())
    deadline = time.monotonic() + 60
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_stops_the_spark_job(spark: Any, tmp_path: Path, conf: Any) -> None:
    """SPEC V8: the query does not wait eight seconds for partitions that sleep."""
    conf(DIRECTORY_CONF, str(tmp_path))
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # start a Python worker
    sleeping = "java_method('java.lang.Thread', 'sleep', if(id = 0, 0L, 1000L)) as s"
    frame = spark.range(0, 60, 1, 60).selectExpr("id", sleeping)
    started = time.monotonic()
    result = qcore.sql("select id, s from f limit 1", {"f": frame}, threads=2).to_arrow()
    assert result.num_rows == 1
    assert time.monotonic() - started < 20
    assert "qcore-spark-job" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.sweep
def test_a_failing_spark_job_fails_the_query(spark: Any, tmp_path: Path, conf: Any) -> None:
    conf(DIRECTORY_CONF, str(tmp_path))
    frame = spark.range(0, 100, 1, 4).selectExpr("assert_true(id < 70, 'too large') as x", "id")
    with pytest.raises(ExecutionError, match="too large"):
        qcore.sql("select count(x) as c, sum(id) as i from f", {"f": frame}, threads=2).to_arrow()
    counted = qcore.sql("select count(*) as c from f", {"f": spark.range(5)}, threads=2).to_arrow()
    assert counted.to_pylist() == [{"c": 5}]


CLOCKS = """
select hour(at) as h, cast(at as date) as day, cast(at as string) like '2024-03-10 %' as same_day,
       date_trunc('day', at) as midnight, at = timestamp '2024-03-10 01:59:00' as now, cast(local as timestamp) as l,
       unix_timestamp(at) as u, unix_timestamp(timestamp '2024-03-10 04:00:00') as lit, hour(local) as lh
from f order by id
"""


@pytest.mark.sweep
def test_spark_s_dialect_has_the_zone_of_its_session(spark: Any, tmp_path: Path, conf: Any) -> None:
    """S1: for a filter of a file scan, and for rows that Spark computes."""
    conf(DIRECTORY_CONF, str(tmp_path))
    made = """select id, timestamp '2024-03-10 01:59:00' + make_interval(0, 0, 0, 0, id) as at,
              timestamp_ntz '2024-03-10 00:30:00' + make_interval(0, 0, 0, 0, id) as local from range(0, 8, 1, 1)"""
    spark.sql(made).write.parquet(str(tmp_path / "t"))
    files = spark.read.parquet(str(tmp_path / "t"))
    for zone in ("America/New_York", "Asia/Kolkata"):
        conf("spark.sql.session.timeZone", zone)
        for frame in (files, files.where("id >= 1"), files.selectExpr("id + 0 as id", "at", "local")):
            frame.createOrReplaceTempView("f")
            found = qcore.sql(CLOCKS, {"f": frame}, threads=2, dialect="spark").to_arrow()
            assert_same_rows(found, spark.sql(CLOCKS).toArrow())
            assert found.schema.field("midnight").type.tz == zone
    plain = qcore.sql("select hour(at) as h from f where id = 0", {"f": files}, threads=2).to_arrow()
    assert plain.to_pylist() == [{"h": 6}], "in other dialects clocks are of UTC"
