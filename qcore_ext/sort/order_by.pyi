from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account
from qcore_ext.sort.shared_sort import SortState

@disjoint_base
class OrderBy(Operator):
    def __init__(
        self, node_id: str, query_memory: Account, keys: list[Any], state: SortState | None = None
    ) -> None: ...
