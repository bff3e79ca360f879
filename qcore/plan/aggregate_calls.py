"""An Aggregate node as steps: inputs, calls of the aggregation operator, and expressions over its output.

avg is sum divided by count. count(x) is the number of rows minus the number of nulls, which costs nothing for a batch
without nulls. Equal sums and counts of several aggregates of a node are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Case, Cast, Column, Expr, Literal, call, col, same
from qcore.expression.types import compares_by_bytes, is_text
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, aggregate_type
from qcore.functions.catalogue import expr_type
from qcore.plan.nodes import Aggregate, AggregateCall
from qcore.record import record
from qcore_ext.aggregate.calls import HOLISTIC, partial_schema
from qcore_ext.data.schema import Schema

Named = list[tuple[str, Expr]]
# (function, argument positions, filter position, distinct), then (order, parameter) for functions that keep values.
OperatorCall = tuple[Any, ...]


@record(frozen=True)
class AggregateSteps:
    """The steps of an Aggregate node.

    `inputs` are the expressions that the partial (or single) step reads: keys, then arguments and filters. Their types
    are in `input_schema`. `calls` are the operator's aggregates, as AggregateCalls takes them. `post` computes the
    node's output from the operator's, which has `final_schema`; if `is_final`, both are the same. `integer_sums` has,
    by position, the integer expressions that `inputs` cast so that their sum does not overflow. `cast` are names in
    `post` whose expression is a cast to the node's type.
    """

    key_names: list[str]
    inputs: Named
    calls: list[OperatorCall]
    input_schema: pa.Schema
    partial_schema: pa.Schema
    final_schema: pa.Schema
    post: Named
    is_final: bool
    integer_sums: dict[int, Expr]
    cast: frozenset[str]

    @property
    def needs_all_rows(self) -> bool:
        """Whether all rows of a group must be in one driver, because a call has no partial state."""
        return _needs_all_rows(self.calls)


class _Builder:
    def __init__(self, node: Aggregate) -> None:
        self.node = node
        self.input_schema = node.child.schema
        self.inputs: Named = list(node.keys)
        self.calls: list[OperatorCall] = []
        self.types: list[pa.DataType] = []
        self.integer_sums: dict[int, Expr] = {}
        # Equal expressions have equal texts; PIVOT makes thousands of filters.
        self._positions: dict[str, list[int]] = {}
        self._numbers: dict[OperatorCall, int] = {}

    def input(self, expr: Expr | None) -> int:
        """Position of an argument or filter among the inputs. Equal ones are added once."""
        if expr is None:
            return -1
        known = self._positions.setdefault(repr(expr), [])
        for position in known:
            if same(self.inputs[position][1], expr):
                return position
        known.append(len(self.inputs))
        self.inputs.append((f"$in{len(self.inputs)}", expr))
        return len(self.inputs) - 1

    def call(self, function: str, arguments: Sequence[Expr], filter: Expr | None, distinct: bool, *more: Any) -> Column:
        """The output column of a call of the operator. Equal calls are added once."""
        positions = tuple(map(self.input, arguments))
        argument: Any = positions if len(positions) > 1 else positions[0] if positions else -1
        new = (function, argument, self.input(filter), distinct, *more)
        number = self._numbers.setdefault(new, len(self.calls))
        if number == len(self.calls):
            self.calls.append(new)
            self.types.append(_operator_type(function, [expr_type(part, self.input_schema) for part in arguments]))
        return Column(f"$agg{number}")

    def count(self, argument: Expr | None, filter: Expr | None) -> Expr:
        rows = self.call("count", (), filter, False)
        if argument is None or (isinstance(argument, Literal) and argument.value is not None):
            return rows
        if pa.types.is_nested(expr_type(argument, self.input_schema)):
            argument = Case(((call("is_not_null", argument), Literal(True, pa.bool_())),))
        return call("subtract", rows, self.call("count_null", (argument,), filter, False))

    def output(self, aggregate: AggregateCall) -> Expr:
        """The aggregate as an expression over the operator's output."""
        function, filter, distinct = aggregate.function, aggregate.filter, aggregate.distinct
        values = aggregate.values
        if function in KEEP_VALUES or (function in ("first", "last") and aggregate.order):
            return self.order_values(aggregate)
        if function in PAIRS:
            return self.call(function, [self.floats(value) for value in values], filter, distinct)
        if function == "count" and not distinct and len(values) < 2:
            return self.count(values[0] if values else None, filter)
        if function == "count" and distinct:
            # Nested values and intervals are compared by bytes.
            values = tuple(self.flat(value) for value in values)
        if function == "avg" and not distinct:
            return self.average(values[0], filter)
        return self.call(function, values, filter, distinct and function not in ("min", "max"))

    def average(self, argument: Expr, filter: Expr | None) -> Expr:
        if pa.types.is_integer(expr_type(argument, self.input_schema)):
            # The sum must not overflow when the average does not.
            of, argument = argument, Cast(argument, pa.decimal128(20, 0))
            self.integer_sums[self.input(argument)] = of
        total = self.call("sum", (argument,), filter, False)
        count = Cast(self.count(argument, filter), pa.float64())
        # The average of no rows is null, as their sum is. Without the case it would be 0 / 0, NaN.
        return Case(((call("is_not_null", total), call("divide", Cast(total, pa.float64()), count)),))

    def flat(self, expr: Expr) -> Expr:
        return call("nested_bytes", expr) if compares_by_bytes(expr_type(expr, self.input_schema)) else expr

    def floats(self, expr: Expr) -> Expr:
        is_float = expr_type(expr, self.input_schema) == pa.float64()
        return expr if is_float else Cast(expr, pa.float64())

    def order_values(self, aggregate: AggregateCall) -> Expr:
        """An aggregate that keeps values and puts them in an order."""
        function = aggregate.function
        value, keys, order = aggregate.values[0], aggregate.order_keys, aggregate.order
        parameter: Any = None
        if function == "string_agg":
            if not is_text(expr_type(value, self.input_schema)):
                value = Cast(value, pa.string())
            parameter = separator(aggregate.values[1]) if len(aggregate.values) > 1 else ","
        elif function in ("first", "last"):
            function = f"{function}_ordered"
        elif function not in ("array_agg", "mode"):
            parameter = 0.5 if function == "median" else fraction(function, aggregate.values[1])
            if function != "quantile_disc":
                function, value = "quantile_cont", self.floats(value)
            # The order is that of the values. WITHIN GROUP may make it descending.
            keys, order = (value,), order[:1] or ((False, False),)
        keys = tuple(map(self.flat, keys))
        return self.call(function, (value, *keys), aggregate.filter, aggregate.distinct, (order, parameter))


