"""Sessions: their settings, the tables they register, and the sources that plans are bound to."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, col
from qcore.session.session import pool_with_limit

ROWS = pa.table({"a": [1, 2, 3]})


def test_change_keeps_the_other_settings() -> None:
    session = qcore.Session(threads=2, memory_limit="1MB", batch_rows=100, timeout=60)
    before = session.sql("select 1 as x")
    session.change(batch_rows=7)
    settings = session.settings
    assert (settings.threads, settings.memory_limit, settings.batch_rows, settings.timeout) == (2, 10**6, 7, 60)
    assert before._settings.batch_rows == 100, "queries that have begun keep their settings"
    session.change(memory_limit=None)
    assert session.settings.memory_limit is None
    with pytest.raises(qcore.PlanError, match="a session has no setting 'thread'; it has threads, memory_limit, "):
        session.change(thread=1)
    with pytest.raises(qcore.PlanError, match="batch_rows must be positive, not 0"):
        session.change(batch_rows=0)
    assert session.settings.batch_rows == 7


def test_a_pool_lives_on_under_another_limit() -> None:
    pool = pool_with_limit("1MB", None)
    assert pool is not None
    assert pool_with_limit(5, pool) is pool
    assert pool.limit == 5
    assert pool_with_limit(None, pool) is None
    session = qcore.Session(session_memory_limit="64MB")
    shared = session.settings.memory_pool
    session.change(threads=1)
    assert session.settings.memory_pool is shared


def test_settings_do_not_keep_their_session() -> None:
    session = qcore.Session()
    result, alive = session.sql("select 1 as x"), weakref.ref(session)
    del session
    gc.collect()
    assert alive() is None
    assert result._settings.change is not None
    result._settings.change(threads=1)  # the session was freed: no effect


def test_registering_replaces_tables_and_views() -> None:
    session = qcore.Session(threads=1)
    session.register("t", ROWS)
    session.sql("create view v as select max(a) as a from t")
    session.register("v", pa.table({"a": [7]}))
    assert session.sql("select a from v").to_arrow()["a"].to_pylist() == [7]
    session.register("t", pa.table({"a": [4]}))
    assert session.sql("select a from t").to_arrow()["a"].to_pylist() == [4]
    hidden = session.sql("select a from t", {"t": pa.table({"a": [5]})})
    assert hidden.to_arrow()["a"].to_pylist() == [5]


def test_plans_are_bound_to_the_tables_of_the_session() -> None:
    session = qcore.Session(threads=1)
    session.register("t", ROWS)
    plan = PlanBuilder().scan("t", schema=ROWS.schema).filter(col("a") > 1).build()
    assert session.execute(plan).to_arrow()["a"].to_pylist() == [2, 3]
    unknown = PlanBuilder().scan("u", schema=ROWS.schema, id="5").build()
    with pytest.raises(qcore.PlanError, match=r"table 'u' is not registered \(node 5\); registered: t"):
        session.execute(unknown)
    with pytest.raises(qcore.PlanError, match="registered: none"):
        qcore.Session().execute(unknown)


@pytest.mark.parametrize("access", ["none", []])
def test_files_of_plans_are_checked_too(tmp_path: pytest.TempPathFactory, access: object) -> None:
    path = str(tmp_path / "t.parquet")  # type: ignore[operator]
    qcore.Session().execute(PlanBuilder().values(ROWS).write_parquet(path).build()).to_arrow()
    plan = PlanBuilder().scan("t", source=path).build()
    assert qcore.Session().execute(plan).to_arrow().num_rows == 3
    session = qcore.Session(file_access=access)  # type: ignore[arg-type]
    with pytest.raises(qcore.PlanError, match="file_access does not allow this file"):
        session.execute(plan)
    with pytest.raises(qcore.PlanError, match="file_access does not allow this file"):
        session.execute(PlanBuilder().values(ROWS).write_parquet(path).build())
