from typing import Any

from typing_extensions import disjoint_base

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
