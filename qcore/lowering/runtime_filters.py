"""Filters known only while a query runs: a join's build keys bound what its probe side needs to read.

A probe's scan opens its first split after the tables of all joins above it in its pipeline are there: until then the
driver is blocked at the probe. Row groups without a key between the smallest and the largest of the build side are then
left out, as those are that fail a filter of the query's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from qcore.expression.tree import Column, Expr, Literal, call, col
from qcore.plan import nodes as p
from qcore.plan.joins import conjunction
from qcore_ext.join.bridge import JoinBridge

# Kinds, as probe and build, whose unmatched probe rows come to nothing.
_DROPS_UNMATCHED = frozenset({"inner", "left_semi", "right", "right_semi", "right_anti"})
# Kinds that give nothing of a probe row but rows with that row's columns: without it, only those are gone.
_PASSES_ROWS = frozenset({"inner", "left", "left_semi", "left_anti", "null_aware_anti", "mark"})


@dataclass(frozen=True)
class KeyBound:
    """A scan's column that only matters between the bounds of a join's key."""

    column: str
    bridge: JoinBridge
    position: int


class RuntimeFilters:
    """What the joins of one plan say of its scans."""

    def __init__(self) -> None:
        self._bounds: dict[str, list[KeyBound]] = {}
        #: A scan's known keys and the scan filtered by them, which all splits that are opened later share.
        self._applied: dict[str, tuple[list[Any], p.Scan]] = {}

    def note(self, kind: str, probe: p.PlanNode, keys: Sequence[str], bridge: JoinBridge) -> None:
        """Note a join of this kind, as probe and build, before it runs."""
        if kind not in _DROPS_UNMATCHED:
            return
        for position, key in enumerate(keys):
            found = _scanned(probe, key)
            if found is not None:
                scan, column = found
                self._bounds.setdefault(scan.id, []).append(KeyBound(column, bridge, position))

    def applied(self, scan: p.Scan) -> p.Scan:
        """The scan with a filter that also holds what is known by now."""
        bounds = self._bounds.get(scan.id)
        if bounds is None:
            return scan
        known = [bound.bridge.key_bounds() for bound in bounds]
        applied = self._applied.get(scan.id)
        if applied is None or applied[0] != known:
            applied = self._applied[scan.id] = (known, _filtered(scan, bounds, known))
        return applied[1]


def _filtered(scan: p.Scan, bounds: Sequence[KeyBound], known: Sequence[Any]) -> p.Scan:
    """The scan with a filter that also holds the keys' bounds, as far as they are known."""
    parts: list[Expr] = [] if scan.filter is None else [scan.filter]
    for bound, keys in zip(bounds, known, strict=True):
        if keys is not None:
            parts += _between(bound.column, scan.schema.field(bound.column).type, *keys[bound.position])
    return replace(scan, filter=conjunction(parts)) if parts else scan


def _scanned(node: p.PlanNode, name: str) -> tuple[p.Scan, str] | None:
    """The scan whose column is the node's, row by row, if leaving out its rows leaves out the node's and no more."""
    if isinstance(node, p.Scan):
        type_ = node.schema.field(name).type
        return (node, name) if pa.types.is_integer(type_) or pa.types.is_date32(type_) else None
    if isinstance(node, p.Filter):
        return _scanned(node.child, name)
    if isinstance(node, p.Project):
        expr = node.expressions[node.schema.names.index(name)]
        return _scanned(node.child, expr.name) if isinstance(expr, Column) else None
    if isinstance(node, (p.HashJoin, p.NestedLoopJoin)) and node.build == "right" and node.kind in _PASSES_ROWS:
        return _scanned(node.left, name) if name in node.left.schema.names else None
    return None


def _between(column: str, type_: pa.DataType, low: int, high: int) -> list[Expr]:
    """The conditions low <= column <= high, given in the values' physical form."""
    try:
        ends = [Literal(pa.scalar(end, type_).as_py(), type_) for end in (low, high)]
    except (pa.ArrowException, OverflowError, ValueError):
        # Rows of a wider type have come on the build side.
        return []
    return [call("greater_equal", col(column), ends[0]), call("less_equal", col(column), ends[1])]
