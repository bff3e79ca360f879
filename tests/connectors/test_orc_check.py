"""ORC files: sound ones pass, and what a damaged one claims is compared with its bytes before pyarrow sees it (H2)."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as paorc
import pytest

import qcore
from qcore.connectors import orc_check
from qcore.connectors.orc_check import OrcFootprint

Fields = list[tuple[int, int | bytes]]


def write_file(rows: pa.Table, path: Path, **options: object) -> bytes:
    paorc.write_table(rows, path, **options)
    return path.read_bytes()


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(fields: Fields) -> bytes:
    return b"".join(
        varint(number << 3) + varint(value) if isinstance(value, int)
        else varint(number << 3 | 2) + varint(len(value)) + value
        for number, value in fields
    )  # fmt: skip


def fields_of(raw: bytes) -> Fields:
    return list(orc_check._fields(raw))


def with_number(raw: bytes, number: int, value: int) -> bytes:
    """The message with another value for one of its numbers."""
    return message([*((n, v) for n, v in fields_of(raw) if n != number), (number, value)])


def rewrite(
    raw: bytes,
    postscript: Callable[[bytes], bytes] = bytes,
    stripe: Callable[[bytes], bytes] = bytes,
    stripe_footer: Callable[[Fields], Fields] = list,
) -> bytes:
    """An uncompressed file of one stripe with other messages in its tail."""
    held_postscript = raw[-1 - raw[-1] : -1]
    held = dict(fields_of(held_postscript))
    footer_at = len(raw) - 1 - raw[-1] - int(held[1])
    footer = fields_of(raw[footer_at : footer_at + int(held[1])])
    stripes = [value for number, value in footer if number == 3]
    assert len(stripes) == 1 and isinstance(stripes[0], bytes)
    information = dict(fields_of(stripes[0]))
    start = int(information.get(1, 0)) + int(information.get(2, 0)) + int(information[3])
    inner = message(stripe_footer(fields_of(raw[start : start + int(information[4])])))
    footer = [
        (number, stripe(with_number(stripes[0], 4, len(inner))) if number == 3 else value) for number, value in footer
    ]
    outer = message(footer)
    last = postscript(with_number(held_postscript, 1, len(outer)))
    return raw[:start] + inner + raw[start + int(information[4]) : footer_at] + outer + last + bytes([len(last)])


def require_sound(raw: bytes, path: Path) -> None:
    path.write_bytes(raw)
    with pa.OSFile(str(path)) as file:
        footprint = OrcFootprint(file)
        for number in range(len(footprint._stripes)):
            footprint.require_sound(file, number, footprint.type(0).names)


NUMBERS = random.Random(12)
SHAPES: dict[str, list[int]] = {
    "equal": [7] * 3000,
    "random": [NUMBERS.randrange(60) for _ in range(3000)],
    "ascending": [i // 3 for i in range(900)],
    "steps": list(range(600)) + list(range(600, 0, -1)),
    "outliers": [NUMBERS.choice([3, 4, 5, 6, 7] * 30 + [40_000]) for _ in range(3000)],
    "short runs": [NUMBERS.randrange(9) for _ in range(300) for _ in range(4)],
    "empty": [0] * 1000,
    "one": [5],
}


@pytest.mark.each_value
@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("dictionary", [0.0, 1.0])
def test_sound_files_pass_with_the_right_sums(
    tmp_path: Path, compression: str, version: str, dictionary: float
) -> None:
    for name, lengths in SHAPES.items():
        texts = ["x" * n for n in lengths]
        rows = pa.table(
            {
                "s": texts,
                "n": pa.array([text if i % 3 else None for i, text in enumerate(texts)], pa.string()),
                "l": pa.array([[i] * min(n, 50) for i, n in enumerate(lengths)], pa.list_(pa.int64())),
                "m": pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string())),
                "st": [{"b": text.encode(), "d": 1.5} for text in texts],
            }
        )
        path = tmp_path / "t.orc"
        raw = write_file(
            rows, path, compression=compression, file_version=version, dictionary_key_size_threshold=dictionary,
            compression_block_size=1 << 16,
        )  # fmt: skip
        require_sound(raw, path)
        assert (
            qcore.sql(f"select * from '{path}'")
            .to_arrow()
            .equals(paorc.read_table(path).cast(qcore.sql(f"select * from '{path}'").schema))
        ), name
        if not dictionary:
            with pa.OSFile(str(path)) as file:
                footprint = OrcFootprint(file)
                stripe = footprint._stripes[0]
                start = stripe.offset + stripe.index_bytes + stripe.data_bytes
                footer = footprint.decompress_stream(orc_check._read(file, start, stripe.footer_bytes))
                check = orc_check._StripeCheck(
                    footprint, file, *orc_check._stripe_footer(footer, stripe.offset)
                )  # fmt: skip
                assert check._lengths(1, check._encodings[1][0]) == (len(lengths), sum(lengths)), name


TEXTS = pa.table({"s": ["some text", None, "more"] * 10, "l": [[1, 2], [], [3]] * 10})
READ_EACH = """
import sys
import qcore
raw = open(sys.argv[1], "rb").read()
n = refused = 0
for at in range(len(raw)):
    for bit in map(int, sys.argv[2:]):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << bit
        path = f"{sys.argv[1]}.{at}.{bit}.orc"
        open(path, "wb").write(flipped)
        n += 1
        try:
            qcore.sql(f"select * from '{path}'", threads=1).to_arrow()
        except qcore.QcoreError as error:
            assert path in str(error) or "declared" in str(error), error
            refused += 1
