"""The columns of build rows in the slots of their keys: which joins have them, and every width of column. SPEC Q2."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

import qcore
from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate

# More rows than a perfect hash has keys, and enough for several stripes of a build.
N_KEYS = 40_000
STEP = 1_000_003_000_019


def column(type_: pa.DataType, n: int, seed: int) -> pa.Array:
    """Values of the whole range of a type."""
    rng = np.random.default_rng(seed)
    if pa.types.is_boolean(type_):
        return pa.array(rng.random(n) < 0.5)
    if pa.types.is_decimal(type_):
        return pa.array([Decimal(number).scaleb(-2) for number in rng.integers(-(10**9), 10**9, n).tolist()], type_)
    if pa.types.is_string(type_):
        return pa.array([f"text {number}" for number in rng.integers(0, 10**6, n).tolist()])
    width = type_.bit_width // 8
    return pa.Array.from_buffers(type_, n, [None, pa.py_buffer(rng.bytes(n * width))])


def sides(
    types: list[pa.DataType], build: np.ndarray, n_probe: int = 60_000, nulls: float = 0.0
) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(len(types))
    probe = rng.integers(-500, N_KEYS + 500, n_probe)
    keys = {
        name: pa.array(numbers * STEP, mask=rng.random(len(numbers)) < nulls)
        for name, numbers in (("p", probe), ("b", build))
    }
    payload = {f"v{i}": column(type_, len(build), i) for i, type_ in enumerate(types)}
    return pa.table({"p": keys["p"], "id": np.arange(n_probe)}), pa.table({"b": keys["b"], **payload})


def expected_rows(probe: pa.Table, build: pa.Table) -> pa.Table:
    """The probe rows with a match, in order, with the payload of the build row. No key of the build side is twice."""
    row_of = {key: row for row, key in enumerate(build["b"].to_pylist()) if key is not None}
    found = [(id, row_of[key]) for id, key in enumerate(probe["p"].to_pylist()) if key in row_of]
    rows = pa.array([row for _, row in found], pa.int64())
    taken = {name: build[name].take(rows) for name in build.column_names[1:]}
    return pa.table({"id": pa.array([id for id, _ in found], pa.int64()), **taken})


def run(
    probe: pa.Table, build: pa.Table, kind: str = "inner", drivers: int = 1, **options: Any
) -> tuple[pa.Table, bool]:
    """The rows in the order of the probe side, and whether the slots had the values."""
    counters: list[dict[str, Any]] = []
    columns = options.pop("build_columns", build.column_names[1:])
    batches = hash_join(
        probe, build, kind, ["p"], ["b"], drivers, 8192, build_columns=columns, counters=counters, **options
    )
    texts = {one["join"]["index"] for one in counters}
    assert len(texts) == 1
    found = pa.Table.from_batches(batches)
    return found.sort_by("id"), "with the row's other columns" in texts.pop()


def values_of(column: pa.ChunkedArray) -> Any:
    """The values; of floats their bytes, because NaNs are not equal, and of times numbers, as Python has few years."""
    if pa.types.is_floating(column.type):
        return column.to_numpy().tobytes()
    if pa.types.is_temporal(column.type):
        return column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32()).to_pylist()
    return column.to_pylist()


WIDTHS = [
    [pa.int64()],
    [pa.float64()],
    [pa.uint64()],
    [pa.timestamp("us")],
    [pa.decimal128(11, 2)],
    [pa.int32(), pa.float32()],
    [pa.date32(), pa.int16(), pa.int8(), pa.bool_()],
    [pa.int8(), pa.int32(), pa.uint16()],
    [pa.uint8()] * 8,
    [pa.bool_()],
    [],
]


@pytest.mark.each_value
@pytest.mark.parametrize("types", WIDTHS, ids=lambda types: "+".join(map(str, types)) or "none")
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("nulls", [0.0, 0.1])
def test_columns_that_fit_are_in_the_slots(types: list[pa.DataType], drivers: int, nulls: float) -> None:
    probe, build = sides(types, np.random.default_rng(0).permutation(N_KEYS), nulls=nulls)
    found, in_slots = run(probe, build, drivers=drivers)
    assert in_slots
    expected = expected_rows(probe, build)
    assert found.column_names == ["p", "id", *build.column_names[1:]]
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    for name in build.column_names[1:]:
        assert found[name].type == expected[name].type
        assert values_of(found[name]) == values_of(expected[name]), name


def test_a_selection_of_probe_rows() -> None:
    """The probe rows of a filter are read by their positions in the batch."""
    probe, build = sides([pa.int32(), pa.int16()], np.random.default_rng(0).permutation(N_KEYS), 300_000)
    session = qcore.Session(threads=2)
    session.register("p", probe)
    session.register("b", build)
    found = session.sql("select id, v0, v1 from p join b on p.p = b.b where id % 3 <> 1").to_arrow().sort_by("id")
    expected = expected_rows(probe, build)
    expected = expected.filter(np.asarray(expected["id"]) % 3 != 1)
    assert found.to_pydict() == expected.to_pydict()
    text = session.sql("select id, v0 from p join b on p.p = b.b where id % 3 <> 1").explain(analyze=True)
    assert "slots of codes with the row's other columns" in text


def nullable(table: pa.Table) -> pa.Table:
    values = table["v0"].to_pylist()
    return table.set_column(1, "v0", pa.array([None, *values[1:]], table["v0"].type))


@pytest.mark.parametrize(
    ("types", "change", "options"),
    [
        ([pa.int64(), pa.bool_()], None, {}),
        ([pa.string()], None, {}),
        ([pa.decimal128(30, 2)], None, {}),
        ([pa.int32()], nullable, {}),
        ([pa.int32()], None, {"kind": "left"}),
        ([pa.int32()], None, {"kind": "right"}),
        ([pa.int32()], None, {"build_columns": ["b", "v0"]}),
        ([pa.int32()], None, {"condition": True}),
        ([pa.int32()], lambda table: table.slice(0, 16_384), {}),
    ],
    ids=["9 bytes", "text", "16 bytes", "nulls", "left", "right", "key returned", "condition", "few rows"],
)
def test_rows_that_are_not_in_the_slots(types: list[pa.DataType], change: Any, options: dict[str, Any]) -> None:
    probe, build = sides(types, np.random.default_rng(0).permutation(N_KEYS))
    build = build if change is None else change(build)
    options = dict(options)
    if options.pop("condition", False):
        options["condition"] = lambda schema: compile_predicate(col("id") >= 0, pa.schema(schema))
    kind = options.pop("kind", "inner")
    found, in_slots = run(probe, build, kind, 2, **options)
    assert not in_slots
    expected = expected_rows(probe, build)
    if kind != "inner":
        assert found["id" if kind == "right" else "v0"].null_count > 0
        found = found.filter(found["id" if kind == "right" else "v0"].is_valid())
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    assert found["v0"].to_pylist() == expected["v0"].to_pylist()


@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("first", [0, 20_000], ids=["in the sample", "after the sample"])
def test_a_key_that_occurs_twice(first: int, drivers: int) -> None:
    """Twice in the sample, or found when the second row of the key comes to its slot: then the index is made again."""
    numbers = np.append(np.arange(N_KEYS), np.arange(N_KEYS)[first + 3 : first + 4])
    probe, build = sides([pa.int32()], numbers)
    found, in_slots = run(probe, build, drivers=drivers)
    assert not in_slots
    keys, values = build["b"].to_pylist(), build["v0"].to_pylist()
    rows: dict[int, list[int]] = {}
    for key, value in zip(keys, values, strict=True):
        rows.setdefault(key, []).append(value)
    expected = [(id, value) for id, key in enumerate(probe["p"].to_pylist()) for value in sorted(rows.get(key, []))]
    assert sorted(zip(found["id"].to_pylist(), found["v0"].to_pylist(), strict=True)) == expected


def test_codes_of_all_64_bits() -> None:
    """The largest code marks free slots, so that no key may have it."""
    numbers = np.concatenate([np.arange(N_KEYS - 2) * 2**40, [-(2**63), 2**63 - 1]])
    build = pa.table({"b": numbers, "v0": np.arange(N_KEYS, dtype=np.int32)})
    probe = pa.table({"p": numbers[::-1].copy(), "id": np.arange(N_KEYS)})
    found, in_slots = run(probe, build)
    assert not in_slots
    assert found["v0"].to_pylist() == list(range(N_KEYS))[::-1]
    found, in_slots = run(probe, build.slice(0, N_KEYS - 2))
    assert in_slots
    assert found["v0"].to_pylist() == list(range(N_KEYS - 2))[::-1]
