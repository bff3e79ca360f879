"""The result rows of statements other than queries, in the columns that DuckDB returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.config import Settings
from qcore.errors import PlanError
from qcore.expression.tree import Cast, col, lit
from qcore.functions.type_names import type_name
from qcore.plan.naming import ColumnNames
from qcore.plan.schema import check_column
from qcore.session.result import Result

if TYPE_CHECKING:
    from qcore.sql.statements import Explain, Insert

INFORMATION_SCHEMA = "information_schema."
TABLES, COLUMNS = INFORMATION_SCHEMA + "tables", INFORMATION_SCHEMA + "columns"


def explanation(statement: Explain, result: Any, settings: Settings) -> Result:
    """Result of EXPLAIN: one row, a key and the plan as text. EXPLAIN ANALYZE runs the query."""
    key = "analyzed_plan" if statement.analyze else "physical_plan"
    columns = {"explain_key": [key], "explain_value": [result.explain(statement.analyze)]}
    return rows_result(pa.table(columns), settings)


def description(result: Result, settings: Settings) -> Result:
    """Result of DESCRIBE."""
    from qcore.sql.summaries import described_columns

    return rows_result(described_columns(result.schema), settings)


def table_names(names: Iterable[str], settings: Settings) -> Result:
    """Result of SHOW TABLES: a row for each table, sorted by name."""
    return rows_result(pa.table({"name": pa.array(sorted(names), pa.string())}), settings)


def information_of_tables(tables: Collection[str], views: Collection[str]) -> pa.Table:
    """The rows of information_schema.tables."""
    names = sorted({*tables, *views})
    kinds = ["BASE TABLE" if name in tables else "VIEW" for name in names]
    return _text_table({"table_name": names, "table_type": kinds})


def information_of_columns(schemas: Mapping[str, pa.Schema]) -> pa.Table:
    """The rows of information_schema.columns."""
    fields = [(name, n, field) for name in sorted(schemas) for n, field in enumerate(schemas[name], 1)]
    rows = _text_table(
        {
            "table_name": [name for name, _, _ in fields],
            "column_name": [field.name for _, _, field in fields],
            "is_nullable": ["YES" if field.nullable else "NO" for _, _, field in fields],
            "data_type": [type_name(field.type) for _, _, field in fields],
        }
    )
    return rows.add_column(4, "ordinal_position", pa.array([n for _, n, _ in fields], pa.int32()))


def _text_table(columns: Mapping[str, list[str]]) -> pa.Table:
    """Columns of text, after the columns of catalogue and schema, which have the same value in all rows."""
    n_rows = len(next(iter(columns.values())))
    named = {"table_catalog": ["memory"] * n_rows, "table_schema": ["main"] * n_rows, **columns}
    return pa.table({name: pa.array(values, pa.string()) for name, values in named.items()})


def count_of(n_rows: int, settings: Settings) -> Result:
    """Result of a statement that writes rows: one row, their number."""
    return rows_result(pa.table({"Count": pa.array([n_rows], pa.int64())}), settings)


def number_equal_names(rows: pa.Table) -> pa.Table:
    """Append a number to the name of each column whose name an earlier column has: i, i_1."""
    names = ColumnNames()
    return rows.rename_columns([names.new(name) for name in rows.column_names])


def convert_inserted(schema: pa.Schema, insert: Insert, rows: pa.Table, settings: Settings) -> pa.Table:
    """Convert the rows of an INSERT to the columns and types of its table; columns without values are null.

    Raises
    ------
    PlanError
        The number of columns differs, or the statement names a column twice or one that the table does not have.
    ExecutionError
        A value cannot be cast to its column's type.
    """
    from qcore.builder.plan_builder import PlanBuilder

    columns = list(insert.columns or schema.names)
    for column in columns:
        check_column(column, schema, f"INSERT INTO {insert.table}")
    if len(set(columns)) < len(columns) or len(columns) != rows.num_columns:
        raise PlanError(
            f"INSERT INTO {insert.table}: the query returns {rows.num_columns} columns for {', '.join(columns)}; "
            "name each column once and return a value for it"
        )
    converted = {
        field.name: Cast(col(field.name) if field.name in columns else lit(None, field.type), field.type)
        for field in schema
    }
    plan = PlanBuilder().values(rows.rename_columns(columns)).project(converted).build()
    return Result(plan, settings).collect_charged(f"INSERT INTO {insert.table}").cast(schema)


def nothing(settings: Settings) -> Result:
    """Result of a statement without rows."""
    return rows_result(pa.table({"Success": pa.array([], pa.bool_())}), settings)


def rows_result(rows: pa.Table, settings: Settings) -> Result:
    """A result with these rows."""
    from qcore.builder.plan_builder import PlanBuilder

    return Result(PlanBuilder().values(rows).build(), settings)


def spelled_among(name: str, names: Collection[str]) -> str:
    """Return the spelling of `name` among `names`.

    That is `name` itself if it is among them, else the only one that differs in case. If there is none, or several,
    `name` is returned.
    """
    if name in names:
        return name
    alike = [known for known in names if known.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name
