"""FROM: lists of tables, and joins with ON, USING and NATURAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, Literal, call, col, column_names
from qcore.functions.calls import bind_call
from qcore.plan.joins import conjunction, make_join
from qcore.plan.nodes import Filter, NestedLoopJoin, PlanNode, Scan, Values
from qcore.plan.projections import add_columns, select_columns
from qcore.plan.schema import LEFT_ONLY, join_schema, unknown
from qcore.record import record
from qcore.sql.asof import ASOF_USAGE, nearest
from qcore.sql.binder import Binder, TableReader
from qcore.sql.expressions import chain
from qcore.sql.files import default_alias, paths_of, table_name
from qcore.sql.ordering import sorted_rows
from qcore.sql.pivot import pivoted_rows
from qcore.sql.random_columns import RandomValue
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.row_numbers import number_and_copy, number_rows
from qcore.sql.samples import sample_rows
from qcore.sql.scope import BindContext, Environment, Level, Named, Part, Relation, Rows, Scope, TableNames
from qcore.sql.single_row import one_row
from qcore.sql.subqueries import Joined, dependent_join, join_subqueries
from qcore.sql.tables import derived_rows, first_place, named_rows, with_alias
from qcore.sql.unnest import UnnestedRows, bind_lists, bind_table_function, bind_unnest, place_elements

_EXPLODE = ("explode", "explode_outer")


@record(slots=True)
class LateralRows(Rows):
    """Rows that depend on tables before them: `captured` has the values that they read."""

    captured: dict[str, Any] = field(default_factory=dict)


_UNNEST_JOINS = {"left": "LEFT JOIN unnest(…) takes ON TRUE; put the condition into a subquery"}


def from_rows(binder: Binder, clause: Any, joins: Sequence[Any], environment: Environment) -> Rows:
    """The rows of FROM and its joins."""
    if clause is None:
        if joins:
            raise NotBound(joins[0], "JOIN without FROM", "write FROM and the first table before it")
        return Rows(one_row(binder), [], [])
    (first,) = take(clause, "this")
    return joined_rows(binder, first, joins, first_place(binder, environment))


def joined_rows(binder: Binder, first: Any, joins: Sequence[Any], context: BindContext) -> Rows:
    """A table and the joins after it. `context` has the tables before it."""
    groups: list[tuple[Any, list[Any]]] = [(first, [])]
    keeps_right = any(get(one, "side") in ("RIGHT", "FULL") for one in joins)
    for join in joins:
        if keeps_right and _is_comma(join):
            groups.append((take(join, "this")[0], []))
        else:
            groups[-1][1].append(join)
    rows: Rows | None = None
    for table, behind in groups:
        before = context if rows is None else _beside(binder, context, rows)
        right = binder.table(table, before)
        for join in behind:
            right = _join(binder, right, join, before)
        rows = right if rows is None else _combine(binder, rows, right, "inner", [])
    assert rows is not None
    return rows


def _is_comma(join: Any) -> bool:
    return not any(get(join, name) for name in ("kind", "side", "method", "on", "using"))


def _beside(binder: Binder, context: BindContext, rows: Rows) -> BindContext:
    """The context of a table after these. With LATERAL it can read them."""
    before = context.scope.rows
    if before.tables or before.columns:
        schema = pa.schema([*before.node.schema, *rows.node.schema])
        node: PlanNode = Values("", schema, None)
        rows = Rows(node, [*before.tables, *rows.tables], [*before.columns, *rows.columns])
    return BindContext(Scope(rows, context.scope.environment, binder.dialect), "FROM")


# --- tables ---


def bind_table(binder: Binder, node: Any, context: BindContext) -> Rows:
    """A table, view or common table by name, or a table function."""
    name, schema, catalogue, alias, pivots, sample, joins, _ = take(
        node, "this", "db", "catalog", "alias", "pivots", "sample", "joins", "ordinality"
    )
    paths = paths_of(node, binder.source)
    # An alias names columns by position.
    reads_all, binder.reads_all = (
        binder.reads_all,
        binder.reads_all or bool(alias is not None and get(alias, "columns")),
    )
    if paths:
        relation, _ = named_rows(binder, [(table_name(paths), True)], context)
        rows = with_alias(relation, default_alias(node, paths), alias)
    elif type(name).__name__ != "Identifier":
        rows = bind_table_function(binder, node, name, alias, context)
    else:
        parts = [identifier(part) for part in (catalogue, schema, name) if part is not None]
        relation, known = named_rows(binder, parts, context)
        rows = with_alias(relation, known, alias, isinstance(relation.node, Scan) and known in binder.tables)
        if alias is None and len(parts) > 1:
            table = rows.tables[0]
            rows.tables = [TableNames((*(part[0] for part in parts[:-1]), table.parts[-1]), table.columns)]
        elif alias is None:
            rows.tables = [TableNames(("memory", "main", rows.tables[0].parts[-1]), rows.tables[0].columns)]
    binder.reads_all = reads_all
    return _apply_changes(binder, rows, pivots, sample, joins, context)


def _apply_changes(binder: Binder, rows: Rows, pivots: Any, sample: Any, joins: Any, context: BindContext) -> Rows:
    """The rows of a table with its PIVOT, UNPIVOT, sample and joins."""
    if isinstance(rows, UnnestedRows) and (pivots or sample is not None):
        raise PlanError("PIVOT or a sample of unnest over tables before it is not supported; use a subquery")
    for pivot in pivots or ():
        rows = pivoted_rows(binder, rows, pivot, context)
    if sample is not None:
        rows = sample_rows(binder, rows, sample)
    for join in joins or ():
        rows = _join(binder, rows, join, context)
    return rows


def bind_derived(binder: Binder, node: Any, context: BindContext) -> Rows:
    """A query in brackets, or tables and joins in brackets."""
    inner, alias, pivots, sample, joins = (get(node, name) for name in ("this", "alias", "pivots", "sample", "joins"))
    if type(inner).__name__ in ("Table", "Lateral", "Unnest") or _is_joined_tables(inner):
        rows = binder.table(inner, context)
        if alias is not None:
            named = with_alias(Relation(rows.node, rows.columns), "", alias)
            rows = replace(rows, tables=named.tables, columns=named.columns)
    else:
        rows = _read_derived(binder, _bare(node), alias, context)
    return _apply_changes(binder, rows, pivots, sample, joins, context)


def _bare(node: Any) -> Any:
    """A query in brackets without its clauses as a table."""
    if get(node, "pivots") is None and get(node, "sample") is None:
        return node
    bare = node.copy()
    bare.set("pivots", None)
    bare.set("sample", None)
    return bare


def _is_joined_tables(node: Any) -> bool:
    """Whether brackets hold tables and not a query."""
    if type(node).__name__ != "Subquery":
        return False
    inner = node.this
    return (
        type(inner).__name__ in ("Table", "Lateral", "Unnest") or bool(get(node, "joins")) or _is_joined_tables(inner)
    )


def _read_derived(binder: Binder, query: Any, alias: Any, context: BindContext) -> Rows:
    relation, captured = derived_rows(binder, query, context)
    rows = with_alias(relation, "", alias)
    if alias is None:
        rows.tables = []
    if captured:
        return LateralRows(rows.node, rows.tables, rows.columns, captured)
    return rows


def bind_lateral(binder: Binder, node: Any, context: BindContext) -> Rows:
    """LATERAL (query)."""
    inner, alias, *_ = take(node, "this", "alias", "view", "outer", "cross_apply", "ordinality")
    if get(node, "view"):
        return _view_rows(binder, inner, alias, context)
    if get(node, "cross_apply") is not None:
        if get(node, "cross_apply"):
            raise NotBound(node, "CROSS APPLY", "write CROSS JOIN LATERAL (SELECT …)")
        raise NotBound(node, "OUTER APPLY", "write LEFT JOIN LATERAL (SELECT …) ON TRUE")
    if type(inner).__name__ == "Unnest" and alias is not None and get(inner, "alias") is None:
        lists, offset = take(inner, "expressions", "offset")
        return bind_lists(binder, lists, ["unnest"] * len(lists), "unnest", alias, offset, context)
    if type(inner).__name__ == "Unnest":
        return bind_unnest(binder, inner, context)
    if type(inner).__name__ != "Subquery":
        return bind_table_function(binder, node, inner, alias, context)
    return _read_derived(binder, inner, alias, context)


def _view_rows(binder: Binder, function: Any, alias: Any, context: BindContext) -> Rows:
    """LATERAL VIEW explode(x) of Spark."""
    name, arguments = take(function, "this", "expressions")
    if str(name).lower() not in _EXPLODE:
        raise PlanError(
            f"LATERAL VIEW {str(name).lower()} is not supported; explode is, and UNNEST(…) WITH ORDINALITY AS "
            "t(value, position) among the tables counts from 1"
        )
    if len(arguments or ()) != 1:
        raise PlanError(f"LATERAL VIEW {str(name).lower()} takes one list or map")
    return bind_lists(binder, arguments, ["col"], "$view", alias, None, context)


def with_views(binder: Binder, rows: Rows, views: Sequence[Any], environment: Environment) -> Rows:
    """The rows with each LATERAL VIEW applied."""
    for view in views:
        right = binder.table(view, _beside(binder, first_place(binder, environment), rows))
        name = str(get(get(view, "this"), "this") or "").lower()
        kind = "left" if get(view, "outer") or name == "explode_outer" else "inner"
        rows = _combine(binder, rows, right, kind, [])
    return rows


# --- joins ---


def _join(binder: Binder, left: Rows, node: Any, context: BindContext) -> Rows:
    """The rows with those of a table joined."""
    try:
        return _read_join(binder, left, node, context)
    except PlanError:
        binder.blame(node)
        raise


def _read_join(binder: Binder, left: Rows, node: Any, context: BindContext) -> Rows:
    table, side, kind, method, on, using, pivots, _ = take(
        node, "this", "side", "kind", "method", "on", "using", "pivots", "global"
    )
    side, kind, method = (str(part or "").upper() for part in (side, kind, method))
    if pivots:
        raise PlanError("PIVOT after a join is not supported; put the joined tables into a subquery")
    if method not in ("", "NATURAL", "ASOF", "POSITIONAL"):
        raise NotBound(node, f"{method} JOIN", "there are NATURAL, ASOF and POSITIONAL")
    right = binder.table(table, _beside(binder, context, left))
    how = _kind(side, kind, node)
    if side == "RIGHT" and how in LEFT_ONLY:
        if isinstance(right, (LateralRows, UnnestedRows)):
            raise PlanError(f"RIGHT {kind} JOIN of a table that reads the tables before it (LATERAL) is not possible")
        left, right = right, left
    if method == "POSITIONAL":
        return _positional_join(binder, left, right)
    if method == "ASOF":
        return _asof_join(binder, left, right, how, on, using, context)
    if method == "NATURAL":
        names = [named.shown for named in left.columns]
        shared = {named.shown.lower() for named in right.columns}
        wanted = [name for name in dict.fromkeys(names) if name.lower() in shared]
        if not wanted:
            raise PlanError("NATURAL JOIN: the tables have no column of the same name; use JOIN … ON or CROSS JOIN")
        return _join_using(binder, left, right, how, [(name, True) for name in wanted])
    if using:
        return _join_using(binder, left, right, how, [_using_name(one) for one in using])
    if on is None:
        if how != "inner":
            raise PlanError(f"{side or kind} JOIN needs ON or USING")
        return _combine(binder, left, right, "inner", [])
    return _join_on(binder, left, right, how, on, context)


def _using_name(node: Any) -> tuple[str, bool]:
    if type(node).__name__ == "Column":
        (node,) = take(node, "this")
    return identifier(node)


def _kind(side: str, kind: str, node: Any) -> str:
    if kind in ("SEMI", "ANTI"):
        return f"left_{kind.lower()}"
    if kind not in ("", "INNER", "CROSS", "OUTER"):
        raise NotBound(node, f"{kind} JOIN", "there are INNER, LEFT, RIGHT, FULL, CROSS, SEMI and ANTI")
    return side.lower() or "inner"


def _positional_join(binder: Binder, left: Rows, right: Rows) -> Rows:
    """POSITIONAL JOIN: first rows are joined with first rows, second rows with second rows, and so on."""
    sides: list[tuple[PlanNode, str]] = []
    for rows, which in ((left, "left"), (right, "right")):
        if isinstance(rows, (LateralRows, UnnestedRows)):
            raise PlanError("POSITIONAL JOIN of a table that reads the tables before it (LATERAL) is not supported")
        node, keys = sorted_rows(rows.node)
        if not keys:
            raise PlanError(
                f"POSITIONAL JOIN: the rows of its {which} side have no order; it takes queries with ORDER BY: "
                "(SELECT … ORDER BY x) a POSITIONAL JOIN (SELECT … ORDER BY y) b"
            )
        number = binder.names.new("row_number")
        sides.append((number_rows(binder, node, number, keys), number))
    (a, a_number), (b, b_number) = sides
    node = make_join(binder.ids, "full", a, b, [call("equal", col(a_number), col(b_number))])
    return Rows(node, [*left.tables, *right.tables], [*left.columns, *right.columns])


def _asof_join(binder: Binder, left: Rows, right: Rows, kind: str, on: Any, using: Any, context: BindContext) -> Rows:
    """ASOF JOIN, as an ordinary join on the number of the nearest right row."""
    if isinstance(right, (LateralRows, UnnestedRows)):
        raise PlanError("ASOF JOIN of a table that reads the tables before it (LATERAL) is not supported")
    if using:
        names = [_using_name(one) for one in using]
        pairs = [_using_pair(binder, left, right, name) for name in names]
        conditions = [bind_call("equal", pair, binder.dialect).expr for pair in pairs[:-1]]
        conditions.append(bind_call("greater_equal", pairs[-1], binder.dialect).expr)
        left, right, is_nearest = nearest(binder, left, right, conditions)
        return _merge_names(binder, left, right, kind, [is_nearest], names)
    if on is None:
        raise PlanError(f"ASOF JOIN has no condition; the syntax is {ASOF_USAGE}")
    conditions, subqueries, _ = _conditions(binder, left, right, on, context)
    try:
        if subqueries:
            raise PlanError("a subquery in ON of an ASOF JOIN is not supported; put it into WHERE")
        left, right, is_nearest = nearest(binder, left, right, conditions)
    except PlanError:
        binder.blame(on)
        raise
    return _combine(binder, left, right, kind, [is_nearest])


def _join_on(binder: Binder, left: Rows, right: Rows, kind: str, on: Any, context: BindContext) -> Rows:
    if isinstance(right, UnnestedRows):
        return _join_elements_on(binder, left, right, kind, on, context)
    conditions, subqueries, pairs = _conditions(binder, left, right, on, context)
    if subqueries:
        return _join_over_subqueries(binder, left, right, kind, conditions, subqueries, pairs)
    return _combine(binder, left, right, kind, conditions)


def _conditions(
    binder: Binder, left: Rows, right: Rows, on: Any, context: BindContext
) -> tuple[list[Expr], list[Any], PlanNode]:
    """The conditions of ON over the pairs of both tables' rows, the subqueries in them, and the pairs."""
    schema = join_schema("inner", left.node.schema, right.node.schema)
    pairs = NestedLoopJoin(binder.ids.new(), schema, left.node, right.node, "inner")
    both = Rows(pairs, [*left.tables, *right.tables], [*left.columns, *right.columns])
    at = BindContext(Scope(both, context.scope.environment, binder.dialect), "ON")
    conditions = []
    for part in chain(on) if type(on).__name__ in ("And", "Paren") else [on]:
        bound = as_condition(binder.expression(part, at), binder)
        if not (isinstance(bound.expr, Literal) and bound.expr.value is True):
            conditions.append(bound.expr)
    return conditions, at.subqueries, pairs


