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
        ((2**32 - 1, 2**32), IndexKind.INDEX_HASHES),
        ((2**64 - 1, 1), IndexKind.INDEX_HASHES),
        ((1023, 1023), IndexKind.INDEX_RANKS),
        ((1023, 1024), IndexKind.INDEX_CODES),
    ],
)
def test_keys_share_64_bits_or_are_hashed(spans: tuple[int, int], kind: IndexKind) -> None:
    build = pa.table({name: pa.array([0, span], pa.uint64()) for name, span in zip("ab", spans, strict=True)})
    assert index_and_bounds(build, ["a", "b"])[0] == kind
    probe = pa.table(
        {"a": pa.array([0, 0, spans[0]], pa.uint64()), "b": pa.array([0, spans[1], spans[1]], pa.uint64())}
    )
    expected = [(0, 0), (2, 1)] if spans[1] else [(0, 0), (1, 0), (2, 1)]
    assert ids_of_matches(build, probe, ["a", "b"]) == expected
