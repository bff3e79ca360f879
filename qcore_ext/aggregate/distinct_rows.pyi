from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema

@disjoint_base
class DistinctRows:
    def __init__(self, schema: Schema, memory: Any) -> None: ...
    def add(self, batch: PyBatch) -> PyBatch: ...
    def widen(self, schema: Schema) -> None: ...
