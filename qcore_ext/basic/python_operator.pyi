from collections.abc import Callable
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

ROLES: tuple[str, ...]

def record_batch_class() -> Any: ...
def arrow_batch(batch: Any) -> Any: ...
def arrow_schema(schema: Any) -> Any: ...

@disjoint_base
class PythonOperator(Operator):
    def __init__(
        self,
        name: str,
        node_id: str,
        query_memory: Account,
        make: Callable[[], Any],
        role: str,
        schema: Schema,
        drift: int = ...,
    ) -> None: ...
