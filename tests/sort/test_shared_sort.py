"""The rows of several drivers are sorted together and returned by the last driver. SPEC Q2, V2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, Key, check, order_rows

import qcore
from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.sort.order_by import OrderBy
from qcore_ext.sort.shared_sort import SortState
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table
from sweeps import every


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 20_000])
@pytest.mark.parametrize("n_drivers", [2, 3, 8])
def test_q2_shares_of_all_sizes(n_rows: int, n_drivers: int) -> None:
    types = {"k": pa.int32(), "s": pa.string(), "w": pa.decimal128(38, 2)}
    table = random_table(44, n_rows, types, null_share=0.1, n_distinct={"k": 50, "s": 20, "w": 30})
    for direction in DIRECTIONS:
        check(table, [("s", *direction), ("k", *direction)], n_drivers)
        check(table, [("w", *direction)], n_drivers)


def test_q2_equal_rows_of_an_earlier_driver_come_first() -> None:
    table = pa.table({"k": np.arange(6000) % 5, "row": np.arange(6000)})
    state = SortState(3)
    for part in range(3):
        given = run_chain([OrderBy("o", Account(), [("k", False, False)], state)], table.slice(part * 2000, 2000))
    assert_same_rows(
        pa.Table.from_batches(given), table.sort_by([("k", "ascending"), ("row", "ascending")]), ordered=True
    )


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_v2_a_driver_without_rows_delivers_none(empty: int) -> None:
    table = random_table(45, 4000, {"k": pa.int64()}, null_share=0.1)
    state = SortState(3)
    parts = [table.slice(0, 2000), table.slice(2000)]
    parts.insert(empty, table.slice(0, 0))
    for part in parts:
        given = run_chain([OrderBy("o", Account(), [("k", False, False)], state)], part, table.schema)
    assert_same_rows(pa.Table.from_batches(given), table.sort_by("k"), ordered=True)
    assert state.n_drivers == 3


def test_v2_a_sort_has_a_driver() -> None:
    with pytest.raises(ValueError, match="at least one driver, but n_drivers is 0"):
        SortState(0)


def chunks(table: pa.Table, n_rows: int) -> pa.Table:
    return pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=n_rows))


N = 160_000
TYPES = {
    "i": pa.int64(), "n": pa.int32(), "f": pa.float64(), "s": pa.string(), "w": pa.decimal128(38, 2), "b": pa.bool_(),
}  # fmt: skip


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [2])
@pytest.mark.parametrize("null_share", [0.0, 0.1])
@pytest.mark.parametrize(
    "keys", every(2, [["i"], ["f"], ["s"], ["b", "w"], ["n", "i"], ["s", "n"], ["w", "s"], ["b", "n", "f"]])
)
def test_q2_drivers_work_together(keys: list[str], null_share: float, threads: int) -> None:
    """Each driver has more than HELPER_ROWS_MIN rows, so all drivers take part in the sort."""
    few = {"n": 1000, "s": 5000, "w": 3000}
    table = random_table(54, N, TYPES, null_share=null_share, n_distinct=few)
    table = chunks(table.append_column("row", pa.array(np.arange(N))), 20_000)
    by: list[Key] = [(name, i % 2 == 1, i % 2 == 0) for i, name in enumerate(keys)] + [("row", False, False)]
    text = ", ".join(f"{n} {'desc' if d else 'asc'} nulls {'first' if f else 'last'}" for n, d, f in by)
    session = qcore.Session(threads=threads)
    session.register("t", table)
    got = session.sql(f"select * from t order by {text}").to_arrow()
    order = order_rows(table.select([name for name, _, _ in by]), by)
    assert got.equals(table.take(pa.array(order)))


@pytest.mark.parametrize("shape", ["one value", "one far away", "two values", "ascending", "descending", "zipf"])
def test_q2_skewed_keys(shape: str) -> None:
    rng = np.random.default_rng(55)
    values = {
        "one value": np.full(N, 3),
        "one far away": np.append(rng.permutation(N - 1), 2**62),
        "two values": rng.integers(0, 2, N) << 50,
        "ascending": np.arange(N),
        "descending": np.arange(N)[::-1],
        "zipf": rng.zipf(1.2, N) % 2**40,
    }[shape]
    session = qcore.Session(threads=2)
    session.register("t", chunks(pa.table({"k": values, "v": rng.random(N)}), 20_000))
    got = session.sql("select k, v from t order by k, v").to_arrow()
    order = np.lexsort((session.sql("select v from t").to_arrow()["v"].to_numpy(), values))
    np.testing.assert_array_equal(got["k"].to_numpy(), values[order])


def test_v2_a_sort_whose_reader_leaves_early() -> None:
    session = qcore.Session(threads=2)
    session.register("t", chunks(pa.table({"k": np.arange(N)[::-1].copy()}), 20_000))
    result = session.sql("select k from t order by k")
    first = next(iter(result))
    result.cancel()
    assert first.column(0)[0].as_py() == 0
