"""Each row of the tables in docs/SQL.md, in qcore's dialects, in DuckDB, and in Spark. SPEC Q1, Q3."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from conftest import spark_obstacle
from oracle import assert_same_rows

PAGE = Path(__file__).parents[1] / "docs" / "SQL.md"
ENGINES = ["qcore", "DuckDB", "PostgreSQL", "Spark"]
TABLES = {
    "t": pa.table(
        {
            "i": pa.array([7], pa.int64()),
            "j": pa.array([2], pa.int64()),
            "z": pa.array([0], pa.int64()),
            "n": pa.array([-7], pa.int64()),
            "f": pa.array([2.5], pa.float64()),
            "d": pa.array([Decimal("2.50")], pa.decimal128(10, 2)),
            "s": pa.array(["abc"]),
            "e": pa.array([""]),
            "x": pa.array([None], pa.int64()),
            "y": pa.array([None], pa.string()),
            "day": pa.array([dt.date(2024, 1, 31)]),
            "ts": pa.array([dt.datetime(2024, 1, 31, 10, 30)], pa.timestamp("us")),
        }
    ),
    "k": pa.table({"k": pa.array([1.0, None, math.nan, -0.0, 0.0], pa.float64())}),
}


def rows() -> list[dict[str, str]]:
    """The rows of the page's tables of queries: the query, the answer of each engine, and the setting."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and cells[0].startswith("`"):
            names = ["query", *ENGINES, "setting"]
            found.append(dict(zip(names, [cells[0].strip("`"), *cells[1:]], strict=True)))
    return found


ROWS = rows()


# The page's text for an engine without the operator.
NONE = "none"


def in_engine(cell: str) -> str:
    """The answer of the engine to which the page attributes it."""
    return "error" if cell == NONE else cell


def statement(query: str) -> str:
    return query if query.startswith("select") else f"select {query} from t"