def _join_elements_on(
    binder: Binder, left: Rows, right: UnnestedRows, kind: str, on: Any, context: BindContext
) -> Rows:
    if kind == "left" and type(on).__name__ == "Boolean" and get(on, "this"):
        return _combine(binder, left, right, "left", [])
    if kind != "inner":
        raise PlanError(
            _UNNEST_JOINS.get(kind, f"unnest(…) is joined by a comma, CROSS JOIN or LEFT JOIN, not {kind.upper()}")
        )
    rows = _combine(binder, left, right, "inner", [])
    at = BindContext(Scope(rows, context.scope.environment, binder.dialect), "ON")
    condition = as_condition(binder.expression(on, at), binder)
    node = join_subqueries(binder, rows.node, at.subqueries)
    rows.node = Filter(binder.ids.new(), node.schema, node, condition.expr)
    return rows


def as_condition(value: Bound, binder: Binder, node: Any = None) -> Bound:
    """A value, of this node, as a condition. PlanError unless it is a boolean."""
    if pa.types.is_boolean(value.type) or pa.types.is_null(value.type):
        return value
    if pa.types.is_integer(value.type):
        return bind_call("not_equal", [value, Bound(Literal(0, pa.int64()), pa.int64())], binder.dialect)
    binder.blame(node)
    raise PlanError(f"the condition is of type {value.type}, not boolean; compare it with something")


