"""Every encoding, type, share of nulls and size, against pyarrow's decoder (SPEC P1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet.reading_natively import assert_reads_alike, read_natively

from qcore_ext.ground.dispatch import instruction_set, use_level
from random_tables import random_table

INTEGERS = {f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)}
TIMES = {
    "day": pa.date32(),
    "ms": pa.time32("ms"),
    "us": pa.time64("us"),
    "moment": pa.timestamp("us"),
    "zoned": pa.timestamp("ms", "UTC"),
    "nano": pa.timestamp("ns"),
}
FLOATS = {"f32": pa.float32(), "f64": pa.float64()}
DECIMALS = {f"d{digits}": pa.decimal128(digits, 2) for digits in (2, 4, 6, 9, 12, 18, 19, 25, 38)}
TEXTS = {"text": pa.string(), "long": pa.large_string(), "bytes": pa.binary()}
TYPES: dict[str, pa.DataType] = INTEGERS | TIMES | FLOATS | DECIMALS | TEXTS | {"truth": pa.bool_()}
NULL_SHARES = (0.0, 0.1, 0.9, 1.0)
SIZES = (0, 1, 7, 8, 9, 1023, 1024, 1025, 5000)


@pytest.fixture(params=[2, 4])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    before = instruction_set()
    if not use_level(request.param):
        pytest.skip("the processor does not have these instructions")
    yield request.param
    for number in (4, 3, 2):
        if use_level(number) and instruction_set() == before:
            break


def write_encoded(path: Path, table: pa.Table, encoding: str | None, **options: Any) -> None:
    """Write a table in many small pages; `encoding` None: with dictionaries."""
    if encoding is not None:
        options["use_dictionary"] = False
        options["column_encoding"] = dict.fromkeys(table.column_names, encoding)
    pq.write_table(table, path, data_page_size=2000, write_batch_size=300, **options)


@pytest.mark.each_value
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("null_share", NULL_SHARES)
@pytest.mark.parametrize("n_rows", SIZES)
def test_plain_and_dictionary(tmp_path: Path, n_rows: int, null_share: float, version: str, level: int) -> None:
    few = dict.fromkeys(TYPES, 20)
    for i, distinct in enumerate(({}, few)):
        table = random_table(n_rows + i, n_rows, TYPES, null_share, n_distinct=distinct, extremes=True)
        for as_integer in (False, True):
            for dictionary in (False, True):
                options = {"use_dictionary": dictionary, "store_decimal_as_integer": as_integer}
                write_encoded(tmp_path / "t.parquet", table, None, data_page_version=version, **options)
                assert_reads_alike(tmp_path / "t.parquet", batch_rows=1000)


ENCODED = {
    "DELTA_BINARY_PACKED": INTEGERS | TIMES,
    "DELTA_LENGTH_BYTE_ARRAY": TEXTS,
    "BYTE_STREAM_SPLIT": FLOATS | TIMES | DECIMALS | {"int32": pa.int32(), "int64": pa.int64()},
    "RLE": {"truth": pa.bool_()},
}


@pytest.mark.each_value
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("null_share", NULL_SHARES)
@pytest.mark.parametrize("encoding", ENCODED)
def test_other_encodings(tmp_path: Path, encoding: str, null_share: float, version: str) -> None:
    for n_rows in SIZES:
        table = random_table(n_rows, n_rows, ENCODED[encoding], null_share, extremes=True)
        write_encoded(tmp_path / "t.parquet", table, encoding, data_page_version=version)
        assert_reads_alike(tmp_path / "t.parquet", batch_rows=700)


@pytest.mark.parametrize("n_values", [1, 2, 3, 200, 70_000])
def test_codes_of_any_width(tmp_path: Path, n_values: int) -> None:
    """Runs of one value alternate with bit-packed values, and pages and batches end within groups of 8."""
    rows = [(i * 7919) % n_values if i % 1000 < 700 else n_values - 1 for i in range(max(3000, 2 * n_values))]
    table = pa.table({"a": pa.array(rows, pa.int64()), "s": pa.array([f"value {i}" for i in rows])})
    pq.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=1 << 24)
    for batch_rows in (8, 1000, 65_536):
        if batch_rows > 8 or n_values < 1000:
            assert read_natively(tmp_path / "t.parquet", batch_rows).equals(table)


def test_a_dictionary_that_grew_too_large(tmp_path: Path) -> None:
    """Dictionary pages are followed by plain pages, also within a batch."""
    rows = [f"the text number {i}" if i % 3 else None for i in range(5000)]
    table = pa.table({"s": rows, "a": pa.array(range(5000), pa.int64())})
    pq.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=4000, data_page_size=3000)
    for batch_rows in (8, 64, 1000, 8192):
        assert read_natively(tmp_path / "t.parquet", batch_rows).equals(table)


def test_strings_of_any_length(tmp_path: Path) -> None:
    rows = ["x" * n for n in range(300)] + ["é" * n for n in range(100)] + [None, "", "y" * 100_000]
    table = pa.table({"s": rows})
    for dictionary in (False, True):
        pq.write_table(table, tmp_path / "t.parquet", use_dictionary=dictionary)
        assert read_natively(tmp_path / "t.parquet", 64).equals(table)
    write_encoded(tmp_path / "t.parquet", table, "DELTA_LENGTH_BYTE_ARRAY")
    assert read_natively(tmp_path / "t.parquet", 64).equals(table)
