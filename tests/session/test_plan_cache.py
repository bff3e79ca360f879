"""Plans of texts that a session has planned before: which are reused, and which are planned again (SPEC Q1)."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from qcore.connectors.base import table_version
from qcore.connectors.sources import table_from
from qcore.session import plan_cache

TEXT = "select sum(a) as s from t"


@pytest.fixture
def session() -> Iterator[qcore.Session]:
    session = qcore.Session(threads=2)
    session.register("t", pa.table({"a": [1, 2, 3]}))
    session.register("u", pa.table({"b": [10]}))
    yield session
    # A table that the session made holds the engine's memory.
    for name in ("t", "u"):
        session.register(name, pa.table({"a": [1]}))


def value(session: qcore.Session, text: str = TEXT) -> tuple[Any, bool]:
    """The first value of a query, and whether its plan was reused."""
    result = session.sql(text)
    return result.to_arrow().column(0)[0].as_py(), result.is_reused


def test_a_text_seen_before_is_not_planned(session: qcore.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value(session) == (6, False)
    monkeypatch.setattr("qcore.session.session.optimize", None)
    assert value(session) == (6, True)
    assert (session.plan_cache.hits, session.plan_cache.misses) == (1, 1)


def test_results_tell(session: qcore.Session) -> None:
    first, second = session.sql(TEXT), session.sql(TEXT)
    assert second.explain().endswith("the plan of an earlier query with this text")
    assert first.explain(analyze=True).endswith("\nplan cache: miss (hits: 0, misses: 1)")
    assert second.explain(analyze=True).endswith("\nplan cache: hit (hits: 1, misses: 1)")
    assert first.explain() + "\nthe plan of an earlier query with this text" == second.explain()
    assert (first.stats()["is_reused"], second.stats()["is_reused"]) == (False, True)


def test_queries_that_are_not_looked_for_have_no_answer(session: qcore.Session) -> None:
    plan = qcore.PlanBuilder().values(pa.table({"a": [1]})).build()
    for result in (session.execute(plan), session.sql(TEXT, {"t": pa.table({"a": [1]})})):
        assert "plan cache" not in result.explain(analyze=True)


def test_a_text_seen_before_is_not_lowered(session: qcore.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the plan nor its expressions are lowered again. A run creates only operators."""
    text = "select b, sum(a * 2) as s from t join u on a < b where a > 1 group by b order by s limit 3"
    expected = session.sql(text).to_arrow()
    for name in ("compile_projection", "compile_predicate", "Lowering.finish"):
        monkeypatch.setattr(f"qcore.lowering.pipelines.{name}", None)
    monkeypatch.setattr("qcore.lowering.aggregate_retyping.compile_projection", None)
    again = session.sql(text)
    assert again.is_reused
    assert again.to_arrow() == expected == again.to_arrow()


@pytest.mark.parametrize(
    "settings", [{"threads": 1}, {"threads": 5}, {"batch_rows": 7}, {"memory_limit": "100 MB"}, {"timeout": 20.0}]
)
def test_a_run_has_the_settings_of_its_time(session: qcore.Session, settings: dict[str, Any]) -> None:
    session.register("t", pa.table({"a": range(1000)}))
    text = "select a % 3 as k, sum(a) as s from t group by k order by k"
    expected = session.sql(text).to_arrow()
    session.change(**settings)
    result = session.sql(text)
    assert result.is_reused
    assert result.to_arrow() == expected
    scan = result.stats()["pipelines"][0]
    assert scan["drivers"] == settings.get("threads", 2)
    assert (scan["operators"][0]["output_batches"] > 100) == ("batch_rows" in settings)


def test_the_memory_limit_of_a_run_is_that_of_its_time(session: qcore.Session) -> None:
    session.register("t", pa.table({"a": range(300_000)}))
    text = "select * from t order by a desc"
    assert session.sql(text).to_arrow().num_rows == 300_000
    session.change(memory_limit="100 kB")
    result = session.sql(text)
    assert result.is_reused
    with pytest.raises(qcore.MemoryLimitError):
        result.to_arrow()
    session.change(memory_limit=None)
    assert session.sql(text).to_arrow().num_rows == 300_000


def test_a_query_that_failed_fails_again(session: qcore.Session) -> None:
    text = "select 6 // a as x from t where a < 2"
    assert value(session, text) == (6, False)
    session.register("t", pa.table({"a": [1, 2]}))
    failing = "select cast(b as tinyint) * cast(100 as tinyint) as x from u"
    for _ in range(2):
        with pytest.raises(qcore.ExecutionError):
            session.sql(failing).to_arrow()
    assert value(session, "select b from u") == (10, False)