print(refused, n)
"""


@pytest.mark.sweep
@pytest.mark.parametrize("bits", [(0, 6, 7), (1, 2, 3, 4, 5)], ids=str)
def test_no_flipped_bit_ends_the_process(bits: tuple[int, ...], tmp_path: Path) -> None:
    """Without the check pyarrow writes outside of its memory if a length becomes 2^58."""
    path = tmp_path / "x.orc"
    raw = write_file(pa.table({"s": ["xy" * i for i in range(12)]}), path, compression="uncompressed")
    command = [sys.executable, "-c", READ_EACH, str(path), *map(str, bits)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    refused, n = map(int, run.stdout.split())
    assert 0 < refused < n == len(bits) * len(raw)


def test_lengths_above_the_text_that_is_there(tmp_path: Path) -> None:
    """Three bytes of lengths declare strings of 2^30 bytes each, for which pyarrow would allocate 30 GB."""
    path = tmp_path / "x.orc"
    raw = bytearray(write_file(pa.table({"i": range(10), "s": ["abcd"] * 10}), path, compression="uncompressed"))
    with pa.OSFile(str(path)) as file:
        footprint = OrcFootprint(file)
        stripe = footprint._stripes[0]
        start = stripe.offset + stripe.index_bytes + stripe.data_bytes
        streams, _ = orc_check._stripe_footer(orc_check._read(file, start, stripe.footer_bytes), stripe.offset)
    at = streams[2, orc_check.LENGTH].start
    assert raw[at : at + 2].hex() == "0704"
    # Four bytes of each length instead of one: the stream grows by three, and so does its stripe.
    longer = bytes(raw[:at]) + bytes.fromhex("1f40000000") + bytes(raw[at + 2 :])
    sizes = {"index": stripe.index_bytes, "data": stripe.data_bytes}

    def stream_longer(fields: Fields) -> Fields:
        out: Fields = []
        for number, value in fields:
            if number == 1 and isinstance(value, bytes) and dict(fields_of(value)).get(1) == orc_check.LENGTH:
                out.append((number, with_number(value, 3, 5)))
            else:
                out.append((number, value))
        return out

    # The tail is that of the shorter file, so its stripe is made longer first.
    tail = rewrite(bytes(raw), stripe=lambda held: with_number(held, 3, sizes["data"] + 3), stripe_footer=stream_longer)
    made = longer[: start + 3] + tail[start:]
    with pytest.raises(pa.ArrowInvalid, match=r"column 2 of a stripe claims to have 10737418240 bytes of text"):
        require_sound(made, path)
    with pytest.raises(qcore.ExecutionError, match=r"x\.orc as ORC: column 2 of a stripe claims"):
        qcore.sql(f"select s from '{path}'").to_arrow()
    # A column that is not read is not looked at.
    assert qcore.sql(f"select sum(i) n from '{path}'").to_arrow()["n"].to_pylist() == [45]


def test_rows_elements_and_dictionaries_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    raw = write_file(TEXTS, path, compression="uncompressed", dictionary_key_size_threshold=1.0)
    require_sound(rewrite(raw), path)
    assert paorc.read_table(path).equals(TEXTS)
    many = rewrite(raw, stripe=lambda held: with_number(held, 5, 1 << 40))
    with pytest.raises(pa.ArrowInvalid, match=r"claims to have 1099511627776 rows, more than its streams can hold"):
        require_sound(many, path)

    def larger_dictionary(fields: Fields) -> Fields:
        return [
            (number, with_number(value, 2, 1 << 31) if number == 2 and isinstance(value, bytes) else value)
            for number, value in fields
        ]

    with pytest.raises(pa.ArrowInvalid, match="has 2 lengths of 2147483648 entries"):
        require_sound(rewrite(raw, stripe_footer=larger_dictionary), path)


@pytest.mark.parametrize(
    ("number", "value", "says"),
    [
        (2, 3, "LZO"),
        (2, 9, "codec 9"),
        (3, 1 << 40, "its blocks have 1099511627776 bytes"),
        (1, 1 << 40, "longer than the file"),
        (5, 1 << 62, "longer than the file"),
    ],
)
def test_postscripts(tmp_path: Path, number: int, value: int, says: str) -> None:
    path = tmp_path / "x.orc"
    raw = write_file(TEXTS, path, compression="zlib")
    last = with_number(raw[-1 - raw[-1] : -1], number, value)
    path.write_bytes(raw[: -1 - raw[-1]] + last + bytes([len(last)]))
    with pytest.raises(pa.ArrowInvalid, match=says):
        OrcFootprint(pa.OSFile(str(path)))
    with pytest.raises(qcore.PlanError, match=rf"x\.orc is not a valid ORC file: .*{says}"):
        qcore.sql(f"select * from '{path}'").to_arrow()


def test_stripes_and_streams_lie_where_they_can(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    raw = write_file(TEXTS, path, compression="uncompressed")
    with pytest.raises(pa.ArrowInvalid, match="outside the file"):
        require_sound(rewrite(raw, stripe=lambda held: with_number(held, 1, 1 << 50)), path)

    def twice(fields: Fields) -> Fields:
        return [*fields, *(field for field in fields if field[0] == 1)]

    with pytest.raises(pa.ArrowInvalid, match="two streams of one kind"):
        require_sound(rewrite(raw, stripe_footer=twice), path)

    def without_encodings(fields: Fields) -> Fields:
        return [field for field in fields if field[0] != 2]

    with pytest.raises(pa.ArrowInvalid, match="fewer encodings than columns"):
        require_sound(rewrite(raw, stripe_footer=without_encodings), path)

    def far(fields: Fields) -> Fields:
        return [
            (number, with_number(value, 3, 1 << 40) if number == 1 and isinstance(value, bytes) else value)
            for number, value in fields
        ]

    with pytest.raises(pa.ArrowInvalid, match="outside its stripe"):
        require_sound(rewrite(raw, stripe_footer=far), path)


@pytest.mark.parametrize("compression", ["zlib", "snappy", "lz4", "zstd"])
def test_compressed_files_that_repeat_much(tmp_path: Path, compression: str) -> None:
    """If a file declares far more bytes than its compressed ones, they are compared with the decompressed ones."""
    path = tmp_path / "x.orc"
    rows = pa.table({"s": ["a" * 10_000] * 2000, "l": pa.array([[None] * 500] * 2000, pa.list_(pa.int32()))})
    raw = write_file(rows, path, compression=compression, dictionary_key_size_threshold=0.0)
    assert len(raw) < 1_000_000
    require_sound(raw, path)
    assert qcore.sql(f"select sum(length(s)) n, sum(len(l)) m from '{path}'").to_arrow().to_pylist() == [
        {"n": 20_000_000, "m": 1_000_000}
    ]


def test_decimals_of_too_many_digits(tmp_path: Path) -> None:
    """pyarrow ends the process if it makes a decimal type of too many digits."""
    path = tmp_path / "x.orc"
    raw = write_file(pa.table({"d": pa.array([1], pa.decimal128(9, 2))}), path, compression="uncompressed")

    def wider(footer: Fields) -> Fields:
        return [
            (
                number,
                with_number(value, 5, 73)
                if isinstance(value, bytes) and number == 4 and b"\x08\x0e" in value
                else value,
            )
            for number, value in footer
        ]

    n = int(dict(fields_of(raw[-1 - raw[-1] : -1]))[1])
    at = len(raw) - 1 - raw[-1] - n
    path.write_bytes(raw[:at] + message(wider(fields_of(raw[at : at + n]))) + raw[at + n :])
    with pytest.raises(qcore.PlanError, match=r"x\.orc is not a valid ORC file: a decimal of it has 73 digits"):
        qcore.sql(f"select * from '{path}'").to_arrow()


def test_keys_of_maps_that_are_null(tmp_path: Path) -> None:
    """pyarrow ends the process if it makes a map array with such keys."""
    path = tmp_path / "x.orc"
    maps = pa.array([[(f"k{i}", i)] for i in range(100)], pa.map_(pa.string(), pa.int32()))
    raw = write_file(pa.table({"m": maps}), path, compression="uncompressed")

    def index_as_bitmap(fields: Fields) -> Fields:
        out: Fields = []
        for number, value in fields:
            held = dict(fields_of(value)) if number == 1 and isinstance(value, bytes) else {}
            is_index = held.get(1) == 6 and held.get(2) == 2 and isinstance(value, bytes)
            out.append((number, with_number(value, 1, orc_check.PRESENT) if is_index else value))
        return out

    with pytest.raises(pa.ArrowInvalid, match="a map of it has a key that is null"):
        require_sound(rewrite(raw, stripe_footer=index_as_bitmap), path)


@pytest.mark.parametrize(
    ("raw", "n", "all_present"),
    [
        ("", 9, True),
        ("fff8", 5, True),
        ("fff8", 6, False),
        ("feffff", 16, True),
        ("fefffe", 16, False),
        ("fefffe", 15, True),
        ("7fff" "7fff" "ff80", 2081, True),
        ("7fff" "7fff" "ff80", 2082, False),
        ("7fff" "0000", 1040, True),
        ("7fff" "0000", 1041, False),
        ("7f", 10, True),
    ],
)  # fmt: skip
def test_bitmaps_of_ones(raw: str, n: int, all_present: bool) -> None:
    assert orc_check._all_present(bytes.fromhex(raw), n) == all_present
