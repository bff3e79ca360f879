from collections.abc import Sequence

from typing_extensions import disjoint_base

@disjoint_base
class RowFilter:
    def __init__(self, columns: Sequence[int]) -> None: ...
