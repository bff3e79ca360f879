"""Views: tables that are a filter and a projection of another table, expanded in the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa

from qcore.connectors.base import Split, Table, TableStatistics, select_fields
from qcore.expression.tree import Expr, col, column_names
from qcore.plan import nodes as p
from qcore.record import record


@record(frozen=True)
class ViewTable:
    """Columns of another table, renamed, of the rows where `predicate` is true.

    `expand_view` replaces a scan of a view by a plan with a filter, so that the engine evaluates it. A view itself is
    never opened.

    Parameters
    ----------
    schema : pyarrow.Schema
        The view's columns.
    table : Table
        The table that has the rows.
    columns : tuple of str
        For each column of the view, the column of `table`.
    predicate : Expr, optional
        Over the names of `table`.
    """

    schema: pa.Schema
    table: Table
    columns: tuple[str, ...]
    predicate: Expr | None = None

    def statistics(self) -> TableStatistics:
        """Return the statistics of the rows before the filter, which are bounds for the rows after it."""
        below = self.table.statistics()
        renamed = {name: below.column(held) for name, held in zip(self.schema.names, self.columns, strict=True)}
        return TableStatistics(below.row_count, renamed)

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """Raise TypeError: a view is expanded before its splits are asked for."""
        self._refuse()

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> Any:
        """Raise TypeError: a view is expanded before its splits are opened."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("a ViewTable cannot be read: expand_view replaces its scan in the plan")


def expand_view(scan: p.Scan) -> p.PlanNode:
    """Return the plan for a scan of a ViewTable; any other scan unchanged. Its output has the scan's schema."""
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
