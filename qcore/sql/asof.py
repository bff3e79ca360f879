"""ASOF JOIN as an ordinary join with the number of the nearest right row, which is computed for each left row.

The rows of the left table and the keys of the right table are ordered together, by the values that the join compares.
The nearest right row of a left row is the last one before it in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Expr, Literal, call, col, column_names, lit
from qcore.plan.joins import conjunction
from qcore.plan.nodes import Filter, PlanNode, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import add_columns, project
from qcore.plan.set_operations import cast_to_common_types, union_all
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.row_numbers import number_and_copy
from qcore.sql.scope import Rows

ASOF_USAGE = "t ASOF [LEFT] JOIN u ON t.k = u.k AND t.x >= u.x, or USING (k, x)"
_SWAPPED = {
    "equal": "equal", "is_not_distinct_from": "is_not_distinct_from", "greater_equal": "less_equal",
    "greater": "less", "less_equal": "greater_equal", "less": "greater",
}  # fmt: skip
_EQUALITIES = ("equal", "is_not_distinct_from")


@record
class _Conditions:
    """The conditions of an ASOF JOIN: the pairs of keys that must be equal, with their function; the compared values;
    conditions on one side.
    """

    equal: list[tuple[str, Expr, Expr]] = field(default_factory=list)
    compared: list[tuple[str, Expr, Expr]] = field(default_factory=list)
    on_left: list[Expr] = field(default_factory=list)
    on_right: list[Expr] = field(default_factory=list)


def nearest(binder: Binder, left: Rows, right: Rows, conditions: Sequence[Expr]) -> tuple[Rows, Rows, Expr]:
    """The left rows with the number of their nearest right row, the right rows with their numbers, and the condition
    that both are equal.
    """
    found = _classify_conditions(conditions, left, right)
    (comparison, at_left, at_right) = found.compared[0]
    ids, names = binder.ids, binder.names
    shared, number, copy, copied_number = number_and_copy(binder, right)

    keys = [names.new("key") for _ in found.equal]
    at, near, side, is_left = (names.new(name) for name in ("at", "nearest", "side", "is_left"))
    # Of equal values the right ones come first if they count, else last.
    right_first = comparison in ("greater_equal", "less_equal")
    kept = left.node.schema
    columns = [*kept.names, *keys, at, near, side, is_left]
    of_left = project(
        ids.new(),
        left.node,
        columns,
        [
            *map(col, kept.names), *(a for _, a, _ in found.equal), at_left, Literal(None, pa.int64()),
            lit(int(right_first)), lit(True),
        ],
    )  # fmt: skip
    counts = [call("is_not_null", at_right), *found.on_right]
    counts += [call("is_not_null", b) for function, _, b in found.equal if function == "equal"]
    predicate = conjunction(counts)
    assert predicate is not None
    of_right = project(
        ids.new(),
        Filter(ids.new(), shared.schema, shared, predicate),
        columns,
        [
            *(Literal(None, type_) for type_ in kept.types), *(b for _, _, b in found.equal), at_right, col(number),
            lit(int(not right_first)), lit(False),
        ],
    )  # fmt: skip
    together = union_all(ids, cast_to_common_types(ids, "ASOF JOIN", [of_left, of_right]))

    last = names.new("nearest")
    order = (SortKey(at, comparison in ("less", "less_equal")), SortKey(side))
    frame = WindowFrame("rows", None, 0)
    window_call = WindowCall(last, "last_value", near, frame=frame, ignore_nulls=True)
    schema = together.schema.append(pa.field(last, pa.int64()))
    node: PlanNode = Window(ids.new(), schema, together, tuple(keys), order, (window_call,))
    node = Filter(ids.new(), schema, node, col(is_left))
    # Null comes last in the order, after all right rows. A left row with a null has no nearest row.
    has_one = conjunction([call("is_not_null", col(at)), *found.on_left])
    assert has_one is not None
    match = names.new("nearest")
    node = add_columns(ids.new(), node, {match: Case(((has_one, col(last)),), Literal(None, pa.int64()))})
    return replace(left, node=node), copy, call("equal", col(match), col(copied_number))


def _classify_conditions(conditions: Sequence[Expr], left: Rows, right: Rows) -> _Conditions:
    of_left, of_right = set(left.node.schema.names), set(right.node.schema.names)
    result = _Conditions()
    for condition in _conjuncts(conditions):
        read = column_names(condition)
        if read <= of_left:
            result.on_left.append(condition)
        elif read <= of_right:
            result.on_right.append(condition)
        else:
            pair = _pair(condition, of_left, of_right)
            (result.equal if pair[0] in _EQUALITIES else result.compared).append(pair)
    if len(result.compared) != 1:
        raise PlanError(
            f"ASOF JOIN compares the tables by one <, <=, > or >=, not {len(result.compared)}; the syntax is "
            f"{ASOF_USAGE}"
        )
    return result


def _conjuncts(conditions: Sequence[Expr]) -> list[Expr]:
    result: list[Expr] = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.function == "and":
            result += _conjuncts(condition.arguments)
        else:
            result.append(condition)
    return result


def _pair(condition: Expr, of_left: set[str], of_right: set[str]) -> tuple[str, Expr, Expr]:
    """A comparison of both tables: the function, the left's value, the right's."""
    if isinstance(condition, Call) and condition.function in _SWAPPED:
        a, b = condition.arguments
        sides = column_names(a), column_names(b)
        if sides[0] <= of_left and sides[1] <= of_right:
            return condition.function, a, b
        if sides[0] <= of_right and sides[1] <= of_left:
            return _SWAPPED[condition.function], b, a
    raise PlanError(
        "ASOF JOIN takes =, <, <=, > and >= joined by AND, each of an expression of the one table and one of the "
        f"other; the syntax is {ASOF_USAGE}"
    )
