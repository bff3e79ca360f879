from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class SortState:
    @property
    def n_drivers(self) -> int: ...
    def __new__(cls, n_drivers: int) -> Self: ...
