"""Queries in Spark's tasks return the same rows as in this process, and can be watched, stopped and kept (SPEC S2)."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read_in_thread

import qcore
from oracle import assert_same_rows
from qcore.errors import Cancelled, ExecutionError, PlanError, Timeout
from qcore.spark.distributed_query import StageLoop
from qcore.spark.exchange import DIRECTORY_CONF
from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

N_ROWS = 100_000
GROUPED = "select k, count(*) as n, sum(x) as s, avg(x) as a from t group by k"
JOINED = "select d.name, sum(t.x) as s from t join d on t.k = d.k group by d.name order by d.name"


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, conf: Any) -> Path:
    """The folder for folders of queries. With this setting small files are read by tasks too."""
    folder = tmp_path / "exchange"
    folder.mkdir()
    conf(DIRECTORY_CONF, str(folder))
    conf("spark.qcore.driver.bytes", "1")
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    rows = {"k": [i % 97 for i in range(N_ROWS)], "x": [i / 8 for i in range(N_ROWS)]}
    pq.write_table(pa.table(rows), folder / "t.parquet", row_group_size=10_000)
    names = [f"name {k % 5}" for k in range(97)]
    pq.write_table(pa.table({"k": list(range(97)), "name": names}), folder / "d.parquet")
    return {name: str(folder / f"{name}.parquet") for name in ("t", "d")}


def no_folders(parent: Path) -> bool:
    gc.collect()
    return list(parent.iterdir()) == []


@pytest.mark.parametrize(
    "query", every(3, [GROUPED, JOINED, "select k, x from t where x < 20 order by x desc limit 7"])
)
def test_files(spark: Any, files: dict[str, str], parent: Path, query: str) -> None:
    result = qcore.sql(query, files, on=spark)
    here = qcore.sql(query, files, threads=2)
    assert result.schema == here.schema
    assert_same_rows(result, here.to_arrow())
    assert_same_rows(result.to_arrow(), here.to_arrow())
    assert len(list(parent.iterdir())) == 1
    result.close()
    assert no_folders(parent)
    with pytest.raises(PlanError, match="the result was closed"):
        result.to_arrow()


def test_rows_in_memory_and_frames(spark: Any, files: dict[str, str], parent: Path) -> None:
    """Files joined with a table in memory, a DataFrame of files, and a DataFrame that Spark computes."""
    tables = {
        "t": spark.read.parquet(files["t"]),
        "d": pq.read_table(files["d"]),
        "e": spark.range(50).selectExpr("id as k", "id % 3 as part"),
    }
    query = "select name, part, sum(x) as s from t join d on t.k = d.k join e on e.k = d.k group by name, part"
    assert_same_rows(qcore.sql(query, tables, on=spark), qcore.sql(query, tables, threads=2).to_arrow())
    assert no_folders(parent)


def test_a_plan(spark: Any, files: dict[str, str]) -> None:
    session = qcore.Session(threads=1)
    session.register("t", files["t"])
    plan = qcore.PlanBuilder().scan("t", schema=pa.schema([("k", pa.int64())])).aggregate(["k"], {"n": ("count",)})
    assert_same_rows(session.execute(plan.build(), on=spark), session.execute(plan.build()).to_arrow())


def test_unsupported_input(spark: Any, files: dict[str, str], parent: Path) -> None:
    with pytest.raises(PlanError, match=r"on= takes a SparkSession, not a builtins\.str"):
        qcore.sql("select 1 as x", on="spark")
    with pytest.raises(PlanError, match="on= runs queries only"):
        qcore.sql("create table z as select 1 as x", on=spark)
    with pytest.raises(PlanError, match=r"TableWrite \(node .*\) cannot run in Spark's tasks"):
        qcore.sql(f"copy (select k from t) to '{parent}/x.parquet'", files, on=spark)
    spark.conf.set("spark.qcore.tasks", "many")
    try:
        with pytest.raises(PlanError, match=r"spark\.qcore\.tasks is 'many'"):
            qcore.sql(GROUPED, files, on=spark).to_arrow()
    finally:
        spark.conf.unset("spark.qcore.tasks")
    assert no_folders(parent)


def test_an_error_of_a_task(spark: Any, files: dict[str, str], parent: Path) -> None:
    query = "select sum(cast(case when x > 9000 then 'a' || k else '1' end as int)) as s from t"
    with pytest.raises(ExecutionError, match=r"^[^\n]*cast[^\n]*$") as caught:
        qcore.sql(query, files, on=spark).to_arrow()
    assert "Traceback" not in str(caught.value) and "org.apache" not in str(caught.value)
    assert no_folders(parent)
    assert qcore.sql("select count(*) as n from t", files, on=spark).to_arrow()["n"].to_pylist() == [N_ROWS]


def test_small_stages_run_here(spark: Any, files: dict[str, str], conf: Any) -> None:
    conf("spark.qcore.driver.bytes", "32MB")
    # The sum needs both tables, so that no rows are grouped before the join: each stage reads files or pages alone.
    query = "select d.name, sum(t.x + d.k) as s from t join d on t.k = d.k group by d.name order by d.name"
    result = qcore.sql(query, files, on=spark)
    assert_same_rows(result, qcore.sql(query, files, threads=1).to_arrow())
    assert all(stage["on_driver"] and stage["tasks"] == 1 for stage in result.stats()["stages"])
    assert "driver process" in result.explain()
    slow = qcore.sql(*slow_query(files), on=spark)
    threading.Timer(1.5, slow.cancel).start()
    with pytest.raises(Cancelled):
        slow.to_arrow()


def test_explain_progress_and_stats(spark: Any, files: dict[str, str], conf: Any) -> None:
    result = qcore.sql(GROUPED, files, on=spark)
    assert "stage 1: partial aggregate" in result.explain()
    assert result.progress() == (0, 0) and result.stats()["stages"] == []
    text = result.explain(analyze=True)
    assert "partial aggregate ← t → 2 partitions by k" in text and "in this process:" in text
    first = result.stats()["stages"][0]
    assert first["rows"] >= 97 and first["bytes"] > 0 and first["tasks"] == first["tasks_done"] >= 1
    (scan,) = [
        operator
        for pipeline in first["pipelines"]
        for operator in pipeline["operators"]
        if operator["name"] == "TableScan"
    ]
    assert scan["output_rows"] == N_ROWS
    assert result.stats()["final"]["state"] == "finished"
    done, started = result.progress()
    assert done == started == sum(stage["tasks"] for stage in result.stats()["stages"])
    shown = qcore.sql(f"explain analyze {GROUPED}", files, on=spark).to_arrow()
    assert "partial aggregate" in shown["explain_value"][0].as_py()


def slow_query(files: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """A query that runs for minutes in its tasks."""
    return "select count(*) as n from t a join t b on a.x + b.x > 0.5 and a.x * b.x <> a.x + 1.5", files


def test_cancel(spark: Any, files: dict[str, str], parent: Path) -> None:
    result = qcore.sql(*slow_query(files), on=spark)
    reader, errors = read_in_thread(result)
    while result.progress()[1] == 0 and reader.is_alive():
        time.sleep(0.05)
    time.sleep(1)
    result.cancel()
    reader.join(30)
    assert isinstance(errors[0], Cancelled), errors
    errors.clear()
    assert list(parent.iterdir()) == []
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    with pytest.raises(Cancelled):
        result.to_arrow()


def test_a_timeout(spark: Any, files: dict[str, str], parent: Path) -> None:
    with pytest.raises(Timeout, match=r"longer than its timeout of 2\.5 s"):
        qcore.sql(*slow_query(files), timeout=2.5, on=spark).to_arrow()
    assert no_folders(parent)


def test_a_timeout_of_a_stage_in_this_process(spark: Any, files: dict[str, str], parent: Path, conf: Any) -> None:
    conf("spark.qcore.driver.bytes", "32MB")
    started = time.monotonic()
    with pytest.raises(Timeout, match=r"longer than its timeout of 1\.5 s"):
        qcore.sql(*slow_query(files), timeout=1.5, on=spark).to_arrow()
    assert time.monotonic() - started < 10
    assert no_folders(parent)


@pytest.mark.sweep
def test_the_last_part_gets_the_rest_of_the_timeout(
    spark: Any, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages use most of the timeout, so the part in this process cannot end in time."""
    run = StageLoop.run

    def run_slowly(self: StageLoop, deadline: float | None) -> Any:
        plan = run(self, deadline)
        assert deadline is not None
        time.sleep(max(0.0, deadline - time.monotonic() - 0.2))
        return plan

    monkeypatch.setattr(StageLoop, "run", run_slowly)
    tables = {name: pa.table({"x": [float(i) for i in range(20_000)]}) for name in ("a", "b")}
    query = "select count(*) as n from a join b on a.x + b.x > 0.5 and a.x * b.x <> a.x + 1.5"
    spark.conf.set("spark.qcore.driver.bytes", "32MB")
    result = qcore.sql(query, tables, timeout=4, on=spark)
    started = time.monotonic()
    with pytest.raises(Timeout, match=r"longer than its timeout of 4 s"):
        result.to_arrow()
    assert time.monotonic() - started < 6


