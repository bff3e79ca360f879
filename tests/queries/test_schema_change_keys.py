"""Keys whose type widens in mid-stream: equal values of old and new types match, and no others do (SPEC D6).

Both sides of joins change, each driver at another batch, and wide batches have values outside of the narrow type. The
oracle is DuckDB over the same rows cast to the widest type.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from widening_source import KEYS, Widening, ask, rows_of, run

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder
from qcore.plan import nodes as p
from sweeps import every

JOINS = {
    "inner": "select * from t join o on k = ok",
    "left": "select * from t left join o on k = ok",
    "right": "select * from t right join o on k = ok",
    "full": "select * from t full join o on k = ok",
    "left_semi": "select * from t where exists (select 1 from o where ok = k)",
    "left_anti": "select * from t where not exists (select 1 from o where ok = k)",
    "null_aware_anti": "select * from t where k not in (select ok from o)",
}
DRIVERS = (1, 2, 8)


@pytest.mark.each_value
@pytest.mark.parametrize("how", JOINS)
@pytest.mark.parametrize("name", every(4, KEYS))
def test_keys_of_both_sides_of_a_join_widen(name: str, how: str) -> None:
    """The probe is wider than the table, the table wider than the probe, or both.

    Drivers change at different batches.
    """
    for seed in range(6):
        drivers = DRIVERS[seed % 3]
        # One side may end with a narrower type, or never change.
        n = len(KEYS[name])
        left = Widening(name, drivers, 2 * seed, types=n if seed % 2 else max(1, seed % 4))
        right = Widening(name, drivers, 2 * seed + 1, "o", types=n if seed % 3 else 1)
        plan = rows_of(left).hash_join(rows_of(right), left_on=["k"], right_on=["ok"], how=how)
        expected = ask(JOINS[how], t=left.up_front(), o=right.up_front())
        assert_same_rows(run(plan, drivers, expected), expected)


def test_bounds_of_keys_that_widened_leave_out_no_row_group(tmp_path: Path) -> None:
    """Bounds of decimals are stored as other numbers than those of the integers in the probe's file."""
    path = tmp_path / "probe.parquet"
    pq.write_table(pa.table({"n": pa.array(range(100), pa.int32())}), path, row_group_size=10)
    wide = pa.record_batch({"k": pa.array([Decimal("5.00"), Decimal("93.00")], pa.decimal128(12, 2)), "i": [1, 2]})
    for first in ([], [wide]):
        source = Widening("integer to decimal", 1, 0, types=1)
        source.batches = [[*first, wide]]
        plan = PlanBuilder().scan("probe", source=str(path)).hash_join(rows_of(source), left_on=["n"], right_on=["k"])
        result = pa.concat_tables(map(pa.Table.from_batches, ([b] for b in qcore.Task(plan.build()).batches(60))))
        assert sorted(result["n"].to_pylist()) == sorted([5, 93] * (len(first) + 1))


@pytest.mark.parametrize("name", every(3, KEYS))
def test_equal_keys_meet_behind_an_exchange_by_hash(name: str) -> None:
    """Each driver counts the rows of its keys. The counts are right only if equal keys come to one driver."""
    for seed in range(12):
        source = Widening(name, DRIVERS[seed % 3], 100 + seed)
        child = rows_of(source).build()
        schema = child.schema.append(pa.field("n", pa.int64()))
        calls = (p.WindowCall("n", "row_number", None, 1, p.WindowFrame("rows", None, 0)),)
        plan = p.Window("window", schema, child, ("k",), (p.SortKey("i"),), calls)
        expected = ask("select k, i, g, row_number() over (partition by k order by i) n from t", t=source.up_front())
        assert_same_rows(run(plan, 8, expected), expected)


@pytest.mark.parametrize("name", every(3, KEYS))
def test_equal_keys_come_to_one_partition_of_the_output(name: str) -> None:
    """PartitionedOutput: the pages of a consumer have all rows of their keys."""
    for seed in range(6):
        source = Widening(name, DRIVERS[seed % 3], 200 + seed)
        task = qcore.Task(rows_of(source).partitioned_output("k", 5).build(), drivers=DRIVERS[seed % 3])
        task.start()
        buffers = task.output_buffers()
        seen: dict[Any, int] = {}
        n_rows = 0
        for partition in range(5):
            for page in pages_of(buffers, partition):
                n_rows += page.num_rows
                for key in page.column(0).to_pylist():
                    assert seen.setdefault(normal(key), partition) == partition, f"{key!r} is in two partitions"
        task.wait(timeout=60)
        assert n_rows == source.up_front().num_rows


def test_pages_of_several_types_are_one_stream() -> None:
    """D6: pages are sent in the widest type, also those that were narrower."""
    source = Widening("integer to decimal", 1, 0)
    source.batches = [[source.batch(*kind, random.Random(3)) for kind in KEYS["integer to decimal"]]]
    task = qcore.Task(rows_of(source).partitioned_output("g", 1).build(), drivers=1)
    task.start()
    task.wait(timeout=60)
    buffers = task.output_buffers()
    pages = buffers.fetch(0, 0, timeout=60)
    assert len({batch.schema.field("k").type for batch in pages.batches}) > 1
    rows = pa.ipc.open_stream(pages.to_ipc()).read_all()
    assert rows.schema.field("k").type == pa.decimal128(24, 4)
    assert_same_rows(rows, source.up_front().slice(0, rows.num_rows))
    buffers.acknowledge(0, pages.next_sequence)


def pages_of(buffers: qcore.OutputBuffers, partition: int) -> Iterator[pa.RecordBatch]:
    """All pages of a partition."""
    sequence, complete = 0, False
    while not complete:
        pages = buffers.fetch(partition, sequence, timeout=60)
        yield from map(pa.record_batch, pages.batches)
        sequence, complete = pages.next_sequence, pages.complete
        buffers.acknowledge(partition, sequence)


def normal(key: Any) -> Any:
    """One Python value for equal keys of different types."""
    if isinstance(key, float) and key != key:
        return "NaN"
    if isinstance(key, datetime.date) and not isinstance(key, datetime.datetime):
        return datetime.datetime(key.year, key.month, key.day)
    return key
