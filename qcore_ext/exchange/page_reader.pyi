from collections.abc import Sequence
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.batch_reader import BatchReader
from qcore_ext.data.schema import Schema

@disjoint_base
class PageFileReader(BatchReader):
    def __init__(
        self,
        path: str,
        file: Any,
        schema: Schema,
        positions: Sequence[int],
        pages: Sequence[tuple[int, int, int, int, int]],
    ) -> None: ...
    def close(self) -> None: ...
