from collections.abc import Callable
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

def to_record_batch(batch: Any) -> Any: ...

@disjoint_base
class CallbackSink(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        callback: Callable[[Any], Any],
        convert: Callable[[Any], Any] = ...,
    ) -> None: ...
