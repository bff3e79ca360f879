"""The columns that a join returns: their selection, order and names, and nulls for a side without a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import PlanError
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain

PROBE = pa.table({"k": [1, 2, 3, None], "x": ["one", "two", "three, which is long", None]})
BUILD = pa.table({"k": [3, 1, 5], "y": [30.5, 10.5, None], "z": ["c", "a", "e"]})


def join(kind: str, output: list[tuple[str, str, str]], probe: Any = PROBE, build: pa.Table = BUILD) -> pa.Table:
    """Join `probe`, a table or a queue of batches with selections, with `build`."""
    memory = Account()
    bridge = JoinBridge(kind, 1, 1, False, build.schema, PROBE.schema)
    chain: list[Any] = [HashProbe("probe", memory, bridge, ["k"], output)]
    run_chain([HashBuild("build", memory, bridge, ["k"], ["z", "y"])], build)
    if isinstance(probe, BatchQueue):
        chain.insert(0, LocalExchange("source", memory, probe, Schema(PROBE.schema)))
        batches = run_chain(chain)
    else:
        batches = run_chain(chain, probe)
    return pa.Table.from_batches(batches)


def test_any_columns_in_any_order_under_any_names() -> None:
    output = [("build", "z", "b"), ("probe", "x", "a"), ("build", "k", "k2"), ("probe", "k", "k1"), ("build", "z", "c")]
    got = join("inner", output)
    assert got.column_names == ["b", "a", "k2", "k1", "c"]
    assert got.to_pylist() == [
        {"b": "a", "a": "one", "k2": 1, "k1": 1, "c": "a"},
        {"b": "c", "a": "three, which is long", "k2": 3, "k1": 3, "c": "c"},
    ]


@pytest.mark.parametrize("side", ["probe", "build"])
def test_columns_of_one_side_only(side: str) -> None:
    name, values = {"probe": ("x", ["one", "three, which is long"]), "build": ("y", [10.5, 30.5])}[side]
    assert join("inner", [(side, name, "v")])["v"].to_pylist() == values


def test_missing_rows_are_null() -> None:
    output = [("probe", "x", "x"), ("build", "y", "y"), ("build", "z", "z")]
    left = [("one", 10.5, "a"), ("two", None, None), ("three, which is long", 30.5, "c"), (None, None, None)]
    assert [tuple(row.values()) for row in join("left", output).to_pylist()] == left
    assert [tuple(row.values()) for row in join("full", output).to_pylist()] == [*left, (None, None, "e")]
    nothing = [(x, None, None) for x in PROBE["x"].to_pylist()]
    assert [tuple(row.values()) for row in join("left", output, build=BUILD.slice(0, 0)).to_pylist()] == nothing
    assert [tuple(row.values()) for row in join("right", output).to_pylist()] == [left[0], left[2], (None, None, "e")]


@pytest.mark.parametrize("kind", ["inner", "left", "left_semi", "left_anti", "mark"])
def test_selected_probe_rows(kind: str) -> None:
    """Pairs hold row numbers of the whole batch. Only selected rows are returned."""
    n_rows = 5000
    probe = pa.table({"k": [row % 7 for row in range(n_rows)], "x": [f"row {row}, long text" for row in range(n_rows)]})
    memory = Account()
    queues = [BatchQueue(1) for _ in range(3)]
    run_chain([LocalPartition("1", memory, queues, "hash", ["x"])], probe)
    output = [("probe", "x", "x")]
    if kind in ("inner", "left"):
        output.append(("build", "z", "z"))
    elif kind == "mark":
        output.append(("mark", "mark", "m"))
    z_of = dict(zip(BUILD["k"].to_pylist(), BUILD["z"].to_pylist(), strict=True))
    got = [tuple(row.values()) for queue in queues for row in join(kind, output, queue).to_pylist()]
    expected = []
    for k, x in zip(probe["k"].to_pylist(), probe["x"].to_pylist(), strict=True):
        if kind == "mark":
            expected.append((x, k in z_of))
        elif kind == "left" or (kind == "left_anti") == (k not in z_of):
            expected.append((x, z_of.get(k)) if kind in ("inner", "left") else (x,))
    assert sorted(got) == sorted(expected, key=lambda row: row[0]) if kind != "left" else set(got) == set(expected)
    assert len(got) == len(expected)


def test_wrong_columns_are_named() -> None:
    for column, message in (
        (("other", "x", "v"), "column 'v' has side 'other'; use 'probe', 'build' or 'mark'"),
        (("probe", "nothing", "v"), "the probe side of a join has no column 'nothing'; it has k, x"),
        (("build", "nothing", "v"), "the build side of a join has no column 'nothing'; it has k, z, y"),
    ):
        with pytest.raises(PlanError, match=message):
            join("inner", [column])
