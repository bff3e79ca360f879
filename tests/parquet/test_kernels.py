"""Snappy decompression, compared with pyarrow."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from qcore_ext.ground.dispatch import instruction_set, use_level
from qcore_ext.parquet.kernels import snappy_decompress

SIZES = (0, 1, 3, 4, 15, 16, 17, 59, 60, 61, 64, 65, 255, 256, 257, 4095, 65_535, 65_537, 200_000)


def texts(size: int, rng: random.Random) -> dict[str, bytes]:
    words = [bytes(rng.choices(b"abcdefgh ", k=rng.randrange(1, 12))) for _ in range(50)]
    period = rng.randrange(1, 40)
    return {
        "random": rng.randbytes(size),
        "zeros": bytes(size),
        "a pattern": (rng.randbytes(period) * (size // period + 1))[:size],
        "words": b" ".join(rng.choices(words, k=size // 2 + 1))[:size],
        "integers": b"".join(struct.pack("<q", rng.randrange(1 << 20)) for _ in range(size // 8 + 1))[:size],
    }


@pytest.mark.parametrize("size", SIZES)
def test_bytes_compressed_by_pyarrow_are_decompressed(size: int) -> None:
    rng = random.Random(size)
    codec = pa.Codec("snappy")
    for _ in range(20):
        for name, text in texts(size, rng).items():
            assert snappy_decompress(codec.compress(text, asbytes=True), size) == text, name


@pytest.mark.parametrize("size", SIZES)
def test_two_texts_at_a_time(size: int) -> None:
    rng = random.Random(size)
    codec = pa.Codec("snappy")
    for _ in range(5):
        for other_size in (0, 1, 61, 3000, 70_000):
            pairs = zip(texts(size, rng).values(), reversed(texts(other_size, rng).values()), strict=True)
            for text, other in pairs:
                packed = [codec.compress(one, asbytes=True) for one in (text, other)]
                assert snappy_decompress(packed[0], size, packed[1], other_size) == (text, other)


def test_one_of_two_texts_is_damaged() -> None:
    rng = random.Random(3)
    codec = pa.Codec("snappy")
    n_damaged = 0
    for size in (40, 500, 5000) * 100:
        text = texts(size, rng)["words"]
        good = codec.compress(text, asbytes=True)
        at = rng.randrange(len(good))
        bad = good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :]
        alone = snappy_decompress(bad, size)
        n_damaged += alone is None
        both = None if alone is None else (text, alone)
        assert snappy_decompress(good, size, bad, size) == both
        assert snappy_decompress(bad, size, good, size) == (None if both is None else both[::-1])
        assert snappy_decompress(good, size, good, size - 1) is None
    assert n_damaged > 50


@pytest.mark.parametrize("period", range(1, 70))
def test_copies_that_overlap_themselves(period: int) -> None:
    """A copy repeats the preceding bytes: lengths 1 to 64, periods of 2, 3 and 5 bytes."""
    start = bytes(range(1, period + 1))
    head = bytes([(period - 1) << 2]) if period <= 60 else bytes([60 << 2, period - 1])
    for length in range(1, 65):
        expected = start + (start * (length // period + 1))[:length]
        elements = [bytes([(length - 1) << 2 | 2, period, 0]), bytes([(length - 1) << 2 | 3, period, 0, 0, 0])]
        if 4 <= length <= 11:
            elements.append(bytes([(length - 4) << 2 | 1, period]))
        for element in elements:
            stream = _varint(len(expected)) + head + start + element
            assert snappy_decompress(stream, len(expected)) == expected


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\x80",
        b"\x05",
        b"\x05\x10abcd",  # a literal that is cut off
        b"\x05\x10abcdef",  # a literal longer than the whole
        b"\x08\x00a\x01\x00",  # a copy from offset 0
        b"\x08\x00a\x01\x02",  # a copy from before the begin
        b"\x08\x00a\x02",  # a copy that is cut off
        b"\x08\x00a\x1e\x01\x00",  # a copy of 8 where 7 are left
        b"\x08\x00a\x0a\x01\x00",  # too short a result
        b"\xff\xff\xff\xff\xff\x01",
        b"\x05\xfc\xff\xff\xff\xffabcde",  # a literal of 4 GB
    ],
)
def test_damaged_input_is_refused(stream: bytes) -> None:
    for size in (0, 5, 8):
        assert snappy_decompress(stream, size) is None


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_give_no_other_length(seed: int) -> None:
    rng = random.Random(seed)
    codec = pa.Codec("snappy")
    for text in texts(3000, rng).values():
        good = bytearray(codec.compress(text, asbytes=True))
        for _ in range(50):
            bad = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            found = snappy_decompress(bytes(bad[: rng.choice([len(bad), rng.randrange(len(bad) + 1)])]), 3000)
            assert found is None or len(found) == 3000


def test_levels_of_instructions_are_the_dispatchers() -> None:
    before = instruction_set()
    try:
        assert use_level(2)
        assert instruction_set() == "baseline"
    finally:
        for level in (4, 3, 2):
            if use_level(level) and instruction_set() == before:
                break
