"""Join drivers that stop early, fail or never start do not hang, leak or return wrong rows.

SPEC V7, V8, V15, D8, D9.
"""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from joins import hash_join, output_of, run_together

from qcore.errors import MemoryLimitError, PlanError, SchemaChangeError
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_ext.join.table import IndexKind
from qcore_testing.operators import run_chain

PROBE = pa.table({"p": pa.array(range(10_000), pa.int64())})
BUILD = pa.table(
    {"b": pa.array(range(0, 20_000, 2), pa.int64()), "v": pa.array([f"text number {i}" for i in range(10_000)])}
)


def parts(kind, memory, drivers=1, build=BUILD, probe=PROBE, keys=("p", "b")):
    """A bridge, its HashBuild operators and its HashProbe operators."""
    bridge = JoinBridge(kind, drivers, drivers, False, build.schema, probe.schema)
    sinks = [HashBuild("build", memory, bridge, [keys[1]], build.column_names) for _ in range(drivers)]
    output = output_of(kind, probe.column_names, build.column_names)
    probes = [HashProbe("probe", memory, bridge, [keys[0]], output) for _ in range(drivers)]
    return bridge, sinks, probes


@pytest.mark.parametrize("drivers", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
def test_limit_above_an_outer_join_does_not_hang(kind, drivers):
    """V8: the driver whose limit is full leaves the barrier, so that the other drivers pass it."""
    state = LimitState(7)
    batches = hash_join(
        PROBE, BUILD, kind, ["p"], ["b"], drivers, 500, after=lambda memory: [Limit("limit", memory, state)]
    )
    assert sum(len(batch) for batch in batches) == 7


def test_probe_waits_for_the_last_build_driver():
    """V15: the probe is blocked until the table is published, and then resumes."""
    memory = Account()
    bridge = JoinBridge("inner", 2, 1, False, BUILD.schema, PROBE.schema)
    sinks = [HashBuild("build", memory, bridge, ["b"], ["v"]) for _ in range(2)]
    probe = HashProbe("probe", memory, bridge, ["p"], [("build", "v", "v")])
    done = threading.Event()
    given = []

    def run_probe():
        given.extend(run_chain([probe], PROBE))
        done.set()

    thread = threading.Thread(target=run_probe)
    thread.start()
    run_chain([sinks[0]], BUILD.slice(0, 4000))
    time.sleep(0.05)
    assert not done.is_set()
    assert bridge.key_bounds() is None
    run_chain([sinks[1]], BUILD.slice(4000))
    thread.join(30)
    assert done.is_set()
    assert sum(len(batch) for batch in given) == 5000
    stats = probe.stats_snapshot()
    assert stats["blocked_times"]["join_build"] >= 1


def test_failed_build_driver_releases_the_probe():
    """D9: if a build driver fails, the probe drivers end and do not wait forever."""
    memory = Account()
    _, (first, second), (one, two) = parts("left", memory, 2)
    wrong = pa.table({"b": pa.array(["x"]), "v": pa.array(["y"])})

    def build_wrong():
        with pytest.raises(SchemaChangeError, match="'b' changed from int64 to string"):
            run_chain([second], wrong)
        return []

    batches = run_together(
        [
            lambda: run_chain([one], PROBE),
            lambda: run_chain([two], PROBE),
            lambda: run_chain([first], BUILD),
            build_wrong,
        ]
    )
    assert batches == []


def test_build_drivers_of_different_schemas():
    """D6, G8: the table has the widest types of all drivers, and rows of all drivers match."""
    narrow = pa.table({"b": pa.array(range(3000)), "v": pa.array(range(3000), pa.int16())})
    wide = pa.table({"v": pa.array([2**40 + i for i in range(3000)]), "b": pa.array(range(3000))})
    for first, second in ((narrow, wide), (wide, narrow)):
        memory = Account()
        bridge = JoinBridge("inner", 2, 1, False, None, PROBE.schema)
        for rows in (first, second):
            run_chain([HashBuild("build", memory, bridge, ["b"], ["v"])], rows)
        probe = HashProbe("probe", memory, bridge, ["p"], [("probe", "p", "p"), ("build", "v", "v")])
        got = pa.Table.from_batches(run_chain([probe], pa.table({"p": [7, 2999, 3000]})))
        assert got.schema.field("v").type == pa.int64()
        assert sorted(got["v"].to_pylist()) == [7, 2999, 2**40 + 7, 2**40 + 2999]


def test_build_stops_when_every_probe_has_left():
    """V8: when all probe drivers have closed, the build driver ends without a table."""
    memory = Account()
    bridge, (sink,), (probe,) = parts("inner", memory)
    run_chain([probe, Limit("limit", memory, LimitState(0))], PROBE)
    assert run_chain([sink], BUILD) == []
    assert sink.stats_snapshot()["input_rows"] == 0
    assert bridge.index_kind is None


@pytest.mark.parametrize("kind", ["inner", "left_semi", "right", "right_semi", "right_anti"])
def test_empty_build_side_ends_the_probe_at_once(kind):
    """V8: the probe reads no row."""
    memory = Account()
    _, (sink,), (probe,) = parts(kind, memory)
    run_chain([sink], BUILD.slice(0, 0))
    assert run_chain([probe], PROBE) == []
    assert probe.stats_snapshot()["input_rows"] == 0


@pytest.mark.parametrize("kind", ["left", "full", "left_anti"])
def test_no_build_batch_at_all(kind):
    """The types of the build columns are those of the declared schema."""
    memory = Account()
    _, (sink,), (probe,) = parts(kind, memory)
    run_chain([sink], [])
    assert sum(len(batch) for batch in run_chain([probe], PROBE)) == 10_000


@pytest.mark.parametrize("kind", ["right", "full", "right_anti"])
def test_no_probe_batch_at_all(kind):
    """The types of the probe columns are those of the declared schema."""
    memory = Account()
    _, (sink,), (probe,) = parts(kind, memory)
    run_chain([sink], BUILD)
    assert sum(len(batch) for batch in run_chain([probe], [])) == 10_000


def test_unknown_side_is_an_error_not_a_guess():
    memory = Account()
    bridge = JoinBridge("full", 1, 1)
    sink = HashBuild("build", memory, bridge, ["b"], ["v"])
    probe = HashProbe("probe", memory, bridge, ["p"], [("probe", "p", "p"), ("build", "v", "v")])
    run_chain([sink], BUILD)
    with pytest.raises(PlanError, match="declare the bridge's probe_schema"):
        run_chain([probe], [])


def test_key_types_must_agree():
    memory = Account()
    bridge = JoinBridge("inner", 1, 1)
    sink = HashBuild("build", memory, bridge, ["b"], ["v"])
    probe = HashProbe("probe", memory, bridge, ["p"], [("build", "v", "v")])
    run_chain([sink], BUILD)
    with pytest.raises(PlanError, match="cast one of them"):
        run_chain([probe], pa.table({"p": pa.array([1], pa.int32())}))


@pytest.mark.parametrize("limit", [200_000, 400_000, 700_000])
def test_build_out_of_memory_leaves_nothing(limit):
    """D9: the build raises the error, the probe ends, and all bytes are released."""
    memory = Account(None, limit)
    _, (sink,), (probe,) = parts("inner", memory)

    def build():
        with pytest.raises(MemoryLimitError):
            run_chain([sink], BUILD)
        return []

    assert run_together([lambda: run_chain([probe], PROBE), build]) == []


def test_results_outlive_the_join():
    """Output batches keep the columns and string heaps of the table alive."""
    memory = Account()
    _, (sink,), (probe,) = parts("inner", memory)
    run_chain([sink], BUILD)
    batches = run_chain([probe], PROBE)
    del sink, probe
    assert pa.Table.from_batches(batches)["v"][4999].as_py() == "text number 4999"


@pytest.mark.parametrize(
    ("keys", "kind", "bounds"),
    [
        (pa.array([5, 900, 17], pa.int32()), IndexKind.INDEX_RANKS, [(5, 900)]),
        (pa.array([-(2**62), 2**62, 17], pa.int64()), IndexKind.INDEX_CODES, [(-(2**62), 2**62)]),
        (pa.array([2**64 - 1, 0], pa.uint64()), IndexKind.INDEX_CODES, [(0, 2**64 - 1)]),
        (pa.array(["a", "b"]), IndexKind.INDEX_HASHES, None),
        (pa.array([1.5, 2.5]), IndexKind.INDEX_CODES, None),
        (pa.array([None, None], pa.int32()), IndexKind.INDEX_NONE, None),
    ],
)
def test_index_and_bounds_follow_the_keys(keys, kind, bounds):
    memory = Account()
    build = pa.table({"b": keys, "v": keys})
    bridge, (sink,), (probe,) = parts("left", memory, 1, build, pa.table({"p": keys}))
    run_chain([sink], build)
    assert bridge.index_kind == kind
    assert bridge.key_bounds() == bounds
    run_chain([probe], [])
    assert bridge.key_bounds() is None
