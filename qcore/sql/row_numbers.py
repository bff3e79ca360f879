"""Rows with numbers, computed once and read twice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.plan.nodes import PlanNode, Shared, SharedRead, SortKey, Window, WindowCall, WindowFrame
from qcore.sql.binder import Binder
from qcore.sql.scope import Named, Rows, TableNames


def number_rows(binder: Binder, node: PlanNode, name: str, keys: tuple[SortKey, ...] = ()) -> PlanNode:
    """The rows with a column of this name: their numbers from 1, in the order of the keys."""
    schema = node.schema.append(pa.field(name, pa.int64()))
    row_number = WindowCall(name, "row_number", frame=WindowFrame("rows", None, None))
    return Window(binder.ids.new(), schema, node, (), keys, (row_number,))


def number_and_copy(binder: Binder, rows: Rows) -> tuple[Shared, str, Rows, str]:
    """The rows with a column of row numbers, computed once, and a copy of them with other column names. Each is
    returned with the name of its column of row numbers.
    """
    number = binder.names.new("row_number")
    window = number_rows(binder, rows.node, number)
    schema = window.schema
    shared = Shared(binder.ids.number_word("rows"), schema, window)
    new = {name: binder.names.new(name) for name in schema.names}
    renamed = pa.schema([schema.field(name).with_name(new[name]) for name in schema.names])
    read = SharedRead(binder.ids.new(), renamed, shared.id, tuple(schema.names), shared)

    def again(columns: Sequence[Named]) -> list[Named]:
        return [Named(named.shown, new[named.own]) for named in columns]

    tables = [TableNames(table.parts, tuple(again(table.columns))) for table in rows.tables]
    return shared, number, Rows(read, tables, again(rows.columns)), new[number]
