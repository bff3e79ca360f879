from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.row_check import RowChecks

@disjoint_base
class StoredRows:
    @property
    def n_rows(self) -> int: ...
    def __init__(self, source: Any, row_checks: list[list[RowChecks]] | None = None) -> None: ...
