"""PIVOT and UNPIVOT, as statements (PIVOT t ON c IN (…) USING sum(x)) and in FROM (t PIVOT (sum(x) FOR c IN (…))).

PIVOT is one aggregation with a filtered call for each value. UNPIVOT makes lists of the columns of each row and unnests
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Cast, Column, Expr, Literal, call, col, column_names, substitute, walk
from qcore.functions.calls import bind_call
from qcore.plan.nodes import Aggregate, AggregateCall, Filter, PlanNode, Unnest
from qcore.plan.projections import project
from qcore.plan.schema import aggregate_schema, unnest_schema
from qcore.record import record
from qcore.sql.binder import Binder, QueryReader
from qcore.sql.expressions import connect
from qcore.sql.grouping import Grouping, has_sets, read_group_by
from qcore.sql.literals import constant
from qcore.sql.naming import written_text
from qcore.sql.pivot_values import COLUMNS_MAX, as_text, values_in_rows, values_of_query
from qcore.sql.reading import NotBound, clause_name, get, identifier, take
from qcore.sql.scope import BindContext, Environment, Named, Relation, Rows, Scope
from qcore.sql.stars import columns_calls, each_column, is_star, star_items
from qcore.sql.subqueries import Joined, is_query, join_subqueries
from qcore.sql.tables import common_tables, distinct_names, first_place, with_alias

_PIVOT_USAGE = "PIVOT t ON c IN ('a', 'b') USING sum(x) GROUP BY k"
_UNPIVOT_USAGE = "UNPIVOT t ON a, b INTO NAME n VALUE v"
# Words that end an aggregate of USING or of PIVOT (…).
_ENDS = frozenset({"AS", "FOR", "GROUP BY", "ORDER BY", "USING", "LIMIT", ";"})


def bind_pivot(binder: Binder, node: Any, environment: Environment) -> Relation:
    """PIVOT and UNPIVOT as statements."""
    table, listed, using, group, is_unpivot, into, with_ = take(
        node, "this", "expressions", "using", "group", "unpivot", "into", "with"
    )
    environment = common_tables(binder, with_, environment)
    rows = binder.table(table, first_place(binder, environment))
    if not listed:
        raise PlanError(f"{'UNPIVOT' if is_unpivot else 'PIVOT'} has no ON; the syntax is {_usage(is_unpivot)}")
    context = BindContext(Scope(rows, environment, binder.dialect), "UNPIVOT" if is_unpivot else "PIVOT")
    if not is_unpivot:
        made = _pivot(binder, rows, listed, using or (), group, context)
    else:
        name, values = "name", ["value"]
        if into is not None:
            name_node, value_nodes = take(into, "this", "expressions")
            name, values = _name(name_node), [_name(value) for value in value_nodes]
        made = _unpivot(binder, rows, listed, name, values, False, context)
    return Relation(made.node, distinct_names(made.columns))


def pivoted_rows(binder: Binder, rows: Rows, node: Any, around: BindContext) -> Rows:
    """The rows of a table with PIVOT (…) or UNPIVOT (…) applied."""
    # The parser's own names of columns, and settings of its dialects, are not read.
    heads, fields, is_unpivot, group, alias, with_nulls, *_ = take(
        node, "expressions", "fields", "unpivot", "group", "alias", "include_nulls", "columns", "pivot_column_naming",
        "identify_pivot_strings", "prefixed_pivot_columns", "value_columns_first",
    )  # fmt: skip
    if not heads or not fields:
        what = "UNPIVOT" if is_unpivot else "PIVOT"
        raise PlanError(f"{what} after a table cannot be read; the syntax is {_usage(is_unpivot, is_table=True)}")
    context = BindContext(Scope(rows, around.scope.environment, binder.dialect), "UNPIVOT" if is_unpivot else "PIVOT")
    if is_unpivot:
        if len(fields) > 1 or len(heads) > 1 or group is not None:
            raise PlanError(f"UNPIVOT is written {_usage(True, is_table=True)}")
        name_node, listed, *_ = take(fields[0], "this", "expressions")
        values = [_name(one) for one in _parts(heads[0])]
        rows = _unpivot(binder, rows, listed or (), _name(name_node), values, bool(with_nulls), context)
    else:
        rows = _pivot(binder, rows, fields, heads, group, context)
    named = with_alias(Relation(rows.node, rows.columns), "", alias)
    return replace(rows, tables=[] if alias is None else named.tables, columns=named.columns)


def _usage(is_unpivot: Any, is_table: bool = False) -> str:
    if is_table:
        return "t UNPIVOT (v FOR n IN (a, b))" if is_unpivot else "t PIVOT (sum(x) FOR c IN ('a', 'b'))"
    return _UNPIVOT_USAGE if is_unpivot else _PIVOT_USAGE


def _parts(node: Any) -> list[Any]:
    """The elements of (a, b), or the one node."""
    if type(node).__name__ == "Tuple":
        return list(take(node, "expressions")[0] or ())
    return [node]


def _name(node: Any) -> str:
    """A name in the query: an identifier, a column without a table, or a text."""
    kind = type(node).__name__
    if kind == "Column" and get(node, "table") is None:
        return _name(get(node, "this"))
    if kind == "Identifier":
        return identifier(node)[0]
    if kind == "Literal" and node.is_string:
        return str(node.this)
    raise NotBound(node, f"{clause_name(node)} as a name in PIVOT or UNPIVOT", "write a name alone")


def _split_alias(node: Any) -> tuple[Any, str | None]:
    """An element without its alias, and the alias."""
    if type(node).__name__ not in ("Alias", "PivotAlias"):
        return node, None
    value, alias = take(node, "this", "alias")
    return value, _name(alias)


def _write_text(binder: Binder, node: Any) -> str:
    """The text of an expression from its first to its last name or constant."""
    spans = [part.meta for part in node.walk() if part.meta.get("start") is not None]
    if not spans:
        return str(node)
    first, last = min(span["start"] for span in spans), max(span["end"] for span in spans)
    return binder.source.text[first : last + 1]


# --- PIVOT ---


@record(frozen=True)
class _Choice:
    """A value to pivot on: its condition and its part of the columns' names."""

    condition: Bound
    name: str