def test_two_queries_at_once(spark: Any, files: dict[str, str], parent: Path) -> None:
    expected = {query: qcore.sql(query, files, threads=1).to_arrow() for query in (GROUPED, JOINED)}
    found: dict[str, pa.Table] = {}

    def run(query: str) -> None:
        found[query] = qcore.sql(query, files, on=spark).to_arrow()

    threads = [threading.Thread(target=run, args=(query,)) for query in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for query, rows in expected.items():
        assert_same_rows(found[query], rows)
    assert no_folders(parent)


def test_a_file_that_changed(spark: Any, tmp_path: Path) -> None:
    """Python workers are reused, and must not use what they cached of the old file."""
    path = tmp_path / "c.parquet"
    for n_rows in (10, 2000, 300):
        pq.write_table(pa.table({"x": list(range(n_rows))}), path)
        rows = qcore.sql("select count(*) as n, sum(x) as s from c", {"c": str(path)}, on=spark).to_arrow()
        assert rows.to_pylist() == [{"n": n_rows, "s": n_rows * (n_rows - 1) // 2}]


def test_a_folder_that_cannot_be_written(spark: Any, files: dict[str, str], tmp_path: Path, conf: Any) -> None:
    conf(DIRECTORY_CONF, str(tmp_path / "absent"))
    with pytest.raises(PlanError, match=r"the folder of a query's files cannot be made in .*absent"):
        qcore.sql(GROUPED, files, on=spark).to_arrow()


def test_to_spark(spark: Any, files: dict[str, str], parent: Path) -> None:
    result = qcore.sql(JOINED, files, on=spark)
    frame = result.to_spark()
    expected = qcore.sql(JOINED, files, threads=1).to_arrow()
    assert_same_rows(frame.toArrow(), expected)
    assert frame.where("name = 'name 3'").count() == 1
    result.close()
    with pytest.raises(Exception, match=r"rows of to_spark.. are removed when the result is closed"):
        frame.collect()
    del frame, result
    assert no_folders(parent)
