"""UTF-8 of strings from outside, against Python's decoder. SPEC H2."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from qcore.errors import ExecutionError
from qcore_ext.data.checked_stream import check_batch

# Around each rule of the encoding: lengths, overlong forms, surrogates, the last code point.
EDGES = [
    b"\x00", b"\x7f", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2\x80", b"\xdf\xbf", b"\xc2", b"\xc2\x41",
    b"\xc2\xc2",
    b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xee\x80\x80", b"\xef\xbf\xbf", b"\xe1\x80",
    b"\xe1\x41\x80", b"\xe1\x80\x41", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80",
    b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80", b"\xf0\x90\x80", b"\xf0\x90\x80\x41", b"\xf1\x41\x80\x80", b"\xff", b"\xfe",
]  # fmt: skip


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def passes(values: pa.Array) -> bool:
    try:
        check_batch(pa.record_batch({"s": values}), text_only=True)
    except ExecutionError as error:
        return "column 's' of" not in str(error) or "UTF-8" not in str(error)
    return True


def make_unchecked_text(values: list[bytes], type_: pa.DataType) -> pa.Array:
    """Bytes as text, without pyarrow's own check."""
    if type_ == pa.string_view():
        return pa.array(values, pa.binary_view()).view(type_)
    large = type_ == pa.large_string()
    held = pa.array(values, pa.large_binary() if large else pa.binary())
    return pa.Array.from_buffers(type_, len(values), held.buffers())


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("before", [0, 1, 7, 8, 9, 40])
def test_edges_of_the_encoding(type_: pa.DataType, before: int) -> None:
    """H2: at any distance from the words of eight bytes that are checked together."""
    for edge in EDGES:
        for after in (b"", b"x" * 9):
            value = b"a" * before + edge + after
            assert passes(make_unchecked_text([b"ok", value, b"ok"], type_)) == is_text(value), value


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_random_bytes(type_: pa.DataType) -> None:
    draw = random.Random(8)
    for _ in range(500):
        text = "".join(draw.choices("aé漢\U0001f600", k=draw.randint(0, 20))).encode()
        damaged = bytearray(text)
        if damaged and draw.random() < 0.7:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        assert passes(make_unchecked_text([bytes(damaged)], type_)) == is_text(bytes(damaged)), damaged


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()], ids=str)
def test_a_character_cut_by_the_end_of_its_string(type_: pa.DataType) -> None:
    """All bytes together are valid text, but the single strings are not."""
    data = pa.py_buffer("é".encode())
    offsets = np.array([0, 1, 2], np.int64 if type_ == pa.large_string() else np.int32)
    assert not passes(pa.Array.from_buffers(type_, 2, [None, pa.py_buffer(offsets), data]))
    assert passes(pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(offsets[[0, 2]].copy()), data]))


@pytest.mark.parametrize("n", [1, 8, 2047, 2049])
@pytest.mark.parametrize("offset", [0, 3])
def test_null_rows_may_hold_anything(n: int, offset: int) -> None:
    values = [b"text"] * (n + offset)
    values[-1] = b"\xff"
    made = make_unchecked_text(values, pa.string())
    assert not passes(made.slice(offset))
    valid = np.ones(n + offset, bool)
    valid[-1] = False
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    assert passes(pa.Array.from_buffers(pa.string(), n + offset, [bits, *made.buffers()[1:]]).slice(offset))
