from collections.abc import Iterable, Mapping

from typing_extensions import disjoint_base

from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.row_filter import RowFilter
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account

@disjoint_base
class BatchReader:
    figures: Mapping[str, int]
    def filter_rows(self, filters: Iterable[RowFilter]) -> None: ...
    @property
    def schema_object(self) -> Schema: ...
    def read_batch(self, account: Account) -> PyBatch | None: ...
