from collections.abc import Sequence

from typing_extensions import disjoint_base

from qcore_ext.data.row_filter import RowFilter
from qcore_ext.join.bridge import JoinBridge

@disjoint_base
class BuildKeyFilter(RowFilter):
    def __init__(self, columns: Sequence[int], bridge: JoinBridge) -> None: ...
