"""Looking keys up: each kind of index, slots that are taken, keys of other types than the table's. SPEC Q2, D6."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hash_model import colliding_pair, hash_row, hash_text
from joins import hash_join

from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_ext.join.table import IndexKind
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table

# A value of each number in a type whose keys get this index.
INDEXES: dict[IndexKind, Any] = {
    IndexKind.INDEX_RANKS: lambda numbers: pa.array(numbers, pa.int32()),
    IndexKind.INDEX_CODES: lambda numbers: pa.array(np.asarray(numbers, np.int64) << 32),
    IndexKind.INDEX_HASHES: lambda numbers: pa.array(
        [f"the key of number {number}" for number in numbers], pa.string()
    ),
}


def join_arrays(build: pa.Array, probe: pa.Array, kind: str = "inner") -> list[tuple[int, Any]]:
    """Row numbers of the pairs, or each probe row and its mark."""
    sides = [pa.table({name: keys, f"{name}_row": np.arange(len(keys))}) for name, keys in (("p", probe), ("b", build))]
    other = "mark" if kind == "mark" else "b_row"
    batches = hash_join(*sides, kind, ["p"], ["b"])
    return [
        pair for batch in batches for pair in zip(batch["p_row"].to_pylist(), batch[other].to_pylist(), strict=True)
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.name)
@pytest.mark.parametrize("repeats", [1, 3])
def test_hits_and_misses(index: IndexKind, n_rows: int, repeats: int) -> None:
    rng = np.random.default_rng(n_rows)
    build = np.repeat(rng.permutation(900), repeats)
    probe = rng.integers(0, 1800, n_rows)
    rows = {key: np.flatnonzero(build == key).tolist() for key in range(1800)}
    arrays = [INDEXES[index](keys) for keys in (build, probe)]
    expected = [(number, row) for number, key in enumerate(probe.tolist()) for row in rows[key]]
    assert join_arrays(*arrays) == expected
    assert join_arrays(*arrays, "mark") == [(number, key < 900) for number, key in enumerate(probe.tolist())]


@pytest.mark.parametrize("n_rows", [0, 1, 3000])
def test_no_key_and_every_key(n_rows: int) -> None:
    """A build side of nulls matches nothing; without keys everything matches."""
    nulls = pa.nulls(5, pa.int64())
    probe = pa.array(range(n_rows), pa.int64())
    assert join_arrays(nulls, probe) == []
    assert join_arrays(nulls, probe, "left") == [(row, None) for row in range(n_rows)]
    sides = [pa.table({"p_row": range(n_rows)}), pa.table({"b_row": [0, 1, 2]})]
    batches = hash_join(*sides, "inner", [], [])
    pairs = [
        pair for batch in batches for pair in zip(batch["p_row"].to_pylist(), batch["b_row"].to_pylist(), strict=True)
    ]
    assert pairs == [(row, other) for row in range(n_rows) for other in range(3)]


@pytest.mark.parametrize("slot", [0, 40, 63])
@pytest.mark.parametrize("n_keys", [2, 4, 5, 8])
def test_keys_that_begin_in_one_slot(slot: int, n_keys: int) -> None:
    """Up to eight rows have 64 slots, four in each line. After the last line the search goes on in the first."""
    wanted = []
    others = []
    number = 0
    while len(wanted) < 2 * n_keys:
        text = b"key %d of this table" % number
        (wanted if hash_text(text) % 64 == slot else others).append(text)
        number += 1
    probe = pa.array([*reversed(wanted), *others[:200]], pa.binary())
    build = pa.array(wanted[:n_keys], pa.binary())
    expected = [(2 * n_keys - 1 - row, row) for row in range(n_keys)]
    assert join_arrays(build, probe) == sorted(expected)


def test_codes_that_meet_in_slots() -> None:
    """Load of a third, the highest: many keys are not in their first slot."""
    rng = np.random.default_rng(8)
    build = rng.choice(2**60, 400_000, replace=False)
    probe = np.concatenate([rng.choice(build, 20_000), rng.choice(2**60, 20_000)])
    row_of = dict(zip(build.tolist(), range(len(build)), strict=True))
    expected = [(number, row_of[key]) for number, key in enumerate(probe.tolist()) if key in row_of]
    assert join_arrays(pa.array(build), pa.array(probe)) == expected


def sparse_keys(numbers: Any, kind: str) -> list[pa.Array]:
    """Key columns of each number that no rank bitmap has: a wide integer, two or three integers, a string, a pair."""
    numbers = np.asarray(numbers, np.int64)
    if kind == "wide":
        return [pa.array(numbers << 24)]
    if kind == "two":
        return [pa.array(numbers % 1000), pa.array((numbers // 1000 << 22).astype(np.int64))]
    if kind == "three":
        return [pa.array(numbers % 10 << 50), pa.array(numbers // 100), pa.array(numbers // 10 % 10 << 15, pa.int32())]
    texts = pa.array([f"key number {number}" for number in numbers.tolist()])
    return [texts] if kind == "text" else [texts, pa.array(numbers % 7, pa.int32())]


@pytest.mark.each_value
@pytest.mark.parametrize("key_kind", ["wide", "two", "three", "text", "pair"])
@pytest.mark.parametrize("shares", [[0.0], [0.02], [0.3], [0.45, 0.55], [1.0], [0.0, 1.0, 0.01], [1.0, 0.0]], ids=str)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("with_nulls", [False, True])
def test_slots_with_a_filter(key_kind: str, shares: list[float], repeats: int, with_nulls: bool) -> None:
    """16K slots and more have a filter. It is used where few rows pass, and tried again where many did."""
    rng = np.random.default_rng(len(shares))
    build = np.repeat(rng.permutation(12_000) * 3, repeats)
    n_rows = 20_000 if len(shares) == 1 else 140_000
    parts = [rng.integers(0, 12_000, n_rows) * 3 + (rng.random(n_rows) >= share) for share in shares]
    probe = np.concatenate(parts)
    nulls = {"b": rng.random(len(build)) < 0.1, "p": rng.random(len(probe)) < 0.1}
    sides = {}
    for name, numbers in (("b", build), ("p", probe)):
        columns = sparse_keys(numbers, key_kind)
        if with_nulls:
            columns[-1] = pc.if_else(pa.array(nulls[name]), None, columns[-1])
        else:
            nulls[name][:] = False
        sides[name] = pa.table(
            [*columns, np.arange(len(numbers))], [f"{name}{i}" for i in range(len(columns))] + [name]
        )
    keys = [[name for name in sides[side].column_names if name != side] for side in ("p", "b")]
    batches = hash_join(sides["p"], sides["b"], "inner", *keys)
    found = [np.concatenate([batch[side].to_numpy() for batch in batches] or [[]]) for side in ("p", "b")]
    # Positions of the build rows of each number, the first `repeats` of them or none.
    rows = np.full((36_002, repeats), -1)
    counts = np.zeros(36_002, np.int64)
    for row in np.flatnonzero(~nulls["b"]):
        rows[build[row], counts[build[row]]] = row
        counts[build[row]] += 1
    expected_b = np.where(nulls["p"][:, None], -1, rows[probe])
    expected_p = np.broadcast_to(np.arange(len(probe))[:, None], expected_b.shape)
    assert np.array_equal(found[0], expected_p[expected_b >= 0])
    assert np.array_equal(found[1], expected_b[expected_b >= 0])
    marks = [batch["mark"].to_numpy(zero_copy_only=False) for batch in hash_join(sides["p"], sides["b"], "mark", *keys)]
    assert np.array_equal(np.concatenate(marks) == True, (expected_b >= 0).any(axis=1))  # noqa: E712


PAYLOAD = {"s": pa.string(), "f": pa.bool_(), "d": pa.decimal128(38, 3), "t": pa.int16()}


@pytest.mark.each_value
@pytest.mark.parametrize("key_kind", ["ranks", "wide", "three", "text", "pair"])
@pytest.mark.parametrize("n_keys", [30_000, 20_001, 16_384, 1_000], ids=lambda n: f"{n} keys")
@pytest.mark.parametrize("kind", ["inner", "left", "right"])
def test_rows_in_the_order_of_their_groups(kind: str, n_keys: int, key_kind: str) -> None:
    """A large table of several rows a key has its rows in another order, unless the join returns all build rows."""
    rng = np.random.default_rng(n_keys)
    numbers = {"b": rng.permutation(np.arange(40_002) % n_keys), "p": rng.integers(0, n_keys + 500, 2_500)}
    sides = {}
    for name, found in numbers.items():
        keys = [pa.array(found)] if key_kind == "ranks" else sparse_keys(found, key_kind)
        columns = {f"{name}{i}": column for i, column in enumerate(keys)}
        rows = random_table(n_keys, len(found), PAYLOAD, {"s": 0.1, "f": 0.2, "d": 0.0, "t": 0.5})
        columns.update({f"{name}_{column}": rows[column] for column in PAYLOAD} if name == "b" else {})
        sides[name] = pa.table({**columns, f"{name}_row": np.arange(len(found))})
    keys = [[name for name in sides[side].column_names if name[1:].isdecimal()] for side in ("p", "b")]
    found = pa.Table.from_batches(hash_join(sides["p"], sides["b"], kind, *keys))
    by_number = np.argsort(numbers["b"], kind="stable")
    starts = np.searchsorted(numbers["b"][by_number], np.arange(n_keys + 501))
    rows_of = [by_number[starts[key] : starts[key + 1]].tolist() for key in numbers["p"].tolist()]
    expected = [(number, row) for number, rows in enumerate(rows_of) for row in rows]
    if kind == "left":
        expected += [(number, None) for number, rows in enumerate(rows_of) if not rows]
    elif kind == "right":
        expected += [(None, int(row)) for row in np.flatnonzero(~np.isin(numbers["b"], numbers["p"]))]
    pairs = zip(found["p_row"].to_pylist(), found["b_row"].to_pylist(), strict=True)
    assert sorted(pairs, key=str) == sorted(expected, key=str)
    taken = sides["b"].take(found["b_row"].combine_chunks())
    for name in taken.column_names:
        assert found[name].cast(taken[name].type).equals(taken[name]), name


@pytest.mark.parametrize("n_keys", [600_000, 700_000, 1_500_000, 2_900_000])
def test_a_large_table_has_a_filter_of_fewer_bits(n_keys: int) -> None:
    """Four, two and one bit a slot, and none."""
    rng = np.random.default_rng(n_keys)
    build = rng.permutation(n_keys)
    probe = rng.integers(0, 20 * n_keys, 30_000)
    row_of = np.argsort(build)
    found = join_arrays(pa.array(build << 24), pa.array(probe << 24))
    assert found == [(number, int(row_of[key])) for number, key in enumerate(probe.tolist()) if key < n_keys]


@pytest.mark.parametrize(
    ("build_type", "probe_type", "values"),
    [
        (pa.int32(), pa.int64(), [1, -5, 2**31, 2**40, None, 7]),
        (pa.int64(), pa.int8(), [1, -5, 127, None, 7]),
        (pa.float32(), pa.float64(), [0.5, 0.1, -2.0, None, 1e300]),
        (
            pa.decimal128(9, 2),
            pa.decimal128(12, 4),
            [Decimal(text) for text in ("1.00", "0.0001", "-5.25", "9999999.99", "9999999.9999")],
        ),
        (pa.string(), pa.large_string(), ["a", None, "a string that is long", ""]),
    ],
    ids=str,
)
def test_probe_keys_of_another_type(build_type: pa.DataType, probe_type: pa.DataType, values: list[Any]) -> None:
    """D6: a batch whose key is of another type is looked up by value; what the table's type has not matches nothing."""
    fitting = [value for value in values if value is not None and fits(value, build_type)]
    build = pa.table({"b": pa.array(fitting, build_type), "b_row": range(len(fitting))})
    first = pa.table({"p": pa.array(fitting, build_type), "p_row": range(len(fitting))})
    second = pa.table({"p": pa.array(values, probe_type), "p_row": range(100, 100 + len(values))})
    memory = Account()
    bridge = JoinBridge("inner", 1, 1, False, build.schema, first.schema)
    probe = HashProbe("probe", memory, bridge, ["p"], [("probe", "p_row", "p_row"), ("build", "b_row", "b_row")])
    run_chain([HashBuild("build", memory, bridge, ["b"], ["b_row"])], build)
    got = pa.Table.from_batches(run_chain([probe], [*first.to_batches(), *second.to_batches()]))
    pairs = [(row, row) for row in range(len(fitting))]
    pairs += [(100 + row, fitting.index(value)) for row, value in enumerate(values) if value in fitting]
    expected = pa.table({"p_row": [pair[0] for pair in pairs], "b_row": [pair[1] for pair in pairs]})
    assert_same_rows(got, expected)


def fits(value: Any, type_: pa.DataType) -> bool:
    if pa.types.is_decimal(type_):
        return value == round(value, 2)
    if type_ == pa.float32():
        return value < 1e38 and float(np.float32(value)) == value
    return type_ != pa.int32() or -(2**31) <= value < 2**31


def test_keys_of_equal_hashes_are_told_apart() -> None:
    """The search goes on from a key that has the hash, and is another."""
    pairs = [(7, 1), (8, 2), (9, 3)]
    others = [colliding_pair(a, b, a + 1000) for a, b in pairs]
    assert [hash_row(pair) for pair in pairs] == [hash_row(pair) for pair in others]
    keys = [*pairs, *others]
    sides = [
        pa.table({f"{name}0": [a for a, _ in keys], f"{name}1": [b for _, b in keys], name: range(len(keys))})
        for name in ("p", "b")
    ]
    batches = hash_join(sides[0].take([5, 0, 4, 1, 3, 2]), sides[1], "inner", ["p0", "p1"], ["b0", "b1"])
    found = [row for batch in batches for row in zip(batch["p"].to_pylist(), batch["b"].to_pylist(), strict=True)]
    assert found == [(row, row) for row in (5, 0, 4, 1, 3, 2)]
