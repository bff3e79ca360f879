from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema

FUNCTIONS: dict[str, tuple[int, tuple[int, ...]]]
HOLISTIC: dict[str, int]
INDIFFERENT_TO_REPEATS: set[str]

@disjoint_base
class AggregateCalls:
    def __init__(self, calls: list[Any]) -> None: ...
    @property
    def needs_all_rows(self) -> bool: ...

def partial_schema(inputs: Schema, n_keys: int, calls: list[Any], results: Schema) -> Schema: ...
