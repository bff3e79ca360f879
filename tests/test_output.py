"""Results written in file formats and read by other libraries."""

from __future__ import annotations

import io
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle import assert_same_rows
from qcore.output import WRITERS, json_text
from random_tables import ALL_TYPES, random_table


def write_bytes(table: pa.Table, format: str) -> bytes:
    sink = io.BytesIO()
    WRITERS[format](table.to_batches(max_chunksize=100), table.schema, sink)
    return sink.getvalue()


TABLE = random_table(5, 250, {"i": pa.int64(), "d": pa.decimal128(38, 10), "s": pa.string(), "day": pa.date32()})


def test_csv_tells_null_from_empty() -> None:
    data = pyarrow.csv.read_csv(
        io.BytesIO(write_bytes(TABLE, "csv")),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=TABLE.schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert_same_rows(data, TABLE, ordered=True, check_names=True)


def test_json_keeps_every_digit() -> None:
    lines = write_bytes(TABLE, "json").decode().splitlines()
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    assert [row["d"] for row in rows] == TABLE["d"].to_pylist()
    assert [row["s"] for row in rows] == TABLE["s"].to_pylist()
    assert rows[0].keys() == set(TABLE.column_names)


def test_json_has_no_nan() -> None:
    assert [json_text(value) for value in (float("nan"), float("inf"), 0.1)] == ["null", "null", "0.1"]


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_binary_formats_give_the_same_rows_back(format: str) -> None:
    data = io.BytesIO(write_bytes(TABLE, format))
    read = pyarrow.parquet.read_table(data) if format == "parquet" else pa.ipc.open_file(data).read_all()
    assert_same_rows(read, TABLE, ordered=True, check_names=True, check_types=True)


def test_arrow_to_a_pipe_is_a_stream() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    sink = Pipe()
    WRITERS["arrow"](TABLE.to_batches(), TABLE.schema, sink)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(TABLE)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_every_type_can_be_written_as_text(format: str) -> None:
    table = random_table(6, 50, ALL_TYPES)
    header = format == "csv"
    assert write_bytes(table, format).decode().count("\n") >= table.num_rows + header


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_no_rows(format: str) -> None:
    assert write_bytes(TABLE.slice(0, 0), format) == write_bytes(TABLE.slice(0, 0), format)


def test_uuids_are_written_as_text() -> None:
    value = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    table = pa.table({"u": pa.array([value, None], pa.uuid())})
    assert write_bytes(table, "csv").decode() == f'"u"\n"{value}"\n\n'
    assert write_bytes(table, "json").decode() == f'{{"u": "{value}"}}\n{{"u": null}}\n'
