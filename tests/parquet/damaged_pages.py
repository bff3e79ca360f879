"""python -m parquet.damaged_pages variant first last folder: files with damaged pages, one for each seed.

Each is read whole, and in part. Prints how often that gave rows, and how often an error of qcore. Any other error ends
the process.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from parquet.reading_natively import SomeRows, read_natively

from qcore.errors import QcoreError
from random_tables import random_table

TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float64(),
    "b": pa.bool_(),
    "d": pa.decimal128(12, 2),
    "w": pa.decimal128(30, 2),
    "s": pa.string(),
    "x": pa.binary(),
}
DELTA = {"i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "s": "DELTA_LENGTH_BYTE_ARRAY", "b": "RLE"}
SPLIT = dict.fromkeys("ilfdw", "BYTE_STREAM_SPLIT")
VARIANTS = {
    "dictionary": {"compression": "none"},
    "plain": {"compression": "none", "use_dictionary": False},
    "snappy": {"compression": "snappy", "data_page_version": "2.0"},
    "delta": {"compression": "none", "use_dictionary": False, "column_encoding": DELTA, "data_page_version": "2.0"},
    "streams": {"compression": "none", "use_dictionary": False, "column_encoding": SPLIT},
    "zstd": {"compression": "zstd"},
}


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change bytes in front of the footer."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(4, end)
        kind = rng.randrange(4)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            length = min(rng.randrange(1, 9), end - at)
            out[at : at + length] = rng.choice([b"\xff", b"\x80", b"\0"]) * length
        else:
            length = min(rng.randrange(1, 40), end - at)
            start = rng.randrange(4, end - length + 1)
            out[at : at + length] = data[start : start + length]
    return bytes(out)


def main(variant: str, first: int, last: int, folder: Path) -> None:
    path = folder / "t.parquet"
    n_read = n_errors = 0
    for seed in range(first, last):
        rng = random.Random(seed)
        if seed % 50 == 0 or seed == first:
            n_distinct = dict.fromkeys(TYPES, 10) if seed % 100 else {}
            table = random_table(seed, rng.choice([50, 700]), TYPES, rng.choice([0.0, 0.2]), n_distinct=n_distinct)
            pq.write_table(table, path, data_page_size=500, write_batch_size=64, **VARIANTS[variant])
            good = path.read_bytes()
        path.write_bytes(damage(good, rng))
        for filters in ([], [SomeRows(seed).filter()]):
            try:
                read_natively(path, 64, filters=filters)
                n_read += 1
            except QcoreError as error:
                n_errors += str(path) in str(error)
    sys.stdout.write(f"{n_read} {n_errors}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
