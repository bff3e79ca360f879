from typing_extensions import disjoint_base

from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class ResultSink(Operator):
    def __init__(self, node_id: str, query_memory: Account, queue: BatchQueue, batch_rows: int = 65536) -> None: ...
