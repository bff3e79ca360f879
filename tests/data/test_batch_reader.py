"""The methods that every reader of batches has, tested with ParquetReader."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore_ext.ground.memory import Account


def test_batches_to_the_end(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(100), "b": ["x"] * 100}), tmp_path / "t.parquet")
    stream = FileTable(str(tmp_path / "t.parquet")).open(FileSplit(str(tmp_path / "t.parquet")), ("b", "a"), None, 64)
    assert isinstance(stream, NativeStream)
    reader = stream.batch_reader
    assert reader.schema_object.names == ["b", "a"]
    account = Account()
    lengths = []
    while (batch := reader.read_batch(account)) is not None:
        lengths.append(len(batch))
    assert lengths == [64, 36]
    assert reader.read_batch(account) is None
    stream.close()
