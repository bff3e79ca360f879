"""Decoding one column of a Parquet file, one thread: python bench/kernels/parquet.py [rows].

Prints GB of decoded values a second of processor time, by the engine's decoder and by pyarrow, for each encoding, and
the decoder's share of what memcpy moves in the same run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memory_speed import copy_rate, limits_text
from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore_ext.ground.memory import Account

REPEATS = 7
BATCH_ROWS = 65_536


def columns(n_rows: int) -> dict[str, tuple[pa.Array, dict[str, Any]]]:
    """For each case its values and the options of pyarrow's writer."""
    rng = np.random.default_rng(1)
    keys = pa.array(rng.integers(0, 1 << 40, n_rows))
    ascending = pa.array(np.cumsum(rng.integers(0, 5, n_rows)))
    few = pa.array(rng.integers(0, 50, n_rows))
    many = pa.array(rng.integers(0, 60_000, n_rows))
    nulls = pa.array(rng.integers(0, 50, n_rows), mask=rng.random(n_rows) < 0.1)
    days = pa.array(rng.integers(8_000, 10_500, n_rows).astype("int32")).cast(pa.date32())
    prices = pa.array(rng.integers(0, 10_000_000, n_rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    prices = prices.cast(pa.decimal128(15, 2))
    floats = pa.array(rng.random(n_rows))
    words = pa.array(rng.integers(0, 1 << 60, n_rows)).cast(pa.string())
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "none"}
    return {
        "plain int64": (keys, plain),
        "plain int64, snappy": (many, plain | {"compression": "snappy"}),
        "plain int64, zstd": (many, plain | {"compression": "zstd"}),
        "dictionary int64, 50 values": (few, {}),
        "dictionary int64, 60,000 values": (many, {}),
        "dictionary int64, 10 % nulls": (nulls, {}),
        "dictionary date32": (days, {}),
        "plain decimal as 7 bytes": (prices, plain),
        "delta int64, ascending": (ascending, plain | {"column_encoding": "DELTA_BINARY_PACKED"}),
        "delta int64, any": (keys, plain | {"column_encoding": "DELTA_BINARY_PACKED"}),
        "byte streams float64": (floats, plain | {"column_encoding": "BYTE_STREAM_SPLIT"}),
        "plain text": (words, plain),
        "delta lengths of text": (words, plain | {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}),
        "plain text, snappy": (words, plain | {"compression": "snappy"}),
    }


def by_qcore(path: str) -> None:
    """Decode the file and drop the batches."""
    stream = FileTable(path).open(FileSplit(path), ("c",), None, BATCH_ROWS)
    assert isinstance(stream, NativeStream)
    account = Account()
    while stream.batch_reader.read_batch(account) is not None:
        pass
    stream.close()


def by_pyarrow(path: str) -> None:
    """Decode the file row group by row group, as the scan did before it had a decoder."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            file.read_row_group(group, use_threads=False)


def seconds(read: Callable[[str], None], path: str) -> float:
    """The least processor time of some runs."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        read(path)
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    """Print a line a case."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(limits_text())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "t.parquet")
        for name, (values, options) in columns(n_rows).items():
            pq.write_table(pa.table({"c": values}), path, row_group_size=120_000, **options)
            ours, theirs = seconds(by_qcore, path), seconds(by_pyarrow, path)
            n_bytes = values.nbytes / 1e9
            print(
                f"{name:32} qcore {n_bytes / ours:6.2f} GB/s {ours / n_rows * 1e9:5.1f} ns a row   "
                f"pyarrow {n_bytes / theirs:6.2f} GB/s   ratio {ours / theirs:.2f}   "
                f"{n_bytes / ours / copy_rate():.2f} of memcpy",
                flush=True,
            )


if __name__ == "__main__":
    main()
