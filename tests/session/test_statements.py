"""EXPLAIN, DESCRIBE, SHOW, CREATE, INSERT and DROP by Session.sql (SPEC Q1, G7)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore

T = pa.table({"i": [1, 2, 3], "s": ["a", "b", None]})


@pytest.fixture
def session():
    made = qcore.Session(threads=2)
    made.register("t", T)
    yield made
    # Tables that the session made hold the engine's memory.
    for name in made.sql("show tables").to_arrow()["name"].to_pylist():
        made.sql(f'drop table if exists "{name}"')


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


@pytest.mark.parametrize("text", ["describe t", "show t", "describe select * from t", "desc (select * from t)"])
def test_describe(session, text):
    assert session.sql(text).to_arrow().to_pylist() == [
        {"column_name": "i", "column_type": "int64", "null": "YES"},
        {"column_name": "s", "column_type": "string", "null": "YES"},
    ]


def test_describe_is_a_table(session, duck):
    """The names that DuckDB gives. Its types are SQL's, here they are Arrow's."""
    duck.register("t", T)
    queries = ("t", "select i + 1 as j, s, 2.5 as d from t", "(select s from t)", "with u as (from t) select * from u")
    for query in queries:
        found = session.sql(f"from (describe {query})").to_arrow()
        assert found.equals(session.sql(f"describe {query}").to_arrow())
        expected = duck.sql(f"select column_name from (describe {query})").to_arrow_table()
        assert found["column_name"].to_pylist() == expected["column_name"].to_pylist()
    text = "with u as (describe t) select column_type from u d join t on d.column_name = 'i' and t.i = 1"
    assert session.sql(text).to_arrow()["column_type"].to_pylist() == ["int64"]
    counts = "select i, (select count(*) from (describe select t.i, t.s)) as n from t order by i limit 1"
    assert session.sql(counts).to_arrow().to_pylist() == [{"i": 1, "n": 2}]
    with pytest.raises(qcore.PlanError, match=r"unknown table 'tt'.*line 1, column 16"):
        session.sql("from (describe tt)")
    with pytest.raises(qcore.PlanError, match="DESCRIBE with style is not supported"):
        session.sql("from (describe extended t)")


def test_tables_come_and_go(session):
    assert session.sql("create table big as select i, s from t where i > 1").to_arrow().to_pydict() == {"Count": [2]}
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["big", "t"]
    assert session.sql("select sum(i) as x from big join t using (i)").to_arrow()["x"].to_pylist() == [5]
    # The table keeps the rows that the query had when the table was created.
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
        ("create table t as select 1", "the table 't' exists already; CREATE OR REPLACE"),
        ("create table u", "CREATE .* TABLE .* name AS select …, or name"),
        ("create table u (a)", "CREATE TABLE cannot be read"),
        ("create table u (a int primary key)", "constraints and defaults are not supported"),
        ("create table u (a nosuch)", "nosuch"),
        ("create table u as", "ends too early"),
        ("create table u as select nosuch from t", "unknown column 'nosuch'"),
        ("create view v as select nosuch from t", "the view 'v': unknown column 'nosuch'"),
        ("create view v as select * from v", "the view 'v': 'v' reads itself"),
        ("create view t as select 1", "the table 't' exists already"),
        ("create or replace view t as select 1", "'t' is a table; give the view another name"),
        ("create view v", "CREATE .* VIEW .* name"),
        ("drop view t", "unknown view 't'"),
        ("drop table tt", "unknown table 'tt' in DROP TABLE; did you mean 't'"),
        ("drop table t, u", "DROP TABLE cannot be read"),
        ("explain", "ends too early"),
        ("describe", "ends too early"),
        ("describe tt", "unknown table 'tt'"),
        ("show tables from x", "SHOW TABLES takes no arguments"),
        ("explain select", "the select list is empty"),
        ("summarize", "ends too early; the syntax is SUMMARIZE table"),
        ("summarize tt", "unknown table 'tt'"),
        ("set", "SET cannot be read; the syntax is SET name = value"),
        ("set threads", "SET cannot be read"),
        ("set threads = 1, 2", "SET cannot be read"),
        ("set nosuch = 1", "a session has no setting 'nosuch'"),
        ("set threads = 0", "threads"),
        ("create index x on t (i)", "CREATE INDEX is not supported"),
        ("drop index x", "DROP cannot be read"),
        (";", "the text is empty"),
        ("show all tables", "SHOW ALL TABLES is not supported; SHOW TABLES"),
        ("insert into t select 1", "INSERT INTO t: the query returns 1 columns for i, s"),
        ("insert into t (i, i) values (1, 2)", "name each column once"),
        ("insert into t (k) values (1)", "unknown column 'k' in INSERT INTO t"),
        ("insert into tt values (1)", "unknown table 'tt' in INSERT INTO; did you mean 't'"),
        ("insert into t", "INSERT INTO name"),
        ("insert or replace into t values (1, 'x')", "because tables have no keys"),
        ("insert into t values (1, 'x') on conflict do nothing", "because tables have no keys"),
        ("insert into t values (1, 'x') returning i", "RETURNING are not supported"),
        ("update t set i = 1", "UPDATE is not supported; to change a table, use CREATE OR REPLACE TABLE"),
        ("delete from t", "DELETE is not supported; to change a table, use CREATE OR REPLACE TABLE"),
    ],
)
def test_errors_name_the_fault(session, text, words):
    with pytest.raises(qcore.PlanError, match=words):
        session.sql(text)
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["t"]


def test_a_query_that_fails_makes_no_table(session):
    with pytest.raises(qcore.ExecutionError, match="division by zero"):
        session.sql("create table u as select 1 // (i - 2) as x from t")
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["t"]


def test_a_view_is_its_query_whenever_it_is_read(session):
    """Q1."""
    session.sql("create view big as select i + 1, s, s from t where i > 1 order by i")
    assert session.sql("select * from big").to_arrow().to_pydict() == {
        "i + 1": [3, 4],
        "s": ["b", None],
        "s_1": ["b", None],
    }
    session.sql("create temp view if not exists big as select 1")
    session.sql('create view twice(a, b) as select x.s, y."i + 1" from big x join big y on x.s = y.s')
    assert session.sql("select * from twice").to_arrow().to_pylist() == [{"a": "b", "b": 3}]
    assert session.sql("show tables").to_arrow()["name"].to_pylist() == ["big", "t", "twice"]
    session.sql("insert into t values (9, 'b')")
    assert session.sql("select sum(b) as n, count(*) as k from twice").to_arrow().to_pylist() == [{"n": 26, "k": 4}]
    # A common table and a column of that name are not the view.
    assert session.sql("with big as (select 5 as x) select x as twice from big").to_arrow().to_pylist() == [
        {"twice": 5}
    ]
    session.sql("create or replace view big as select i, s as big from t where i = 9")
    assert session.sql("select big.big from big").to_arrow().to_pylist() == [{"big": "b"}]
    with pytest.raises(qcore.PlanError, match=r"the view 'twice': unknown column 's'"):
        session.sql("select * from twice")
    session.sql("drop view big")
    with pytest.raises(qcore.PlanError, match="the view 'twice': unknown table 'big'"):
        session.sql("select * from twice")
    session.sql("drop view if exists big")
    session.register("twice", T)
    assert session.sql("select count(*) as n from twice").to_arrow()["n"].to_pylist() == [3]


def test_views_of_one_another_end(session):
    """Q1: a view that names itself through others is an error, not an endless recursion."""
    session.sql("create view a as select i from t")
    session.sql("create view b as select i from a")
    with pytest.raises(qcore.PlanError, match="the view 'a': 'a' reads itself"):
        session.sql("create or replace view a as select i from b")
    assert session.sql("select sum(i) as n from b").to_arrow()["n"].to_pylist() == [6]


def test_a_view_of_a_recursion_may_be_read_twice(session):
    """Q1."""
    session.sql(
        "create view r as with recursive n(k) as (select 1 union all select k + 1 from n where k < 4) select k from n"
    )
    rows = session.sql("select x.k from r x join r y on x.k = y.k + 1 union all select k from r order by 1").to_arrow()
    assert rows["k"].to_pylist() == [1, 2, 2, 3, 3, 4, 4]


def test_rows_are_put_into_a_table(session):
    """Q1: values are cast to the table's types. Columns without a value are null."""
    session.sql("create table u (a int, b varchar, c decimal(10, 2), d date, e double[])")
    assert session.sql("select count(*) as n from u").to_arrow()["n"].to_pylist() == [0]
    counted = session.sql("insert into u values (1, 'x', 1.005, '2024-01-31', [1, 2]), (null, null, null, null, null)")
    assert counted.to_arrow().to_pydict() == {"Count": [2]}
    session.sql("insert into u (b, a) (select s, i from t where i > 1)")
    with pytest.raises(qcore.ExecutionError, match="cannot cast 'abc'"):
        session.sql("insert into u (a) values ('abc')")
    with pytest.raises(qcore.ExecutionError, match="cannot cast 99999999999"):
        session.sql("insert into u (a) values (1), (99999999999)")
    query = "select a, b, cast(c as varchar) as c, d, e[2] as e from u order by coalesce(a, 1), a nulls last"
    assert session.sql(query).to_arrow().to_pydict() == {
        "a": [1, None, 2, 3],
        "b": ["x", None, "b", None],
        "c": ["1.01", None, None, None],
        "d": [datetime.date(2024, 1, 31), None, None, None],
        "e": [2.0, None, None, None],
    }
    # The registered table is not changed.
    session.sql("insert into t values (4, 'd')")
    assert (session.sql("select count(*) as n from t").to_arrow()["n"].to_pylist(), T.num_rows) == ([4], 3)


