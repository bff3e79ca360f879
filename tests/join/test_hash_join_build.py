"""The rows and columns that HashBuild keeps. A probe reads its table. SPEC V15, G8, D6."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import PlanError, SchemaChangeError
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, plain, random_table

NO_PROBE = pa.schema([("p0", pa.int64()), ("p1", pa.string())])


def rows_kept(
    kind: str, keys: list[str], payload: list[str], batches: Any, schema: pa.Schema | None, n_keys: int = 1
) -> pa.Table:
    """The rows of the table. There are no probe rows, so an outer join returns all build rows."""
    memory = Account()
    bridge = JoinBridge(kind, 1, 1, False, schema, NO_PROBE)
    names = list(dict.fromkeys([*keys, *payload]))
    probe_keys = [f"p{key}" for key in range(n_keys)]
    probe = HashProbe("probe", memory, bridge, probe_keys, [("build", name, name) for name in names])
    run_chain([HashBuild("build", memory, bridge, keys, payload)], batches)
    return pa.Table.from_batches(run_chain([probe], []))


@pytest.mark.parametrize("n_rows", SIZES[1:])
@pytest.mark.parametrize("kind", ["right", "full", "right_anti"])
def test_every_row_and_the_columns_asked_for(kind: str, n_rows: int) -> None:
    """Rows with null keys are kept. Keys come first, and each column is kept once."""
    table = random_table(1, n_rows, {"a": pa.string(), "k": pa.int64(), "b": pa.float64(), "unused": pa.int8()}, 0.2)
    got = rows_kept(kind, ["k"], ["b", "k", "a"], table.to_batches(max_chunksize=700), table.schema)
    assert got.column_names == ["k", "b", "a"]
    assert_same_rows(got, table.select(["k", "b", "a"]), ordered=True)


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_columns_of_every_type(type_: pa.DataType) -> None:
    values = random_table(2, 3000, [type_], 0.0 if pa.types.is_nested(type_) else 0.2).column(0)
    table = pa.table({"k": pa.array(range(3000), pa.int64()), "v": values})
    got = rows_kept("right", ["k"], ["v"], table.to_batches(max_chunksize=999), table.schema)
    assert_same_rows(got.cast(plain(table).schema), plain(table), ordered=True)


@pytest.mark.parametrize("selected", [False, True])
@pytest.mark.parametrize("layout", ["plain", "dictionary", "null"])
def test_rows_that_cannot_match_are_dropped(layout: str, selected: bool) -> None:
    """An inner join keeps no row with a null key. Its peak of reserved bytes shows it."""
    n_rows = 200_000
    ids = pa.array(range(n_rows), pa.int64())
    keys = pa.array([None if row % 100 else row for row in range(n_rows)], pa.int64())
    if layout == "dictionary":
        keys = keys.dictionary_encode()
    elif layout == "null":
        keys = pa.nulls(n_rows)
    table = pa.table({"k": keys, "v": ids})
    memory = Account()
    peaks = {}
    for kind in ("inner", "right"):
        bridge = JoinBridge(kind, 1, 1, False, table.schema, pa.schema([("p0", table.schema.field("k").type)]))
        sink = HashBuild("build", memory, bridge, ["k"], ["v"])
        probe = HashProbe("probe", memory, bridge, ["p0"], [("build", "v", "v")])
        if selected:
            queues = [BatchQueue(1), BatchQueue(1)]
            run_chain([LocalPartition("1", memory, queues, "hash", ["v"])], table)
            run_chain([LocalExchange("1", memory, queues[0], Schema(table.schema)), sink])
            for queue in queues[1:]:
                run_chain([LocalExchange("1", memory, queue, Schema(table.schema))])
        else:
            run_chain([sink], table)
        peaks[kind] = sink.stats_snapshot()["peak_bytes"]
        batches = run_chain([probe], pa.table({"p0": keys.slice(0, 1001)}))
        found = [value for batch in batches for value in batch["v"].to_pylist()]
        if kind == "inner":
            wanted = [] if layout == "null" else list(range(0, 1001, 100))
            assert found == wanted if not selected else set(found) <= set(wanted)
    assert peaks["inner"] < peaks["right"] / 3


def test_several_keys_one_of_them_null() -> None:
    table = pa.table({"a": [1, 1, None, None, 2], "b": ["x", None, "x", None, "y"], "v": range(5)})
    memory = Account()
    bridge = JoinBridge("inner", 1, 1, False, table.schema, NO_PROBE)
    probe = HashProbe("probe", memory, bridge, ["p0", "p1"], [("build", "v", "v")])
    run_chain([HashBuild("build", memory, bridge, ["a", "b"], ["v"])], table)
    rows = pa.table({"p0": [2, 1, None, 1, 2], "p1": ["y", "x", "x", None, "x"]})
    assert pa.Table.from_batches(run_chain([probe], rows))["v"].to_pylist() == [4, 0]
    assert rows_kept("right", ["a", "b"], ["v"], table, table.schema, 2)["v"].to_pylist() == list(range(5))


def test_types_may_widen_between_batches() -> None:
    """D6: kept rows are widened, and columns are found by name."""
    first = pa.record_batch({"k": [1, 2], "v": pa.array([10, None], pa.int16())})
    second = pa.record_batch({"v": pa.array([2**40], pa.int64()), "w": ["?"], "k": [3]})
    got = rows_kept("right", ["k"], ["v"], [first, second], first.schema)
    assert got.to_pydict() == {"k": [1, 2, 3], "v": [10, None, 2**40]}
    with pytest.raises(SchemaChangeError, match="'v' changed from int16 to string"):
        rows_kept("right", ["k"], ["v"], [first, pa.record_batch({"k": [1], "v": ["x"]})], first.schema)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(PlanError, match="the build side of join build has no column 'v'; it has k, w"):
        rows_kept("right", ["k"], ["v"], pa.table({"k": [1], "w": [2]}), None)