def test_two_results_of_one_plan_run_at_once(session: qcore.Session) -> None:
    session.register("t", pa.table({"a": range(300_000)}))
    streams = [iter(session.sql("select a from t where a % 3 = 0")) for _ in range(3)]
    sums = [0, 0, 0]
    for batches in zip(*streams, strict=False):
        sums = [total + sum(batch["a"].to_pylist()) for total, batch in zip(sums, batches, strict=True)]
    for i, stream in enumerate(streams):
        sums[i] += sum(sum(batch["a"].to_pylist()) for batch in stream)
    assert sums == [sum(range(0, 300_000, 3))] * 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda session: session.register("t", pa.table({"a": [5]})), 5),
        (lambda session: session.sql("insert into t values (4)"), 10),
        (lambda session: session.sql("create or replace table t as select 7 as a"), 7),
        (lambda session: session.sql("drop table t") and session.register("t", pa.table({"a": [8.5]})), 8.5),
        (lambda session: session.sql("drop table t") and session.sql("create view t as select b as a from u"), 10),
    ],
)
def test_a_changed_table_is_planned_again(session: qcore.Session, change: Any, expected: Any) -> None:
    value(session), value(session)
    change(session)
    assert value(session) == (expected, False)
    assert value(session) == (expected, True)


def test_a_dropped_table_is_unknown(session: qcore.Session) -> None:
    value(session)
    session.sql("drop table t")
    with pytest.raises(qcore.PlanError, match="unknown table 't'"):
        session.sql(TEXT)


def test_a_changed_view_is_planned_again(session: qcore.Session) -> None:
    session.sql("create view w as select a from t")
    session.sql("create view v as select a + 1 as a from w")
    assert [value(session, "select sum(a) from V") for _ in range(2)] == [(9, False), (9, True)]
    session.sql("create or replace view w as select a * 10 as a from t")
    assert value(session, "select sum(a) from V") == (63, False)
    session.register("t", pa.table({"a": [1]}))
    assert value(session, "select sum(a) from V") == (11, False)
    session.sql("drop view w")
    with pytest.raises(qcore.PlanError):
        session.sql("select sum(a) from V")


def test_a_new_table_with_a_name_in_the_text(session: qcore.Session) -> None:
    """A name that meant a table in other case, or no table, may now mean the new table."""
    text = 'select sum(a) from "T"'
    assert value(session, text) == (6, False)
    session.register("T", pa.table({"a": [40]}))
    assert value(session, text) == (40, False)


def test_other_tables_do_not_matter(session: qcore.Session) -> None:
    value(session)
    session.register("another", pa.table({"a": [1]}))
    session.sql("insert into u values (3)")
    assert value(session) == (6, True)


def test_settings_by_which_a_query_is_planned(session: qcore.Session) -> None:
    text = "select 7 / 2 as x, count(*) from t"
    kept = value(session, text)[0]
    session.dialect = qcore.Dialect.find("postgresql")
    assert value(session, text) == (3, False)
    session.dialect = qcore.Dialect.find(None)
    assert value(session, text) == (kept, True)
    session.time_zone = "Europe/Paris"
    assert value(session, text) == (kept, False)
    session.change(batch_rows=1)
    assert value(session, text) == (kept, True)


def test_file_access_is_checked_again(session: qcore.Session, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)
    text = f"select sum(a) from '{path}'"
    assert [value(session, text) for _ in range(2)] == [(3, False), (3, True)]
    session.change(file_access="none")
    with pytest.raises(qcore.PlanError, match="file_access"):
        session.sql(text)


def write(path: Path, values: list[Any]) -> None:
    pq.write_table(pa.table({"a": values}), path)
    # Two versions of a file may have the same size, and be written within one tick of the clock.
    write.ticks += 1  # type: ignore[attr-defined]
    os.utime(path, (time.time(), time.time() + write.ticks))  # type: ignore[attr-defined]


write.ticks = 0  # type: ignore[attr-defined]


