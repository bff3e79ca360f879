"""What statements give as rows, in the columns that DuckDB gives them. Floor P4. SPEC Q1."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from qcore.builder.plan_builder import PlanBuilder
from qcore.config import Settings
from qcore.execution.result import Result
from qcore.frontends.sql_statements import Explain


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


def nothing(settings: Settings) -> Result:
    """No row, of a statement that is done."""
    return rows_result(pa.table({"Success": pa.array([], pa.bool_())}), settings)


def rows_result(rows: pa.Table, settings: Settings) -> Result:
    """A result that gives these rows."""
    return Result(PlanBuilder().values(rows).build(), settings)