def test_files_take_no_rows(session, tmp_path):
    """Q1."""
    pq.write_table(T, tmp_path / "t.parquet")
    session.register("files", tmp_path / "t.parquet")
    with pytest.raises(qcore.PlanError, match="INSERT INTO files: the table is not in memory"):
        session.sql("insert into files values (1, 'x')")
    session.sql("create view v as select * from t")
    with pytest.raises(qcore.PlanError, match="INSERT INTO v: it is a view"):
        session.sql("insert into v values (1, 'x')")


def test_a_table_of_columns_that_are_called_alike(session):
    """Q1: as in DuckDB, the second has a number."""
    session.sql("create table made as select i, s, i, 1 as i_1 from t limit 1")
    assert session.sql("select * from made").to_arrow().column_names == ["i", "s", "i_1", "i_1_1"]


def test_an_insert_whose_query_inserts() -> None:
    """No lock is held while the query of an INSERT runs. Its sources may use the session, and no row is lost."""
    session = qcore.Session(threads=2)
    session.register("t", pa.table({"i": [1]}))

    def batches() -> Iterator[pa.RecordBatch]:
        session.sql("insert into t values (2)")
        yield pa.record_batch({"i": [3]})

    session.register("source", pa.RecordBatchReader.from_batches(pa.schema([("i", pa.int64())]), batches()))
    session.sql("insert into t select i from source")
    assert sorted(session.sql("select i from t").to_arrow()["i"].to_pylist()) == [1, 2, 3]