def _combine(binder: Binder, left: Rows, right: Rows, kind: str, conditions: Sequence[Expr]) -> Rows:
    """The join on conditions, with the columns of both sides."""
    tables, columns = [*left.tables, *right.tables], [*left.columns, *right.columns]
    if kind in LEFT_ONLY:
        tables, columns = left.tables, left.columns
    if isinstance(right, UnnestedRows):
        return _unnest_lists(binder, left, right, kind, conditions, tables, columns)
    if isinstance(right, LateralRows):
        return _lateral(binder, left, right, kind, conditions, tables, columns)
    node = make_join(binder.ids, kind, left.node, right.node, conditions)
    return _like(left, node, tables, columns)


def _like(left: Rows, node: PlanNode, tables: list[TableNames], columns: list[Named]) -> Rows:
    """Joined rows. They depend on earlier tables if the left side does."""
    if isinstance(left, LateralRows):
        return LateralRows(node, tables, columns, left.captured)
    return Rows(node, tables, columns)


def _lateral(
    binder: Binder,
    left: Rows,
    right: LateralRows,
    kind: str,
    conditions: Sequence[Expr],
    tables: list[TableNames],
    columns: list[Named],
) -> Rows:
    known = set(left.node.schema.names)
    own = {name: value for name, value in right.captured.items() if column_names(value.expr) <= known}
    others = {name: value for name, value in right.captured.items() if name not in own}
    if others:
        raise PlanError(
            "a table in brackets with joins that reads the tables before the brackets (LATERAL) is not supported; "
            "write the joins without brackets"
        )
    if kind not in ("inner", "left"):
        raise PlanError(
            f"a {kind.replace('_', ' ').upper()} JOIN of a table that reads the tables before it (LATERAL) is not "
            "possible: its rows depend on them; use JOIN or LEFT JOIN"
        )
    node = left.node
    arguments, computed = [], {}
    for name, value in own.items():
        if isinstance(value.expr, Column):
            arguments.append((name, value.expr.name))
        else:
            column = binder.names.new(name)
            computed[column] = value.expr
            arguments.append((name, column))
    if computed:
        node = add_columns(binder.ids.new(), node, computed)
    node = dependent_join(binder, kind, node, right.node, tuple(arguments), conditions)
    return _like(left, node, tables, columns)


