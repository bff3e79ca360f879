"""Runtime filters: the smallest and largest build key of a join limit the rows that the scan of its probe side reads.

The scan opens its first split when the tables of all joins above it in its pipeline are complete; until then the driver
is blocked at the probe. It skips row groups without a key between the two, as it skips those that fail a filter of the
query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Column, Expr, Literal, call, col
from qcore.plan import nodes as p
from qcore.plan.joins import conjunction
from qcore.record import record

if TYPE_CHECKING:
    from qcore_ext.join.bridge import JoinBridge

# Join kinds that drop probe rows without a match. Left is the probe side.
_DROPS_UNMATCHED = frozenset({"inner", "left_semi", "right", "right_semi", "right_anti"})
# Join kinds whose output rows each contain exactly one probe row. Dropping a probe row drops only its own output rows.
_PASSES_ROWS = frozenset({"inner", "left", "left_semi", "left_anti", "null_aware_anti", "mark"})


@record(frozen=True)
class KeyBound:
    """A column of a scan. Only rows between the smallest and the largest value of a build key are needed.

    `bridge` is the number of the run's part that is the join's bridge. `position` is the key's number in the join.
    """

    column: str
    bridge: int
    position: int


def key_bounds(kind: str, probe: p.PlanNode, keys: Sequence[str], bridge: int) -> Iterator[tuple[str, KeyBound]]:
    """(a scan's id, a bound of its column) for each key of a join. `kind` takes the probe side as the left one."""
    if kind in _DROPS_UNMATCHED:
        for position, key in enumerate(keys):
            found = _find_scan(probe, key)
            if found is not None:
                scan, column = found
                yield scan.id, KeyBound(column, bridge, position)


class RuntimeFilters:
    """The runtime filters of one run: by a scan's id, the bounds of its columns with the bridges of their joins."""

    def __init__(self, bounds: Mapping[str, Sequence[tuple[KeyBound, JoinBridge]]]) -> None:
        self._bounds = bounds
        #: For each scan's id: the bounds last read, and the scan with these in its filter, for splits that follow.
        self._applied: dict[str, tuple[list[Any], p.Scan]] = {}

    def apply(self, scan: p.Scan) -> p.Scan:
        """The scan with the bounds that are known now added to its filter."""
        bounds = self._bounds.get(scan.id)
        if bounds is None:
            return scan
        known = [bridge.key_bounds() for _, bridge in bounds]
        applied = self._applied.get(scan.id)
        if applied is None or applied[0] != known:
            applied = self._applied[scan.id] = (known, _add_bounds(scan, [bound for bound, _ in bounds], known))
        return applied[1]


def _add_bounds(scan: p.Scan, bounds: Sequence[KeyBound], known: Sequence[Any]) -> p.Scan:
    """The scan with all known bounds added to its filter."""
    parts: list[Expr] = [] if scan.filter is None else [scan.filter]
    for bound, keys in zip(bounds, known, strict=True):
        if keys is not None:
            parts += _between(bound.column, scan.schema.field(bound.column).type, *keys[bound.position])
    return replace(scan, filter=conjunction(parts)) if parts else scan


def _find_scan(node: p.PlanNode, name: str) -> tuple[p.Scan, str] | None:
    """The scan and its column whose values a column of the node has.

    None if an expression computes the column, if it is neither an integer nor a date, or if dropping a row of the scan
    would affect other rows of the node than those made of it.
    """
    if isinstance(node, p.Scan):
        type_ = node.schema.field(name).type
        return (node, name) if pa.types.is_integer(type_) or pa.types.is_date32(type_) else None
    if isinstance(node, p.Filter):
        return _find_scan(node.child, name)
    if isinstance(node, p.Project):
        expr = node.expressions[node.schema.names.index(name)]
        return _find_scan(node.child, expr.name) if isinstance(expr, Column) else None
    if isinstance(node, (p.HashJoin, p.NestedLoopJoin)) and node.build == "right" and node.kind in _PASSES_ROWS:
        return _find_scan(node.left, name) if name in node.left.schema.names else None
    return None


def _between(column: str, type_: pa.DataType, low: int, high: int) -> list[Expr]:
    """The conditions low <= column <= high, for bounds in the physical type of the values."""
    try:
        ends = [Literal(scalar_of(end, type_).as_py(), type_) for end in (low, high)]
    except (pa.ArrowException, OverflowError, ValueError):
        # The build side has rows of a wider type, whose bounds the column's type cannot hold.
        return []
    return [call("greater_equal", col(column), ends[0]), call("less_equal", col(column), ends[1])]
