"""Numbered rows that are computed once and read twice, for positional joins and samples."""

from __future__ import annotations

import pyarrow as pa
from bound_queries import binder

import qcore
from qcore.plan.nodes import Shared, SharedRead, SortKey, Values
from qcore.sql.binder import Binder
from qcore.sql.row_numbers import number_and_copy, number_rows
from qcore.sql.scope import Named, Rows, TableNames

DATA = pa.table({"a": [30, 10, 20], "b": ["x", "y", "z"]})


def rows(of: Binder) -> Rows:
    columns = (Named("a", of.names.new("a")), Named("b", of.names.new("b")))
    return Rows(Values(of.ids.new(), DATA.schema, DATA), [TableNames(("t",), columns)], list(columns))


def run(plan: object) -> pa.Table:
    return qcore.Session(threads=1).execute(plan).to_arrow()  # type: ignore[arg-type]


def test_q1_numbers_begin_with_1_in_the_order_of_the_keys() -> None:
    of = binder()
    node = rows(of).node
    assert run(number_rows(of, node, "n"))["n"].to_pylist() == [1, 2, 3]
    ordered = run(number_rows(of, node, "n", (SortKey("a", True, False),)))
    assert {row["a"]: row["n"] for row in ordered.to_pylist()} == {30: 1, 20: 2, 10: 3}


def test_q1_the_copy_has_the_same_rows_under_other_names() -> None:
    of = binder()
    shared, number, copy, copied_number = number_and_copy(of, rows(of))
    assert isinstance(shared, Shared) and isinstance(copy.node, SharedRead) and copy.node.of == shared.id
    assert number != copied_number
    assert not set(shared.schema.names) & set(copy.node.schema.names)
    assert [named.shown for named in copy.columns] == [named.shown for named in copy.tables[0].columns] == ["a", "b"]
    assert copy.node.columns == tuple(shared.schema.names)
    assert copy.node.schema.names == [*(named.own for named in copy.columns), copied_number]
    assert run(shared).to_pydict() == {"a": [30, 10, 20], "b": ["x", "y", "z"], number: [1, 2, 3]}