def test_a_changed_file_is_planned_again(session: qcore.Session, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(path, [1, 2])
    session.register("t", str(path))
    assert [value(session) for _ in range(2)] == [(3, False), (3, True)]
    write(path, [5, 6])
    assert [value(session) for _ in range(2)] == [(11, False), (11, True)]
    path.unlink()
    with pytest.raises(qcore.QcoreError, match=r"x\.parquet"):
        session.sql(TEXT).to_arrow()


def test_files_of_a_text_are_looked_for_again(session: qcore.Session, tmp_path: Path) -> None:
    """A pattern in the text may match other files, which may have other columns."""
    write(tmp_path / "1.parquet", [1, 2])
    text = f"select sum(a) from '{tmp_path}/*.parquet'"
    assert [value(session, text) for _ in range(2)] == [(3, False), (3, True)]
    write(tmp_path / "2.parquet", [0.5])
    assert [value(session, text) for _ in range(2)] == [(3.5, False), (3.5, True)]
    write(tmp_path / "2.parquet", [7])
    assert value(session, text) == (10, False)
    (tmp_path / "2.parquet").unlink()
    assert value(session, text) == (3, False)


MOMENTS = [
    "now()", "current_date", "current_timestamp", "today()", "current_time",
    "age(current_date, timestamp '2020-01-01')",
]  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_time_of_a_query_is_its_own(session: qcore.Session, moment: str) -> None:
    for text in (f"select {moment} as x from t", "select x from v"):
        session.sql(f"create or replace view v as select {moment} as x")
        assert not session.sql(text).is_reused
        assert not session.sql(text).is_reused


def test_now_advances(session: qcore.Session) -> None:
    first = value(session, "select now() as x")[0]
    time.sleep(0.002)
    assert value(session, "select now() as x")[0] > first


def test_random_numbers_are_new_in_each_run(session: qcore.Session) -> None:
    values = [value(session, "select random() as x from t") for _ in range(2)]
    assert values[0][0] != values[1][0]


def test_statements_that_write_run_each_time(session: qcore.Session, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    for n in (3, 4):
        session.sql(f"copy (select a from t) to '{path}'").to_arrow()
        assert pq.read_table(path).num_rows == n
        session.sql("insert into t values (1)")
    assert len(session.plan_cache) == 0


def test_tables_of_one_statement_are_not_kept(session: qcore.Session) -> None:
    for n in (1, 2):
        result = session.sql(TEXT, {"t": pa.table({"a": [n]})})
        assert (result.to_arrow()["s"].to_pylist(), result.is_reused) == ([n], False)
    assert value(session) == (6, False)
    assert session.sql(TEXT, {"t": pa.table({"a": [9]})}).to_arrow()["s"].to_pylist() == [9]


def test_a_stream_is_read_once(session: qcore.Session) -> None:
    session.register("t", pa.table({"a": [1, 2]}).to_reader())
    assert value(session) == (3, False)
    with pytest.raises(qcore.PlanError, match="has been read already"):
        session.sql(TEXT).to_arrow()


def test_a_table_without_a_version_is_planned_each_time(session: qcore.Session) -> None:
    class Wrapped:
        """A connector of an application. A change of its statistics cannot be noticed."""

        def __init__(self, table: Any) -> None:
            self.schema, self.statistics = table.schema, table.statistics
            self.splits, self.open = table.splits, table.open

    session.register("t", Wrapped(table_from(pa.table({"a": [1, 2, 3]}))))
    assert [value(session) for _ in range(2)] == [(6, False), (6, False)]


def test_the_oldest_plans_are_dropped(session: qcore.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "PLANS_MAX", 3)
    texts = [f"select a + {i} from t" for i in range(4)]
    for text in texts[:3]:
        session.sql(text)
    assert session.sql(texts[0]).is_reused
    session.sql(texts[3])
    assert len(session.plan_cache) == 3
    assert [session.sql(text).is_reused for text in (texts[0], texts[2], texts[3], texts[1])] == [
        True,
        True,
        True,
        False,
    ]


def test_long_texts_are_not_kept(session: qcore.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "TEXT_LENGTH_MAX", len(TEXT))
    assert [value(session, TEXT + " ") for _ in range(2)] == [(6, False)] * 2
    assert [value(session) for _ in range(2)] == [(6, False), (6, True)]


def test_dropped_tables_are_freed() -> None:
    """D8: cached plans do not keep replaced or dropped tables alive."""
    session = qcore.Session(threads=1)
    data = pa.table({"a": list(range(1000))})
    freed = weakref.ref(data.column("a").chunk(0).buffers()[1])
    held = table_from(data)
    session.register("t", held)
    session.sql(TEXT).to_arrow()
    alive = weakref.ref(held)
    session.register("t", pa.table({"a": [1]}))
    del data, held
    gc.collect()
    assert alive() is None and freed() is None


def test_a_plan_made_while_its_table_changes_is_not_kept(
    session: qcore.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimize = qcore.session.session.optimize

    def meanwhile(*arguments: Any) -> Any:
        session.register("t", pa.table({"a": [100]}))
        return optimize(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("qcore.session.session.optimize", meanwhile)
        assert value(session) == (6, False)
    assert value(session) == (100, False)


def test_names_with_quotes(session: qcore.Session) -> None:
    name = 'my "own" table'
    session.register(name, pa.table({"a": [1]}))
    text = 'select sum(a) from "my ""own"" table"'
    assert [value(session, text) for _ in range(2)] == [(1, False), (1, True)]
    session.register(name, pa.table({"a": [2]}))
    assert value(session, text) == (2, False)


def test_versions_of_tables(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", [1])
    data = pa.table({"a": [1], "z": pa.array([1], pa.timestamp("us", "UTC"))})
    files = table_from(str(tmp_path / "x.parquet"))
    before = table_version(files)
    assert before is not None and before == table_version(files)
    write(tmp_path / "x.parquet", [2])
    assert table_version(files) not in (None, before)
    (tmp_path / "x.parquet").unlink()
    assert table_version(files) is None
    for source in (data, data.to_reader(), pa.dataset.dataset(data)):
        assert table_version(table_from(source)) == 0
    assert qcore.Session(time_zone="Asia/Tokyo") is not None
