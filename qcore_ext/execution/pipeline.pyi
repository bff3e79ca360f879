from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.execution.driver import Driver
from qcore_ext.flow.operator import Operator

@disjoint_base
class Pipeline:
    def __init__(self, chains: list[list[Operator]], is_checked: bool) -> None: ...
    @property
    def drivers(self) -> list[Driver]: ...
    def stats(self) -> dict[str, Any]: ...
