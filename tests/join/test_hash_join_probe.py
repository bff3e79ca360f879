"""HashBuild and HashProbe against DuckDB: kinds, keys, sizes, drivers. SPEC V15, G8, Q2."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from joins import KINDS, as_table, hash_join, oracle_join

from oracle import assert_same_rows
from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain
from random_tables import random_table
from sweeps import every

KEY_TYPES = {
    "int8": [pa.int8()],
    "int16": [pa.int16()],
    "int32": [pa.int32()],
    "int64": [pa.int64()],
    "uint8": [pa.uint8()],
    "uint32": [pa.uint32()],
    "uint64": [pa.uint64()],
    "bool": [pa.bool_()],
    "date": [pa.date32()],
    "timestamp": [pa.timestamp("us")],
    "decimal": [pa.decimal128(15, 2)],
    "wide_decimal": [pa.decimal128(38, 10)],
    "float32": [pa.float32()],
    "float64": [pa.float64()],
    "string": [pa.string()],
    "string_view": [pa.string_view()],
    "int_date": [pa.int32(), pa.date32()],
    "int64_int64": [pa.int64(), pa.int64()],
    "string_int": [pa.string(), pa.int16()],
    "three": [pa.int8(), pa.string(), pa.decimal128(20, 4)],
}


def tables(
    types: list[pa.DataType], n_probe: int, n_build: int, n_distinct: int | None, nulls: float, seed: int = 0
) -> tuple[pa.Table, pa.Table, list[str], list[str]]:
    """A probe table and a build table with keys from the same values."""
    n_keys = len(types)
    pool = random_table(seed, max(n_distinct or max(n_probe, n_build), 1), types, null_share=0.0, extremes=True)
    if pool.column(0).type != pa.string_view():
        # Random values and the ends of the range repeat. A join multiplies values that repeat on both sides.
        first = {value: row for row, value in enumerate(pool.column(0).to_pylist())}
        pool = pool.take(pa.array(sorted(first.values())))
    rng = np.random.default_rng(seed)
    sides = []
    for side, n_rows in (("p", n_probe), ("b", n_build)):
        rows = pa.array(rng.integers(0, len(pool), n_rows))
        payload = random_table(
            seed + 1 + len(sides), n_rows, {f"{side}_text": pa.string(), f"{side}_number": pa.int64()}, null_share=0.2
        )
        columns = {}
        for key in range(n_keys):
            column = pool.column(key).combine_chunks()
            view = column.type == pa.string_view()
            values = (column.cast(pa.string()) if view else column).take(rows)
            if nulls:
                mask = pa.array(rng.random(n_rows) < nulls)
                values = pa.compute.if_else(mask, pa.scalar(None, values.type), values)
            columns[f"{side}{key}"] = values.cast(pa.string_view()) if view else values
        columns |= dict(zip(payload.column_names, payload.columns, strict=True))
        sides.append(pa.table(columns))
    return sides[0], sides[1], [f"p{key}" for key in range(n_keys)], [f"b{key}" for key in range(n_keys)]


def check(duck: duckdb.DuckDBPyConnection, probe, build, kind, probe_keys, build_keys, **options) -> None:
    expected = oracle_join(duck, probe, build, kind, probe_keys, build_keys)
    actual = hash_join(probe, build, kind, probe_keys, build_keys, **options)
    assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KEY_TYPES)
def test_key_types_with_nulls_and_duplicates(duck, name, kind):
    """Q2, Q3."""
    types = KEY_TYPES[name]
    if kind.startswith("null_aware") and len(types) > 1:
        return
    # A boolean key matches half of the other side.
    n_rows = 100 if types == [pa.bool_()] else 1000
    probe, build, probe_keys, build_keys = tables(types, n_rows, n_rows // 2, n_rows // 2, 0.1)
    check(duck, probe, build, kind, probe_keys, build_keys)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_probe", [0, 1, 2047, 2048, 2049])
@pytest.mark.parametrize("n_build", [0, 1, 2047, 2048, 2049])
def test_sizes(duck, n_probe, n_build, kind):
    probe, build, probe_keys, build_keys = tables([pa.int64()], n_probe, n_build, 3000, 0.0)
    check(duck, probe, build, kind, probe_keys, build_keys)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("types", [[pa.int32()], [pa.int64()], [pa.string()]], ids=str)
def test_many_rows_and_drivers(duck, types, kind, drivers):
    """G8, V15, Q2."""
    probe, build, probe_keys, build_keys = tables(types, 6000, 4000, 4000, 0.02)
    check(duck, probe, build, kind, probe_keys, build_keys, drivers=drivers, batch_rows=300)


@pytest.mark.parametrize("kind", KINDS)
def test_null_free_build_keys_for_not_in(duck, kind):
    """Without nulls in the build keys NOT IN and IN are never null for a probe key that is not null."""
    probe, build, probe_keys, build_keys = tables([pa.int32()], 3000, 500, 400, 0.0)
    nullable = pa.compute.if_else(pa.compute.equal(pa.compute.bit_wise_and(probe["p_number"], 1), 0), probe["p0"], None)
    probe = probe.set_column(0, "p0", nullable)
    check(duck, probe, build, kind, probe_keys, build_keys)


@pytest.mark.parametrize("kind", every(3, KINDS))
def test_70000_dense_unique_keys(duck, kind):
    """The keys ascend and are dense, so ranks need no row numbers. Every probe row matches."""
    build = pa.table({"b0": pa.array(range(70000), pa.int64()), "b_v": pa.array(range(0, 140000, 2), pa.int32())})
    probe = pa.table({"p0": pa.array(np.random.default_rng(3).integers(0, 70000, 20000)), "p_v": range(20000)})
    check(duck, probe, build, kind, ["p0"], ["b0"], drivers=2, batch_rows=16384)


@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "left_semi", "right_anti"])
def test_nested_columns_are_carried_through(duck, kind, drivers):
    """Q3: lists, structs and maps on both sides."""
    nested = {"l": pa.list_(pa.int32()), "s": pa.struct([("a", pa.int64()), ("b", pa.string())])}
    rng = np.random.default_rng(11)

    def side(name, n_rows):
        columns = random_table(
            ord(name), n_rows, {f"{name}_{key}": type for key, type in nested.items()}, null_share=0.1
        )
        keys = pa.array(rng.integers(0, 60, n_rows), mask=rng.random(n_rows) < 0.1)
        return columns.add_column(0, f"{name}k", keys)

    check(duck, side("p", 150), side("b", 100), kind, ["pk"], ["bk"], drivers=drivers, batch_rows=30)


# --- a probe that filters the rows below another join ---

FEW = pa.table({"b": pa.array([None, 3, 3, 900, 5000], pa.int32()), "v": ["a", "b", "c", "d", "e"]})


def filter_of(kind: str, has_condition: bool = False, rows: pa.Table = FEW) -> tuple[HashProbe, HashProbe]:
    """A filter of int32 keys by the build rows, and the join's probe, which the filter must not disturb."""
    memory = Account()
    given = pa.schema([("p", pa.int32()), ("x", pa.int64())])
    bridge = JoinBridge(kind, 1, 2, has_condition, rows.schema, pa.schema([("q", pa.int32())]))
    run_chain([HashBuild("build", memory, bridge, ["b"], ["b", "v"])], rows)
    output = [("probe", "p", "p"), ("probe", "x", "x")]
    first = HashProbe("join", memory, bridge, ["p"], output, filtered=Schema(given))
    probe = HashProbe("join", memory, bridge, ["q"], [("build", "v", "v")], below_100 if has_condition else None)
    return first, probe


