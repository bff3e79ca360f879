"""Views: the filters and names of a source become part of the plan."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.connectors.arrow import ArrowTable
from qcore.connectors.view import ViewTable, expand_view
from qcore.errors import PlanError
from qcore.expression.tree import col
from qcore.plan import nodes as p

HELD = ArrowTable(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [True, False]}))
VIEW = ViewTable(pa.schema([("s", pa.string()), ("n", pa.int64())]), HELD, ("b", "a"), col("c") & (col("a") > 1))


def scan(source: object, *columns: tuple[str, pa.DataType]) -> p.Scan:
    return p.Scan("1", pa.schema(list(columns)), "v", source, tuple(name for name, _ in columns))


def test_other_scans_stay() -> None:
    node = scan(HELD, ("a", pa.int64()))
    assert expand_view(node) is node


def test_filter_and_names_come_into_the_plan() -> None:
    node = expand_view(scan(VIEW, ("n", pa.int64())))
    assert isinstance(node, p.Project) and node.schema == pa.schema([("n", pa.int64())])
    assert isinstance(node.child, p.Filter) and node.child.predicate is VIEW.predicate
    below = node.child.child
    assert isinstance(below, p.Scan)
    assert below.source is HELD and below.columns == ("a", "c") and below.filter is VIEW.predicate
    assert len({step.id for step in node.walk()}) == 3


def test_a_view_of_names_only() -> None:
    view = ViewTable(pa.schema([("a", pa.int64())]), HELD, ("a",))
    node = expand_view(scan(view, ("a", pa.int64())))
    assert isinstance(node, p.Scan) and node.source is HELD


def test_statistics_go_by_the_view_s_names() -> None:
    assert VIEW.statistics().row_count == 2 and VIEW.statistics().column("s").null_count == 0


def test_unknown_column() -> None:
    with pytest.raises(PlanError, match="table 'v' has no column 'm'"):
        expand_view(scan(VIEW, ("m", pa.int64())))


def test_views_are_never_opened() -> None:
    with pytest.raises(TypeError, match="expand_view"):
        VIEW.splits(("n",), None, 1)
