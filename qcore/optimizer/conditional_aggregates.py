"""Rule: an aggregate of CASE with one branch becomes an aggregate with a filter.

`sum(case when c then x end)` is null for the other rows, and the aggregates below skip nulls. With `filter (where c)`
no column of values and nulls is made, and the rows that take part are known. Reports count and add up columns by
conditions in this way (TPC-DS Q2, Q43, Q59).
"""

from __future__ import annotations

import operator
from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Case, Column, Literal
from qcore.functions.catalogue import expr_type
from qcore.optimizer.nodes import transform_plan
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode

# Aggregates of one argument that skip nulls.
_SKIP_NULLS = frozenset({
    "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "var_samp", "var_pop",
    "stddev_samp", "stddev_pop",
})  # fmt: skip


def filter_aggregates(plan: PlanNode) -> PlanNode:
    """Return the plan with filters of aggregates in place of CASE in their arguments."""
    return transform_plan(plan, lambda node: _rewrite(node) if isinstance(node, Aggregate) else node)


def _rewrite(node: Aggregate) -> Aggregate:
    calls = tuple(_with_filter(call, node.child.schema) for call in node.aggregates)
    return node if all(map(operator.is_, calls, node.aggregates)) else node.with_fields(aggregates=calls)


def _with_filter(call: AggregateCall, schema: pa.Schema) -> AggregateCall:
    """The call with the condition of its argument as its filter, if its argument is a CASE that allows it."""
    if call.function not in _SKIP_NULLS or call.filter is not None or call.order or len(call.arguments) != 1:
        return call
    (case,) = call.arguments
    if not isinstance(case, Case) or len(case.branches) != 1 or not _is_null(case.otherwise):
        return call
    ((condition, value),) = case.branches
    # The condition of CASE may be an untyped NULL, that of a filter may not.
    if expr_type(condition, schema) != pa.bool_():
        return call
    if isinstance(value, Literal) and value.value is not None and call.function == "count" and not call.distinct:
        return replace(call, arguments=(), filter=condition)
    # Another expression would be computed for all rows, and could fail where the condition is false.
    if not isinstance(value, Column) or expr_type(value, schema) != expr_type(case, schema):
        return call
    return replace(call, arguments=(value,), filter=condition)


def _is_null(expr: object) -> bool:
    return expr is None or (isinstance(expr, Literal) and expr.value is None)
