from collections.abc import Callable, Sequence

from typing_extensions import disjoint_base

from qcore_ext.compute.program import Program
from qcore_ext.data.row_filter import RowFilter
from qcore_ext.data.schema import Schema

@disjoint_base
class ConditionFilter(RowFilter):
    def __init__(self, columns: Sequence[int], compile: Callable[[Schema], Program]) -> None: ...
