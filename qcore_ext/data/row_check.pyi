from typing import Any

from typing_extensions import disjoint_base

@disjoint_base
class RowChecks:
    def __init__(self, name: str, array: Any, data_bytes: int) -> None: ...
    def require(self, start: int, length: int) -> None: ...
    @property
    def n_left(self) -> int: ...
