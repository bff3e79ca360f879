"""Groups of a lone text key: texts that are known, longer ones, and texts that come later. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from grouped import check_second_start, check_sums

from oracle import assert_same_rows
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

CALLS = [("sum", 1, -1, False), ("count", -1, -1, False)]
VECTOR_ROWS = 2048


def draw(texts: list[str] | list[bytes], n: int, seed: int, null_share: float = 0.0) -> pa.Array:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, len(texts), n)
    return pa.array(texts).take(pa.array(numbers, mask=rng.random(n) < null_share))


@pytest.mark.parametrize("null_share", [0.0, 0.001, 0.4])
@pytest.mark.parametrize("n", [5 * VECTOR_ROWS, 5 * VECTOR_ROWS + 13])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_binary(), pa.string_view()])
def test_q2_texts_of_all_lengths(n: int, null_share: float, type_: pa.DataType) -> None:
    """0 to 40 bytes in one vector, three texts each."""
    texts = [f"{number}{'abcdefghij' * 4}"[:length] for length in range(41) for number in range(3)]
    check_sums(draw(texts, n, 41, null_share).cast(type_))


def test_q2_a_text_at_the_end_of_its_buffer() -> None:
    """Sliced arrays, and arrays whose last text ends where the buffer does."""
    for length in (13, 16, 24, 31):
        keys = pa.array([f"{i % 7}{'x' * (length - 1)}" for i in range(20_000)])
        check_sums(keys)
        check_sums(keys.slice(7, 19_001))


def test_q2_texts_that_come_after_others_were_known() -> None:
    rng = np.random.default_rng(43)
    parts = [rng.integers(0, 300 + 3 * i, VECTOR_ROWS) for i in range(100)]
    parts += [rng.integers(0, 3000, 50_000), rng.integers(5000, 5500, 50_000)]
    numbers = np.concatenate(parts)
    check_sums(pa.array([f"text {number:06} of many" for number in numbers]))
    check_sums(pa.array([f"{number:04}" for number in numbers], mask=rng.random(len(numbers)) < 0.01))
    # Short texts are known before the first long one changes how the table keeps its keys.
    check_sums(pa.array([f"{number}" if i < 60_000 else f"{number} and more text" for i, number in enumerate(numbers)]))


def test_q2_a_null_that_comes_after_others_were_known() -> None:
    for later in (None, "", "a text of more than 31 bytes, which is long"):
        texts = [f"text number {i % 11}" for i in range(30_000)]
        check_sums(pa.array([*texts, later, *texts[:1000], later], pa.string()))
        check_sums(pa.array([*[later] * 10_000, *texts], pa.string()))


def test_q2_long_texts_that_come_after_another() -> None:
    """The first long text has a group, but is not known. Later ones are not taken for it."""
    texts = [f"text number {i % 11}" for i in range(30_000)]
    long = [f"{i} a text of more than 31 bytes, which is long" for i in range(3)]
    check_sums(pa.array([long[0], *texts, *long, *texts[:5000], *long]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_q2_many_texts_too_long(share: float) -> None:
    rng = np.random.default_rng(44)
    numbers = rng.integers(0, 200, 40_000)
    long = numbers % 10 < 10 * share
    tails = [" and so on" * (4 if is_long else 1) for is_long in long]
    check_sums(pa.array([f"{number:05}{tail}" for number, tail in zip(numbers, tails, strict=True)]))


def test_q2_null_rows_with_arbitrary_views() -> None:
    """Null rows of a string_view array are one group, whatever length and offset stand there."""
    words = pa.array([f"a text of some length {i % 5}" for i in range(20_000)], pa.string_view())
    views = np.frombuffer(words.buffers()[1], np.int32).reshape(-1, 4).copy()
    views[::3, 0] = 29
    views[::3, 2:] = 2**31 - 1
    valid = np.packbits(np.arange(20_000) % 3 != 0, bitorder="little")
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(views.tobytes()), *words.buffers()[2:]]
    keys = pa.Array.from_buffers(pa.string_view(), 20_000, buffers)
    table = pa.table({"k": keys, "x": np.arange(20_000)})
    schema = pa.schema([("k", pa.string_view()), ("s", pa.int64()), ("n", pa.int64())])
    got = run_chain([HashAggregation("agg", Account(), None, 1, CALLS, "single", Schema(schema))], table)
    names = [None if i % 3 == 0 else f"a text of some length {i % 5}" for i in range(20_000)]
    expected = pa.table({"k": names, "x": np.arange(20_000)}).group_by("k")
    assert_same_rows(pa.Table.from_batches(got, schema), expected.aggregate([("x", "sum"), ([], "count_all")]))


def test_q2_a_partial_step_that_starts_again() -> None:
    """Known texts are forgotten with their groups, though the same texts come again."""
    check_second_start(lambda numbers: pa.array([f"text number {number}" for number in numbers]))


def test_q2_known_texts_in_the_parts_of_a_partitioned_table() -> None:
    """9,000 groups in 256 parts, each with enough rows, and other keys behind them."""
    rng = np.random.default_rng(46)
    keys = np.concatenate([rng.permutation(np.repeat(np.arange(9000), 40)), rng.integers(8000, 12_000, 100_000)])
    check_sums(pa.array([f"text number {key}" for key in keys]), radix_groups_min=4096)


def test_q2_under_a_memory_limit() -> None:
    """Without memory for known texts the rows are grouped all the same."""
    keys = draw([f"text number {i}" for i in range(2000)], 200_000, 47)
    for limit in (2**20, 2**21, 2**22):
        check_sums(keys, Account(limit=limit))
