"""Key columns: keys appended, compared and read back, for groups whose keys do not fit two words. SPEC Q2."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, run_calls
from hash_model import FACTOR, STEP, hash_row, hash_value, mix

from oracle import assert_same_rows
from random_tables import KEY_TYPES, SIZES, random_table

COUNT = [Call("count", -1, pa.int64(), len)]
# With another column these do not fit two words.
WIDE = pa.decimal128(38, 10)


@pytest.mark.each_value
@pytest.mark.parametrize("type", [*KEY_TYPES, pa.null()], ids=str)
@pytest.mark.parametrize("n_rows", [*SIZES, 9000])
def test_q2_every_type_beside_a_wide_one(type: pa.DataType, n_rows: int) -> None:
    types = {"k": type, "a": WIDE, "b": WIDE}
    few = {"k": 500, "a": 2, "b": 2}
    check(random_table(56, n_rows, types, null_share=0.2, n_distinct=few, extremes=True), 3, COUNT)


def test_q2_strings_that_differ_in_one_byte() -> None:
    """In the length, the prefix, the rest of an inline view, or after twelve bytes."""
    words = ["", "\0", "abcd", "abce", "abcdefghijkl", "abcdefghijkm", "abcdefghijklm", "abcdefghijkln", "x" * 40,
             "x" * 39 + "y", "x" * 41, None]  # fmt: skip
    drawn = np.random.default_rng(57).integers(0, len(words), 5000)
    table = pa.table({"s": [words[i] for i in drawn], "w": pa.array([1] * 5000).cast(pa.decimal128(30, 0))})
    check(table, 2, COUNT)
    check(table.append_column("t", pa.array([words[i] for i in drawn[::-1]])), 3, COUNT)


def test_q2_texts_of_every_length_that_differ_in_one_byte_anywhere() -> None:
    """Texts of up to 64 bytes are copied and compared by overlapping words, longer ones by calls."""
    words = []
    for length in range(11, 82):
        whole = "".join(chr(97 + at % 26) for at in range(length))
        words += [whole, *(whole[:at] + "Z" + whole[at + 1 :] for at in range(length))]
    drawn = np.random.default_rng(58).permutation(len(words) * 2) % len(words)
    table = pa.table({"s": [words[i] for i in drawn], "t": [words[-1 - i] for i in drawn]})
    for n_keys in (1, 2):
        check(table, n_keys, COUNT)
        in_one_table = run_calls(table, n_keys, COUNT)
        assert_same_rows(run_calls(table, n_keys, COUNT, radix_groups_min=1), in_one_table)


def test_q2_texts_are_compared_with_others_that_differ_in_one_byte() -> None:
    """A row that has another key's slot is compared with the text of the row before it."""
    words = []
    for length in [*range(11, 42), 63, 64, 65]:
        whole = "".join(chr(97 + at % 26) for at in range(length))
        for at in range(length):
            for letter in "UVWXYZ":
                words += [whole, whole[:at] + letter + whole[at + 1 :]]
    check(pa.table({"s": words * 2}), 1, COUNT)


def test_q2_wide_keys_come_narrow_or_wide() -> None:
    """A vector of decimals that fit 64 bits is loaded as such. Equal values of both widths are equal."""
    small = [10**10, -(10**10), 0, -1, None] * 500
    large = [10**10, -(10**10), 0, -1, 10**25, -(10**25), 2**64, 2**64 - 1, None] * 400
    for parts in ([small, large, small], [large, small]):
        k = pa.chunked_array([pa.array(part).cast(pa.decimal128(38, 0)) if part is small else
                              pa.array(part, pa.decimal128(38, 0)) for part in parts])  # fmt: skip
        check(pa.table({"k": k, "j": k}), 2, COUNT)


def mix_all(values: np.ndarray) -> np.ndarray:
    """hash_model.mix() of each value."""
    shift, factor = np.uint64(32), np.uint64(FACTOR)
    for _ in range(2):
        values = (values ^ values >> shift) * factor
    return values ^ values >> shift


def test_q2_wide_keys_that_differ_in_the_high_word_alone() -> None:
    """A slot has half of the hash. Keys of one half that begin at one slot are compared by both words."""
    low, one = 5, Decimal("1")
    high = np.arange(1, 1 << 22, dtype=np.uint64)
    hashes = mix_all(high + np.uint64((mix(low) * 31 + STEP) % 2**64))
    hashes = mix_all(hashes * np.uint64(31) + np.uint64((hash_value(one) + STEP) % 2**64))
    first_slots = hashes & np.uint64(1023)
    places = (hashes >> np.uint64(32) << np.uint64(10)) | first_slots
    order = np.argsort(places)
    same = np.flatnonzero(places[order][1:] == places[order][:-1])
    assert len(same) > 0
    for at in same[:3]:
        values = [Decimal((int(high[order[at + i]]) << 64) + low) for i in (0, 1)]
        assert len({hash_row((value, one)) >> 32 for value in values}) == 1
        wide = pa.decimal128(38, 0)
        check(pa.table({"k": pa.array(values * 20, wide), "w": pa.array([one] * 40, wide)}), 2, COUNT)


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_q2_zeros_and_nans(type: pa.DataType) -> None:
    x = pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.0, None] * 3, type)
    check(pa.table({"k": x, "a": pa.array([1] * 18).cast(WIDE), "b": pa.array([1] * 18).cast(WIDE)}), 3, COUNT)
