"""An Aggregate with grouping sets as a plain one over the rows repeated for each set.

The number of the set is an additional key, so that groups of different sets stay separate. Its low bits tell which keys
the set lacks, the first key in the highest of these bits. GROUPING() reads them.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Expr, Literal, col
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode, Project, Unary
from qcore.plan.projections import project
from qcore.plan.schema import aggregate_schema
from qcore.record import record

_SET, _ROW = "$set", "$row"
# Aggregates for which a null is a value.
_KEEP_NULLS = frozenset({"array_agg", "first", "last"})


@record(frozen=True, eq=False)
class GroupingSets(Unary):
    """Every row once for each set. Of the first `n_keys` columns, those at the set's positions keep their value; the
    others are null.
    """

    n_keys: int
    sets: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]


def expand_grouping_sets(node: Aggregate) -> PlanNode:
    """An aggregate with grouping sets as nodes for which the engine has operators."""
    assert node.grouping_sets is not None
    n_keys = len(node.keys)
    inputs: dict[str, Expr] = {f"$key{i}": expr for i, (_, expr) in enumerate(node.keys)}

    def column(expr: Expr) -> Expr:
        name = f"$value{len(inputs)}"
        inputs[name] = expr
        return col(name)

    calls = tuple(_over_columns(call, column) for call in node.aggregates)
    below = project(node.id, node.child, list(inputs), list(inputs.values()))
    schema = below.schema.append(pa.field(_SET, pa.int64())).append(pa.field(_ROW, pa.bool_()))
    numbers = tuple(map(node.set_number, range(len(node.grouping_sets))))
    repeated = GroupingSets(node.id, schema, below, n_keys, node.grouping_sets, numbers)
    keys = [(name, col(f"$key{i}")) for i, (name, _) in enumerate(node.keys)]
    keys.append((node.grouping_id or _SET, col(_SET)))
    grouped = Aggregate(node.id, aggregate_schema(keys, calls, schema), repeated, tuple(keys), calls)
    output = [col(name) for name in node.schema.names]
    return Project(node.id, node.schema, grouped, tuple(output))


def _over_columns(call: AggregateCall, column: object) -> AggregateCall:
    """The call over columns of the repeated rows. The row that represents an empty input is null in all of them."""
    assert callable(column)
    is_row_count = call.function == "count" and all(
        isinstance(argument, Literal) and argument.value is not None for argument in call.arguments
    )
    if is_row_count and not call.distinct:
        arguments: tuple[Expr, ...] = (col(_ROW),)
    else:
        # A constant argument such as string_agg's separator stays a constant.
        arguments = tuple(
            argument if i > 0 and isinstance(argument, Literal) else column(argument)
            for i, argument in enumerate(call.arguments)
        )
    filter = None if call.filter is None else column(call.filter)
    if filter is None and call.function in _KEEP_NULLS:
        filter = col(_ROW)
    return replace(call, arguments=arguments, filter=filter)
