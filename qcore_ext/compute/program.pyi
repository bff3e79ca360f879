from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.ground.memory import Account

@disjoint_base
class Program:
    def __init__(
        self,
        input_schema: Any,
        output_schema: Any,
        steps: list[Any],
        types: Any,
        outputs: list[Any],
        constants: Any = None,
    ) -> None: ...
    @property
    def schema(self) -> Any: ...
    @property
    def description(self) -> str: ...

@disjoint_base
class Evaluator:
    @property
    def program(self) -> Program: ...
    def __init__(self, program: Program, account: Account) -> None: ...
    def project_batch(self, source: Any) -> Any: ...
    def select_batch(self, source: Any) -> Any: ...
    def load_batch(self, source: Any) -> Any: ...
