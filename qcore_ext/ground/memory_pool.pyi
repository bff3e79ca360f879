from typing import Self

from typing_extensions import disjoint_base

from qcore_ext.ground.memory import Account

@disjoint_base
class MemoryPool:
    def __new__(cls, limit: int) -> Self: ...
    limit: int
    def account(self, limit: int = 0) -> Account: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def n_waiting(self) -> int: ...
