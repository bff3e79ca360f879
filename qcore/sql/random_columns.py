"""random() and uuid(), as columns below the expression, so that all uses in a row have the same value."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.bound import Bound
from qcore.expression.tree import Column
from qcore.expression.types import STRING
from qcore.functions.calls import VOLATILE
from qcore.functions.typed import cast
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import PlanNode, UserOperator
from qcore.plan.random_column import RANDOM, UUID, RandomColumn
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.scope import BindContext

_TYPES = {RANDOM: pa.float64(), UUID: pa.uuid()}


@record
class RandomValue:
    """A random column to be added below an expression."""

    name: str
    function: str

    def add_to(self, node: PlanNode, ids: NodeIds) -> PlanNode:
        """The node with the column."""
        operator = RandomColumn(self.name, self.function)
        schema = operator.output_schema(node.schema)
        assert schema is not None
        return UserOperator(ids.new(), schema, node, operator)


def bind_random(binder: Binder, name: str, context: BindContext) -> Bound:
    """The value of random(), uuid() and their other names. Spark's uuid() is text."""
    function = VOLATILE[name.lower()]
    value = RandomValue(binder.names.new(f"${function}"), function)
    context.subqueries.append(value)
    made = Bound(Column(value.name), _TYPES[function])
    return cast(made, STRING) if function == UUID and binder.dialect.syntax == "spark" else made
