"""Groups in an array: key ranges that are learned, widened and given up, compared with a hash table. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from grouped import Call, check, run_calls

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from sweeps import every

COUNT = [Call("count", -1, pa.int64(), len)]
TYPES = [pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
RNG = np.random.default_rng(17)


def ends(type: pa.DataType) -> tuple[int, int]:
    if pa.types.is_boolean(type):
        return 0, 1
    bits = type.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(type) else (0, 2**bits - 1)


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.2])
def test_q2_ranges_at_both_ends_of_each_type(type: pa.DataType, null_share: float) -> None:
    low, high = ends(type)
    vectors: list[Any] = []
    for start, span in ((low, 2), (low, 9), (max(low, -1), 3), (max(low, -5), 30), (high - 9, 10), (high - 1, 2)):
        values = [min(start + int(step), high) for step in RNG.integers(0, span, 2048)]
        vectors += [value if RNG.random() >= null_share else None for value in values] * 2
    table = pa.table({"k": pa.array(vectors, pa.int64() if type != pa.bool_() else None).cast(type)})
    check(table, 1, COUNT)
    for part in range(0, table.num_rows, 8192):
        check(table.slice(part, 8192), 1, COUNT, ["single"])


def test_q2_strings_of_at_most_one_byte() -> None:
    few, more = ["b", "", "a"], ["", "a", "b", "\0", "\x7f", "~"]
    for words in (few + more, [*few, "ab"], [None, *few], [*more, None, "é"]):
        latest = np.arange(9000) // 900
        drawn = [words[min(i, n)] for i, n in zip(RNG.integers(0, len(words), 9000), latest, strict=True)]
        k = pa.array(drawn)
        check(pa.table({"k": k}), 1, COUNT)
        check(pa.table({"k": k, "j": pa.array(RNG.integers(-3, 3, 9000).astype(np.int16))}), 2, COUNT)


@pytest.mark.parametrize("n_columns", [2, 3, 4, 5])
def test_q2_several_columns_make_one_index(n_columns: int) -> None:
    """The ranges have different widths and therefore strides. Five columns are too many for an array."""
    spans = [3, 11, 5, 2, 4][:n_columns]
    parts = []
    for shift in (0, 1, 6, 0):
        columns = [pa.array(RNG.integers(shift, shift + span, 4096), mask=RNG.random(4096) < 0.1) for span in spans]
        parts.append(pa.table(columns, [f"k{i}" for i in range(n_columns)]))
    check(pa.concat_tables(parts), n_columns, COUNT)


def test_q2_ranges_that_creep_are_given_up_when_they_are_too_wide() -> None:
    for step, n_steps in ((1, 60), (30_000, 5), (2**60, 5), (70_000, 3)):
        k = np.concatenate([RNG.integers(0, 40, 2048) + step * i for i in range(n_steps)])
        check(pa.table({"k": k}), 1, COUNT, radix_groups_min=1 << 40)
    spread = pa.table({"k": RNG.integers(0, 300, 6000), "j": RNG.integers(0, 300, 6000)})
    check(spread, 2, COUNT, radix_groups_min=1 << 40)


def test_q2_groups_are_forgotten_when_the_table_is_emptied() -> None:
    """The partial table is emptied at 2,048 groups. The same keys come before and afterwards."""
    k = np.concatenate([np.arange(2000), np.arange(30_000) % 9000, np.arange(2000)])
    check(pa.table({"k": k}), 1, COUNT, ["both"], partial_groups_max=2048, radix_groups_min=1 << 40)


def lone_keys() -> dict[str, Any]:
    """Single integer keys that become dense, stay dense, or stop being dense."""
    n = 24_000
    dense = RNG.permutation(n)
    return {
        "ascending": np.arange(n) // 3,
        "descending": n - np.arange(n) // 3,
        "ascending with gaps": np.arange(n) * 30,
        "ascending with wide gaps": np.arange(n) * 100,
        "dense in any order": dense,
        "dense, each twice": np.concatenate([dense, dense[::-1]]),
        "dense around zero": dense - n // 2,
        "dense, then far away": np.concatenate([dense, [2**40, -(2**40)], dense, np.arange(5000) * 2**33]),
        "far away, then dense": np.concatenate([np.arange(5000) * 2**33, dense, dense]),
        "two dense ranges": np.concatenate([dense[:9000], dense[:9000] + 2**31, dense]),
        "growing on both sides": np.concatenate([RNG.integers(-s, s + 1, 2048) for s in range(1, 45_000, 3000)]),
        "one key": np.full(5000, -7),
    }


@pytest.mark.each_value
@pytest.mark.parametrize("name", every(4, lone_keys()))
@pytest.mark.parametrize("null_share", [0.0, 0.01])
def test_q2_lone_keys_in_an_array_and_in_slots(name: str, null_share: float) -> None:
    """Dense keys need no slots. The table changes between array and slots as the range and the number of keys grow."""
    keys = lone_keys()[name]
    k = pa.array(keys, mask=RNG.random(len(keys)) < null_share)
    table = pa.table({"k": k, "v": RNG.integers(0, 1000, len(keys))})
    calls = [*COUNT, Call("sum", 1, pa.int64(), sum)]
    check(table, 1, calls, radix_groups_min=1 << 40)
    check(table, 1, calls, ["both"], partial_groups_max=3000, radix_groups_min=1 << 40)
    # Partitioned tables return their groups in another order.
    expected = run_calls(table, 1, calls, "single", radix_groups_min=1 << 40)
    for step in ("single", "both"):
        assert_same_rows(run_calls(table, 1, calls, step, partial_groups_max=3000, radix_groups_min=5000), expected)


def test_q2_an_array_grows_when_memory_is_short() -> None:
    """Near the limit the array before is given up first, and its groups are put into the new one again."""
    k = np.arange(24_000)[::-1] * 30
    table = pa.table({"k": np.concatenate([k, k])})
    wanted = run_calls(table, 1, COUNT, radix_groups_min=1 << 40)
    n_done = 0
    for limit in range(1 << 20, 24 << 20, 1 << 19):
        try:
            got = run_calls(table, 1, COUNT, "single", limit, radix_groups_min=1 << 40)
        except MemoryLimitError:
            assert n_done == 0
            continue
        n_done += 1
        assert got.equals(wanted)
    assert 0 < n_done < 44


@pytest.mark.parametrize("type", every(5, [pa.int64(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32()]), ids=str)
def test_q2_lone_keys_of_each_type_over_many_codes(type: pa.DataType) -> None:
    low, high = ends(type)
    span = min(high - low + 1, 90_000)
    for start in (low, min((low + high) // 2, high - span + 1), high - span + 1):
        keys = pa.array([start + int(n) for n in RNG.permutation(span)]).cast(type)
        check(pa.table({"k": keys}), 1, COUNT, ["single"], radix_groups_min=1 << 40)


def test_keys_in_random_order_have_an_array_of_little_more_than_their_range() -> None:
    """The first vector has nearly the whole range. The array was three times as long after the second one."""
    n = 900_000
    keys = RNG.permutation(n)
    memory = Account()
    schema = Schema(pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    operator = HashAggregation("agg", memory, None, 1, [("count", -1, -1, False)], "single", schema)
    got = pa.Table.from_batches(run_chain([operator], pa.table({"k": keys})))
    assert pc.sum(got["n"]).as_py() == n == operator.stats_snapshot()["groups"]["array"]
    assert memory.peak_bytes < 45_000_000
