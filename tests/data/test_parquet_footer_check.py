"""Parquet footers: sound ones pass, and no damaged one that passes ends the process (SPEC H2)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qcore_ext.data.parquet_footer_check import footer_fault

WORDS = pa.table({"s": [f"text number {i}" for i in range(1000)], "i": list(range(1000))})


FLIP_EVERY_BIT = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
from qcore_ext.data.parquet_footer_check import footer_fault
raw = open(sys.argv[1], "rb").read()
n = int.from_bytes(raw[-8:-4], "little")
footer = raw[-8 - n : -8]
refused = 0
for bit in range(8 * n):
    flipped = bytearray(footer)
    flipped[bit // 8] ^= 1 << bit % 8
    if footer_fault(bytes(flipped), len(raw)) is not None:
        refused += 1
        continue
    try:
        read = pq.read_metadata(pa.BufferReader(b"PAR1" + flipped + raw[-8:]))
        for group in range(read.num_row_groups):
            for column in range(read.row_group(group).num_columns):
                chunk, stored = read.row_group(group).column(column), read.schema.column(column)
                chunk.total_compressed_size, chunk.compression, chunk.encodings, chunk.file_path, chunk.num_values
                chunk.has_dictionary_page, chunk.dictionary_page_offset, chunk.data_page_offset
                stored.physical_type, stored.logical_type.to_json(), stored.length, stored.max_repetition_level
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        pass
print(refused, 8 * n)
"""


def test_no_flipped_bit_of_a_parquet_footer_ends_the_process(tmp_path: Path) -> None:
    """pyarrow ends the process if a histogram has another number of levels than its column."""
    path = tmp_path / "x.parquet"
    nested = pa.array([[1, None], None, [], [2]] * 250)
    pq.write_table(WORDS.append_column("l", nested), path, row_group_size=500, store_schema=False)
    run = subprocess.run([sys.executable, "-c", FLIP_EVERY_BIT, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    refused, n = map(int, run.stdout.split())
    assert 0 < refused < n


def test_sound_footers_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    deep = pa.array([[[{"a": 1, "m": [("k", [1.0])]}]], None], pa.list_(pa.list_(pa.struct([
        ("a", pa.int8()), ("m", pa.map_(pa.string(), pa.list_(pa.float64())))
    ]))))
    for table in (WORDS, pa.table({"deep": deep}), WORDS.slice(0, 0), pa.table({"a": pa.nulls(3)})):
        pq.write_table(table, path)
        raw = path.read_bytes()
        assert footer_fault(raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8], len(raw)) is None


def test_a_footer_that_ends_early_is_malformed(tmp_path: Path) -> None:
    """Each proper prefix of a footer ends in the middle."""
    path = tmp_path / "x.parquet"
    pq.write_table(WORDS, path, store_schema=False)
    raw = path.read_bytes()
    footer = raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]
    assert footer_fault(footer, len(raw)) is None
    for n in range(0, len(footer) - 1, 7):
        assert footer_fault(footer[:n], len(raw)) is not None, n


def test_column_chunks_lie_in_the_file(tmp_path: Path) -> None:
    """A footer whose column chunks are outside of the file is malformed."""
    path = tmp_path / "x.parquet"
    pq.write_table(WORDS, path, store_schema=False)
    raw = path.read_bytes()
    footer = raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]
    assert footer_fault(footer, len(raw)) is None
    assert footer_fault(footer, len(raw) // 4) is not None