@record(frozen=True)
class _Item:
    """An expression over aggregates, the calls that it reads, its name, and whether that name is an alias."""

    value: Bound
    calls: tuple[AggregateCall, ...]
    name: str
    is_named: bool


def _pivot(
    binder: Binder, rows: Rows, on: Sequence[Any], using: Sequence[Any], group: Any, context: BindContext
) -> Rows:
    chosen = [_choices(binder, rows, node, context) for node in on]
    if math.prod(map(len, chosen)) * max(1, len(using)) > COLUMNS_MAX:
        raise PlanError(
            f"PIVOT would make more than {COLUMNS_MAX} columns, the maximum; pivot fewer values, or write "
            "GROUP BY with the columns to pivot on"
        )
    grouping = Grouping(binder)
    items = _items(binder, using, grouping, replace(context, clause="PIVOT … USING", subqueries=[], grouping=grouping))
    waiting = [*context.subqueries, *grouping.subqueries]
    if group is None:
        used = _columns_read([choice.condition for choices in chosen for choice in choices], grouping, waiting)
        kept = [named for named in rows.columns if named.own not in used]
    else:
        kept = _groups(binder, group, context)
    node = join_subqueries(binder, rows.node, waiting)
    calls: list[AggregateCall] = []
    columns, exprs = list(kept), [col(named.own) for named in kept]
    for cell in product(*chosen):
        condition = connect("and", [choice.condition for choice in cell], binder)
        name = "_".join(choice.name for choice in cell)
        for item in items:
            own: dict[str, Expr] = {}
            for one in item.calls:
                filter = condition.expr if one.filter is None else call("and", one.filter, condition.expr)
                own[one.name] = col(binder.names.new(name or "value"))
                calls.append(replace(one, name=own[one.name].name, filter=filter))  # type: ignore[attr-defined]
            exprs.append(substitute(item.value.expr, own))
            columns.append(Named(f"{name}_{item.name}" if item.is_named or len(items) > 1 else name, ""))
    keys = tuple((named.own, col(named.own)) for named in dict.fromkeys(kept))
    schema = aggregate_schema(keys, calls, node.schema)
    node = Aggregate(binder.ids.new(), schema, node, keys, tuple(calls))
    if not all(isinstance(expr, Column) for expr in exprs):
        names = [expr.name if isinstance(expr, Column) else binder.names.new("value") for expr in exprs]
        node = project(binder.ids.new(), node, names, exprs)
        exprs = [col(name) for name in names]
    made = [
        Named(named.shown, expr.name)  # type: ignore[attr-defined]
        for named, expr in zip(columns, exprs, strict=True)
    ]
    return replace(rows, node=node, tables=[], columns=made)


