"""Join keys as codes: all types that have codes, ends of ranges, and several keys in one code. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_ext.join.table import IndexKind
from qcore_testing.operators import run_chain

NAN = float("nan")
# By type: keys of the build side; keys of the probe side that lie outside its range, or between its keys.
KEYS: dict[pa.DataType, tuple[list[Any], list[Any]]] = {
    pa.int8(): ([-128, -1, 0, 5, 127], [-127, 1, 126]),
    pa.int16(): ([-30_000, -1, 7], [-30_001, 0, 8, 32_767]),
    pa.int32(): ([-(2**31), -1, 9], [2**31 - 1, 10, -2]),
    pa.int64(): ([-(2**63), 0, 2**63 - 1], [-1, 1, 2**63 - 2]),
    pa.uint8(): ([3, 200], [2, 201, 255]),
    pa.uint16(): ([3, 60_000], [2, 65_535]),
    pa.uint32(): ([5, 2**32 - 1], [4, 2**31]),
    pa.uint64(): ([5, 2**63, 2**64 - 1], [4, 2**63 - 1, 0]),
    pa.bool_(): ([True], [False]),
    pa.date32(): ([-5, 0, 20_000], [-6, 1, 20_001]),
    pa.float32(): ([-1.5, 0.0, NAN, 3.25], [1.5, -3.25, float("inf")]),
    pa.float64(): ([-1.5, 0.0, NAN, 3.25], [1.5, -3.25, float("inf")]),
}


def ids_of_matches(build: pa.Table, probe: pa.Table, keys: list[str]) -> list[tuple[int, int]]:
    batches = hash_join(
        probe.append_column("p_id", pa.array(range(len(probe)), pa.int64())),
        build.append_column("b_id", pa.array(range(len(build)), pa.int64())),
        "inner",
        keys,
        keys,
    )
    return sorted(
        (p, b)
        for batch in batches
        for p, b in zip(*(batch[name].to_pylist() for name in ("p_id", "b_id")), strict=True)
    )


def index_and_bounds(build: pa.Table, keys: list[str]) -> tuple[IndexKind, Any]:
    memory = Account()
    bridge = JoinBridge("inner", 1, 1, False, build.schema, build.schema)
    probe = HashProbe("probe", memory, bridge, keys, [("probe", keys[0], "x")])
    run_chain([HashBuild("build", memory, bridge, keys, keys)], build)
    found = IndexKind(bridge.index_kind), bridge.key_bounds()
    run_chain([probe], [])
    return found


def same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and (a == b or (a != a and b != b))


@pytest.mark.parametrize("type_", KEYS, ids=str)
def test_values_in_and_beside_the_range(type_: pa.DataType) -> None:
    here, beside = KEYS[type_]
    build, probe = [*here, None], [None, *beside, *reversed(here)]
    if pa.types.is_floating(type_):
        probe[probe.index(0.0)] = -0.0
    expected = [(p, b) for p, x in enumerate(probe) for b, y in enumerate(build) if same(x, y)]
    assert len(expected) == len(here)
    tables = [pa.table({"k": pa.array(values, type_)}) for values in (build, probe)]
    assert ids_of_matches(*tables, ["k"]) == expected
    kind, bounds = index_and_bounds(tables[0], ["k"])
    assert kind in (IndexKind.INDEX_RANKS, IndexKind.INDEX_CODES)
    assert bounds == (None if pa.types.is_floating(type_) else [(min(here), max(here))])


@pytest.mark.parametrize("type_", [pa.int64(), pa.uint64(), pa.int16()], ids=str)
@pytest.mark.parametrize("at", [0, 20_000, 39_999])
def test_the_range_of_all_stripes(type_: pa.DataType, at: int) -> None:
    """40,000 rows are measured in three pieces; each may have the smallest or the largest key."""
    for extreme in (0, 32_767):
        numbers = np.arange(40_000) % 1000 + 100
        numbers[at] = extreme
        build = pa.table({"k": pa.array(numbers, type_)})
        assert index_and_bounds(build, ["k"])[1] == [(min(extreme, 100), max(extreme, 1099))]
        assert ids_of_matches(build, build.slice(at, 1), ["k"]) == [(0, at)]


@pytest.mark.parametrize("n_rows", [0, 1, 2047, 2048, 2049])
def test_several_keys_in_one_code(n_rows: int) -> None:
    """Fields of eight, seven and ten bits, with negative values and nulls in each."""
    rng = np.random.default_rng(n_rows)

    def side(low: int) -> pa.Table:
        columns = {
            name: pa.array(rng.integers(low + start, start + span, n_rows), type_, mask=rng.random(n_rows) < 0.05)
            for name, type_, start, span in (
                ("a", pa.int16(), -100, 200), ("b", pa.uint32(), 10, 100), ("c", pa.int64(), -(10**12), 1000),
            )
        }  # fmt: skip
        return pa.table(columns)

    build, probe = side(0), side(-5)
    # Half of the probe's rows are rows of the build side.
    probe = pa.concat_tables([probe, build.slice(0, n_rows // 2)])
    rows: dict[Any, list[int]] = {}
    for number, row in enumerate(zip(*(column.to_pylist() for column in build.columns), strict=True)):
        rows.setdefault(row, []).append(number)
    keys = zip(*(column.to_pylist() for column in probe.columns), strict=True)
    expected = [(p, b) for p, row in enumerate(keys) if None not in row for b in rows.get(row, ())]
    assert ids_of_matches(build, probe, ["a", "b", "c"]) == sorted(expected)


@pytest.mark.parametrize(
    ("spans", "kind"),
    [
        ((2**64 - 1, 0), IndexKind.INDEX_CODES),
        ((2**32 - 1, 2**32 - 1), IndexKind.INDEX_CODES),
        ((2**32 - 1, 2**32), IndexKind.INDEX_WIDE_CODES),
        ((2**64 - 1, 1), IndexKind.INDEX_WIDE_CODES),
        ((1, 2**64 - 1), IndexKind.INDEX_WIDE_CODES),
        ((2**64 - 1, 2**32 - 3), IndexKind.INDEX_WIDE_CODES),
        ((2**64 - 1, 2**32 - 2), IndexKind.INDEX_HASHES),
        ((2**64 - 1, 2**32), IndexKind.INDEX_HASHES),
        ((1023, 1023), IndexKind.INDEX_RANKS),
        ((1023, 1024), IndexKind.INDEX_CODES),
    ],
)
def test_keys_share_a_code_or_are_hashed(spans: tuple[int, int], kind: IndexKind) -> None:
    build = pa.table({name: pa.array([0, span], pa.uint64()) for name, span in zip("ab", spans, strict=True)})
    assert index_and_bounds(build, ["a", "b"])[0] == kind
    probe = pa.table(
        {"a": pa.array([0, 0, spans[0]], pa.uint64()), "b": pa.array([0, spans[1], spans[1]], pa.uint64())}
    )
    expected = [(0, 0), (2, 1)] if spans[1] else [(0, 0), (1, 0), (2, 1)]
    assert ids_of_matches(build, probe, ["a", "b"]) == expected


# Values of three key columns. Their fields end at bit 40, bit 75 and bit 94; those of the second lie across bit 64.
FIELDS = (2**40 - 1, 2**35 - 1, 2**19 - 1)


def wide_rows(rng: np.random.Generator, n_rows: int, n_values: int) -> np.ndarray:
    """Rows of few values in each column, with the ends of its range: rows agree in all columns but one."""
    values = [np.append(rng.integers(0, span, n_values), [0, span]) for span in FIELDS]
    return np.stack([rng.choice(column, n_rows) for column in values], axis=1)


def as_columns(rows: np.ndarray, null: np.ndarray | None = None) -> pa.Table:
    types = (pa.int64(), pa.uint64(), pa.int32())
    columns = [pa.array(rows[:, k] - (2**39 if k == 0 else 0), type_, mask=null) for k, type_ in enumerate(types)]
    return pa.table(columns, list("abc"))


@pytest.mark.parametrize("n_rows", [1, 2048, 2049, 30_000])
def test_wide_codes(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    found = np.unique(wide_rows(rng, n_rows, 40), axis=0)
    build = rng.permutation(np.concatenate([found, [(0, 0, 0)], [FIELDS]]))
    build = build[np.sort(np.unique(build, axis=0, return_index=True)[1])]
    null = rng.random(len(build)) < 0.02
    table = as_columns(build, null if null.any() else None)
    others = build[:1000].copy()
    others[:, n_rows % 3] ^= 1
    probe = np.concatenate([build[rng.integers(0, len(build), 5000)], others])
    row_of = {tuple(row): number for number, row in enumerate(build.tolist()) if not null[number]}
    expected = [(p, row_of[tuple(row)]) for p, row in enumerate(probe.tolist()) if tuple(row) in row_of]
    if n_rows > 1:
        assert index_and_bounds(table, list("abc")) == (IndexKind.INDEX_WIDE_CODES, None)
    assert ids_of_matches(table, as_columns(probe), list("abc")) == expected


@pytest.mark.parametrize("n_keys", [1, 3000])
def test_keys_that_differ_in_their_high_bits_alone(n_keys: int) -> None:
    """Their words are mixed with the high numbers. Otherwise each key would walk over the slots of all others."""
    high = np.arange(n_keys) << 40
    table = pa.table({"a": pa.array(np.full(n_keys, 5)), "b": pa.array(high)})
    # The ends of the ranges: 40 bits of the first column, and then bits 24 and up of the second.
    ends = pa.table({"a": pa.array([0, 2**40 - 1]), "b": pa.array([0, 2**53])})
    build = pa.concat_tables([table, ends])
    assert index_and_bounds(build, ["a", "b"])[0] == IndexKind.INDEX_WIDE_CODES
    assert ids_of_matches(build, table, ["a", "b"]) == [(row, row) for row in range(n_keys)]


@pytest.mark.parametrize("kept", [(0,), (7,), (3, 4), (1, 2, 5, 6, 7), range(8)], ids=str)
def test_keys_of_one_word(kept: tuple[int, ...]) -> None:
    """Keys whose words agree differ in their high numbers. The search goes on behind a slot of another number."""
    factor = 0x9E3779B97F4A7C15
    # The first column fills the word, and the second is the high number.
    same = [(12345 ^ factor ^ (high + 1) * factor % 2**64, high) for high in range(8)]
    build = [(0, 0), *(same[high] for high in kept), (2**64 - 1, 7)]
    tables = [
        pa.table({"a": pa.array([a for a, _ in rows], pa.uint64()), "b": [b for _, b in rows]})
        for rows in (build, same)
    ]
    assert index_and_bounds(tables[0], ["a", "b"])[0] == IndexKind.INDEX_WIDE_CODES
    assert ids_of_matches(*tables, ["a", "b"]) == [(high, position + 1) for position, high in enumerate(kept)]
    only_hit = tables[1].slice(kept[-1], 1)
    assert ids_of_matches(tables[0], only_hit, ["a", "b"]) == [(0, len(kept))]


@pytest.mark.parametrize("kind", ["inner", "left_semi", "left_anti", "mark", "right", "full", "right_anti"])
@pytest.mark.parametrize("repeated_at", [None, 1, 2047, 2600])
def test_wide_codes_that_repeat(kind: str, repeated_at: int | None) -> None:
    """The table is built again with hashes, unless only the occurrence of keys counts."""
    keys = [(row << 50, row % 7) for row in range(3000)] + [(2**62, 2**20)]
    build = [*keys[:repeated_at], keys[0], *keys[repeated_at:]] if repeated_at else keys
    probe = [keys[0], (1 << 50, 2), keys[5], (2**62, 2**20)]
    sides = [
        pa.table({f"{name}0": [a for a, _ in rows], f"{name}1": [b for _, b in rows], name: range(len(rows))})
        for name, rows in (("p", probe), ("b", build))
    ]
    found = pa.Table.from_batches(hash_join(*sides, kind, ["p0", "p1"], ["b0", "b1"]))
    pairs = [(p, b) for p, key in enumerate(probe) for b, other in enumerate(build) if key == other]
    misses = [(None, b) for b in range(len(build)) if b not in {b for _, b in pairs}]
    expected: Any = {
        "inner": pairs,
        "left_semi": [0, 2, 3],
        "left_anti": [1],
        "mark": [(0, True), (1, False), (2, True), (3, True)],
        "right": pairs + misses,
        "full": [*pairs, (1, None), *misses],
        "right_anti": [b for _, b in misses],
    }[kind]
    columns = [found[name].to_pylist() for name in ("p", "b", "mark") if name in found.column_names]
    rows = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    assert sorted(rows, key=str) == sorted(expected, key=str)
