"""Run lengths of ORC added up, against runs written by hand from the format's specification (SPEC H2)."""

from __future__ import annotations

import pytest

from qcore_ext.data.orc_lengths import lz4_bytes, sum_of_lengths


@pytest.mark.parametrize(
    ("raw", "lengths"),
    [
        ("", []),
        # The examples of the specification.
        ("0a2710", [10000] * 5),
        ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
        ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        (
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
        ),
        # A fixed step up, and down.
        ("c0040504", [5, 7, 9, 11, 13]),
        ("c0020503", [5, 3, 1]),
    ],
)  # fmt: skip
def test_runs_of_the_second_version(raw: str, lengths: list[int]) -> None:
    assert sum_of_lengths(bytes.fromhex(raw), True) == (len(lengths), sum(lengths))


@pytest.mark.parametrize(
    ("raw", "lengths"),
    [("610007", [7] * 100), ("61ff64", list(range(100, 0, -1))), ("fb02030607" "0b", [2, 3, 6, 7, 11])],
)  # fmt: skip
def test_runs_of_the_first_version(raw: str, lengths: list[int]) -> None:
    assert sum_of_lengths(bytes.fromhex(raw), False) == (len(lengths), sum(lengths))


@pytest.mark.parametrize(
    ("raw", "second_version", "says"),
    [
        ("0a27", True, "ends in the middle"),
        ("5e035ca1", True, "ends in the middle"),
        ("c6", True, "ends in the middle"),
        ("8e132b2107", True, "ends in the middle"),
        ("3a00" + "ff" * 7, True, "longer than 2 GiB"),
        ("1880000000", True, "longer than 2 GiB"),
        ("c0020505", True, "negative"),
        ("c200" + "0502", True, "no run"),
        ("8e132b2087d0" + "00" * 60, True, "no run"),
        ("8e132b2187d0" + "00" * 60, True, "negative"),
        ("c005" + "ff" * 11, True, "64 bits"),
        ("61", False, "ends in the middle"),
        ("61ff05", False, "negative"),
        ("ff" + "ffffffff0f", False, "longer than 2 GiB"),
    ],
)
def test_damaged_runs(raw: str, second_version: bool, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sum_of_lengths(bytes.fromhex(raw), second_version)


def test_any_bytes_give_a_sum_or_an_error() -> None:
    for head in range(256):
        for second_version in (False, True):
            for rest in (b"\xff" * 700, b"\0" * 700, b"\x80" * 9, bytes(range(256)) * 3):
                try:
                    n, total = sum_of_lengths(bytes([head]) + rest, second_version)
                    assert 0 <= total <= n * 2**32
                except ValueError:
                    pass


def test_lz4_blocks_tell_their_size() -> None:
    import pyarrow as pa

    codec = pa.Codec("lz4_raw")
    for text in (b"", b"a", b"a" * 5, b"a" * 5000, bytes(range(256)) * 3, b"ab" * 100 + bytes(range(200)) + b"x" * 400):
        block = codec.compress(text, asbytes=True)
        assert lz4_bytes(block) == len(text)
        for n in range(1, len(block)):
            try:
                n_bytes = lz4_bytes(block[:n])
            except ValueError as error:
                told = str(error)
            else:
                assert n_bytes <= len(text) + 300
                continue
            assert "ends in the middle" in told
