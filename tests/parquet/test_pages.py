"""Page headers, codecs, and damaged pages (SPEC P1, H2)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet.damaged_pages import VARIANTS
from parquet.reading_natively import assert_reads_alike, read_natively, rows_of

from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore.errors import ExecutionError
from random_tables import random_table
from sweeps import every

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
TYPES = {"a": pa.int64(), "s": pa.string(), "d": pa.decimal128(15, 2), "b": pa.bool_()}


@pytest.mark.each_value
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_codecs(tmp_path: Path, codec: str, version: str) -> None:
    table = random_table(1, 4000, TYPES, 0.2)
    for dictionary in (False, True):
        pq.write_table(
            table,
            tmp_path / "t.parquet",
            compression=codec,
            data_page_version=version,
            use_dictionary=dictionary,
            data_page_size=5000,
        )
        assert_reads_alike(tmp_path / "t.parquet")


def test_pages_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    table = random_table(2, 400_000, {"a": pa.int64(), "s": pa.string()}, 0.1)
    for size in (1 << 16, 3 << 20):
        pq.write_table(table, tmp_path / "t.parquet", compression="none", use_dictionary=False, data_page_size=size)
        assert read_natively(tmp_path / "t.parquet", 65_536).equals(pq.read_table(tmp_path / "t.parquet"))


def test_long_statistics_in_a_page_header(tmp_path: Path) -> None:
    table = pa.table({"s": ["x" * 5000, "y" * 4000, None]})
    pq.write_table(table, tmp_path / "t.parquet", write_page_index=False, use_dictionary=False)
    assert read_natively(tmp_path / "t.parquet").equals(table)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(random_table(3, 300_000, {"a": pa.int64()}), path, compression="none", row_group_size=100_000)
    table = FileTable(str(path))
    splits = list(table.splits(("a",), None, 1))
    stream = table.open(splits[-1], ("a",), None, 1000)
    assert isinstance(stream, NativeStream)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ExecutionError, match=r"t\.parquet, row group 2: column 'a' .* the file ends before"):
        rows_of(stream)
    stream.close()


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for dictionary in (False, True):
        pq.write_table(pa.table({"s": ["good", "bad!"]}), path, use_dictionary=dictionary, compression="none")
        path.write_bytes(path.read_bytes().replace(b"\x04\0\0\0bad!", b"\x04\0\0\0\xff\xffd!"))
        with pytest.raises(ExecutionError, match=r"t\.parquet, row group 0: column 's' .* a string is not UTF-8"):
            read_natively(path)


# The first seed, and the one after the last.
SEEDS = [
    (0, 100),
    *(pytest.param(*seeds, marks=pytest.mark.sweep) for seeds in ((100, 300), (300, 4_300))),
    pytest.param(4_300, 10_300, marks=pytest.mark.nightly),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", every(3, VARIANTS))
@pytest.mark.parametrize(("first", "last"), SEEDS)
def test_damaged_pages_end_in_rows_or_an_error(first: int, last: int, variant: str, tmp_path: Path) -> None:
    """H2: a separate process reads them, and must not end early."""
    arguments = [variant, str(first), str(last), str(tmp_path)]
    tests = Path(__file__).parents[1]
    paths = [str(tests), *([] if os.environ.get("QCORE_TEST_INSTALLED") else [str(tests.parent)])]
    child = subprocess.run(
        [sys.executable, "-m", "parquet.damaged_pages", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    rows, errors = map(int, child.stdout.split())
    assert rows + errors == 2 * (last - first)
    assert errors > 0


def test_a_gzip_page_with_fewer_bytes_than_its_header_states(tmp_path: Path) -> None:
    """pyarrow's codec leaves the rest of its buffer unwritten. Those bytes must not become values."""
    path = tmp_path / "t.parquet"
    values = [random.Random(n).getrandbits(62) for n in range(500)]
    options = {"use_dictionary": False, "compression": "gzip", "write_statistics": False}
    pq.write_table(pa.table({"a": values}), path, **options)
    data = path.read_bytes()
    at = data.index(b"\x1f\x8b")
    whole = zlib.decompressobj(31)
    body = whole.decompress(data[at:])
    length = len(data) - at - len(whole.unused_data)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = packed.compress(body[:-64]) + packed.flush()
    end = zlib.crc32(body[:-64]).to_bytes(4, "little") + len(body[:-64]).to_bytes(4, "little")
    comment = b"-" * (length - 10 - 1 - len(raw) - len(end)) + b"\0"
    page = b"\x1f\x8b\x08\x10" + bytes(6) + comment + raw + end
    assert len(page) == length and zlib.decompressobj(31).decompress(page) == body[:-64]
    path.write_bytes(data[:at] + page + data[at + length :])
    with pytest.raises(ExecutionError, match=r"t\.parquet, row group 0: column 'a' .* another length than its header"):
        read_natively(path)
