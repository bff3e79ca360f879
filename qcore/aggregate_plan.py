"""What an Aggregate node asks of the aggregation operators: inputs, calls, states and what is left to compute. Floor
P3.

avg is sum over count, and count(x) is the count of rows less the count of nulls, which costs nothing where a batch has
no nulls; so the sums and counts of a node's aggregates are computed once however many of them need each.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from qcore.expression import Case, Cast, Column, Expr, Literal, call, col, same
from qcore.functions import aggregate_type, expr_type
from qcore.plan import Aggregate, AggregateCall
from qcore_ext.data.schema import Schema
from qcore_ext.ground.status import PlanError
from qcore_ext.operators.aggregation import partial_schema

Named = list[tuple[str, Expr]]


@dataclass(frozen=True)
class AggregateSteps:
    """An Aggregate node taken apart.

    `inputs` are the expressions the partial (or single) step reads, of `input_schema`: keys, then arguments, then
    filters. `calls` are the operator's aggregates: (function, argument position or -1, filter position or -1,
    distinct). `post` turns the operator's output, of `final_schema`, into the node's; nothing is left to do when
    `is_final`.
    """

    key_names: list[str]
    inputs: Named
    calls: list[tuple[str, int, int, bool]]
    input_schema: pa.Schema
    partial_schema: pa.Schema
    final_schema: pa.Schema
    post: Named
    is_final: bool

    @property
    def has_distinct(self) -> bool:
        """Whether some aggregate takes each value once."""
        return any(distinct for _, _, _, distinct in self.calls)


class _Builder:
    def __init__(self, node: Aggregate) -> None:
        self.node = node
        self.input_schema = node.child.schema
        self.inputs: Named = list(node.keys)
        self.calls: list[tuple[str, int, int, bool]] = []
        self.types: list[pa.DataType] = []

    def input(self, expr: Expr | None) -> int:
        """Position of an argument or filter among the inputs, added once."""
        if expr is None:
            return -1
        for position in range(len(self.node.keys), len(self.inputs)):
            if same(self.inputs[position][1], expr):
                return position
        self.inputs.append((f"$in{len(self.inputs)}", expr))
        return len(self.inputs) - 1

    def call(self, function: str, argument: Expr | None, filter: Expr | None, distinct: bool) -> Column:
        """The output column of an aggregate of the operator, added once."""
        wanted = (function, self.input(argument), self.input(filter), distinct)
        if wanted not in self.calls:
            self.calls.append(wanted)
            types = [] if argument is None else [expr_type(argument, self.input_schema)]
            self.types.append(aggregate_type("count" if function == "count_null" else function, types))
        return Column(f"$agg{self.calls.index(wanted)}")

    def count(self, argument: Expr | None, filter: Expr | None) -> Expr:
        rows = self.call("count", None, filter, False)
        if argument is None or (isinstance(argument, Literal) and argument.value is not None):
            return rows
        return call("subtract", rows, self.call("count_null", argument, filter, False))

    def output(self, aggregate: AggregateCall) -> Expr:
        """An expression over the operator's output that gives the aggregate."""
        if len(aggregate.arguments) > 1:
            raise PlanError(f"{aggregate.function} with {len(aggregate.arguments)} arguments cannot be run yet")
        argument = aggregate.arguments[0] if aggregate.arguments else None
        filter = aggregate.filter
        if aggregate.function == "count" and not aggregate.distinct:
            return self.count(argument, filter)
        if aggregate.function == "avg" and not aggregate.distinct and argument is not None:
            if pa.types.is_integer(expr_type(argument, self.input_schema)):
                # The sum of an average must not overflow where the average does not.
                argument = Cast(argument, pa.decimal128(20, 0))
            total = self.call("sum", argument, filter, False)
            count = Cast(self.count(argument, filter), pa.float64())
            # 0 / 0 is NaN, but an average of nothing is null: so is the sum, which decides.
            return Case(((call("is_not_null", total), call("divide", Cast(total, pa.float64()), count)),))
        distinct = aggregate.distinct and aggregate.function not in ("min", "max")
        return self.call(aggregate.function, argument, filter, distinct)


def aggregate_steps(node: Aggregate) -> AggregateSteps:
    """Take an Aggregate node apart. PlanError where the engine cannot run it."""
    assert node.grouping_sets is None, "lowering takes grouping sets apart first"
    builder = _Builder(node)
    outputs = [builder.output(aggregate) for aggregate in node.aggregates]
    key_names = [name for name, _ in node.keys]
    key_fields = [node.schema.field(name) for name in key_names]
    final_schema = pa.schema(key_fields + [pa.field(f"$agg{i}", type_) for i, type_ in enumerate(builder.types)])
    input_schema = pa.schema([(name, expr_type(expr, builder.input_schema)) for name, expr in builder.inputs])
    # Distinct aggregates have no states that could meet.
    parts = [(function, argument, filter, False) for function, argument, filter, _ in builder.calls]
    partial = pa.schema(partial_schema(Schema(input_schema), len(key_names), parts, Schema(final_schema)))
    post: Named = [(name, col(name)) for name in key_names]
    for aggregate, output in zip(node.aggregates, outputs, strict=True):
        wanted = node.schema.field(aggregate.name).type
        if expr_type(output, final_schema) != wanted:
            output = Cast(output, wanted)
        post.append((aggregate.name, output))
    is_final = [field.type for field in final_schema] == [field.type for field in node.schema] and all(
        isinstance(output, Column) and output.name == name
        for (_, output), name in zip(post, final_schema.names, strict=False)
    )
    if is_final:
        final_schema = node.schema
    return AggregateSteps(key_names, builder.inputs, builder.calls, input_schema, partial, final_schema, post, is_final)