def _operator_type(function: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """Type of a call of the operator.

    The operator has more functions than the catalogue. Arguments may be order keys.
    """
    if function == "count_null":
        return pa.int64()
    if function in ("first_ordered", "last_ordered", "quantile_disc", "mode"):
        return types[0]
    if function == "quantile_cont":
        return pa.float64()
    return aggregate_type(function, types[:1] if function in HOLISTIC else types)


def _needs_all_rows(calls: Sequence[OperatorCall]) -> bool:
    return any(distinct or function in HOLISTIC for function, _, _, distinct, *_ in calls)


def constant_value(expr: Expr) -> Any:
    """The value of a constant, which may be inside casts. PlanError for another expression."""
    while isinstance(expr, Cast):
        expr = expr.argument
    if not isinstance(expr, Literal):
        raise PlanError(f"it must be a constant, not {expr!r}")
    return expr.value


def separator(expr: Expr) -> str:
    """The separator of string_agg from its argument: empty for null. PlanError if it is not a constant."""
    try:
        value = constant_value(expr)
    except PlanError as error:
        raise PlanError(f"the separator of string_agg: {error}") from None
    return "" if value is None else str(value)


def fraction(function: str, expr: Expr) -> float:
    """The fraction of a quantile from its argument. PlanError unless it is a constant from 0 to 1."""
    try:
        value = constant_value(expr)
    except PlanError as error:
        raise PlanError(f"the fraction of {function}: {error}") from None
    if not isinstance(value, (int, float, Decimal)) or not 0 <= value <= 1:
        raise PlanError(f"the fraction of {function} is a number from 0 to 1, not {value!r}")
    return float(value)


def aggregate_steps(node: Aggregate) -> AggregateSteps:
    """The steps of an Aggregate node. PlanError if the engine cannot run it."""
    assert node.grouping_sets is None, "lowering expands grouping sets first"
    builder = _Builder(node)
    outputs = [builder.output(aggregate) for aggregate in node.aggregates]
    key_names = [name for name, _ in node.keys]
    key_fields = [node.schema.field(name) for name in key_names]
    final_schema = pa.schema(key_fields + [pa.field(f"$agg{i}", type_) for i, type_ in enumerate(builder.types)])
    input_schema = pa.schema([(name, expr_type(expr, builder.input_schema)) for name, expr in builder.inputs])
    partial = input_schema
    if not _needs_all_rows(builder.calls):
        partial = pa.schema(partial_schema(Schema(input_schema), len(key_names), builder.calls, Schema(final_schema)))
    post: Named = [(name, col(name)) for name in key_names]
    cast = set()
    for aggregate, output in zip(node.aggregates, outputs, strict=True):
        wanted = node.schema.field(aggregate.name).type
        if expr_type(output, final_schema) != wanted:
            output = Cast(output, wanted)
            cast.add(aggregate.name)
        post.append((aggregate.name, output))
    is_final = (
        all(
            isinstance(output, Column) and output.name == name
            for (_, output), name in zip(post, final_schema.names, strict=False)
        )
        and final_schema.types == node.schema.types
    )
    if is_final:
        final_schema = node.schema
    return AggregateSteps(
        key_names,
        builder.inputs,
        builder.calls,
        input_schema,
        partial,
        final_schema,
        post,
        is_final,
        builder.integer_sums,
        frozenset(cast),
    )
