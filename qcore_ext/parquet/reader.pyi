from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.batch_reader import BatchReader
from qcore_ext.data.schema import Schema

@disjoint_base
class ParquetReader(BatchReader):
    def __init__(
        self,
        path: str,
        file: Any,
        schema: Schema,
        columns: Sequence[Any],
        groups: Iterable[tuple[int, int, Sequence[tuple[int, int, int, Any] | None], Sequence[Any]]],
        batch_rows: int,
        begin_group: Callable[[int, Sequence[Any]], Any],
    ) -> None: ...
    def close(self) -> None: ...