def _unnest_lists(
    binder: Binder,
    left: Rows,
    right: UnnestedRows,
    kind: str,
    conditions: Sequence[Expr],
    tables: list[TableNames],
    columns: list[Named],
) -> Rows:
    """The left rows with the elements of their lists, each with those for which the conditions are true."""
    if kind not in ("inner", "left") or (kind == "left" and conditions):
        raise PlanError(
            _UNNEST_JOINS.get(kind, f"unnest(…) is joined by a comma, CROSS JOIN or LEFT JOIN, not {kind.upper()}")
        )
    node = place_elements(binder, left.node, right, kind == "left")
    predicate = conjunction(conditions)
    if predicate is not None:
        node = Filter(binder.ids.new(), node.schema, node, predicate)
    return _like(left, node, tables, columns)


def _join_using(binder: Binder, left: Rows, right: Rows, kind: str, names: Sequence[Part]) -> Rows:
    pairs = [_using_pair(binder, left, right, name) for name in names]
    conditions = [bind_call("equal", pair, binder.dialect).expr for pair in pairs]
    return _merge_names(binder, left, right, kind, conditions, names)


def _using_pair(binder: Binder, left: Rows, right: Rows, name: Part) -> list[Bound]:
    """The column of each side that USING names."""
    pair = []
    for rows, which in ((left, "left"), (right, "right")):
        scope = Scope(rows, Environment(Level(), {}), binder.dialect)
        found = scope.find(name)
        if found is None:
            raise unknown("column", name[0], [n.shown for n in scope.rows.columns], f"USING, on its {which} side")
        pair.append(found)
    return pair


