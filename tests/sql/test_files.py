"""FROM 'file.parquet' and functions that read files, against DuckDB. SPEC Q1, P1."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import qcore
from oracle import assert_same_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"i": [1, 2, 3, 4], "S": ["a", "b", None, "d"]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    pa.parquet.write_table(table.slice(2), tmp_path / "b.parquet")
    pa.csv.write_csv(table.select(["i"]), tmp_path / "c.csv")
    (tmp_path / "k=7").mkdir()
    pa.parquet.write_table(table.slice(1, 1), tmp_path / "k=7" / "it's.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "select * from '{0}/a.parquet'",
        "from '{0}/a.parquet' where s is not null",
        "select a.i, x.s from '{0}/a.parquet' join '{0}/b.parquet' as x on a.i = x.i",
        "select count(*) as n from '{0}/a.parquet', '{0}/b.parquet' where a.i < b.i",
        "select a.i from '{0}/a.parquet' order by a.i limit 2",
        "select count(*) as n from '{0}/*.parquet'",
        "select i from read_parquet('{0}/a.parquet') union all "
        "select i from parquet_scan(['{0}/b.parquet', '{0}/a.parquet'])",
        "select sum(f.i) as s from read_parquet('{0}/*.parquet', union_by_name = true) f",
        "select * from read_csv('{0}/c.csv') where i > 1",
        "select k, i from '{0}/k=*/it''s.parquet'",
        "with q as (select * from '{0}/a.parquet') select (select max(i) from '{0}/b.parquet') as m, i from q",
        "select i from '{0}/a.parquet' where i in (select i from '{0}/b.parquet') and s is distinct from 'x'",
        "select extract(year from date '2024-01-01') as y, substring(('abc') from 2) as u from '{0}/a.parquet'",
        "select trim(both from ' a ') as t, i from '{0}/b.parquet'",
    ],
)
def test_files_as_tables(text: str, folder: Path) -> None:
    text = text.format(folder)
    with duckdb.connect() as connection:
        expected = connection.sql(text).to_arrow_table()
    assert_same_rows(qcore.sql(text).to_arrow(), expected)


def test_statements_over_files(folder: Path) -> None:
    session = qcore.Session()
    session.sql(f"create table t as from '{folder}/a.parquet'")
    session.sql(f"insert into t from '{folder}/b.parquet'")
    session.sql(f"create view v as select i from read_parquet('{folder}/b.parquet')")
    session.sql("create view w as select max(i) as m from v")
    assert session.sql("select count(*) as n, (select m from w) as m from t").to_arrow().to_pylist() == [
        {"n": 6, "m": 4}
    ]
    described = session.sql(f"describe '{folder}/a.parquet'").to_arrow()
    assert described["column_name"].to_pylist() == ["i", "S"]
    session.sql(f"copy (from '{folder}/a.parquet') to '{folder}/d.parquet'").to_arrow()
    assert session.sql(f"select count(*) as n from '{folder}/d.parquet'").to_arrow()["n"].to_pylist() == [4]
    # A view over deleted files does not affect other queries.
    (folder / "b.parquet").unlink()
    assert session.sql("select count(*) as n from t").to_arrow()["n"].to_pylist() == [6]
    with pytest.raises(qcore.PlanError, match=r"no such file: .*b\.parquet"):
        session.sql("from w")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from 'nowhere.parquet'", "no such file: nowhere.parquet"),
        ("from read_parquet('a.parquet', filename = true)", "read_parquet has no option filename = true"),
        ("from read_csv(i)", "read_csv takes a path, or a list of paths, as text"),
        ("select i from 'notes.txt'", "notes.txt"),
    ],
)
def test_files_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(text)


def test_a_file_named_twice(folder: Path) -> None:
    """Both tables have the name of the file. DuckDB does not allow *, which gives four columns here."""
    both = f"'{folder}/a.parquet', '{folder}/a.parquet'"
    assert qcore.sql(f"select count(*) as n from {both}").to_arrow()["n"].to_pylist() == [16]
    assert qcore.sql(f"select * from {both}").to_arrow().column_names == ["i", "S", "i", "S"]
    for items in ("a.i", "a.*", "1 as one where a.i = 1"):
        selected, _, rest = items.partition(" where ")
        text = f"select {selected} from {both}{rest and ' where '}{rest}"
        with pytest.raises(qcore.PlanError, match="two tables are named 'a'; give one an alias"):
            qcore.sql(text)
        with pytest.raises(duckdb.BinderException, match="Ambiguous reference to table"):
            duckdb.sql(text)
