"""What statements give as rows, in the columns that DuckDB gives them. SPEC Q1."""

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
    """One row: what is explained, and the plan as text. EXPLAIN ANALYZE runs the query."""
    key = "analyzed_plan" if statement.analyze else "physical_plan"
    columns = {"explain_key": [key], "explain_value": [result.explain(statement.analyze)]}
    return rows_result(pa.table(columns), settings)


def description(result: Result, settings: Settings) -> Result:
    """A row for each column: its name, its Arrow type, and that it may hold nulls."""
    names = pa.array(result.schema.names, pa.string())
    types = pa.array([str(field.type) for field in result.schema], pa.string())
    nulls = pa.array(["YES" if field.nullable else "NO" for field in result.schema], pa.string())
    return rows_result(pa.table({"column_name": names, "column_type": types, "null": nulls}), settings)


def table_names(names: Iterable[str], settings: Settings) -> Result:
    """A row for each table, by name."""
    return rows_result(pa.table({"name": pa.array(sorted(names), pa.string())}), settings)


def count_of(n_rows: int, settings: Settings) -> Result:
    """One row: the number of rows that a statement wrote."""
    return rows_result(pa.table({"Count": pa.array([n_rows], pa.int64())}), settings)


def with_unlike_names(rows: pa.Table) -> pa.Table:
    """The rows with a number behind every name of a column that is there already: i, i_1."""
    names = ColumnNames()
    return rows.rename_columns([names.new(name) for name in rows.column_names])


def as_rows_of(schema: pa.Schema, insert: Insert, rows: pa.Table, settings: Settings) -> pa.Table:
    """The rows of an INSERT in the columns and types of its table; a column that it does not give is null.

    Raises
    ------
    PlanError
        It gives another number of columns, or one that the table has not, or not so often.
    ExecutionError
        A value cannot be cast to its column's type.
    """
    columns = list(insert.columns or schema.names)
    for column in columns:
        check_column(column, schema, f"INSERT INTO {insert.table}")
    if len(set(columns)) < len(columns) or len(columns) != rows.num_columns:
        raise PlanError(
            f"INSERT INTO {insert.table} gives {rows.num_columns} columns for {', '.join(columns)}; each is given once"
        )
    made = {
        field.name: Cast(col(field.name) if field.name in columns else lit(None, field.type), field.type)
        for field in schema
    }
    given = PlanBuilder().values(rows.rename_columns(columns)).project(made)
    return Result(given.build(), settings).kept_rows(f"INSERT INTO {insert.table}").cast(schema)


def nothing(settings: Settings) -> Result:
    """No row, of a statement that is done."""
    return rows_result(pa.table({"Success": pa.array([], pa.bool_())}), settings)


def rows_result(rows: pa.Table, settings: Settings) -> Result:
    """A result that gives these rows."""
    return Result(PlanBuilder().values(rows).build(), settings)