def show_value(value: Any) -> str:
    """A value as the page writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, float):
        if value == 0 and math.copysign(1, value) < 0:
            return "-0.0"
        return str(int(value)) if value.is_integer() and value else str(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ") if value.time() != dt.time() else value.date().isoformat()
    return str(value)


def answer(run: Callable[[str], list[Any]], query: str, errors: type[Exception]) -> str:
    try:
        return ", ".join(map(show_value, run(statement(query))))
    except errors:
        return "error"


def zeros_are_alike(text: str) -> str:
    """-0.0 and 0.0 are equal, so either may come first in an order."""
    return text.replace("-0.0", "0.0").replace("0.0", "0")


def qcore_answer(query: str, dialect: str) -> str:
    session = qcore.Session(threads=1, dialect=dialect)
    for name, table in TABLES.items():
        session.register(name, table)
    return answer(lambda text: session.sql(text).to_arrow().column(0).to_pylist(), query, qcore.QcoreError)


@pytest.mark.parametrize("row", ROWS, ids=[row["query"] for row in ROWS])
def test_qcore_answers_as_the_page_says(row: dict[str, str]) -> None:
    assert zeros_are_alike(qcore_answer(row["query"], "qcore")) == zeros_are_alike(row["qcore"])


@pytest.mark.parametrize(
    ("row", "engine"),
    [
        pytest.param(row, engine, id=f"{row['query']} as {engine}")
        for row in ROWS
        for engine in ENGINES[1:]
        if row["setting"] not in ("", "differs") and row[engine] != NONE
    ],
)
def test_a_setting_gives_the_answer_of(row: dict[str, str], engine: str) -> None:
    assert zeros_are_alike(qcore_answer(row["query"], engine.lower())) == zeros_are_alike(row[engine])
    # The setting alone makes the difference.
    if row[engine] != row["qcore"]:
        named = getattr(qcore.Dialect.find(engine.lower()), row["setting"])
        assert named != getattr(qcore.Dialect(), row["setting"])


def test_differences_without_a_setting_are_reported() -> None:
    for row in ROWS:
        differing = {row[engine] for engine in ENGINES if row[engine] not in (NONE, "collation")} - {row["qcore"]}
        assert bool(differing) == bool(row["setting"]), row["query"]


@pytest.fixture(scope="module")
def duck_tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in TABLES.items():
            connection.execute(f"create table {name} as select * from {register(connection, name, table)}")
        yield connection


def register(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> str:
    connection.register(f"{name}_arrow", table)
    return f"{name}_arrow"


@pytest.mark.parametrize("row", ROWS, ids=[row["query"] for row in ROWS])
def test_duckdb_answers_as_the_page_says(row: dict[str, str], duck_tables: duckdb.DuckDBPyConnection) -> None:
    def run(text: str) -> list[Any]:
        return [found[0] for found in duck_tables.execute(text).fetchall()]

    assert zeros_are_alike(answer(run, row["query"], duckdb.Error)) == zeros_are_alike(row["DuckDB"])


@pytest.mark.skipif(spark_obstacle() is not None, reason=str(spark_obstacle()))
@pytest.mark.sweep
def test_spark_answers_as_the_page_says(spark: Any, conf: Any) -> None:
    conf("spark.sql.session.timeZone", "UTC")
    for name, table in TABLES.items():
        types = {"int64": "bigint", "date32[day]": "date", "timestamp[us]": "timestamp_ntz"}
        schema = ", ".join(f"{field.name} {types.get(str(field.type), str(field.type))}" for field in table.schema)
        schema = schema.replace("decimal128", "decimal")
        found = [tuple(row.values()) for row in table.to_pylist()]
        spark.createDataFrame(found, schema).createOrReplaceTempView(name)

    def run(text: str) -> list[Any]:
        return [found[0] for found in spark.sql(text).collect()]

    wrong = {
        row["query"]: (given, row["Spark"])
        for row in ROWS
        if zeros_are_alike(given := answer(run, row["query"], Exception)) != zeros_are_alike(in_engine(row["Spark"]))
    }
    assert not wrong


def test_unknown_dialects_and_settings_are_named() -> None:
    with pytest.raises(ValueError, match="there is no dialect 'oracle'; there are qcore, duckdb, postgresql, spark"):
        qcore.Session(dialect="oracle")
    with pytest.raises(ValueError, match="division is one of float, integer, not 'real'"):
        qcore.Dialect(division="real")


def test_division_in_longer_expressions() -> None:
    """The quotient is a float in larger expressions. A slash in text, comments and names is no division."""
    session = qcore.Session(dialect="duckdb")
    session.register("t", TABLES["t"])
    query = "select i / j + 1 a, sum(i / j) over () b, '1/2' as c, i // j as d /* i / j */, i/j/j as e from t -- 1/2"
    assert session.sql(query).to_arrow().to_pylist() == [{"a": 4.5, "b": 3.5, "c": "1/2", "d": 3, "e": 1.75}]
    assert session.sql("select i / j from t").schema.names == ["i / j"]


@pytest.mark.parametrize(
    ("dialect", "expression", "expected"),
    [
        ("postgresql", "substring(s, n + 6, 3)", "a"),
        ("postgresql", "substring(s, n + 6)", "abc"),
        ("postgresql", "substring(s, -5, 2)", ""),
        ("postgresql", "substring(s, j, 1)", "b"),
        ("spark", "substring(s, z)", "abc"),
        ("spark", "substring(s, x)", None),
        ("postgresql", "round(f + 1)", 4.0),
        ("postgresql", "round(d)", Decimal("3")),
        ("postgresql", "round(f, 1)", 2.5),
        ("spark", "ln(-f)", None),
        ("spark", "log(2, -f)", None),
        ("spark", "log10(z)", None),
        ("duckdb", "log2(z)", -math.inf),
        ("duckdb", "sqrt(f * 1.6)", 2.0),
        ("spark", "regexp_replace(concat(s, s), 'A', 'b', 'i')", "bbcabc"),
    ],
)
def test_functions_of_a_dialect(dialect: str, expression: str, expected: Any) -> None:
    """Cases beside the page's rows: arguments that are not literals, other types, and flags."""
    found = (
        qcore.sql(f"select {expression} as x from t", TABLES, threads=1, dialect=dialect).to_arrow()["x"].to_pylist()
    )
    assert found == [expected]


def test_numbers_outside_of_a_functions_domain(duck: duckdb.DuckDBPyConnection) -> None:
    """NaN and infinities as in DuckDB, or an error by default."""
    values = pa.table({"x": [-math.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, math.inf, math.nan, None]})
    functions = ["sqrt", "ln", "log10", "log2", "asin", "acos", "atanh", "acosh", "sin", "cos", "tan"]
    duck.register("t", values)
    calls = [f"{name}(x)" for name in functions]
    calls += [f"log({base}, x)" for base in ("2", "0.5", "1", "0", "-2")] + ["log(x, 8)"]
    query = f"select {', '.join(f'{made} as c{i}' for i, made in enumerate(calls))} from t"
    found = qcore.sql(query, {"t": values}, threads=1, dialect="duckdb").to_arrow()
    assert_same_rows(found, duck.sql(query))
    for name in functions:
        with pytest.raises(qcore.ExecutionError, match=f"{name} is not defined for"):
            qcore.sql(f"select {name}(x) as y from t", {"t": values}, threads=1).to_arrow()
