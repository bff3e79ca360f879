"""The grouping kernels of all instruction sets give the same results. SPEC H1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from grouped import check_sums

from oracle import assert_same_rows
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain


@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", [1, 2, 3, 5, 6, 8, 9, 12, 13, 16, 17, 64, 65, 1000])
@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 2047, 2048, 2049, 5000])
def test_levels_agree(level: int, n_rows: int, n_groups: int) -> None:
    rng = np.random.default_rng(n_rows)
    groups = rng.integers(0, n_groups, n_rows)
    letters = pa.array(["", *map(chr, range(33, 127))]).take(pa.array(groups % 95))
    keys = {
        "dense": [pa.array(groups)],
        "sparse": [pa.array(groups * 1_000_003_000_019)],
        "with nulls": [pa.array(groups * 1_000_003_000_019, mask=rng.random(n_rows) < 0.2)],
        "two words": [pa.array(groups * 1_000_003_000_019), pa.array(groups)],
        "letters": [letters, pa.array(groups // 95)],
        "text": [pa.array([f"key {group}" for group in groups])],
    }
    values = pa.array(rng.integers(-(2**40), 2**40, n_rows))
    for columns in keys.values():
        names = [f"k{i}" for i in range(len(columns))]
        table = pa.table([*columns, values], [*names, "x"])
        calls = [("sum", len(names), -1, False), ("count", -1, -1, False)]
        schema = pa.schema([*(table.schema.field(name) for name in names), ("s", pa.int64()), ("n", pa.int64())])
        got = run_chain([HashAggregation("agg", Account(), None, len(names), calls, "single", Schema(schema))], table)
        expected = table.group_by(names).aggregate([("x", "sum"), ([], "count_all")])
        assert_same_rows(got, expected)


def test_a_null_and_a_zero_of_one_slot_are_two_groups(level: int) -> None:
    """Null and zero are packed into the same word. Some pairs have hashes with the same slot."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        firsts = rng.choice(2**31 - 1, 400, replace=False).astype(np.int32)
        order = np.tile(rng.permutation(800), 5)
        table = pa.table({
            "a": np.repeat(firsts, 2)[order], "b": pa.array(np.zeros(4000, np.int32), mask=order % 2 == 1),
            "x": np.ones(4000, np.int64),
        })  # fmt: skip
        schema = pa.schema([*list(table.schema)[:2], ("s", pa.int64()), ("n", pa.int64())])
        calls = [("sum", 2, -1, False), ("count", -1, -1, False)]
        got = run_chain([HashAggregation("agg", Account(), None, 2, calls, "single", Schema(schema))], table)
        rows = pa.Table.from_batches(got, schema)
        assert rows.num_rows == 800 and set(rows["s"].to_pylist()) == set(rows["n"].to_pylist()) == {5}


def test_texts_of_all_lengths(level: int) -> None:
    """Three texts of each length, with nulls."""
    rng = np.random.default_rng(5)
    texts = pa.array([f"{number}{'abcdefghij' * 4}"[:length] for length in range(41) for number in range(3)])
    numbers = rng.integers(0, len(texts), 20_003)
    check_sums(texts.take(pa.array(numbers, mask=rng.random(len(numbers)) < 0.1)))


@pytest.mark.each_value
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 25, 30, 31, 32, 33])
def test_texts_that_differ_in_one_byte(level: int, length: int) -> None:
    """Each byte in turn, also by a zero, and a zero byte more or less at the end. All are met before they are known,
    or only one of them, and then the others are compared with it.
    """
    plain = bytes(range(65, 65 + length))
    changed = [plain[:i] + byte + plain[i + 1 :] for i in range(length) for byte in (b"\0", b"~", b"\xff")]
    texts = pa.array([b"", b"\0", b"\0\0", plain, plain + b"\0", *changed])
    numbers = np.random.default_rng(6).integers(0, len(texts), 10_003)
    check_sums(texts.take(pa.array(numbers)))
    check_sums(pa.concat_arrays([pa.array([plain] * 5000), texts, texts.take(pa.array(numbers[:777]))]))