def _choices(binder: Binder, rows: Rows, node: Any, context: BindContext) -> list[_Choice]:
    """The values of one element of ON or FOR."""
    if type(node).__name__ != "In":
        return _read_choices(binder, rows, node, node, None, context)
    value, listed, query, field = take(node, "this", "expressions", "query", "field")
    if query is not None or (len(listed or ()) == 1 and is_query(listed[0])):
        return _read_choices(binder, rows, node, value, query or listed[0], context)
    if not listed or field is not None or any(is_query(one) for one in listed):
        raise PlanError(
            f"PIVOT by {_write_text(binder, value)!r}: its values are a list, IN ('a', 'b'), or a query, "
            f"IN (SELECT …); the syntax is {_PIVOT_USAGE}"
        )
    if type(value).__name__ not in ("Column", "Tuple", "Paren"):
        raise PlanError(
            f"PIVOT by {_write_text(binder, value)!r}: PIVOT takes columns; put an expression in brackets: "
            "(x % 2) IN (0, 1)"
        )
    values = [binder.expression(part, context) for part in _parts(value)]
    result: dict[str, _Choice] = {}
    for element in listed:
        element, alias = _split_alias(element)
        parts = _parts(element) if type(value).__name__ == "Tuple" else [element]
        if len(parts) != len(values):
            raise PlanError(f"PIVOT of {len(values)} columns has an element of {len(parts)} values in its list")
        found = [_constant(binder, part, context) for part in parts]
        conditions = [
            bind_call("is_not_distinct_from", [one, bound], binder.dialect)
            for one, (bound, _) in zip(values, found, strict=True)
        ]
        key = repr([bound.expr for bound, _ in found])
        if key in result:
            raise PlanError(f"PIVOT … IN: {', '.join(text for _, text in found)!r} is in the list twice")
        name = "_".join(text for _, text in found) if alias is None else alias
        result[key] = _Choice(connect("and", conditions, binder), name)
    return list(result.values())


def _read_choices(
    binder: Binder, rows: Rows, element: Any, value: Any, query: Any, context: BindContext
) -> list[_Choice]:
    """The values that the rows of the table, or of a query, have."""
    bound = binder.expression(value, context)
    if type(value).__name__ == "Tuple" or context.subqueries:
        what = "several columns in brackets" if type(value).__name__ == "Tuple" else "a subquery or a random value"
        raise PlanError(f"PIVOT by {what} needs a list of the values; the syntax is {_PIVOT_USAGE}")
    text = as_text(binder, bound)
    if query is None:
        found = values_in_rows(binder, element, rows.node, text.expr)
    else:
        found = values_of_query(binder, element, query, context.scope.environment)
    return [_Choice(bind_call("equal", [text, constant(one, pa.string())], binder.dialect), one) for one in found]


