"""Cases of names: ignored in DuckDB and Spark, folded to lower case without quotes in PostgreSQL. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

TABLES = {
    "Hits": pa.table({"AdvID": [1, 2, None, 2], "name": ["a", "b", None, "b"], "Day": [4, 5, 6, 7], "Value": range(4)}),
    "users": pa.table({"ID": [2, 3], "Struct": [{"Name": "p", "n": 1}, {"Name": "q", "n": 2}]}),
    "other": pa.table({"id": [2, 9], "Total": [1, 2]}),
}


def session_of(dialect: str) -> qcore.Session:
    session = qcore.Session(dialect=dialect)
    for name, table in TABLES.items():
        session.register(name, table)
    return session


def duck(text: str) -> pa.Table:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize("dialect", ["qcore", "duckdb", "spark"])
@pytest.mark.parametrize(
    "text",
    [
        "select advid, HITS.Name from hits order by ADVID nulls last, NAME",
        'select "ADVID", h."NAME" from HITS as h where h.advid = 2',
        "select adviD as Foo, day as bar from hits order by FOO nulls last, BAR",
        "select AdvId as AdvId, Name as NAME, Day as \"day\" from hits where NAME = 'b'",
        "select Foo, BAR from (select advid as foo, NAME as Bar from hits) order by bar nulls last, 1",
        "with Q(X, y) as (select advid, NAME from hits) select x, Y from q where X > 1",
        "select q.* from (select advid as Number, count(*) as N from hits group by ADVID) Q order by number nulls last",
        "select sum(DAY) as Total from hits group by advid having SUM(day) > 4 order by TOTAL",
        "select h.NAME, U.id from HITS h join USERS u on H.advid = u.id order by all",
        "select u.Id, o.ID as Other from users U, other O where u.iD = o.Id",
        "select a.ADVID from hits a join hits b using (advid, DAY) where A.day > 4 order by 1 nulls last",
        "select * exclude (ADVID, value) from hits order by DAY",
        "select date '2024-01-31' as Date, cast(1 as Bigint) as BigInt, extract(Day from date '2024-01-31') as Extract",
        "select interval 1 Day as i, interval '2' DAY as j, day from hits where day + 1 = 5",
        "select struct.name as f, u.STRUCT.N + 1 as g from users u order by struct.n",
        "select row_number() over (order by DAY) as Row_Number, Value from hits order by VALUE",
        "select name as A, day as B from hits union all select NAME, DAY from HITS order by b, A",
        "select name as y3 from hits union all by name select name as Y3 from hits order by y3 nulls first",
        "select advid as Key from hits where exists (select 1 from users where ID = ADVID) order by KEY",
        "select list_transform([1, 2], lambda DAY: day + 1) as A, [Value * 2 for Value in [3]] as B, NAME from hits",
        "select substring(NAME from 1 for 1) as A, (DAY in (5, 6)) as B from Hits order by B, A nulls first",
        "select count(distinct Name) as Names, max(VALUE) filter (where day > 5) as M from hits",
    ],
)
def test_names_in_any_case(text: str, dialect: str) -> None:
    # In Spark quotes enclose text.
    written = text.replace('"', "`") if dialect == "spark" else text
    got, wanted = session_of(dialect).sql(written).to_arrow(), duck(text)
    assert got.column_names == wanted.column_names
    assert_same_rows(got, wanted)


def test_a_name_spelled_so_wins() -> None:
    """If names differ only in case, the exact spelling is meant."""
    table = pa.table({"a": [1], "A": [2]})
    session = qcore.Session(dialect="duckdb")
    session.register("t", table)
    found = session.sql('select "A", a, A, "a" from t').to_arrow()
    assert [column.to_pylist() for column in found.columns] == [[2], [1], [2], [1]]
    assert session.sql('select x.A + 1 as n from (select "A" from t) x').to_arrow().to_pydict() == {"n": [3]}


def test_postgresql_has_lower_case() -> None:
    session = session_of("postgresql")
    assert session.sql("select id as Foo from OTHER").to_arrow().column_names == ["foo"]
    with pytest.raises(qcore.PlanError, match="unknown column 'total'"):
        session.sql("select total from other").to_arrow()
    with pytest.raises(qcore.PlanError, match="unknown column 'big' in the query; did you mean 'Big'"):
        session.sql('select big from (select id as "Big" from other)')
    assert session.sql('select "Total" from other').to_arrow().column_names == ["Total"]


def test_statements_in_any_case() -> None:
    session = session_of("duckdb")
    session.sql("create table Kept as select ADVID, Name as Called from HITS")
    session.sql("insert into KEPT (CALLED) select name from hits where Day = 4")
    assert session.sql("from kept").to_arrow().column_names == ["AdvID", "Called"]
    session.sql("insert into HITS select 9, 'z', 8, 9")
    assert session.sql("select max(advid) as m from hits").to_arrow().to_pydict() == {"m": [9]}
    session.sql("create view Seen as select advid, count(*) as N from hits group by ADVID")
    assert session.sql("select n from SEEN where advid = 2").to_arrow().to_pydict() == {"N": [2]}
    session.sql('create view "Loud" as select ID from USERS')
    assert session.sql("select max(l.id) as m from loud L").to_arrow().to_pydict() == {"m": [3]}
    session.sql("drop view SEEN")
    session.sql("drop table hits")
    with pytest.raises(qcore.PlanError, match="unknown table"):
        session.sql("select * from hits")


def test_faults_are_shown_as_written() -> None:
    session = session_of("duckdb")
    with pytest.raises(qcore.PlanError, match=r"syntax error at 'ADVID', line 2, column 10"):
        session.sql("select name\n , day d ADVID from hits")
