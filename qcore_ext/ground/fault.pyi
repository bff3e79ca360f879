from types import TracebackType
from typing import Self

from typing_extensions import disjoint_base

from qcore_ext.ground.status import ExecutionError

SITES: tuple[str, ...]

class InjectedFault(ExecutionError): ...

@disjoint_base
class Faults:
    def __init__(self, site: str | None = None, nth: int = 1) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    @property
    def fired(self) -> bool: ...
    @property
    def passes(self) -> dict[str, int]: ...
