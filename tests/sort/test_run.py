"""A sorted run: insertion, merge, radix sort, and ties sorted word by word, compared with Python's sort. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, check

from random_tables import SIZES, random_table

RNG = np.random.default_rng(42)


def number_rows(table: pa.Table) -> pa.Table:
    return table.append_column("row", pa.array(np.arange(table.num_rows)))


# Values are compared up to 8 rows. Words are sorted by insertion up to 24, by the kernel up to 2,048, by radix beyond.
@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 2, 7, 8, 9, 16, 23, 24, 25, 65, 200, 2047, 2048, 2049, 70_000])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_q2_every_algorithm(n_rows: int, direction: tuple[bool, bool]) -> None:
    types = {"a": pa.int64(), "s": pa.string(), "f": pa.float64()}
    table = number_rows(random_table(43, n_rows, types, null_share=0.1, n_distinct={"s": 50}))
    for name in types:
        check(table, [(name, *direction), ("row", not direction[0], False)])


@pytest.mark.parametrize("n_bytes", range(1, 9))
def test_q2_digits_that_all_rows_share_are_skipped(n_bytes: int) -> None:
    values = RNG.integers(0, 256, 3000) << (8 * (n_bytes - 1)) if n_bytes < 8 else RNG.integers(-128, 128, 3000) << 56
    check(number_rows(pa.table({"k": values | 0x0101})), [("k", False, False)])


@pytest.mark.parametrize("n_rows", [150, 201, 3000])
@pytest.mark.parametrize("length", [0, 6, 7, 8, 13, 14, 15, 30])
def test_q2_strings_that_differ_behind_a_long_common_start(length: int, n_rows: int) -> None:
    """Ties are sorted by words of seven bytes. Equal words, and zero bytes at the end of a string."""
    tails = ["", "\0", "\0\0", "a", "b", "ab", "aaaaaaa", "aaaaaaab", "aaaaaaaaaaaaaab", "aaaaaaa\0"]
    words = ["x" * length + tails[i] for i in RNG.integers(0, len(tails), n_rows)]
    words = [None if i % 37 == 0 else word for i, word in enumerate(words)]
    table = number_rows(pa.table({"s": words}))
    for direction in DIRECTIONS:
        check(table, [("s", *direction), ("row", True, False)])


@pytest.mark.parametrize("n_rows", [150, 2500])
@pytest.mark.parametrize("first", ["constant", "few"])
def test_q2_ties_of_keys_that_the_prefix_leaves_out(first: str, n_rows: int) -> None:
    n_values = 1 if first == "constant" else 3
    table = number_rows(pa.table({
        "a": RNG.integers(0, n_values, n_rows) * 2**61,
        "w": pa.array(RNG.integers(0, n_values, n_rows)).cast(pa.decimal128(38, 0)),
        "s": [f"{'long ' * 5}{i}" for i in RNG.integers(0, n_values, n_rows)],
        "f": pa.array(RNG.integers(-3, 3, n_rows) / 4, mask=RNG.random(n_rows) < 0.2),
    }))  # fmt: skip
    for descending, nulls_first in DIRECTIONS:
        keys = [("a", descending, False), ("w", False, False), ("s", descending, False), ("f", descending, nulls_first)]
        check(table, [*keys, ("row", not descending, False)])


def test_q2_ties_of_long_strings_are_sorted_by_the_next_key_s_first_letters() -> None:
    """The words of the second key begin with its first byte, even after long equal first keys."""
    firsts = [f"{first}{'x' * 20}{last}" for first in "mn" for last in "ab"]
    seconds = [f"{a}{b}{'y' * 28}{c}" for a in "pqr" for b in "st" for c in "uvw"]
    rows = {"a": [firsts[i] for i in RNG.integers(0, 4, 3000)], "b": [seconds[i] for i in RNG.integers(0, 18, 3000)]}
    for direction in DIRECTIONS:
        check(number_rows(pa.table(rows)), [("a", *direction), ("b", *direction), ("row", True, False)])
