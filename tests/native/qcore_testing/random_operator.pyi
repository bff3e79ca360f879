import random as random_module
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class Bell:
    def __init__(self) -> None: ...
    def ring(self) -> None: ...

@disjoint_base
class RandomOperator(Operator):
    def __init__(
        self,
        address: Any,
        query_memory: Account,
        random: random_module.Random,
        bell: Bell,
        log: list[Any],
        at_step: dict[int, Any] | None = None,
    ) -> None: ...
    @property
    def n_steps(self) -> int: ...
