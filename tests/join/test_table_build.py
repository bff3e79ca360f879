"""The choice of the index, unique keys, groups and their order, and columns that are not kept. SPEC Q2, G8."""

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
from random_tables import SIZES

RANKS, CODES, HASHES, NONE = (
    IndexKind.INDEX_RANKS, IndexKind.INDEX_CODES, IndexKind.INDEX_HASHES, IndexKind.INDEX_NONE,
)  # fmt: skip


def index_of(keys: pa.Array) -> IndexKind:
    memory = Account()
    build = pa.table({"b": keys})
    bridge = JoinBridge("left", 1, 1, False, build.schema, build.schema)
    probe = HashProbe("probe", memory, bridge, ["b"], [("probe", "b", "x")])
    run_chain([HashBuild("build", memory, bridge, ["b"], [])], build)
    found = IndexKind(bridge.index_kind)
    run_chain([probe], [])
    return found


def groups(keys: pa.Array, wanted: pa.Array) -> list[list[Any]]:
    """The build rows that match each wanted key, in order."""
    build = pa.table({"b": keys, "row": np.arange(len(keys))})
    found: list[list[Any]] = [[] for _ in range(len(wanted))]
    for batch in hash_join(pa.table({"p": wanted, "id": np.arange(len(wanted))}), build, "inner", ["p"], ["b"]):
        for id, row in zip(batch["id"].to_pylist(), batch["row"].to_pylist(), strict=True):
            found[id].append(row)
    return found


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([0, 1_048_575], RANKS),
        ([0, 1_048_576], CODES),
        ([*range(4999), 64 * 65_536 - 1], RANKS),
        ([*range(4999), 64 * 65_536], CODES),
        ([-(2**63), 2**63 - 1], CODES),
        (["a", "b"], HASHES),
        ([None, None], NONE),
        ([], NONE),
    ],
    ids=str,
)
def test_the_index_follows_the_range(keys: list[Any], kind: IndexKind) -> None:
    """A bitmap is used up to 1,048,576 codes, and above that for at most 64 codes a slot."""
    array = pa.array(keys) if any(isinstance(key, str) for key in keys) else pa.array(keys, pa.int64())
    assert index_of(array) == kind


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("spread", [1, 1 << 33, 0], ids=["ranks", "codes", "hashes"])
@pytest.mark.parametrize("order", ["ascending", "descending", "random", "one repeats", "few keys"])
def test_groups_are_complete_and_ascend(n_rows: int, spread: int, order: str) -> None:
    rng = np.random.default_rng(n_rows)
    numbers = {
        "ascending": np.arange(n_rows),
        "descending": np.arange(n_rows)[::-1],
        "random": rng.permutation(n_rows),
        # Only the last row repeats a key.
        "one repeats": np.append(np.arange(max(n_rows - 1, 0)), 0)[:n_rows],
        "few keys": np.sort(rng.integers(0, 40, n_rows)),
    }[order]
    nulls = rng.random(n_rows) < (0.1 if order in ("random", "few keys") else 0)
    wanted = np.arange(-1, n_rows + 1)

    def keys(values: np.ndarray, mask: Any = None) -> pa.Array:
        if spread:
            return pa.array(values * spread, mask=mask)
        return pa.array([f"key {value} is a long string" for value in values.tolist()], pa.string(), mask=mask)

    expected = [np.flatnonzero((numbers == key) & ~nulls).tolist() for key in wanted]
    assert groups(keys(numbers, nulls), keys(wanted)) == expected


@pytest.mark.parametrize("kind", ["left_semi", "left_anti", "mark", "null_aware_mark"])
@pytest.mark.parametrize("type_", [pa.int16(), pa.int64(), pa.string()], ids=str)
def test_kinds_without_build_rows_in_the_output(kind: str, type_: pa.DataType) -> None:
    """The tables of these kinds have no groups. Half of the build keys repeat."""
    factor = 1 if type_ == pa.int16() else 2**40
    build = pa.array([number * factor for number in [*range(0, 3000, 2), *range(0, 1500, 2)]])
    probe = pa.array([number * factor for number in range(3000)])
    sides = [pa.table({"p": probe.cast(type_)}), pa.table({"b": build.cast(type_)})]
    batches = hash_join(*sides, kind, ["p"], ["b"])
    if kind in ("left_semi", "left_anti"):
        found = [int(key) // factor for batch in batches for key in batch["p"].to_pylist()]
        assert found == list(range(kind == "left_anti", 3000, 2))
    else:
        assert [mark for batch in batches for mark in batch["mark"].to_pylist()] == [True, False] * 1500


@pytest.mark.parametrize("n_rows", [0, 1, 2049])
def test_columns_of_every_layout_are_kept(n_rows: int) -> None:
    """Nested columns are read from the batches, others from the store. Rows of the drivers follow each other."""
    columns = {
        "b": pa.array(range(n_rows), pa.int32()),
        "lists": pa.array([[row, None] for row in range(n_rows)], pa.list_(pa.int64())),
        "text": pa.array([f"row {row} has a long text" for row in range(n_rows)], pa.string()),
        "parts": pa.array([{"x": row} for row in range(n_rows)], pa.struct([("x", pa.int64())])),
    }
    build = pa.table(columns)
    for drivers in (1, 2):
        batches = hash_join(build.select(["b"]).rename_columns(["p"]), build, "left", ["p"], ["b"], drivers, 500)
        rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["p"])
        assert [{name: row[name] for name in columns} for row in rows] == build.to_pylist()