def _merge_names(
    binder: Binder, left: Rows, right: Rows, kind: str, conditions: Sequence[Expr], names: Sequence[Part]
) -> Rows:
    """The join on conditions, with one column for each name of USING."""
    joined = _combine(binder, left, right, kind, conditions)
    if kind in LEFT_ONLY:
        return joined
    pairs = [_using_pair(binder, left, right, name) for name in names]
    merged = {a.expr.name: (a, b) for a, b in pairs}  # type: ignore[attr-defined]
    gone = {b.expr.name for _, b in pairs}  # type: ignore[attr-defined]
    node, columns = joined.node, []
    computed: dict[str, Expr] = {}
    for named in left.columns:
        if named.own not in merged or kind in ("inner", "left"):
            columns.append(named)
            continue
        a, b = merged[named.own]
        if kind == "right":
            columns.append(Named(named.shown, b.expr.name))  # type: ignore[attr-defined]
            continue
        own = binder.names.new(named.shown)
        computed[own] = bind_call("coalesce", [a, b], binder.dialect).expr
        columns.append(Named(named.shown, own))
    columns += [named for named in right.columns if named.own not in gone]
    if computed:
        node = add_columns(binder.ids.new(), node, computed)
    return _like(joined, node, joined.tables, columns)


# --- subqueries in ON ---