def below_100(schema: Schema) -> object:
    return compile_predicate(col("q") < 100, pa.schema(schema))


@pytest.mark.parametrize("has_condition", [False, True])
@pytest.mark.parametrize("kind", ["inner", "left_semi", "right", "right_semi", "right_anti"])
def test_a_filter_keeps_the_rows_whose_key_a_build_row_has(kind: str, has_condition: bool) -> None:
    """Its keys become wider than declared. The condition of the join does not count, and no build row is marked."""
    first, probe = filter_of(kind, has_condition)
    narrow = pa.table({"p": pa.array([1, 3, None, 900], pa.int32()), "x": [10, 30, 0, 900]})
    wide = pa.table({"p": pa.array([5000, 3, 2**40]), "x": [50, 31, 7]})
    got = pa.Table.from_batches(
        batch.cast(pa.schema([("p", pa.int64()), ("x", pa.int64())]))
        for batch in map(pa.record_batch, run_chain([first], [*narrow.to_batches(), *wide.to_batches()]))
    )
    assert got.to_pydict() == {"p": [3, 900, 5000, 3], "x": [30, 900, 50, 31]}
    counters = first.stats_snapshot()
    assert counters["key_filter"] == {"looked_up": 7, "matched": 4}
    assert "join" not in counters
    if kind in ("right_semi", "right_anti"):
        found = [
            row["v"]
            for batch in run_chain([probe], pa.table({"q": pa.array([3, 99_999], pa.int32())}))
            for row in batch.to_pylist()
        ]
        assert sorted(found) == (["b", "c"] if kind == "right_semi" else ["a", "d", "e"])


def test_a_filter_of_no_keys_ends_at_once() -> None:
    first, _ = filter_of("inner", rows=FEW.slice(0, 0))
    assert run_chain([first], pa.table({"p": pa.array([3], pa.int32()), "x": [1]})) == []


def test_a_filter_that_drops_few_rows_passes_on_the_rest() -> None:
    first, _ = filter_of("inner", rows=pa.table({"b": np.arange(1000, dtype=np.int32), "v": ["a"] * 1000}))
    rows = pa.table({"p": pa.array(np.arange(200_000) % 1200, pa.int32()), "x": np.arange(200_000)})
    given = rows.to_batches(max_chunksize=10_000)
    got = list(map(pa.record_batch, run_chain([first], given)))
    counters = first.stats_snapshot()["key_filter"]
    assert 65_536 <= counters["looked_up"] <= 80_000
    n_trial = counters["looked_up"] // 10_000
    wanted = sum(key < 1000 for key in rows["p"].to_pylist()[: counters["looked_up"]])
    assert sum(map(len, got[:n_trial])) == counters["matched"] == wanted
    assert all(a.equals(b) for a, b in zip(got[n_trial:], given[n_trial:], strict=True))
