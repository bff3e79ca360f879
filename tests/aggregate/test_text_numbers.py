"""Groups of several keys whose texts are numbered, and texts that are too many for it. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from grouped import Call, check, groups_of, present, run_calls

from qcore import QcoreError, Session
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

SUM = Call("sum", 2, pa.int64(), lambda values: sum(present(values)) if present(values) else None)
COUNT = Call("count", -1, pa.int64(), len)
SIZES = pytest.mark.parametrize("n_rows", [1, 2047, 2048, 2049, 10_000])


def texts(numbers: np.ndarray, kind: str, missing: np.ndarray | None = None) -> pa.Array:
    long = {"long": "a text that is longer than a word, number {}", "binary": "{} and more bytes than a word"}[kind]
    values = [long.format(number) for number in numbers]
    return pa.array(values, mask=missing).cast(pa.binary() if kind == "binary" else pa.string())


def count_numbered(table: pa.Table, n_keys: int) -> int:
    """The number of groups that were returned by numbers of their texts."""
    calls = [("sum", n_keys, -1, False)]
    schema = pa.schema([*(table.schema.field(i) for i in range(n_keys)), ("s", pa.int64())])
    operator = HashAggregation("agg", Account(), None, n_keys, calls, "single", Schema(schema))
    run_chain([operator], table)
    return int(operator.stats_snapshot()["groups"]["numbered"])


@SIZES
@pytest.mark.parametrize("kind", ["long", "binary"])
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_q2_two_texts(n_rows: int, kind: str, null_share: float) -> None:
    rng = np.random.default_rng(1)
    columns = [texts(rng.integers(0, 40, n_rows), kind, rng.random(n_rows) < null_share) for _ in range(2)]
    table = pa.table({"k": columns[0], "l": columns[1], "x": rng.integers(-9, 9, n_rows)})
    check(table, 2, [SUM, COUNT])
    check(table, 2, [SUM, COUNT], ordered=False, radix_groups_min=100, partial_groups_max=2048)
    # The first vector shows that its texts do not fit a word.
    expected = len(groups_of(table, 2)) if n_rows > 2048 and null_share < 1 else 0
    assert count_numbered(table, 2) == expected


@pytest.mark.parametrize("n_more", [1, 5, 14])
def test_q2_a_text_beside_other_keys(n_more: int) -> None:
    """With numbers a key may still have too many bytes for two words, or too many columns."""
    rng = np.random.default_rng(2)
    other = {f"i{i}": pa.array(rng.integers(0, 3, 5000), pa.int64() if i % 2 else pa.int8()) for i in range(n_more)}
    table = pa.table({"t": texts(rng.integers(0, 30, 5000), "long"), **other, "x": rng.integers(-9, 9, 5000)})
    total = Call("sum", n_more + 1, pa.int64(), sum)
    check(table, n_more + 1, [total])
    assert count_numbered(table, n_more + 1) == len(groups_of(table, n_more + 1))


def test_q2_texts_that_become_long() -> None:
    """The first texts fit a word; their groups move to numbers with the first that does not."""
    short = [f"{i % 50}" for i in range(6000)]
    long = [f"a text that does not fit a word, {i % 70}" for i in range(6000)]
    table = pa.table({"k": short + long + short, "l": (short + long + short)[::-1], "x": range(18_000)})
    check(table, 2, [SUM, COUNT])
    assert count_numbered(table, 2) == len(groups_of(table, 2))
    assert count_numbered(table.slice(0, 6000), 2) == 0


MANY_TEXTS = [
    Call("count", 2, pa.int64(), lambda values: len(set(values)), distinct=True),
    Call("last_ordered", (2, 2), pa.int64(), lambda pairs: max(pairs)[0], more=(((False, False),), None)),
    Call("first", 2, pa.int64(), lambda values: values[0]),
]


@pytest.mark.parametrize("n_few", [0, 1000, 9000])
def test_q2_new_texts_in_most_rows(n_few: int) -> None:
    """After 9,000 rows of few texts the groups, the values met and the values kept move back to texts."""
    rng = np.random.default_rng(3)
    keys = np.concatenate([rng.integers(0, 60, n_few), np.arange(100, 12_100), rng.integers(0, 12_100, 9000)])
    table = pa.table({"k": texts(keys, "long"), "l": texts(keys % 7, "long"), "x": rng.integers(0, 99, len(keys))})
    check(table, 2, [SUM, COUNT])
    check(table, 2, [SUM, COUNT], ordered=False, radix_groups_min=1000, partial_groups_max=2048)
    check(table, 2, MANY_TEXTS[:2], steps=["single"])
    check(table, 2, MANY_TEXTS[2:])
    assert count_numbered(table, 2) == 0
    assert (count_numbered(table.slice(0, n_few), 2) > 0) == (n_few == 9000)


def test_q2_more_texts_than_the_caches_hold() -> None:
    """131,072 texts of a column are numbered if each has four groups, and no more."""
    each = 5
    at = np.repeat(np.arange(140_000), each)
    few = texts(np.arange(each), "long").take(pa.array(np.arange(len(at)) % each))
    table = pa.table({"k": texts(np.arange(140_000), "long").take(pa.array(at)), "l": few, "x": at})
    assert count_numbered(table.slice(0, each * 131_000), 2) == each * 131_000
    assert count_numbered(table.filter(pc.equal(few, few[0])), 2) == 0
    assert count_numbered(table, 2) == 0
    got = run_calls(table, 2, [SUM])
    by = table.group_by(["k", "l"]).aggregate([("x", "sum")])
    order = [("k", "ascending"), ("l", "ascending")]
    assert got.sort_by(order)["a0"].equals(by.sort_by(order)["x_sum"])


@pytest.mark.parametrize(
    ("n_texts", "n_each", "n_times", "is_numbered"),
    [(1500, 1, 1, False), (3000, 1, 9, False), (3000, 2, 9, False), (3000, 5, 9, True), (3000, 2, 1, True),
     (18_000, 2, 1, False)],
)  # fmt: skip
def test_q2_few_groups_for_each_text(n_texts: int, n_each: int, n_times: int, is_numbered: bool) -> None:
    """Above 1,024 texts, to find one with few groups costs as much as to find its group.

    A single group for each shows at once. With two it may be that the others were not met yet, unless groups have
    several rows, or there are more than 16,384 texts.
    """
    at = np.repeat(np.arange(n_texts * n_each), n_times)
    table = pa.table({"k": texts(at // n_each, "long"), "l": texts(at % n_each, "long"), "x": at})
    check(table, 2, [SUM, COUNT])
    assert count_numbered(table, 2) == (n_texts * n_each if is_numbered else 0)


def test_q2_a_key_that_is_an_argument_too() -> None:
    """An argument is the text itself: such keys keep their texts. Other arguments and filters may be keys."""
    rng = np.random.default_rng(4)
    table = pa.table({
        "k": texts(rng.integers(0, 40, 5000), "long"),
        "b": rng.integers(0, 2, 5000).astype(bool),
        "x": rng.integers(-9, 9, 5000),
    })
    most = Call("max", 0, pa.string(), max)
    some = Call("sum", 2, pa.int64(), lambda values: sum(values) if values else None, filter=1)
    check(table, 2, [most], steps=["single"])
    check(table, 2, [some], steps=["single"])
    assert count_numbered(table, 2) == len(groups_of(table, 2))


def test_q2_a_partial_step_that_starts_again_and_passes_rows_on() -> None:
    """Numbers stay while groups are returned, and rows are passed on with them."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 1500, (2, 60_000))
    table = pa.table({"k": texts(keys[0], "long"), "l": texts(keys[1], "long"), "x": rng.integers(-9, 9, 60_000)})
    check(table, 2, [SUM, COUNT], steps=["both"], partial_groups_max=16384)
    schema = pa.schema([table.schema.field(0), table.schema.field(1), ("n", pa.int64())])
    calls = [("count", -1, -1, False)]
    operator = HashAggregation("agg", Account(), None, 2, calls, "partial", Schema(schema), partial_groups_max=16384)
    got = pa.Table.from_batches(run_chain([operator], table.to_batches(max_chunksize=5000)), schema)
    counters = operator.stats_snapshot()["groups"]
    assert counters["numbered"] == len(got) and counters["passed"] > 10_000
    assert sum(got["n"].to_pylist()) == 60_000