def _join_over_subqueries(
    binder: Binder,
    left: Rows,
    right: Rows,
    kind: str,
    conditions: list[Expr],
    waiting: Sequence[Any],
    pairs: PlanNode,
) -> Rows:
    """A join whose conditions have subqueries.

    A subquery that reads one side is joined to that side. If a subquery reads both sides, it is first computed for all
    pairs of rows. The conditions then select pairs of row numbers, and the inputs are joined by these numbers.
    """
    sides = [left.node, right.node]
    for one in waiting:
        side = _side_of(one, sides)
        if side is None:
            break
        sides[side] = join_subqueries(binder, sides[side], [one])
    else:
        a = _like(left, sides[0], left.tables, left.columns)
        b = _like(right, sides[1], right.tables, right.columns)
        return _combine(binder, a, b, kind, conditions)
    if isinstance(right, LateralRows) or isinstance(left, LateralRows):
        raise PlanError("a subquery in ON of a LATERAL join that reads both tables is not supported; put it into WHERE")
    predicate = conjunction(conditions)
    if kind == "inner":
        node = join_subqueries(binder, pairs, waiting)
        node = node if predicate is None else Filter(binder.ids.new(), node.schema, node, predicate)
        return Rows(node, [*left.tables, *right.tables], [*left.columns, *right.columns])
    return _join_by_numbers(binder, left, right, kind, predicate, waiting)


def _side_of(one: Any, sides: Sequence[PlanNode]) -> int | None:
    """The number of the input whose columns a subquery in ON reads; 1 if it may be either."""
    if isinstance(one, RandomValue):
        return None
    assert isinstance(one, Joined)
    exprs = [value.expr for value in one.captured.values()]
    right_names = set(one.right.schema.names)
    read = set().union(*map(column_names, exprs)) if exprs else set()
    for condition in one.conditions:
        read |= column_names(condition) - right_names
    for side in (1, 0):
        if read <= set(sides[side].schema.names):
            return side
    return None


def _join_by_numbers(
    binder: Binder, left: Rows, right: Rows, kind: str, predicate: Expr | None, waiting: Sequence[Any]
) -> Rows:
    a, a_number, a_copy, a_copied = number_and_copy(binder, left)
    b, b_number, b_copy, b_copied = number_and_copy(binder, right)
    schema = join_schema("inner", a.schema, b.schema)
    node: PlanNode = NestedLoopJoin(binder.ids.new(), schema, a, b, "inner")
    node = join_subqueries(binder, node, waiting)
    if predicate is not None:
        node = Filter(binder.ids.new(), node.schema, node, predicate)
    node = select_columns(binder.ids.new(), node, [a_number, b_number])
    on_left = [call("equal", col(a_copied), col(a_number))]
    on_right = [call("equal", col(b_number), col(b_copied))]
    if kind in LEFT_ONLY:
        return Rows(make_join(binder.ids, kind, a_copy.node, node, on_left), a_copy.tables, a_copy.columns)
    node = make_join(binder.ids, "inner" if kind == "right" else "left", a_copy.node, node, on_left)
    node = make_join(binder.ids, kind, node, b_copy.node, on_right)
    return Rows(node, [*a_copy.tables, *b_copy.tables], [*a_copy.columns, *b_copy.columns])


READERS: dict[str, TableReader] = {
    "Table": bind_table,
    "Subquery": bind_derived,
    "Lateral": bind_lateral,
    "Unnest": bind_unnest,
}
