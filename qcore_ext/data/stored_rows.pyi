from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.row_check import RowChecks

@disjoint_base
class StoredRows:
    @property
    def n_rows(self) -> int: ...
    @property
    def is_checked(self) -> bool: ...
    def __init__(self, source: Any, row_checks: list[list[RowChecks]] | None = None) -> None: ...
