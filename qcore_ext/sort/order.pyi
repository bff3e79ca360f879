from typing import Any

from typing_extensions import disjoint_base

@disjoint_base
class SortOrder:
    @property
    def keys(self) -> list[Any]: ...
    def __init__(self, keys: list[Any]) -> None: ...
