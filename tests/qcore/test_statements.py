"""EXPLAIN, DESCRIBE, SHOW TABLES, CREATE TABLE … AS and DROP TABLE by Session.sql (SPEC Q1, G7)."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore

T = pa.table({"i": [1, 2, 3], "s": ["a", "b", None]})


@pytest.fixture
def session():
    made = qcore.Session(threads=2)
    made.register("t", T)
    return made


def test_explain_gives_the_plan_as_a_row(session):
    result = session.sql("explain select i from t where i > 1;")
    assert result.schema.names == ["explain_key", "explain_value"]
    (row,) = result.to_arrow().to_pylist()
    assert row["explain_key"] == "physical_plan"
    assert row["explain_value"] == session.sql("select i from t where i > 1").explain()


def test_explain_analyze_runs_the_query(session):
    (row,) = session.sql("EXPLAIN ANALYZE SELECT count(*) FROM t").to_arrow().to_pylist()
    header = row["explain_value"].splitlines()[0]
    assert row["explain_key"] == "analyzed_plan"
    assert "rows" in header and "blocked ms" in header


@pytest.mark.parametrize("text", ["describe t", "describe select * from t", "desc (select * from t)"])
def test_describe(session, text):
    assert session.sql(text).to_arrow().to_pylist() == [
        {"column_name": "i", "column_type": "int64", "null": "YES"},
        {"column_name": "s", "column_type": "string", "null": "YES"},
    ]


def test_tables_come_and_go(session):
    assert session.sql("create table big as select i, s from t where i > 1").to_arrow().to_pydict() == {"Count": [2]}
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["big", "t"]
    assert session.sql("select sum(i) as x from big join t using (i)").to_arrow()["x"].to_pylist() == [5]
    # The rows are those of the time it was made.
    session.register("t", T.slice(0, 1))
    assert session.sql("select count(*) as n from big").to_arrow()["n"].to_pylist() == [2]
    assert session.sql("create or replace table big as select * from big limit 1").to_arrow()["Count"].to_pylist() == [
        1
    ]
    assert session.sql("create table if not exists big as select 1 as x").to_arrow()["Count"].to_pylist() == [0]
    assert session.sql('create temp table "Big" as select 1 as x; ').to_arrow()["Count"].to_pylist() == [1]
    assert session.sql('drop table "Big"').to_arrow().num_rows == 0
    session.sql("drop table big")
    session.sql("drop table if exists big")
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["t"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create table t as select 1", "the table 't' is there already; CREATE OR REPLACE"),
        ("create table u (a int)", "CREATE TABLE is not supported but of a query"),
        ("create table u as", "CREATE TABLE is not supported but of a query|ends too early"),
        ("create table u as select nosuch from t", "unknown column 'nosuch'"),
        ("create view v as select 1", "CREATE VIEW is not supported: CREATE TABLE"),
        ("drop table tt", "unknown table 'tt' in DROP TABLE; did you mean 't'"),
        ("drop table t, u", "DROP TABLE cannot be read"),
        ("explain", "ends too early"),
        ("describe", "ends too early"),
        ("describe tt", "unknown table 'tt'"),
        ("show tables from x", "SHOW TABLES takes nothing more"),
        ("explain select", "cannot be planned"),
        ("insert into t select 1, 'x'", "INSERT is not supported: qcore runs queries"),
    ],
)
def test_what_is_wrong_is_named(session, text, words):
    with pytest.raises(qcore.PlanError, match=words):
        session.sql(text)
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["t"]


def test_a_query_that_fails_makes_no_table(session):
    with pytest.raises(qcore.ExecutionError, match="division by zero"):
        session.sql("create table u as select 1 / (i - 2) as x from t")
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["t"]
