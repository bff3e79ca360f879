"""The result rows of statements that are no queries, in the columns that DuckDB returns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from qcore.builder.plan_builder import PlanBuilder
from qcore.config import Settings
from qcore.errors import PlanError
from qcore.expression.tree import Cast, col, lit
from qcore.frontends.text.statements import Explain, Insert
from qcore.plan.naming import ColumnNames
from qcore.plan.schema import check_column
from qcore.session.result import Result


def explanation(statement: Explain, result: Result, settings: Settings) -> Result:
    """Result of EXPLAIN: one row, a key and the plan as text. EXPLAIN ANALYZE runs the query."""
    key = "analyzed_plan" if statement.analyze else "physical_plan"
    columns = {"explain_key": [key], "explain_value": [result.explain(statement.analyze)]}
    return rows_result(pa.table(columns), settings)


def description(result: Result, settings: Settings) -> Result:
    """Result of DESCRIBE: a row for each column with its name, its Arrow type, and whether it may hold nulls."""
    names = pa.array(result.schema.names, pa.string())
    types = pa.array([str(field.type) for field in result.schema], pa.string())
    nulls = pa.array(["YES" if field.nullable else "NO" for field in result.schema], pa.string())
    return rows_result(pa.table({"column_name": names, "column_type": types, "null": nulls}), settings)


def table_names(names: Iterable[str], settings: Settings) -> Result:
    """Result of SHOW TABLES: a row for each table, sorted by name."""
    return rows_result(pa.table({"name": pa.array(sorted(names), pa.string())}), settings)


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
    return Result(PlanBuilder().values(rows).build(), settings)
