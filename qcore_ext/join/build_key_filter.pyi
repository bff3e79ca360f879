from collections.abc import Sequence

from qcore_ext.data.row_filter import RowFilter
from qcore_ext.join.bridge import JoinBridge

class BuildKeyFilter(RowFilter):
    def __init__(self, columns: Sequence[int], bridge: JoinBridge) -> None: ...
