"""SUMMARIZE and DESCRIBE as queries: a row for each column of a table or a query.

SUMMARIZE has the columns that it has in DuckDB. One aggregation computes the statistics of all columns in one row.
Unnesting makes a row of each column's statistics. DESCRIBE has each column's name, its Arrow type, and whether it may
hold nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from qcore.expression.bound import Bound
from qcore.expression.tree import col
from qcore.expression.types import is_numeric, shown_type
from qcore.functions.calls import bind_call
from qcore.functions.casts import bind_cast
from qcore.functions.type_names import type_name
from qcore.plan.nodes import Unnest, Values
from qcore.plan.projections import project
from qcore.plan.schema import unnest_schema
from qcore.sql.binder import Binder, QueryReader
from qcore.sql.grouping import Grouping
from qcore.sql.literals import constant
from qcore.sql.reading import NotBound, take
from qcore.sql.scope import Environment, Named, Relation
from qcore.sql.subqueries import is_query
from qcore.sql.tables import distinct_names, first_place

_TEXT = pa.string()
# Statistics that become text: their names in DuckDB, the aggregate, and its further argument.
_OF_VALUES = {"min": ("min", None), "max": ("max", None)}
_OF_NUMBERS = {
    "avg": ("avg", None), "std": ("stddev_samp", None), "q25": ("quantile_cont", 0.25), "q50": ("quantile_cont", 0.5),
    "q75": ("quantile_cont", 0.75),
}  # fmt: skip


def _bind_given(binder: Binder, inner: Any, environment: Environment) -> Relation:
    """The table or query of a statement, with distinct names."""
    if is_query(inner):
        given = binder.query(inner, environment)
    else:
        rows = binder.table(inner, first_place(binder, environment))
        given = Relation(rows.node, rows.columns)
    return Relation(given.node, distinct_names(given.columns))


def described_columns(fields: Iterable[pa.Field]) -> pa.Table:
    """The rows of DESCRIBE: of each column the name, the Arrow type, and whether it may hold nulls."""
    rows = [(field.name, shown_type(field.type), "YES" if field.nullable else "NO") for field in fields]
    names = ("column_name", "column_type", "null")
    return pa.table({name: pa.array([row[i] for row in rows], _TEXT) for i, name in enumerate(names)})


def bind_description(binder: Binder, node: Any, environment: Environment) -> Relation:
    """DESCRIBE table, and DESCRIBE query."""
    inner, kind = take(node, "this", "kind")
    if kind is not None and str(kind).upper() != "TABLE":
        raise NotBound(node, f"DESCRIBE {kind}")
    given = _bind_given(binder, inner, environment)
    schema = given.node.schema
    data = described_columns([schema.field(named.own).with_name(named.shown) for named in given.columns])
    columns = [Named(name, binder.names.new(name)) for name in data.column_names]
    data = data.rename_columns([named.own for named in columns])
    return Relation(Values(binder.ids.new(), data.schema, data), columns)


def bind_summary(binder: Binder, node: Any, environment: Environment) -> Relation:
    """SUMMARIZE table, and SUMMARIZE query."""
    inner, _ = take(node, "this", "table")
    given = _bind_given(binder, inner, environment)
    columns = given.columns
    values = [Bound(col(named.own), given.node.schema.field(named.own).type) for named in columns]
    grouping = Grouping(binder)

    def call(function: str, *arguments: Bound, distinct: bool = False) -> Bound:
        return grouping.add(function, arguments, distinct, None, [])

    def texts(function: str, share: float | None, can_compute: Callable[[pa.DataType], bool]) -> list[Bound]:
        more = [] if share is None else [constant(share, pa.float64())]
        return [
            bind_cast(call(function, value, *more), _TEXT, binder.dialect) if can_compute(value.type)
            else constant(None, _TEXT)
            for value in values
        ]  # fmt: skip

    n_rows, counts = call("count"), [call("count", value) for value in values]
    lists = {
        "column_name": [constant(named.shown, _TEXT) for named in columns],
        "column_type": [constant(type_name(value.type), _TEXT) for value in values],
        **{name: texts(*call_of, _has_order) for name, call_of in _OF_VALUES.items()},
        "approx_unique": [
            call("count", value, distinct=True) if _has_order(value.type) else constant(None, pa.int64())
            for value in values
        ],
        **{name: texts(*call_of, is_numeric) for name, call_of in _OF_NUMBERS.items()},
        "count": [n_rows] * len(columns),
        "null_percentage": [_null_percentage(binder, n_rows, count) for count in counts],
    }
    held = [binder.names.new(name) for name in lists]
    made = [binder.names.new(name) for name in lists]
    exprs = [bind_call("list_value", of_columns, binder.dialect).expr for of_columns in lists.values()]
    row = project(binder.ids.new(), grouping.node(given.node), held, exprs)
    pairs = tuple(zip(held, made, strict=True))
    unnested = Unnest(binder.ids.new(), unnest_schema(row.schema, pairs, None), row, pairs)
    return Relation(unnested, [Named(name, own) for name, own in zip(lists, made, strict=True)])


def _has_order(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


def _null_percentage(binder: Binder, n_rows: Bound, count: Bound) -> Bound:
    """The share of nulls in percent; null: there are no rows."""
    double = pa.float64()
    n_nulls = bind_cast(bind_call("subtract", [n_rows, count], binder.dialect), double, binder.dialect)
    all_rows = bind_cast(bind_call("nullif", [n_rows, constant(0, pa.int64())], binder.dialect), double, binder.dialect)
    percent = bind_call("multiply", [constant(100.0, double), n_nulls], binder.dialect)
    return bind_call("divide", [percent, all_rows], binder.dialect)


READERS: dict[str, QueryReader] = {"Summarize": bind_summary, "Describe": bind_description}
