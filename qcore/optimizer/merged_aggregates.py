"""Aggregates of groups, computed from the aggregates of parts of these groups.

The sum of a group is the sum of its parts' sums, and its row count the sum of their counts. Grouping sets and distinct
aggregates use this.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Case, Cast, Expr, Literal, call, col
from qcore.functions.catalogue import expr_type
from qcore.plan.naming import ColumnNames
from qcore.plan.nodes import AggregateCall

# The aggregate that merges the values of parts. All of these skip nulls and do not depend on the order of the rows.
_MERGED_BY = {
    "count": "sum",
    "sum": "sum",
    **{name: name for name in ("min", "max", "any_value", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor")},
}
# Aggregates with the same value with and without DISTINCT.
REPEATABLE = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "any_value"})


def is_mergeable(aggregate: AggregateCall) -> bool:
    """Whether an aggregate of a group can be computed from aggregates of its parts."""
    return (
        (aggregate.function in _MERGED_BY or aggregate.function == "avg")
        and not aggregate.order
        and (not aggregate.distinct or aggregate.function in REPEATABLE)
    )


class MergedAggregates:
    """The aggregates that are computed for parts of groups, and the wanted aggregates as expressions over them.

    Parameters
    ----------
    schema : pa.Schema
        The columns that the aggregates' arguments read.
    names : ColumnNames
        Names that are taken. The names of the parts' aggregates are added.
    """

    def __init__(self, schema: pa.Schema, names: ColumnNames) -> None:
        self._schema = schema
        self._names = names
        #: The aggregates of the parts.
        self.carried: list[AggregateCall] = []

    def merging(self) -> list[AggregateCall]:
        """The aggregates that merge those of the parts, under the same names."""
        return [AggregateCall(one.name, _MERGED_BY[one.function], (col(one.name),)) for one in self.carried]

    def add(self, aggregate: AggregateCall, sums_fit: bool) -> Expr:
        """Add the aggregates of the parts that an aggregate needs. Return its value over the merged columns.

        `sums_fit`: the query itself returns the aggregates of the parts, so an overflow in the sum of a part is an
        error of the query.
        """
        if aggregate.function != "avg":
            if aggregate.function == "sum" and not sums_fit:
                return self._sum(aggregate)
            value = self._carry(aggregate)
            return call("coalesce", value, Literal(0, pa.int64())) if aggregate.function == "count" else value
        total = self._sum(aggregate)
        count = self._carry(replace(aggregate, function="count"))
        mean = call("divide", Cast(total, pa.float64()), Cast(count, pa.float64()))
        return Case(((call("is_not_null", total), mean),))

    def _sum(self, aggregate: AggregateCall) -> Expr:
        """The sum. Integers are added in a type that can hold the sum of every part."""
        (argument,) = aggregate.arguments
        if pa.types.is_integer(expr_type(argument, self._schema)):
            argument = Cast(argument, pa.decimal128(20, 0))
        return self._carry(replace(aggregate, function="sum", arguments=(argument,)))

    def _carry(self, aggregate: AggregateCall) -> Expr:
        name = self._names.new(f"{aggregate.name}_{aggregate.function}")
        self.carried.append(replace(aggregate, name=name))
        return col(name)