def _constant(binder: Binder, node: Any, context: BindContext) -> tuple[Bound, str]:
    """A constant of the list, and what its column is called."""
    wrong = PlanError(
        f"PIVOT … IN ({_write_text(binder, node)}): the list takes constants; write a text in quotes, 'a'"
    )
    if any(type(part).__name__ == "Column" for part in node.walk()):
        raise wrong
    bound = binder.expression(node, context)
    held = bound.expr
    while isinstance(held, Cast):
        held = held.argument
    if not isinstance(held, Literal) or isinstance(held.value, (list, dict, bytes)):
        raise wrong
    if held.value is None:
        return bound, "NULL"
    return bound, str(held.value).lower() if isinstance(held.value, bool) else str(held.value)


def _items(binder: Binder, using: Sequence[Any], grouping: Grouping, context: BindContext) -> list[_Item]:
    if not using:
        count = grouping.add("count", [], False, None, [])
        return [_Item(count, tuple(grouping.calls), "", False)]
    result = []
    for node in using:
        inner, alias = _split_alias(node)
        value = binder.expression(inner, context)
        outputs = {one.name: one for one in grouping.calls}
        read = column_names(value.expr)
        if not read or not read <= outputs.keys() or context.subqueries:
            raise PlanError(
                f"PIVOT … USING {_write_text(binder, inner)}: USING takes aggregates and expressions over them"
            )
        name = _call_text(binder, inner) if alias is None else alias
        result.append(_Item(value, tuple(outputs[one] for one in sorted(read)), name, alias is not None))
    return result


def _call_text(binder: Binder, node: Any) -> str:
    """The text of an element of USING, as a column's name."""
    starts = [part.meta["start"] for part in node.walk() if part.meta.get("start") is not None]
    tokens = binder.source.tokens
    at = next((n for n, token in enumerate(tokens) if token.start == min(starts, default=-1)), None)
    if at is None:
        return str(node)
    begin = at
    while begin > 0 and not _begins_element(tokens, begin - 1):
        begin -= 1
    depth, end = 0, begin
    while end < len(tokens):
        text = tokens[end].text.upper()
        depth += (text == "(") - (text == ")")
        if depth < 0 or (depth == 0 and (text == "," or text in _ENDS)):
            break
        end += 1
    return written_text(tokens[begin:end], binder.source.text)


def _begins_element(tokens: Sequence[Any], n: int) -> bool:
    """Whether an element of USING or of PIVOT (…) begins after this token."""
    if tokens[n].text == "(":
        return n > 0 and tokens[n - 1].text.upper() == "PIVOT"
    return tokens[n].text == "," or tokens[n].text.upper() == "USING"


def _columns_read(conditions: Sequence[Bound], grouping: Grouping, waiting: Sequence[Any]) -> set[str]:
    exprs = [condition.expr for condition in conditions]
    for one in grouping.calls:
        exprs += [*one.arguments, *([] if one.filter is None else [one.filter])]
    for subquery in waiting:
        if isinstance(subquery, Joined):
            exprs += [*(value.expr for value in subquery.captured.values()), *subquery.conditions]
    return {part.name for expr in exprs for part in walk(expr) if isinstance(part, Column)}


def _groups(binder: Binder, group: Any, context: BindContext) -> list[Named]:
    elements, is_all = read_group_by(group)
    if is_all or has_sets(elements):
        raise PlanError(f"PIVOT … GROUP BY takes columns; the syntax is {_PIVOT_USAGE}")
    at, result = replace(context, clause="PIVOT … GROUP BY"), []
    for element in elements:
        if type(element).__name__ != "Column":
            raise PlanError(
                f"PIVOT … GROUP BY {_write_text(binder, element)}: it takes columns; compute expressions in a subquery"
            )
        bound = binder.expression(element, at)
        if not isinstance(bound.expr, Column):
            raise PlanError(f"PIVOT … GROUP BY {_write_text(binder, element)}: it takes columns of the table")
        own = bound.expr.name
        result.append(
            next((one for one in context.scope.rows.columns if one.own == own), Named(str(element.name), own))
        )
    return result


# --- UNPIVOT ---


@record(frozen=True)
class _UnpivotElement:
    """One element of UNPIVOT's list: a text for the column of names, and a value for each column of values."""

    name: str
    values: list[Bound]


