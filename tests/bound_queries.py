"""Queries read by the binder alone, compared with DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

import qcore
from oracle import assert_same_rows
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.nodes import Values
from qcore.sql.bind import READERS, plan_query
from qcore.sql.binder import Binder
from qcore.sql.parse import parse
from qcore.sql.scope import BindContext, Environment, Level, Named, Rows, Scope, TableNames

T = pa.table(
    {
        "a": pa.array([1, 2, 2, None, 5], pa.int64()),
        "b": ["x", "y", "y", "z", None],
        "c": [1.5, 2.5, None, 4.0, -1.0],
        "l": pa.array([[1, 2], [3], [], None, [None, 7]], pa.list_(pa.int64())),
    }
)
U = pa.table(
    {"a": pa.array([1, 2, 3, None], pa.int64()), "d": pa.array([10, 20, 30, 40], pa.int64()), "b": ["x", "q", "y", "y"]}
)
TABLES = {"t": T, "u": U}
SCHEMAS = {name: table.schema for name, table in TABLES.items()}


def check(query: str, same: str | None = None, *, ordered: bool = False) -> None:
    """Fail unless the binder reads the query and its rows are DuckDB's.

    `same` is the query for DuckDB if it must differ.
    """
    plan_query(query, SCHEMAS)
    with duckdb.connect() as database:
        for name, table in TABLES.items():
            database.register(name, table)
        wanted = database.sql(same or query).to_arrow_table()
    got = qcore.sql(query, TABLES).to_arrow()
    names = [f"c{n}" for n in range(len(got.column_names))]
    assert_same_rows(got.rename_columns(names), wanted.rename_columns(names), ordered=ordered)


def rows(query: str) -> list[tuple[object, ...]]:
    """The rows of a query that the binder reads."""
    plan_query(query, SCHEMAS)
    got = qcore.sql(query, TABLES).to_arrow()
    return list(zip(*(column.to_pylist() for column in got.columns), strict=True))


def binder(text: str = "select 1", dialect: Dialect = QCORE) -> Binder:
    """A binder of a text, without tables."""
    _, source = parse(text, dialect)
    return Binder({}, {}, dialect, source, READERS.expressions, READERS.queries, READERS.tables)


def parse_expression(expression: str, dialect: Dialect = QCORE) -> tuple[Binder, Any]:
    """A binder of `select expression`, and the expression's node of the parse tree."""
    (statement,), source = parse(f"select {expression}", dialect)
    made = Binder({}, {}, dialect, source, READERS.expressions, READERS.queries, READERS.tables)
    return made, statement.args["expressions"][0]


def context_of_rows(
    tables: dict[str, tuple[Named, ...]], schema: pa.Schema, level: Level | None = None, **what: Any
) -> BindContext:
    """The context of WHERE over one node with this schema, whose columns are those of tables."""
    names = [TableNames((table,), columns) for table, columns in tables.items()]
    rows = Rows(Values("1", schema, schema.empty_table()), names, [named for table in names for named in table.columns])
    return BindContext(Scope(rows, Environment(level or Level(), {}), QCORE), "WHERE", **what)
