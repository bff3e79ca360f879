from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.ground.memory import Account

@disjoint_base
class KeyHashes:
    n: int
    is_over: bool
    def __init__(self, memory: Account, n_max: int) -> None: ...
    def to_buffer(self) -> Any: ...

@disjoint_base
class KeyFilter:
    def __init__(self, words: Any) -> None: ...
    def add(self, hashes: Any) -> None: ...
