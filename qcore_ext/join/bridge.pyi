from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema

@disjoint_base
class JoinBridge:
    @property
    def kind(self) -> int: ...
    @property
    def has_condition(self) -> bool: ...
    @property
    def declared_build_schema(self) -> Schema: ...
    @property
    def declared_probe_schema(self) -> Schema: ...
    def __init__(
        self,
        kind: str,
        n_build_drivers: int,
        n_probe_drivers: int,
        has_condition: bool = False,
        build_schema: Any = None,
        probe_schema: Any = None,
    ) -> None: ...
    def key_bounds(self) -> Any: ...
    @property
    def index_kind(self) -> str: ...
