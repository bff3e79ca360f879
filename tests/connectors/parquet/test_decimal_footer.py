"""Footers rewritten so that decimals read as integers."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcore.connectors.parquet.decimal_footer import decimals_as_integers


def footer_of(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    n = int.from_bytes(data[-8:-4], "little")
    return data[-8 - n : -8]


def parse(raw: bytes) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(b"PAR1" + raw + len(raw).to_bytes(4, "little") + b"PAR1"))


def nulls(types: dict[str, pa.DataType]) -> pa.Table:
    return pa.table({name: pa.nulls(3, type) for name, type in types.items()})


@pytest.mark.parametrize("with_arrow_schema", [True, False])
@pytest.mark.parametrize("n_others", [0, 3, 20])
def test_only_top_level_integer_decimals_change(with_arrow_schema: bool, n_others: int) -> None:
    """Only decimals change. With more than 14 columns the length of the list of columns is a varint."""
    inner = pa.struct([("x", pa.decimal128(5, 1)), ("y", pa.list_(pa.decimal128(6, 2)))])
    types = {f"c{i}": pa.string() if i % 2 else pa.int32() for i in range(n_others)}
    types |= {"n": inner, "d4": pa.decimal128(9, 2), "d8": pa.decimal128(18, 5), "d16": pa.decimal128(30, 3)}
    types |= {"l": pa.list_(pa.decimal128(7, 2)), "t": pa.timestamp("us", "UTC"), "last": pa.decimal128(1, 0)}
    raw = footer_of(nulls(types), store_decimal_as_integer=True, store_schema=with_arrow_schema)
    rewritten, decimals = decimals_as_integers(raw)
    assert decimals == {"d4": pa.decimal32(9, 2), "d8": pa.decimal64(18, 5), "last": pa.decimal32(1, 0)}
    before, after = parse(raw), parse(rewritten)
    old, new = before.schema.to_arrow_schema(), after.schema.to_arrow_schema()
    changed = {"d4": pa.int32(), "d8": pa.int64(), "last": pa.int32()}
    for name in old.names:
        assert new.field(name).type == changed.get(name, old.field(name).type)
        assert new.field(name).nullable == old.field(name).nullable
    assert after.num_rows == before.num_rows
    assert after.row_group(0).to_dict()["total_byte_size"] == before.row_group(0).to_dict()["total_byte_size"]


def test_without_decimals_nothing_changes() -> None:
    raw = footer_of(nulls({"a": pa.int64(), "s": pa.string()}))
    assert decimals_as_integers(raw) == (raw, {})


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x15\x02", b"\xff" * 20, b"\x15\x02\x19\xfc"])
def test_bytes_that_are_no_footer_are_returned_unchanged(raw: bytes) -> None:
    assert decimals_as_integers(raw) == (raw, {})