def _unpivot(
    binder: Binder,
    rows: Rows,
    listed: Sequence[Any],
    name: str,
    values: Sequence[str],
    with_nulls: bool,
    context: BindContext,
) -> Rows:
    entries = [entry for node in listed for entry in _entries(binder, node, context)]
    if not entries:
        raise PlanError(f"UNPIVOT has no columns; the syntax is {_UNPIVOT_USAGE}")
    for entry in entries:
        if len(entry.values) != len(values):
            raise PlanError(
                f"UNPIVOT of {len(entry.values)} columns together, {entry.name!r}, needs as many names of values, not "
                f"{len(values)}: INTO NAME n VALUE v, w, or UNPIVOT ((v, w) FOR n IN ((a, b), (c, d)))"
            )
    used = {part.name for entry in entries for value in entry.values for part in walk(value.expr)
            if isinstance(part, Column)}  # fmt: skip
    kept = [named for named in rows.columns if named.own not in used]
    ids, names = binder.ids, binder.names
    texts = Literal([entry.name for entry in entries], pa.list_(pa.string()))
    lists = [_list(binder, [(entry.name, entry.values[n]) for entry in entries]) for n in range(len(values))]
    held = [names.new(one) for one in (name, *values)]
    made = [names.new(one) for one in (name, *values)]
    owns = list(dict.fromkeys(named.own for named in kept))
    below = join_subqueries(binder, rows.node, context.subqueries)
    node: PlanNode = project(ids.new(), below, [*owns, *held], [*map(col, owns), texts, *lists])
    pairs = tuple(zip(held, made, strict=True))
    node = Unnest(ids.new(), unnest_schema(node.schema, pairs, None), node, pairs)
    if not with_nulls:
        known = [Bound(call("is_not_null", col(one)), pa.bool_()) for one in made[1:]]
        node = Filter(ids.new(), node.schema, node, connect("and", known, binder).expr)
    columns = [*kept, *(Named(shown, own) for shown, own in zip((name, *values), made, strict=True))]
    return replace(rows, node=node, tables=[], columns=columns)


def _list(binder: Binder, values: Sequence[tuple[str, Bound]]) -> Expr:
    """The values of one row as a list."""
    texts = {name: value.type for name, value in values if pa.types.is_string(value.type)}
    others = {name: value.type for name, value in values if not pa.types.is_string(value.type)}
    if texts and any(not pa.types.is_null(type_) for type_ in others.values()):
        (one, of_one), (other, of_other) = next(iter(others.items())), next(iter(texts.items()))
        raise PlanError(f"UNPIVOT: {one} is {of_one} and {other} is {of_other}; cast one to the other's type")
    return bind_call("list_value", [value for _, value in values], binder.dialect).expr


def _entries(binder: Binder, node: Any, context: BindContext) -> list[_UnpivotElement]:
    node, alias = _split_alias(node)
    if is_star(node):
        return [
            _UnpivotElement(item.shown, [item.value or binder.expression(item.node, context)])
            for item in star_items(node, context.scope, binder.dialect)
        ]
    calls = columns_calls(node)
    if calls:
        chosen = each_column(node, calls, context.scope, binder.dialect)
        return [_UnpivotElement(name, [binder.expression(one, context)]) for name, one in chosen]
    parts = _parts(node)
    values = [binder.expression(part, context) for part in parts]
    shown = [_column_text(binder, part, value, context) for part, value in zip(parts, values, strict=True)]
    return [_UnpivotElement("_".join(shown) if alias is None else alias, values)]


def _column_text(binder: Binder, node: Any, value: Bound, context: BindContext) -> str:
    """The entry of the column of names for a value: the name of the only column that the value reads."""
    read = column_names(value.expr)
    found = [named.shown for named in context.scope.rows.columns if named.own in read]
    return found[0] if len(found) == 1 else _write_text(binder, node)


READERS: dict[str, QueryReader] = {"Pivot": bind_pivot}
