"""The rows that each kind of join returns, for small inputs whose results are written out. SPEC Q2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from joins import BUILD_ONLY, KINDS, MARKS, PROBE_ONLY, hash_join

from qcore.errors import PlanError
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.kind import JoinKind

# Matching keys, keys of one side only, and nulls.
PROBE: list[int | None] = [1, 1, 2, 3, None]
BUILD: list[int | None] = [1, 3, 3, 4, None]
NO_NULLS: list[int | None] = [1, 3, 3, 4]
INNER = [(1, 1), (1, 1), (3, 3), (3, 3)]
EXPECTED: dict[str, list[Any]] = {
    "inner": INNER,
    "left": [*INNER, (2, None), (None, None)],
    "right": [*INNER, (None, 4), (None, None)],
    "full": [*INNER, (2, None), (None, None), (None, 4), (None, None)],
    "left_semi": [(1,), (1,), (3,)],
    "left_anti": [(2,), (None,)],
    "right_semi": [(1,), (3,), (3,)],
    "right_anti": [(4,), (None,)],
    "null_aware_anti": [],
    "mark": [(1, True), (1, True), (2, False), (3, True), (None, False)],
    "null_aware_mark": [(1, True), (1, True), (2, None), (3, True), (None, None)],
}
# If the build side has no nulls, NOT IN and IN are null less often.
KNOWN = {
    "null_aware_anti": [(2,)],
    "null_aware_mark": [(1, True), (1, True), (2, False), (3, True), (None, None)],
}


def join(kind: str, probe: list[int | None], build: list[int | None]) -> list[tuple[Any, ...]]:
    sides = [pa.table({name: pa.array(keys, pa.int64())}) for name, keys in (("p", probe), ("b", build))]
    return [tuple(row.values()) for batch in hash_join(*sides, kind, ["p"], ["b"]) for row in batch.to_pylist()]


def sort_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_kind(kind: str) -> None:
    assert sort_rows(join(kind, PROBE, BUILD)) == sort_rows(EXPECTED[kind])


@pytest.mark.parametrize("kind", KNOWN)
def test_null_aware_kinds_over_a_build_side_without_nulls(kind: str) -> None:
    assert sort_rows(join(kind, PROBE, NO_NULLS)) == sort_rows(KNOWN[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_build_side(kind: str) -> None:
    rows = [(key,) for key in PROBE]
    if kind in MARKS:
        expected = [(key, False) for key in PROBE]
    elif kind in ("left", "full"):
        expected = [(key, None) for key in PROBE]
    else:
        expected = rows if kind in ("left_anti", "null_aware_anti") else []
    assert sort_rows(join(kind, PROBE, [])) == sort_rows(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_probe_side(kind: str) -> None:
    expected: list[Any] = []
    if kind in ("right", "full"):
        expected = [(None, key) for key in BUILD]
    elif kind == "right_anti":
        expected = [(key,) for key in BUILD]
    assert sort_rows(join(kind, [], BUILD)) == sort_rows(expected)


def test_names_and_numbers() -> None:
    assert {kind: JoinBridge(kind, 1, 1).kind for kind in KINDS} == {
        kind: JoinKind[f"JOIN_{kind.upper()}"].value for kind in KINDS
    }
    assert {*PROBE_ONLY, *BUILD_ONLY, *MARKS} < set(KINDS)
    with pytest.raises(PlanError, match="unknown kind of join 'outer'; use one of inner, left, right, full, left_semi"):
        JoinBridge("outer", 1, 1)
