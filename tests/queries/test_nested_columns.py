"""Lists, structs and maps travel through every operator (SPEC Q3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
import qcore.plan.nodes as p
from oracle import assert_same_rows
from qcore import PlanBuilder, col
from qcore.connectors.base import TableStatistics
from qcore.connectors.streams import TableStream
from random_tables import NESTED_TYPES, random_table

DEEP = pa.list_(pa.struct([("a", pa.list_(pa.int32())), ("b", pa.map_(pa.string(), pa.decimal128(10, 2)))]))
TYPES = (*NESTED_TYPES, pa.large_list(pa.string()), pa.list_(pa.float64(), 2), pa.list_view(pa.int64()), DEEP)
ROWS = 700
IDS = pa.array([i * 37 % ROWS for i in range(ROWS)], pa.int64())
OTHER = pa.table({"id": range(0, 2 * ROWS, 2), "y": [f"y{i}" for i in range(ROWS)]})


def values(type_: pa.DataType) -> pa.Array:
    if type_ == DEEP:
        parts = [None, [], [{"a": [1, None], "b": [("k", None)]}, None], [{"a": None, "b": [("x", 1), ("y", 2)]}]]
        return pa.array([parts[i % 4] for i in range(ROWS)], type_)
    if type_ not in NESTED_TYPES:
        made = random_table(5, ROWS, [pa.list_(pa.int32())]).column(0).combine_chunks().to_pylist()
        if pa.types.is_fixed_size_list(type_):
            return pa.array([None if part is None else [0.5, None] for part in made], type_)
        texts = [None if part is None else list(map(str, part)) for part in made]
        return pa.array(texts if pa.types.is_large_list(type_) else made, type_)
    return random_table(5, ROWS, [type_]).column(0).combine_chunks()


def base(table: pa.Table) -> PlanBuilder:
    return PlanBuilder().values(table)


def other() -> PlanBuilder:
    return PlanBuilder().values(OTHER)


def keep_ids(table: pa.Table, ids: Any) -> pa.Table:
    """The rows with these ids in the given order. None stands for a row of nulls."""
    places = {id: row for row, id in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([places.get(id) for id in ids], pa.int64()))


def single(builder: PlanBuilder) -> PlanBuilder:
    child = builder.build()
    return builder._append(p.EnforceSingleRow("one", child.schema, child))


class Passing(qcore.StatelessOperator):
    """An operator that returns its input."""

    def execute(self, cx: Any, batch: Any) -> Any:
        return batch


EVEN = [id for id in range(ROWS) if id % 2 == 0]
ODD = [id for id in range(ROWS) if id % 2]
ALL = list(range(ROWS))
Plan = Callable[[pa.Table], PlanBuilder]
# For each operator: the plan, which returns the columns id and v, and the ids of its rows.
OPERATORS: dict[str, tuple[Plan, list[int | None]]] = {
    "filter": (lambda t: base(t).filter(col("id") < 100), list(range(100))),
    "project": (
        lambda t: base(t).project({"w": "v", "n": col("id") * 2, "id": "id"}).project({"id": "id", "v": "w"}),
        ALL,
    ),
    "window": (lambda t: base(t).window({"r": ("row_number",)}, order_by="id").project(["id", "v"]), ALL),
    "limit": (lambda t: base(t).limit(10, 5), IDS.to_pylist()[5:15]),
    "order_by": (lambda t: base(t).order_by("id"), ALL),
    "top_n": (lambda t: base(t).top_n("id desc", 7), ALL[-7:]),
    "union_all": (lambda t: base(t).union_all(base(t)), ALL + ALL),
    "gather": (lambda t: base(t).local_partition(kind="gather"), ALL),
    "round_robin": (lambda t: base(t).local_partition(), ALL),
    "hash": (lambda t: base(t).local_partition(["id"]), ALL),
    "probe": (lambda t: base(t).hash_join(other(), "id", suffix="_2"), EVEN),
    "build": (lambda t: other().hash_join(base(t), "id", suffix="_2").project({"id": "id", "v": "v"}), EVEN),
    "left": (lambda t: base(t).hash_join(other(), "id", how="left", suffix="_2"), ALL),
    "right": (
        lambda t: other().project({"o": "id"}).hash_join(base(t), "o", "id", how="right").project(["id", "v"]), ALL,
    ),
    "nulls of a left join": (
        lambda t: other().project({"o": "id"}).hash_join(base(t), "o", "id", how="left").project(["id", "v"]),
        [*EVEN, *[None] * (ROWS // 2)],
    ),
    "full": (
        lambda t: base(t).hash_join(other().project({"o": "id"}), "id", "o", how="full"),
        [*ALL, *[None] * (ROWS // 2)],
    ),
    "semi": (lambda t: base(t).hash_join(other(), "id", how="semi"), EVEN),
    "right_semi": (lambda t: other().project({"o": "id"}).hash_join(base(t), "o", "id", how="right_semi"), EVEN),
    "anti": (lambda t: base(t).hash_join(other(), "id", how="anti"), ODD),
    "mark": (lambda t: base(t).hash_join(other(), "id", how="mark"), ALL),
    "nested loop": (
        lambda t: base(t).nested_loop_join(other().project({"o": "id"}).limit(3), col("id") == col("o")), [0, 2, 4],
    ),
    "single row": (lambda t: single(base(t).filter(col("id") == 7)), [7]),
    "single row of none": (lambda t: single(base(t).filter(col("id") < 0)), [None]),
    "user operator": (lambda t: base(t).operator(Passing()), ALL),
    "unnest": (lambda t: base(t.append_column("l", pa.array([[1, 2]] * ROWS))).unnest("l"), sorted(ALL + ALL)),
}  # fmt: skip


@pytest.mark.each_value
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, type_: pa.DataType) -> None:
    """Q3."""
    table = pa.table({"id": IDS, "v": values(type_)})
    plan, ids = OPERATORS[name]
    for threads in (1, 3):
        found = qcore.Session(threads=threads, batch_rows=256).execute(plan(table).build()).to_arrow()
        assert_same_rows(found.select(["id", "v"]), keep_ids(table, ids))
        assert found.schema.field("v").type == type_


def test_list_views_in_any_order(tmp_path: Path) -> None:
    """Views of elements that overlap or are out of order, computed and written.

    A cast by pyarrow would assume that they are consecutive.
    """
    offsets, lengths = pa.array([3, 0, 2, 1, 0], pa.int32()), pa.array([1, 2, 0, 3, 4], pa.int32())
    views = pa.ListViewArray.from_arrays(offsets, lengths, pa.array([1, 2, 3, 4]))
    views = pa.ListViewArray.from_arrays(
        offsets, lengths, views.values, mask=pa.array([False, False, False, False, True])
    )
    session = qcore.Session(threads=1)
    plain = [[4], [1, 2], [], [2, 3, 4], None]
    for table in (pa.table({"x": views}), pa.table({"x": pa.array(plain, pa.list_view(pa.int64()))})):
        session.register("t", table)
        found = session.sql("select x, list_contains(x, 4) c, x[1] e, list_sum(x) s, x::varchar t from t").to_arrow()
        assert found.to_pydict() == {
            "x": plain, "c": [True, False, False, True, None], "e": [4, 1, None, 2, None], "s": [4, 3, None, 9, None],
            "t": ["[4]", "[1, 2]", "[]", "[2, 3, 4]", None],
        }  # fmt: skip
        path = str(tmp_path / "x.parquet")
        session.sql(f"copy (select x, {{'a': x}} as s from t) to '{path}'").to_arrow()
        written = pq.read_table(path)
        assert written["x"].to_pylist() == plain
        assert written["s"].to_pylist() == [{"a": value} for value in plain]


class Runs:
    """A connector that returns run-end encoded columns. A registered table decodes them."""

    def __init__(self) -> None:
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
        self.rows = pa.table({"i": [1, 3, 2], "r": runs})
        self.schema = self.rows.schema

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> list[qcore.Split]:
        return [qcore.Split()]

    def open(self, split: Any, columns: tuple[str, ...], filter: Any, batch_rows: int) -> Any:
        return TableStream(self.rows.select(columns), batch_rows)


def test_runs_are_carried_along() -> None:
    """pyarrow cannot take rows of run-end encoded arrays by number."""
    plan = PlanBuilder().scan("t", source=Runs()).order_by("i").build()
    assert qcore.Session(threads=1).execute(plan).to_arrow()["r"].to_pylist() == ["a", "b", "a"]
