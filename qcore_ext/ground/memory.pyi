from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class Account:
    def __new__(cls, parent: Account | None = None, limit: int = 0) -> Self: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
