"""A table that is another's rows through a filter, under other names: scan, filter and projection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa

from qcore.connectors.base import Split, Table, TableStatistics, select_fields
from qcore.expression.tree import Expr, col, column_names
from qcore.plan import nodes as p


@dataclass(frozen=True)
class ViewTable:
    """Columns of `table` under names of this view's own, of the rows where `predicate` is true.

    `expand_view` puts its filter into the plan, where the engine evaluates it natively; so nobody opens a view itself.

    Parameters
    ----------
    schema : pyarrow.Schema
        The view's columns.
    table : Table
        Where the rows come from.
    columns : tuple of str
        The column of `table` behind each column of the view.
    predicate : Expr, optional
        Over the names of `table`.
    """

    schema: pa.Schema
    table: Table
    columns: tuple[str, ...]
    predicate: Expr | None = None

    def statistics(self) -> TableStatistics:
        """What is known of the rows before the filter: bounds for the rows after it."""
        below = self.table.statistics()
        renamed = {name: below.column(held) for name, held in zip(self.schema.names, self.columns, strict=True)}
        return TableStatistics(below.row_count, renamed)

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """Not its own: see expand_view."""
        self._refuse()

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> Any:
        """Not its own: see expand_view."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("a ViewTable is read through expand_view, which puts its filter into the plan")


def expand_view(scan: p.Scan) -> p.PlanNode:
    """The plan of a scan whose source is a ViewTable; any other scan unchanged. The output has the scan's schema."""
    view = scan.source
    if not isinstance(view, ViewTable):
        return scan
    select_fields(view.schema, scan.columns, f"table {scan.table!r}")
    held = dict(zip(view.schema.names, view.columns, strict=True))
    outputs = [held[name] for name in scan.columns]
    needed = column_names(view.predicate) if view.predicate is not None else set()
    read = tuple(dict.fromkeys([*outputs, *sorted(needed)]))
    below = pa.schema(select_fields(view.table.schema, read, f"table {scan.table!r}"))
    plan: p.PlanNode = replace(scan, schema=below, source=view.table, columns=read, filter=view.predicate)
    if view.predicate is not None:
        plan = p.Filter(f"{scan.id}.filter", below, plan, view.predicate)
    if scan.schema.names == below.names:
        return plan
    return p.Project(f"{scan.id}.project", scan.schema, plan, tuple(col(name) for name in outputs))
