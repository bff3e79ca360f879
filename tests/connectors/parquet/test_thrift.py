"""Thrift's compact encoding, read from bytes that are encoded here by its rules."""

from __future__ import annotations

import pytest

from qcore.connectors.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    FooterDamaged,
    ThriftReader,
)


def varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def zigzag(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 14, (1 << 32) - 1, (1 << 63) - 1])
def test_integers_of_every_length(value: int) -> None:
    reader = ThriftReader(varint(value) + zigzag(value) + zigzag(-value) + b"\x07")
    assert (reader.varint(), reader.integer(), reader.integer()) == (value, value, -value)
    assert reader.data[reader.at :] == b"\x07"


def test_fields_count_from_the_one_before() -> None:
    """An id that is more than 15 above the one before is written in full. A zero byte ends the struct."""
    reader = ThriftReader(bytes([0x10 | I32]) + b"" + bytes([0xF0 | I64]) + bytes([I16]) + zigzag(40) + b"\x00")
    assert reader.field(0) == (1, I32)
    assert reader.field(1) == (16, I64)
    assert reader.field(16) == (40, I16)
    assert reader.field(40) is None


@pytest.mark.parametrize("length", [0, 1, 14, 15, 200])
def test_heads_of_lists(length: int) -> None:
    head = bytes([length << 4 | I32]) if length < 15 else bytes([0xF0 | I32]) + varint(length)
    reader = ThriftReader(head)
    assert reader.list_head() == (length, I32)
    assert reader.at == len(head)


# A value of each type, encoded as in a struct.
VALUES = {
    "true": (BOOL_TRUE, b""),
    "false": (BOOL_FALSE, b""),
    "a byte": (I8, b"\x80"),
    "an integer": (I64, zigzag(-(1 << 40))),
    "a double": (DOUBLE, b"\xff" * 8),
    "text": (BINARY, varint(200) + b"\xff" * 200),
    "a list of booleans": (LIST, bytes([3 << 4 | BOOL_TRUE]) + b"\x01\x02\x01"),
    "a set of text": (SET, bytes([2 << 4 | BINARY]) + b"\x01a\x02bc"),
    "a struct": (STRUCT, bytes([0x10 | I32]) + zigzag(5) + bytes([0x20 | STRUCT]) + b"\x00" + b"\x00"),
}


@pytest.mark.parametrize("what", VALUES)
def test_a_value_is_skipped_to_its_end(what: str) -> None:
    type, body = VALUES[what]
    reader = ThriftReader(body + b"\x2a")
    reader.skip(type)
    assert reader.data[reader.at :] == b"\x2a"


def test_values_that_are_no_structs() -> None:
    with pytest.raises(FooterDamaged, match="Thrift type 11"):
        ThriftReader(b"\x00").skip(MAP)
    with pytest.raises(IndexError):
        ThriftReader(b"\xff").varint()