@pytest.mark.parametrize("n_texts", [40, 8000])
def test_q2_other_keys_widen_while_texts_are_numbered(n_texts: int) -> None:
    """Most texts are new with 8,000, so that they are given up before the key widens or after it."""
    rng = np.random.default_rng(6)
    text = texts(rng.integers(0, n_texts, 9000), "long")
    narrow = pa.table({"k": text, "i": pa.array(rng.integers(0, 3, 9000), pa.int32()), "x": rng.integers(0, 9, 9000)})
    wide = narrow.set_column(1, "i", narrow["i"].cast(pa.int64()))
    batches = [*narrow.to_batches(max_chunksize=3000), *wide.to_batches(max_chunksize=3000)]
    schema = pa.schema([narrow.schema.field(0), narrow.schema.field(1), ("s", pa.int64())])
    operator = HashAggregation("agg", Account(), None, 2, [("sum", 2, -1, False)], "single", Schema(schema))
    got = run_chain([operator], batches)
    expected = wide.group_by(["k", "i"]).aggregate([("x", "sum")]).to_pylist()
    rows = [row for batch in got for row in batch.to_pylist()]
    assert {(row["k"], row["i"]): row["s"] for row in rows} == {
        (row["k"], row["i"]): 2 * row["x_sum"] for row in expected
    }
    assert len(rows) == len(expected)
    assert got[0].schema.field("i").type == pa.int64()


def test_q2_explain_tells_of_numbers() -> None:
    rng = np.random.default_rng(7)
    session = Session(threads=2)
    session.register(
        "t", pa.table({"k": texts(rng.integers(0, 9, 9000), "long"), "l": texts(rng.integers(0, 9, 9000), "long")})
    )
    told: Any = session.sql("select k, l, count(*) from t group by k, l").explain(analyze=True)
    assert "by numbers of their texts" in str(told)


@pytest.mark.parametrize("n_texts", [40, 8000])
@pytest.mark.parametrize("site", ["struct", "reserve"])
def test_d9_any_allocation_may_fail(site: str, n_texts: int) -> None:
    """D9: also while groups move to numbers of texts, or back from them with 8,000 texts."""
    rng = np.random.default_rng(8)
    numbers = rng.integers(0, n_texts, 9000)
    table = pa.table({"k": texts(numbers, "long"), "l": texts(numbers % 5, "long"), "x": numbers})
    expected = sorted(row["x_sum"] for row in table.group_by(["k", "l"]).aggregate([("x", "sum")]).to_pylist())

    def fail(nth: int) -> int:
        failure = ""
        with Faults(site, nth) as faults:
            try:
                got = run_calls(table, 2, [SUM])
            except QcoreError as error:
                failure = str(error)
        assert ("injected fault" in failure) == faults.fired
        if faults.fired:
            return faults.passes[site]
        assert sorted(got["a0"].to_pylist()) == expected
        return faults.passes[site]

    n_passes = fail(1 << 40)
    for nth in (*range(1, min(n_passes, 60)), *rng.integers(60, max(n_passes, 61), 40)):
        fail(int(nth))
