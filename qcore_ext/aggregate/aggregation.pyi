from collections.abc import Sequence
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.aggregate.calls import AggregateCalls
from qcore_ext.aggregate.calls import partial_schema as partial_schema
from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class HashAggregation(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        compile: Any,
        n_keys: int,
        aggregates: AggregateCalls | list[Any],
        step: str,
        output_schema: Schema,
        partial_groups_max: int = 131072,
        radix_groups_min: int = 131072,
        input_schema: Schema | None = None,
        ordered: bool = False,
        fences: Sequence[int] | None = None,
    ) -> None: ...