def test_an_insert_into_a_table_that_is_replaced_meanwhile() -> None:
    session = qcore.Session(threads=1)
    session.register("t", pa.table({"i": [1]}))

    def batches() -> Iterator[pa.RecordBatch]:
        session.register("t", pa.table({"j": ["x"]}))
        yield pa.record_batch({"i": [3]})

    session.register("source", pa.RecordBatchReader.from_batches(pa.schema([("i", pa.int64())]), batches()))
    with pytest.raises(qcore.PlanError, match="INSERT INTO t: the table was dropped or replaced meanwhile"):
        session.sql("insert into t select i from source")


def test_statements_run_in_order(session):
    """Q1: the result is that of the last statement. A semicolon in a text, a name or a comment ends no statement."""
    result = session.sql(
        """
        create table a as select ';' as x, 1 as ";"; -- one; two
        insert into a values ('b;', 2);;
        select x /* ; */ from a where ";" > 1 ;
        """
    )
    assert result.to_arrow().to_pydict() == {"x": ["b;"]}
    with pytest.raises(qcore.PlanError, match="unknown table 'nosuch'"):
        session.sql("insert into a values ('c', 3); select * from nosuch; insert into a values ('d', 4)")
    assert session.sql("select count(*) as n from a").to_arrow()["n"].to_pylist() == [3]


