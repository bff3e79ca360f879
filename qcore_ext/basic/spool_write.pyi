from typing_extensions import disjoint_base

from qcore_ext.flow.batch_spool import BatchSpool
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class SpoolWrite(Operator):
    def __init__(self, node_id: str, query_memory: Account, spool: BatchSpool) -> None: ...
