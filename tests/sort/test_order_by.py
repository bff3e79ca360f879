"""OrderBy and TopN against DuckDB: types × directions × nulls × sizes (SPEC Q2, Q3)."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError, PlanError, SchemaChangeError
from qcore_ext.ground.memory import Account
from qcore_ext.sort.order_by import OrderBy
from qcore_ext.sort.shared_sort import SortState
from qcore_ext.sort.top_n import TopN
from qcore_testing.operators import run_chain
from random_tables import KEY_TYPES, NESTED_TYPES, SIZES, random_table
from sweeps import every

Key = tuple[str, bool, bool]
DIRECTIONS = [(False, False), (False, True), (True, False), (True, True)]


def expected(table: pa.Table, keys: list[Key], limit: int | None = None, offset: int = 0) -> pa.Table:
    order = ", ".join(
        f'"{name}" {"desc" if descending else "asc"} nulls {"first" if first else "last"}'
        for name, descending, first in keys
    )
    text = f"select * from t order by {order}"
    if limit is not None:
        text += f" limit {limit} offset {offset}"
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.sql("set arrow_lossless_conversion = true")  # UUIDs are no text
        return connection.sql(text).to_arrow_table()


def sort(table: pa.Table, keys: list[Key], **options: object) -> pa.Table:
    batches = run_chain([OrderBy("sort", Account(), keys, **options)], table, table.schema)
    return pa.Table.from_batches(batches, table.schema)


def top(table: pa.Table, keys: list[Key], count: int, offset: int = 0) -> pa.Table:
    batches = run_chain([TopN("top", Account(), keys, count, offset)], table, table.schema)
    return pa.Table.from_batches(batches, table.schema)


def rows_of(table: pa.Table) -> Counter[str]:
    """Rows as text, because NaN does not equal itself."""
    return Counter(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def check(table: pa.Table, keys: list[Key]) -> None:
    """Keys are equal row by row, and rows as a multiset: rows with equal keys may come in any order."""
    names = [name for name, _, _ in keys]
    wanted = expected(table, keys)
    got = sort(table, keys)
    assert_same_rows(got.select(names), wanted.select(names), ordered=True)
    assert rows_of(got) == rows_of(table)
    for count, offset in ((1, 0), (10, 0), (100, 7), (3000, 0), (5000, 2100)):
        got = top(table, keys, count, offset)
        assert_same_rows(got.select(names), wanted.select(names).slice(offset, count), ordered=True)


@pytest.mark.parametrize("type", every(6, KEY_TYPES), ids=str)
def test_every_type_in_every_direction(type: pa.DataType) -> None:
    table = random_table(1, 6000, {"k": type, "row": pa.int32()}, null_share={"k": 0.2, "row": 0}, extremes=True)
    for descending, nulls_first in DIRECTIONS:
        check(table, [("k", descending, nulls_first)])


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 70_000])
@pytest.mark.parametrize("null_share", [0.0, 0.1])
def test_sizes(n_rows: int, null_share: float) -> None:
    types = {"a": pa.int64(), "s": pa.string(), "d": pa.decimal128(15, 2)}
    table = random_table(2, n_rows, types, null_share=null_share)
    check(table, [("a", False, False)])
    check(table, [("s", True, False), ("d", False, True)])


@pytest.mark.parametrize("directions", every(3, range(16)))
def test_several_keys_in_mixed_directions(directions: int) -> None:
    types = {
        "a": pa.int8(),
        "s": pa.string(),
        "f": pa.float64(),
        "w": pa.decimal128(38, 2),
        "d": pa.date32(),
        "row": pa.int64(),
    }
    few = {"a": 3, "s": 6, "f": 5, "w": 4, "d": 50}
    table = random_table(3, 10_000, types, n_distinct=few, extremes=True)
    names = ["a", "s", "f", "w", "d"]
    names = names[directions % 5 :] + names[: directions % 5]
    check(
        table, [(name, bool(directions >> i & 1), bool(directions >> (i + 1) & 1)) for i, name in enumerate(names[:4])]
    )


def test_long_strings_with_a_common_start() -> None:
    rng = np.random.default_rng(4)
    words = ["the same start " + "x" * (v % 7) + str(v) for v in rng.integers(0, 3000, 20_000)] + [
        "",
        "\0",
        "a\0",
        "a",
        None,
    ]
    table = pa.table({"s": pa.array(words)})
    check(table, [("s", False, False)])
    check(table, [("s", True, True)])


def test_strings_that_differ_in_trailing_zeros_only() -> None:
    table = pa.table({"s": ["ab" + "\0" * (i % 9) for i in range(5000)], "x": np.arange(5000) % 11})
    check(table, [("s", False, False), ("x", False, False)])
    check(table, [("s", True, False), ("x", False, False)])


def test_few_strings_then_another_key() -> None:
    """Many rows have equal prefixes. They are sorted by the next key, without comparisons of rows."""
    table = random_table(
        11, 30_000, {"s": pa.string(), "t": pa.string(), "x": pa.float64()}, n_distinct={"s": 3, "t": 4}
    )
    check(table, [("s", False, False), ("t", True, True), ("x", False, False)])


def test_wide_decimals_beyond_64_bits() -> None:
    from decimal import Decimal

    values = [Decimal(v) * Decimal(10) ** e for v in (-9, -3, 0, 3, 9) for e in (0, 18, 19, 25, 36)] * 100
    table = pa.table({"w": pa.array(values, pa.decimal128(38, 0))})
    check(table, [("w", False, False)])
    check(table, [("w", True, False)])


def test_dense_integers_that_the_prefix_cannot_tell_apart() -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"k": rng.permutation(50_000), "u": pa.array(rng.permutation(50_000).astype(np.uint64))})
    check(table, [("k", False, False)])
    check(table, [("u", True, False), ("k", False, False)])


def test_constant_keys() -> None:
    table = pa.table({"c": pa.array([7] * 10_000), "n": pa.nulls(10_000), "x": np.arange(10_000)})
    check(table, [("c", False, False), ("n", True, False), ("x", True, False)])
    assert sort(table, [("n", False, False)]).num_rows == 10_000


@pytest.mark.parametrize("n_drivers", [1, 2, 5])
def test_runs_of_several_drivers_merge_in_the_last(n_drivers: int) -> None:
    types = {"a": pa.int16(), "s": pa.string(), "row": pa.int64()}
    table = random_table(6, 30_000, types, n_distinct={"a": 50, "s": 100})
    keys = [("s", False, True), ("a", True, False)]
    state = SortState(n_drivers)
    share = 30_000 // n_drivers // 8 * 8
    given = []
    for driver in range(n_drivers):
        part = table.slice(driver * share, share if driver < n_drivers - 1 else None)
        given.append(run_chain([OrderBy("sort", Account(), keys, state)], part, table.schema))
    assert all(sum(b.num_rows for b in batches) == 0 for batches in given[:-1])
    got = pa.Table.from_batches(given[-1], table.schema)
    wanted = expected(table, keys)
    assert_same_rows(got.select(["s", "a"]), wanted.select(["s", "a"]), ordered=True)
    assert_same_rows(got, wanted)


def test_a_last_driver_without_rows_merges_all_the_same() -> None:
    table = random_table(7, 5000, {"k": pa.int64(), "s": pa.string()})
    state = SortState(3)
    keys = [("k", False, False)]
    for part in (table.slice(0, 2000), table.slice(2000)):
        assert run_chain([OrderBy("sort", Account(), keys, state)], part, table.schema) == []
    got = run_chain([OrderBy("sort", Account(), keys, state)], [], None)
    assert_same_rows(pa.Table.from_batches(got), expected(table, keys))


def test_top_n_of_top_n_is_the_top_n() -> None:
    table = random_table(8, 40_000, {"k": pa.int32(), "s": pa.string(), "row": pa.int64()}, n_distinct={"k": 300})
    keys = [("k", True, False), ("s", False, False), ("row", False, False)]
    parts = [top(table.slice(start, 8000), keys, 120) for start in range(0, 40_000, 8000)]
    got = top(pa.concat_tables(parts), keys, 100, 20)
    assert_same_rows(got, expected(table, keys, 100, 20), ordered=True)


def test_top_n_when_every_batch_is_better_than_the_last() -> None:
    """Strings are copied, so that no input batch stays alive."""
    n = 60_000
    table = pa.table({"k": np.arange(n)[::-1], "s": pa.array([f"a long enough string {i}" for i in range(n)])})
    check(table, [("k", False, False)])


def test_top_0_is_empty_and_asks_for_nothing() -> None:
    table = pa.table({"k": [1, 2, 3]})
    assert top(table, [("k", False, False)], 0, 2).num_rows == 0


def test_top_n_past_the_end() -> None:
    table = pa.table({"k": [3, 1, 2]})
    assert top(table, [("k", False, False)], 10, 1)["k"].to_pylist() == [2, 3]
    assert top(table, [("k", False, False)], 10, 5).num_rows == 0


def test_dictionary_columns_travel() -> None:
    table = random_table(9, 9000, {"k": pa.dictionary(pa.int32(), pa.string()), "x": pa.float64()})
    plain = pa.table({"k": table["k"].cast(pa.string()), "x": table["x"]})
    keys = [("k", False, False), ("x", True, False)]
    got = run_chain([OrderBy("sort", Account(), keys)], table)
    assert_same_rows(pa.Table.from_batches(got), expected(plain, keys), ordered=True)


def test_no_input_gives_no_row() -> None:
    for operator in (OrderBy("o", Account(), [("k", False, False)]), TopN("t", Account(), [("k", False, False)], 3)):
        assert run_chain([operator], [], None) == []


@pytest.mark.parametrize("sizes", [[0], [0, 0], [0, 2, 0]])
def test_batches_without_rows(sizes: list[int]) -> None:
    """V6: batches without rows, before other batches or alone."""
    rows = pa.record_batch({"a": pa.array([2, 1], pa.int64()), "s": ["x", "y"]})
    for operator in (
        TopN("top", Account(), [("a", False, False)], 3),
        OrderBy("order", Account(), [("a", False, False)], SortState(1)),
    ):
        got = run_chain([operator], [rows.slice(0, size) for size in sizes])
        assert [row["a"] for batch in got for row in batch.to_pylist()] == ([1, 2] if 2 in sizes else [])


def test_unknown_and_unordered_keys_are_plan_errors() -> None:
    table = pa.table({"k": [1], "n": pa.array([[1]]), "i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    cases = {"x": "cannot order by 'x': the columns are k, n, i", "n": "list|nested", "i": "no order"}
    for name, message in cases.items():
        keys = [(name, False, False)]
        for operator in (OrderBy("o", Account(), keys), TopN("t", Account(), keys, 3)):
            with pytest.raises(PlanError, match=message):
                run_chain([operator], table)


@pytest.mark.parametrize("type", NESTED_TYPES, ids=str)
def test_nested_columns_travel(type: pa.DataType) -> None:
    table = random_table(12, 9000, {"k": pa.int32(), "n": type}, chunk_rows=2500)
    keys = [("k", True, False), ("row", False, False)]
    table = table.append_column("row", pa.array(np.arange(9000)))
    state = SortState(2)
    assert run_chain([OrderBy("o", Account(), keys, state)], table.slice(0, 4000)) == []
    got = pa.Table.from_batches(run_chain([OrderBy("o", Account(), keys, state)], table.slice(4000)))
    order = pa.compute.sort_indices(table, [("k", "descending"), ("row", "ascending")])
    assert got.equals(table.take(order).cast(got.schema))


def test_top_n_refuses_nested_columns() -> None:
    table = pa.table({"k": [1], "n": pa.array([[1]])})
    with pytest.raises(PlanError, match="OrderBy and Limit"):
        run_chain([TopN("t", Account(), [("k", False, False)], 3)], table)


def widening_batches() -> tuple[list[pa.RecordBatch], pa.Table]:
    """Small batches whose key widens twice and that get a column. And all rows under the widest schema."""
    types = (pa.int16(), pa.int64(), pa.decimal128(24, 2), pa.int32())
    batches = []
    for seed, type in enumerate(types):
        keys = np.random.default_rng(seed).integers(-9000, 9000, 5000)
        columns = {"k": pa.array(keys).cast(pa.int16()).cast(type), "row": pa.array(np.arange(5000) + 5000 * seed)}
        batches.append(
            pa.record_batch(columns if seed < 2 else {"s": pa.array([f"text of row {i}" for i in keys]), **columns})
        )
    wide = pa.schema([("k", pa.decimal128(24, 2)), ("row", pa.int64()), ("s", pa.string())])
    return batches, pa.concat_tables(
        [
            pa.Table.from_batches([batch]).cast(pa.schema([wide.field(name) for name in batch.schema.names]))
            for batch in batches
        ],
        promote_options="default",
    ).select(wide.names)


def test_rows_held_are_widened() -> None:
    """SPEC D6: kept rows are widened to the schema of later rows. pyarrow's casts are the oracle."""
    batches, wide = widening_batches()
    keys = [("k", True, False), ("row", False, False)]
    for operator, want in (
        (OrderBy("o", Account(), keys), expected(wide, keys)),
        (TopN("t", Account(), keys, 6000, 10), expected(wide, keys).slice(10, 6000)),
    ):
        got = pa.Table.from_batches(run_chain([operator], batches))
        assert got.schema == wide.schema
        assert_same_rows(got, want, ordered=True)