def test_queries_before_the_last_run_too(session, tmp_path):
    path = tmp_path / "out.parquet"
    session.sql(f"copy (select i from t) to '{path}'; select 1")
    assert path.exists()
    with pytest.raises(qcore.ExecutionError, match="cannot cast"):
        session.sql("select cast(s as int) from t; select 1")


def test_settings(session):
    session.sql("set threads = 1; SET batch_rows to 1000; set memory_limit = '1GB'; set timeout = 2.5")
    settings = session.settings
    assert (settings.threads, settings.batch_rows, settings.memory_limit, settings.timeout) == (1, 1000, 10**9, 2.5)
    session.sql("reset memory_limit; set session timeout = default")
    assert (session.settings.memory_limit, session.settings.timeout) == (None, None)


def test_summaries(session, duck):
    data = pa.table({
        "n": [1, 2, 2, None, 5],
        "x": [0.5, 1.5, 2.5, 3.5, None],
        "s": ["a", "b", None, None, "c"],
        "l": [[1], None, [2], [], [3]],
    })  # fmt: skip
    session.register("t", data)
    duck.register("t", data)
    found = session.sql("summarize t").to_arrow()
    expected = duck.sql("summarize t").to_arrow_table()
    assert found.column_names == expected.column_names
    for name in ("column_name", "min", "max", "count"):
        kept = slice(None) if name in ("column_name", "count") else slice(0, 3)  # lists have no smallest here
        assert found[name].to_pylist()[kept] == expected[name].to_pylist()[kept], name
    for name in ("avg", "std", "q50", "null_percentage"):
        pairs = zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True)
        assert all(float(a or 0) == pytest.approx(float(b or 0)) for a, b in pairs), name
    assert found["approx_unique"].to_pylist() == [3, 4, 3, None]
    assert session.sql("summarize select n from t where n > 9").to_arrow()["count"].to_pylist() == [0]
    assert session.sql("summarize pivot t on s using sum(n) group by x").to_arrow()["count"].to_pylist() == [5] * 4
    assert session.sql("from (summarize t)").to_arrow().equals(found)
    with_name = "with u as (summarize t) select max from u join t on t.n = approx_unique where column_name = 'x'"
    assert session.sql(with_name).to_arrow().num_rows == 0
    of_outer = session.sql("select (select max from (summarize select t.n as k)) as m from t where n = 5").to_arrow()
    assert of_outer["m"].to_pylist() == ["5"]
    session.sql("create table u as summarize t")
    kept = session.sql("select column_type as c from u where max = '3.5'").to_arrow()
    assert kept["c"].to_pylist() == ["DOUBLE"]


def test_the_information_schema(session):
    session.sql("create view v as select i + 1 as j, s from t")
    text = "select table_name, table_type from information_schema.tables order by 1"
    assert session.sql(text).to_arrow().to_pydict() == {"table_name": ["t", "v"], "table_type": ["BASE TABLE", "VIEW"]}
    columns = (
        "select table_schema, column_name, ordinal_position as n, data_type from INFORMATION_SCHEMA.columns c "
        "where table_name = 'v' order by n"
    )
    found = session.sql(columns).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [("main", "j", 1, "BIGINT"), ("main", "s", 2, "VARCHAR")]
    session.sql("drop view v")
    assert session.sql(text).to_arrow()["table_name"].to_pylist() == ["t"]
    assert session.sql(columns).to_arrow().num_rows == 0


def test_statements_of_a_dialect_with_other_quotes():
    session = qcore.Session(threads=1, dialect="spark")
    session.register("t", T)
    assert session.sql("describe select i from t").to_arrow()["column_name"].to_pylist() == ["i"]
    assert session.sql("""select 'a;b' as x; select "it's; so" as y""").to_arrow()["y"].to_pylist() == ["it's; so"]
    session.sql("create view v(`a b`) as select i from t")
    assert session.sql("select sum(`a b`) as n from v").to_arrow()["n"].to_pylist() == [6]
