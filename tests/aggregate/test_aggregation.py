"""HashAggregation against DuckDB: functions × types × nulls × sizes × steps × key shapes (SPEC Q2, Q3, D4)."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import ExecutionError, MemoryLimitError, PlanError, SchemaChangeError
from qcore.expression.tree import Cast, Expr, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.aggregate.aggregation import HashAggregation, partial_schema
from qcore_ext.basic.filter import Filter
from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import DECIMALS, FLOATS, INTEGERS, SIZES, TEMPORALS, random_table
from sweeps import every

Call = tuple[str, int, int, bool]


def result_type(function: str, type: pa.DataType | None) -> pa.DataType:
    """The types of DuckDB's results, or the engine's where it has no such type."""
    if function in ("count", "count_null"):
        return pa.int64()
    assert type is not None
    if function in ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop"):
        return pa.float64()
    if function == "sum":
        if pa.types.is_floating(type):
            return pa.float64()
        return pa.decimal128(38, type.scale if pa.types.is_decimal(type) else 0)
    return type


def output_schema(schema: pa.Schema, n_keys: int, calls: list[Call]) -> pa.Schema:
    fields = [schema.field(i) for i in range(n_keys)]
    for i, (function, argument, _, _) in enumerate(calls):
        fields.append(pa.field(f"a{i}", result_type(function, schema.types[argument] if argument >= 0 else None)))
    return pa.schema(fields)


def aggregate(table: pa.Table, n_keys: int, calls: list[Call], step: str = "single", **options: int) -> pa.Table:
    """Aggregate columns of a table. Step 'both': partial over each half of the table, then final over both results."""
    schema = output_schema(table.schema, n_keys, calls)

    def run(step: str, data: object, output: pa.Schema, source: pa.Schema) -> list[pa.RecordBatch]:
        operator = HashAggregation("agg", Account(), None, n_keys, calls, step, Schema(output), **options)
        return run_chain([operator], data, source)

    if step == "both":
        middle = pa.schema(partial_schema(Schema(table.schema), n_keys, calls, Schema(schema)))
        half = table.num_rows // 2 // 8 * 8
        states = []
        for part in (table.slice(0, half), table.slice(half)):
            states += run("partial", part, middle, table.schema)
        batches = run("final", states, schema, middle)
    else:
        batches = run(step, table, schema, table.schema)
    return pa.Table.from_batches(batches, schema)


def expected(table: pa.Table, n_keys: int, calls: list[Call]) -> pa.Table:
    names = [f'"{name}"' for name in table.column_names]
    outputs = names[:n_keys]
    for function, argument, filter, distinct in calls:
        x = names[argument] if argument >= 0 else ""
        if function == "count_null":
            text = f"count(*) - count({x})" if filter < 0 else f"count(*) filter ({x} is null and {names[filter]})"
            filter = -1
        elif function == "count":
            text = f"count({'distinct ' if distinct else ''}{x or '*'})"
        elif function == "sum" and not pa.types.is_floating(table.schema.types[argument]):
            text = f"sum({'distinct ' if distinct else ''}{x})"
        else:
            text = f"{function}({'distinct ' if distinct else ''}{x})"
        outputs.append(text + (f" filter ({names[filter]})" if filter >= 0 else ""))
    group = f" group by {', '.join(names[:n_keys])}" if n_keys else ""
    with duckdb.connect() as connection:
        connection.register("t", table)
        return connection.sql(f"select {', '.join(outputs)} from t{group}").to_arrow_table()


def check(table: pa.Table, n_keys: int, calls: list[Call], steps: tuple[str, ...] = ("single", "both")) -> None:
    wanted = expected(table, n_keys, calls)
    for step in steps:
        assert_same_rows(aggregate(table, n_keys, calls, step), wanted, rel_tol=1e-9)


NUMBERS = (*INTEGERS, *FLOATS, *DECIMALS)


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 70_000])
@pytest.mark.parametrize("n_groups", [0, 1, 4, 1000])
def test_sums_counts_and_extremes_of_all_sizes(n_rows: int, n_groups: int) -> None:
    types = {"k": pa.int32(), "i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(15, 2), "s": pa.string()}
    table = random_table(1, n_rows, types, n_distinct={"k": max(n_groups, 1)})
    calls = [("count", -1, -1, False), ("min", 4, -1, False), ("max", 4, -1, False), ("count", 4, -1, False)]
    for x in (1, 2, 3):
        calls += [(f, x, -1, False) for f in ("sum", "avg", "min", "max", "count", "count_null")]
    if n_groups == 0:
        calls = [(f, x - 1 if x >= 0 else x, i, d) for f, x, i, d in calls]
        check(table.drop(["k"]), 0, calls)
    else:
        check(table, 1, calls)


@pytest.mark.each_value
@pytest.mark.parametrize("type", NUMBERS, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_every_number_type(type: pa.DataType, null_share: float) -> None:
    table = random_table(
        2, 5000, {"k": pa.int8(), "x": type}, null_share={"k": 0.1, "x": null_share}, n_distinct={"k": 7}
    )
    calls = [(f, 1, -1, False) for f in ("sum", "avg", "min", "max", "count")]
    check(table, 1, calls)
    check(table.drop(["k"]), 0, [(f, 0, i, d) for f, _, i, d in calls])


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_extremes_of_floats_with_nan_and_infinities(type: pa.DataType) -> None:
    table = random_table(3, 4000, {"k": pa.int16(), "x": type}, n_distinct={"k": 1500}, extremes=True)
    check(table, 1, [("min", 1, -1, False), ("max", 1, -1, False)])


@pytest.mark.parametrize(
    "type", [pa.bool_(), *TEMPORALS, pa.string(), pa.large_string(), pa.string_view(), pa.binary()], ids=str
)
def test_extremes_of_other_types(type: pa.DataType) -> None:
    table = random_table(4, 5000, {"k": pa.int16(), "x": type}, n_distinct={"k": 500})
    calls = [("min", 1, -1, False), ("max", 1, -1, False), ("count", 1, -1, False)]
    check(table, 1, calls)
    check(table.drop(["k"]), 0, [(f, 0, i, d) for f, _, i, d in calls])


@pytest.mark.parametrize(
    "type", [pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(15, 2), pa.decimal128(30, 4)]
)
def test_variances(type: pa.DataType) -> None:
    table = random_table(5, 5000, {"k": pa.int16(), "x": type}, n_distinct={"k": 900})
    check(table, 1, [(f, 1, -1, False) for f in ("var_samp", "var_pop", "stddev_samp", "stddev_pop")])


def test_variance_does_not_cancel() -> None:
    table = pa.table({"x": np.arange(10_000, dtype=np.float64) % 2 + 1e9})
    got = aggregate(table, 0, [("var_pop", 0, -1, False)], "both")
    assert got["a0"][0].as_py() == pytest.approx(0.25, rel=1e-9)


def test_truth_values() -> None:
    table = random_table(6, 5000, {"k": pa.int16(), "b": pa.bool_()}, null_share=0.4, n_distinct={"k": 2000})
    check(table, 1, [("bool_and", 1, -1, False), ("bool_or", 1, -1, False)])


@pytest.mark.parametrize("type", [pa.int32(), pa.float64(), pa.decimal128(30, 2), pa.string()], ids=str)
@pytest.mark.parametrize("step", ["single", "both"])
def test_first_and_last_skip_nulls(type: pa.DataType, step: str) -> None:
    table = random_table(7, 6000, {"k": pa.int16(), "x": type}, null_share=0.5, n_distinct={"k": 300})
    got = aggregate(table, 1, [("first", 1, -1, False), ("last", 1, -1, False), ("any_value", 1, -1, False)], step)
    first: dict[object, object] = {}
    last: dict[object, object] = {}
    for k, x in zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True):
        first.setdefault(k, None)
        last.setdefault(k, None)
        if x is not None:
            last[k] = x
            if first[k] is None:
                first[k] = x
    rows = {row["k"]: row for row in got.to_pylist()}
    assert {k: row["a0"] for k, row in rows.items()} == first
    assert {k: row["a1"] for k, row in rows.items()} == last
    assert {k: row["a2"] for k, row in rows.items()} == first


@pytest.mark.parametrize("n_groups", [1, 50, 3000])
def test_filters(n_groups: int) -> None:
    types = {"k": pa.int32(), "x": pa.int64(), "f": pa.float64(), "s": pa.string(), "p": pa.bool_()}
    table = random_table(8, 7000, types, n_distinct={"k": n_groups})
    calls = [(f, x, 4, False) for f in ("sum", "count", "min", "max") for x in (1, 2) if True]
    calls += [
        ("count", -1, 4, False),
        ("count", -1, -1, False),
        ("min", 3, 4, False),
        ("avg", 1, 4, False),
        ("count_null", 1, 4, False),
    ]
    check(table, 1, calls)


@pytest.mark.parametrize("type", [pa.int32(), pa.float64(), pa.decimal128(15, 2), pa.decimal128(30, 2)], ids=str)
@pytest.mark.parametrize("n_keys", [0, 1])
def test_distinct(type: pa.DataType, n_keys: int) -> None:
    table = random_table(9, 9000, {"k": pa.int8(), "x": type, "p": pa.bool_()}, n_distinct={"k": 5, "x": 400})
    calls = [
        ("count", 1, -1, True),
        ("sum", 1, -1, True),
        ("avg", 1, -1, True),
        ("count", 1, 2, True),
        ("sum", 1, -1, False),
    ]
    if n_keys == 0:
        table = table.drop(["k"])
        calls = [(f, x - 1, i - 1 if i > 0 else i, d) for f, x, i, d in calls]
    check(table, n_keys, calls, ("single",))


def test_distinct_strings() -> None:
    table = random_table(10, 9000, {"k": pa.string(), "x": pa.string()}, n_distinct={"k": 5, "x": 400})
    check(table, 1, [("count", 1, -1, True), ("count", 1, -1, False)], ("single",))


KEYS = {
    "one byte": [pa.int8()],
    "one word": [pa.int64()],
    "two ints in a word": [pa.int32(), pa.date32()],
    "five in two words": [pa.int32(), pa.int16(), pa.bool_(), pa.uint8(), pa.date32()],
    "wide decimal": [pa.decimal128(38, 10)],
    "decimal and int": [pa.decimal128(15, 2), pa.int32()],
    "float": [pa.float64()],
    "floats": [pa.float32(), pa.float64()],
    "string": [pa.string()],
    "strings": [pa.string(), pa.string()],
    "string view and int": [pa.string_view(), pa.int32()],
    "three wide": [pa.int64(), pa.int64(), pa.int64()],
    "mixed": [pa.string(), pa.decimal128(38, 2), pa.float64(), pa.int32()],
    "temporal": [pa.timestamp("us"), pa.time32("ms")],
    "binary": [pa.binary()],
}


@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", [1, 4, 1000, 20_000])
@pytest.mark.parametrize("name", list(KEYS))
def test_keys(name: str, n_groups: int) -> None:
    types = {f"k{i}": type for i, type in enumerate(KEYS[name])} | {"x": pa.int32()}
    each = max(1, round(n_groups ** (1 / len(KEYS[name]))))
    table = random_table(11, 30_000, types, n_distinct={n: each for n in types if n != "x"}, extremes=True)
    n_keys = len(KEYS[name])
    check(table, n_keys, [("count", -1, -1, False), ("sum", n_keys, -1, False)])


def test_nan_groups_with_nan_and_zeros_with_each_other() -> None:
    other_nan = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes(), dtype=np.float64)[0]
    for type in (pa.float64(), pa.float32()):
        column = pa.array(
            np.array([0.0, -0.0, np.nan, other_nan, 1.0]).astype(type.to_pandas_dtype()), from_pandas=False
        )
        for extra in ([], [pa.array(["a string too long to pack"] * 5)]):
            table = pa.table([column, *extra], [f"k{i}" for i in range(1 + len(extra))])
            got = aggregate(table, table.num_columns, [("count", -1, -1, False)])
            assert sorted(got["a0"].to_pylist()) == [1, 2, 2]


def test_a_string_too_long_turns_a_packed_table_into_a_stored_one() -> None:
    short = pa.array([f"{i % 3000:05d}" for i in range(20_000)] + [None] * 3)
    long = pa.array([f"{i % 100:05d}" + "x" * (i % 20) for i in range(20_000)])
    table = pa.table({"k": pa.chunked_array([short, long, short]), "x": pa.array(range(60_006))})
    check(table, 1, [("count", -1, -1, False), ("sum", 1, -1, False)])
    twice = pa.table({"k": table["k"], "l": table["k"], "x": table["x"]})
    check(twice, 2, [("count", -1, -1, False), ("sum", 2, -1, False)])


def test_dense_keys_that_creep_and_then_jump() -> None:
    """The key range grows slowly, then jumps. Array groups are widened, then replaced by a hash table."""
    rng = np.random.default_rng(12)
    parts = [rng.integers(low, low + 50, 4000) for low in range(0, 3000, 300)]
    parts += [rng.integers(-(2**63), 2**63 - 1, 4000), rng.integers(0, 50, 4000)]
    k = pa.array(np.concatenate(parts), mask=rng.random(48_000) < 0.05)
    table = pa.table({"k": k, "j": pa.array(rng.choice(["", "a", "é", "b"], 48_000)), "x": pa.array(np.arange(48_000))})
    check(table, 2, [("count", -1, -1, False), ("sum", 2, -1, False)])


@pytest.mark.parametrize("chunk_rows", [1000, 5000])
def test_a_full_partial_table_returns_its_groups_and_is_emptied(chunk_rows: int) -> None:
    """A partial table has at most 2,048 groups, and keys repeat within a window of rows."""
    n = 60_000
    k = np.arange(n) // 8
    table = pa.table({"k": k, "s": pa.array([f"key number {v}" for v in k]), "x": np.arange(n)})
    table = pa.Table.from_batches(table.to_batches(chunk_rows))
    calls = [("sum", 2, -1, False), ("min", 1, -1, False), ("max", 1, -1, False)]
    for n_keys, selected in ((1, table), (2, table)):
        wanted = expected(selected, n_keys, calls)
        assert_same_rows(aggregate(selected, n_keys, calls, "both", partial_groups_max=2048), wanted)


def test_a_partial_table_is_partitioned_before_it_is_returned() -> None:
    """The table reaches sixteen times partial_groups_max groups more than once. Keys that return find their groups."""
    k = np.concatenate([np.arange(400_000) // 8, np.arange(400_000) // 8 % 30_000])
    table = pa.table(
        {"k": k * 1_000_003, "s": pa.array([f"the text of {v % 5000}" for v in k]), "x": np.arange(len(k))}
    )
    calls = [("sum", 2, -1, False), ("min", 1, -1, False), ("count", -1, -1, False)]
    assert_same_rows(aggregate(table, 1, calls, "both", partial_groups_max=2048), expected(table, 1, calls))


def test_distinct_keys_pass_through_the_partial_step() -> None:
    """Nearly all keys are distinct, so rows become states without a table, nulls and strings included."""
    types = {"k": pa.int64(), "s": pa.string(), "x": pa.decimal128(15, 2), "f": pa.float64()}
    table = random_table(13, 50_000, types)
    calls = [(f, x, -1, False) for x in (2, 3) for f in ("sum", "avg", "min", "max", "var_pop", "count")]
    calls += [("min", 1, -1, False), ("first", 1, -1, False)]
    wanted = expected(table, 1, [c for c in calls if c[0] != "first"])
    got = aggregate(table, 1, calls, "both", partial_groups_max=4096)
    assert_same_rows(got.drop([got.column_names[-1]]), wanted)


def test_many_groups() -> None:
    rng = np.random.default_rng(14)
    table = pa.table({"k": rng.integers(0, 100_000, 400_000) * 7_919_000_003, "x": rng.integers(-1000, 1000, 400_000)})
    check(table, 1, [("sum", 1, -1, False), ("count", -1, -1, False), ("max", 1, -1, False)])


def test_dictionary_columns() -> None:
    types = {"k": pa.dictionary(pa.int32(), pa.string()), "x": pa.dictionary(pa.int8(), pa.int64())}
    table = random_table(15, 10_000, types)
    plain = pa.table({name: table[name].cast(table.schema.field(name).type.value_type) for name in types})
    calls = [("count", -1, -1, False), ("sum", 1, -1, False), ("max", 1, -1, False)]
    operator = HashAggregation(
        "agg", Account(), None, 1, calls, "single", Schema(output_schema(plain.schema, 1, calls))
    )
    got = run_chain([operator], table)
    assert_same_rows(got, expected(plain, 1, calls))


def test_column_of_type_null() -> None:
    table = pa.table({"k": pa.nulls(3000), "x": pa.array(range(3000))})
    check(table, 1, [("sum", 1, -1, False), ("count", 0, -1, False)])


def test_without_input_an_aggregation_without_keys_gives_one_row() -> None:
    schema = pa.schema([("c", pa.int64()), ("s", pa.decimal128(38, 0)), ("m", pa.string())])
    calls: list[Call] = [("count", -1, -1, False), ("sum", 0, -1, False), ("min", 1, -1, False)]
    empty = pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    for batches in ([], empty, empty.to_batches() or [pa.record_batch(empty.to_pydict(), empty.schema)]):
        operator = HashAggregation("agg", Account(), None, 0, calls, "single", Schema(schema))
        rows = pa.Table.from_batches(run_chain([operator], batches, empty.schema)).to_pylist()
        assert rows == [{"c": 0, "s": None, "m": None}]
        operator = HashAggregation("agg", Account(), None, 0, calls, "final", Schema(schema))
        assert pa.Table.from_batches(run_chain([operator], [], None)).to_pylist() == rows


def test_with_keys_no_input_gives_no_row() -> None:
    empty = pa.table({"k": pa.array([], pa.int64())})
    operator = HashAggregation("agg", Account(), None, 1, [], "single", Schema(empty.schema))
    assert sum(batch.num_rows for batch in run_chain([operator], empty, empty.schema)) == 0


def test_keys_alone_are_distinct_rows() -> None:
    table = random_table(16, 5000, {"a": pa.int32(), "b": pa.string()}, n_distinct=20)
    check(table, 2, [])


def test_output_comes_in_bounded_batches() -> None:
    table = pa.table({"k": np.arange(150_000) * 1_000_003})
    schema = Schema(table.schema)
    for radix_groups_min in (1_000_000, 1000):
        operator = HashAggregation("agg", Account(), None, 1, [], "single", schema, radix_groups_min=radix_groups_min)
        sizes = [batch.num_rows for batch in run_chain([operator], table)]
        assert sum(sizes) == 150_000 and max(sizes) <= 65_536 and min(sizes[:-1]) >= 32_768


@pytest.mark.parametrize("name", every(6, KEYS))
def test_partitioned_tables(name: str) -> None:
    """Above radix_groups_min the groups are partitioned. Later rows find them, with nulls and long strings."""
    types = {f"k{i}": type for i, type in enumerate(KEYS[name])}
    types |= {"x": pa.int32(), "w": pa.decimal128(30, 2), "s": pa.string(), "p": pa.bool_(), "f": pa.float64()}
    each = max(1, round(9000 ** (1 / len(KEYS[name]))))
    table = random_table(
        20, 40_000, types, n_distinct={n: each for n in types if n.startswith("k")}, extremes=True, chunk_rows=7000
    )
    x = len(KEYS[name])
    calls = [("sum", x, -1, False), ("avg", x, x + 3, False), ("sum", x + 1, -1, False), ("min", x + 1, -1, False)]
    calls += [
        ("min", x + 2, -1, False),
        ("max", x + 2, -1, False),
        ("count", x + 2, -1, False),
        ("count_null", x + 2, -1, False),
    ]
    wanted = expected(table, x, calls)
    for step in ("single", "both"):
        assert_same_rows(aggregate(table, x, calls, step, radix_groups_min=500), wanted)


def test_partitioned_tables_keep_first_last_and_moments() -> None:
    table = random_table(21, 60_000, {"k": pa.int32(), "x": pa.float64(), "s": pa.string()}, n_distinct={"k": 5000})
    calls = [("first", 2, -1, False), ("last", 2, -1, False), ("first", 1, -1, False), ("var_pop", 1, -1, False)]
    plain = aggregate(table, 1, calls, radix_groups_min=1_000_000)
    assert_same_rows(aggregate(table, 1, calls, radix_groups_min=500), plain)


def test_a_part_with_one_hot_key() -> None:
    """All rows of many consecutive vectors go to the same part."""
    k = np.concatenate([np.arange(5000), np.full(150_000, 4), np.arange(5000)]) * 1_000_003
    table = pa.table({"k": k, "x": np.arange(160_000)})
    wanted = expected(table, 1, [("sum", 1, -1, False)])
    assert_same_rows(aggregate(table, 1, [("sum", 1, -1, False)], radix_groups_min=1000), wanted)


def test_sum_past_its_type_is_an_error() -> None:
    table = pa.table({"x": pa.array([2**63 - 1, 1])})
    schema = Schema(pa.schema([("s", pa.int64())]))
    with pytest.raises(ExecutionError, match="sum does not fit"):
        run_chain([HashAggregation("agg", Account(), None, 0, [("sum", 0, -1, False)], "single", schema)], table)


def test_sum_past_38_digits_is_an_error() -> None:
    from decimal import Decimal

    table = pa.table({"x": pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))})
    with pytest.raises(ExecutionError, match="38 digits"):
        aggregate(table, 0, [("sum", 0, -1, False)])


def test_sums_that_need_more_than_64_bits_are_exact() -> None:
    table = pa.table({"k": [0, 1] * 3000, "x": pa.array([2**63 - 1, -(2**63)] * 3000)})
    for calls, n_keys in (([("sum", 1, -1, False), ("avg", 1, -1, False)], 1), ([("sum", 1, -1, False)], 0)):
        check(table, n_keys, calls)
    wide = pa.table({"k": np.arange(6000) % 200, "x": pa.array([2**63 - 1, -(2**63)] * 3000)})
    check(wide, 1, [("sum", 1, -1, False)])


def test_partial_schema_is_what_the_partial_step_gives() -> None:
    table = random_table(17, 100, {"k": pa.string(), "x": pa.decimal128(15, 2), "f": pa.float32()})
    calls = [
        ("avg", 1, -1, False),
        ("sum", 1, -1, False),
        ("count", 1, -1, False),
        ("var_pop", 2, -1, False),
        ("min", 0, -1, False),
    ]
    output = output_schema(table.schema, 1, calls)
    middle = pa.schema(partial_schema(Schema(table.schema), 1, calls, Schema(output)))
    # avg shares its sum and its count with the others.
    assert middle.types == [
        pa.string(),
        pa.decimal128(38, 2),
        pa.int64(),
        pa.int64(),
        pa.float64(),
        pa.float64(),
        pa.string(),
    ]
    got = run_chain([HashAggregation("agg", Account(), None, 1, calls, "partial", Schema(middle))], table)
    assert pa.Table.from_batches(got).schema.types == middle.types


@pytest.mark.parametrize(
    ("calls", "step", "message"),
    [
        ([("median", 1, -1, False)], "single", "unknown aggregate function 'median'"),
        ([("sum", -1, -1, False)], "single", "needs an argument"),
        ([("count", 1, -1, True)], "partial", "distinct"),
        ([("sum", 1, -1, False)], "half", "step"),
    ],
)
def test_bad_calls_are_plan_errors(calls: list[Call], step: str, message: str) -> None:
    schema = Schema(pa.schema([("k", pa.int64()), ("a", pa.int64())]))
    with pytest.raises(PlanError, match=message):
        HashAggregation("agg", Account(), None, 1, calls, step, schema)


def test_aggregates_that_a_type_lacks_are_plan_errors() -> None:
    table = pa.table({"k": [1], "s": ["a"], "n": pa.array([[1]])})
    for call, message in (
        (("sum", 1, -1, False), "string"),
        (("min", 2, -1, False), "nested"),
        (("count", 0, 1, False), "filter"),
    ):
        schema = Schema(pa.schema([("k", pa.int64()), ("a", pa.int64())]))
        with pytest.raises(PlanError, match=message):
            run_chain([HashAggregation("agg", Account(), None, 1, [call], "single", schema)], table)


def test_a_schema_in_conflict_is_refused_by_name() -> None:
    schema = Schema(pa.schema([("k", pa.int32())]))
    for first, second in ((pa.int32(), pa.string()), (pa.decimal128(9, 2), pa.float64())):
        batches = [pa.record_batch({"k": pa.nulls(1, type_)}) for type_ in (first, second)]
        with pytest.raises(SchemaChangeError, match=rf"'k' changed from {re.escape(str(first))} to {second}"):
            run_chain([HashAggregation("agg", Account(), None, 1, [], "single", schema)], batches)


@pytest.mark.parametrize("step", ["single", "partial"])
def test_out_of_memory_while_groups_widen_leaves_nothing_behind(step: str) -> None:
    """D6, V7: memory runs out at any step of the widening. With more memory the result is right."""
    n_groups = 100_000
    calls = [("sum", 1, -1, False), ("min", 1, -1, False)]
    batches = [
        pa.record_batch({"k": pa.array(range(n_groups), type_), "v": pa.array([i % 7 for i in range(n_groups)], type_)})
        for type_ in (pa.int32(), pa.int64(), pa.decimal128(24, 0))
    ]
    given = batches[0].schema
    schema = Schema(output_schema(given, 1, calls))
    if step == "partial":
        schema = partial_schema(Schema(given), 1, calls, schema)
    failed = 0
    limits = [*range(1, 60, 3), 1000]
    for mib in limits:
        memory = Account(None, mib << 20)
        operator = HashAggregation("agg", memory, None, 1, calls, step, schema, radix_groups_min=50_000)
        try:
            rows = run_chain([operator], batches)
        except MemoryLimitError:
            failed += 1
            continue
        if step == "single":
            assert sum(len(batch) for batch in rows) == n_groups
    assert 0 < failed < len(limits)


@pytest.mark.parametrize("kib", [32, 200, 700, 1500, 4000])
def test_out_of_memory_leaves_nothing_behind(kib: int) -> None:
    table = random_table(18, 60_000, {"k": pa.int64(), "s": pa.string(), "x": pa.int64()})
    calls = [("sum", 2, -1, False), ("min", 1, -1, False), ("count", 2, -1, False), ("var_pop", 2, -1, False)]
    for n_keys in (1, 2):
        schema = Schema(output_schema(table.schema, n_keys, calls))
        operator = HashAggregation("agg", Account(None, kib * 1024), None, n_keys, calls, "single", schema)
        with pytest.raises(MemoryLimitError):
            run_chain([operator], table)


@pytest.mark.parametrize("mib", [2, 8, 13])
def test_out_of_memory_in_a_partitioned_table_leaves_nothing_behind(mib: int) -> None:
    table = random_table(22, 200_000, {"k": pa.int64(), "s": pa.string(), "x": pa.int64()})
    calls = [("sum", 2, -1, False), ("min", 1, -1, False)]
    schema = Schema(output_schema(table.schema, 1, calls))
    operator = HashAggregation("agg", Account(None, mib << 20), None, 1, calls, "single", schema, radix_groups_min=2000)
    with pytest.raises(MemoryLimitError):
        run_chain([operator], table)


def test_a_table_is_not_partitioned_when_memory_is_short() -> None:
    table = pa.table({"k": np.arange(60_000) * 1_000_003, "x": np.arange(60_000)})
    schema = Schema(output_schema(table.schema, 1, [("sum", 1, -1, False)]))
    account = Account(None, 12 << 20)
    operator = HashAggregation(
        "agg", account, None, 1, [("sum", 1, -1, False)], "single", schema, radix_groups_min=2000
    )
    assert sum(batch.num_rows for batch in run_chain([operator], table)) == 60_000


def test_results_outlive_the_operator() -> None:
    table = random_table(19, 5000, {"k": pa.string(), "x": pa.string()}, n_distinct={"k": 300})
    check(table, 1, [("max", 1, -1, False)], ("single",))


# --- vectors under a mask ---

MASK_TYPES = {
    "i": pa.int64(), "u": pa.uint64(), "h": pa.int16(), "f": pa.float64(), "d": pa.decimal128(12, 2),
    "w": pa.decimal128(30, 2), "p": pa.bool_(),
}  # fmt: skip
# Percentage of rows that pass; "block": a range of rows that begins and ends within vectors.
MASK_SHARES = [3, 49, 51, 97, 100, "block"]


def kept_rows(n_rows: int, share: int | str) -> np.ndarray:
    rng = np.random.default_rng(6)
    if share == "block":
        return (np.arange(n_rows) > n_rows // 8) & (np.arange(n_rows) < n_rows - n_rows // 8)
    return rng.integers(0, 100, n_rows) < share


def aggregate_kept(
    table: pa.Table,
    n_keys: int,
    calls: list[Call],
    condition: Expr,
    step: str = "single",
    compile: object = None,
    batch_rows: int = 8200,
) -> tuple[pa.Table, int]:
    """Aggregate the rows that pass a condition, grouped by the first columns.

    Also returns the number of masked rows.
    """
    schema = output_schema(table.schema, n_keys, calls) if compile is None else pa.schema([("s", pa.decimal128(38, 0))])
    given = partial_schema(Schema(table.schema), n_keys, calls, Schema(schema)) if step == "partial" else schema
    grouping = HashAggregation("agg", Account(), compile, n_keys, calls, step, Schema(pa.schema(given)))
    keep = Filter("f", Account(), lambda schema: compile_predicate(condition, pa.schema(schema)))
    batches = table.combine_chunks().to_batches(batch_rows)
    out = run_chain([keep, grouping], batches, table.schema)
    if step == "partial":
        final = HashAggregation("agg", Account(), None, n_keys, calls, "final", Schema(schema))
        out = run_chain([final], out, pa.schema(given))
    return pa.Table.from_batches(out, schema), grouping.stats_snapshot()["masked_rows"]


@pytest.mark.each_value
@pytest.mark.parametrize("share", MASK_SHARES)
@pytest.mark.parametrize("n_rows", [*SIZES, 5003, 20_000])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
@pytest.mark.parametrize("keys", ["none", "few", "some", "letters", "many"])
@pytest.mark.parametrize("step", ["single", "partial"])
def test_rows_under_a_mask(share: int | str, n_rows: int, null_share: float, keys: str, step: str) -> None:
    table = random_table(31, n_rows, MASK_TYPES, null_share=null_share, extremes=False)
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, {"few": 6, "some": 13, "letters": 30, "many": 900}.get(keys, 1), n_rows)
    columns = {
        "none": [],
        "few": [pa.array(numbers, pa.int32(), mask=rng.random(n_rows) < null_share)],
        "letters": [
            pa.array([chr(65 + number % 5) for number in numbers]),
            pa.array([chr(65 + number // 5) for number in numbers], pa.string()),
        ],
        "some": [pa.array(numbers, pa.int16(), mask=rng.random(n_rows) < null_share)],
        "many": [pa.array(numbers)],
    }[keys]
    for column in reversed(columns):
        table = table.add_column(0, f"k{len(table.column_names)}", column)
    n_keys = len(columns)
    kept = kept_rows(n_rows, share)
    table = table.append_column("kept", pa.array(kept))
    at = range(n_keys, n_keys + 6)
    p = n_keys + 6
    calls = [("count", -1, -1, False), ("count", -1, p, False)]
    for x in at:
        calls += [("sum", x, -1, False), ("sum", x, p, False), ("count", x, -1, False), ("count_null", x, -1, False)]
    calls += [("avg", n_keys, -1, False), ("avg", n_keys + 3, p, False)]
    got, masked = aggregate_kept(table, n_keys, calls, col("kept") == lit(True), step)
    assert_same_rows(got, expected(table.filter(pa.array(kept)), n_keys, calls))
    # Masks are not used for more groups, nor for the first vector, which creates the groups.
    if n_rows == 20_000 and share in (51, 97):
        assert (masked > 0) == (keys != "many")
    elif share in (3, 100):
        assert masked == 0


def test_rows_that_a_mask_excludes_raise_no_error() -> None:
    """Overflows, divisions by zero and casts fail for rows that pass the filter, and only for them."""
    n_rows = 9000
    kept = kept_rows(n_rows, 90)
    good = np.where(kept, 7, 0)
    table = pa.table({"x": np.where(kept, 5, 2**63 - 1), "y": good, "t": np.where(kept, "12", "twelve"), "kept": kept})
    text = Cast(col("t"), pa.int64())
    calls = [("sum", 0, -1, False)]
    for expression, value in ((col("x") + lit(1), 6), (lit(70) % col("y"), 0), (text, 12)):

        def compile(schema: Schema, expression: Expr = expression) -> Program:
            return compile_projection([("v", expression)], pa.schema(schema))

        got, masked = aggregate_kept(table, 0, calls, col("kept") == lit(True), compile=compile)
        assert got["s"].to_pylist() == [value * int(kept.sum())]
        assert masked > 0
    table = table.set_column(1, "y", pa.array(np.where(np.arange(n_rows) == np.flatnonzero(kept)[-1], 0, good)))
    with pytest.raises(ExecutionError, match="division by zero"):
        aggregate_kept(
            table,
            0,
            calls,
            col("kept") == lit(True),
            compile=lambda schema: compile_projection([("v", lit(70) % col("y"))], pa.schema(schema)),
        )


def test_keys_that_only_excluded_rows_have_make_no_groups() -> None:
    n_rows = 50_000
    kept = kept_rows(n_rows, 80)
    rng = np.random.default_rng(9)
    keys = np.where(kept, rng.integers(0, 5, n_rows), rng.integers(5, 900, n_rows))
    table = pa.table({"k": keys, "x": rng.integers(0, 9, n_rows), "kept": kept})
    calls = [("sum", 1, -1, False), ("count", -1, -1, False)]
    got, _ = aggregate_kept(table, 1, calls, col("kept") == lit(True))
    assert_same_rows(got, expected(table.filter(pa.array(kept)), 1, calls))
    assert got.num_rows == 5


def test_a_group_that_begins_late_is_found_under_a_mask() -> None:
    """A vector with a new key is read through its selection. Later vectors use masks again."""
    n_rows = 100_000
    kept = kept_rows(n_rows, 90)
    keys = np.arange(n_rows) * 8 // n_rows
    table = pa.table({"k": keys, "x": np.ones(n_rows, np.int64), "kept": kept})
    calls = [("sum", 1, -1, False), ("count", 1, -1, False)]
    got, masked = aggregate_kept(table, 1, calls, col("kept") == lit(True))
    assert_same_rows(got, expected(table.filter(pa.array(kept)), 1, calls))
    assert masked > 0