def test_drivers_that_saw_different_schemas_are_merged() -> None:
    """SPEC D6: the runs of drivers with other types and orders of columns are merged under one schema."""
    batches, wide = widening_batches()
    keys = [("k", False, False), ("row", False, False)]
    for shares in ((batches[:1], batches[1:]), (batches[2:], batches[:2]), (batches[:2], batches[2:])):
        state = SortState(3)
        assert run_chain([OrderBy("o", Account(), keys, state)], []) == []
        assert run_chain([OrderBy("o", Account(), keys, state)], shares[0]) == []
        got = pa.Table.from_batches(run_chain([OrderBy("o", Account(), keys, state)], shares[1]))
        assert_same_rows(got.select(wide.column_names), expected(wide, keys), ordered=True)


def test_types_in_conflict_are_refused() -> None:
    """SPEC D6: between batches of one driver, and between drivers."""
    number, text = pa.record_batch({"k": [1]}), pa.record_batch({"k": ["a"]})
    for operator in (OrderBy("o", Account(), [("k", False, False)]), TopN("t", Account(), [("k", False, False)], 3)):
        with pytest.raises(SchemaChangeError, match="'k' changed from int64 to string"):
            run_chain([operator], [number, text])
    state = SortState(2)
    run_chain([OrderBy("o", Account(), [("k", False, False)], state)], [number])
    with pytest.raises(SchemaChangeError, match=r"OrderBy \(node o\): column 'k' changed from int64 to string"):
        run_chain([OrderBy("o", Account(), [("k", False, False)], state)], [text])


@pytest.mark.parametrize("kib", [20, 100, 600, 2000])
def test_out_of_memory_leaves_nothing_behind(kib: int) -> None:
    table = random_table(10, 60_000, {"k": pa.int64(), "s": pa.string()})
    keys = [("s", False, False)]
    for operator in (OrderBy("o", Account(None, kib * 1024), keys), TopN("t", Account(None, kib * 1024), keys, 50_000)):
        with pytest.raises(MemoryLimitError):
            run_chain([operator], table)
