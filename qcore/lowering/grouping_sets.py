"""An Aggregate of several grouping sets as an ordinary one over rows repeated once a set.

The set's number is one more key, so that groups of different sets stay apart though their keys are equal. Its low bits
say which keys are missing, the first key highest, which is what GROUPING() reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from qcore.expression.tree import Expr, Literal, col
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode, Project, Unary
from qcore.plan.schema import aggregate_schema, project_schema

_SET, _ROW = "$set", "$row"
# To these a null is a value.
_KEEP_NULLS = frozenset({"array_agg", "first", "last"})


@dataclass(frozen=True, eq=False)
class GroupingSets(Unary):
    """Every row once a set; `sets` are positions of the first `n_keys` columns, the others of which are null."""

    n_keys: int
    sets: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]


def expanded(node: Aggregate) -> PlanNode:
    """The aggregate as nodes that the engine has operators for."""
    assert node.grouping_sets is not None
    child = node.child
    n_keys = len(node.keys)
    inputs: dict[str, Expr] = {f"$key{i}": expr for i, (_, expr) in enumerate(node.keys)}

    def column(expr: Expr) -> Expr:
        name = f"$value{len(inputs)}"
        inputs[name] = expr
        return col(name)

    calls = tuple(_over_columns(call, column) for call in node.aggregates)
    project = Project(
        node.id, project_schema(list(inputs), list(inputs.values()), child.schema), child, tuple(inputs.values())
    )
    schema = project.schema.append(pa.field(_SET, pa.int64())).append(pa.field(_ROW, pa.bool_()))
    numbers = tuple(map(node.set_number, range(len(node.grouping_sets))))
    repeated = GroupingSets(node.id, schema, project, n_keys, node.grouping_sets, numbers)
    keys = [(name, col(f"$key{i}")) for i, (name, _) in enumerate(node.keys)]
    keys.append((node.grouping_id or _SET, col(_SET)))
    grouped = Aggregate(node.id, aggregate_schema(keys, calls, schema), repeated, tuple(keys), calls)
    output = [col(name) for name in node.schema.names]
    return Project(node.id, node.schema, grouped, tuple(output))


def _over_columns(call: AggregateCall, column: object) -> AggregateCall:
    """The call over columns of the repeated rows: all are null in a row that counts for nothing."""
    assert callable(column)
    is_row_count = call.function == "count" and all(
        isinstance(argument, Literal) and argument.value is not None for argument in call.arguments
    )
    if is_row_count and not call.distinct:
        arguments: tuple[Expr, ...] = (col(_ROW),)
    else:
        # A constant such as string_agg's separator is none of the rows' values.
        arguments = tuple(
            argument if i > 0 and isinstance(argument, Literal) else column(argument)
            for i, argument in enumerate(call.arguments)
        )
    filter = None if call.filter is None else column(call.filter)
    if filter is None and call.function in _KEEP_NULLS:
        filter = col(_ROW)
    return replace(call, arguments=arguments, filter=filter)
