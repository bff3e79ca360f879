"""Runtime filters: the build keys of a join limit the rows that are read and joined below its probe side.

**Bounds.** The smallest and the largest key limit the rows that the scan reads. The scan opens its first split when the
tables of all joins above it in its pipeline are complete; until then the driver is blocked at the probe. It skips row
groups without a key between the two, as it skips those that fail a filter of the query.

**Key filters.** If the rows pass another join on their way, those whose key no build row has are dropped below it.
Inner joins have their order from the optimizer, and joins that keep or drop rows by existence stay where the query has
them. So the filter is put below the deepest of the latter, and also below its build side if the key is one of its keys.
TPC-DS Q95 looks for the web orders of two warehouses, and needs them for 68 orders.

**Row filters** of a scan are the conjuncts of the filter above it, and the keys of the joins above it whose key columns
all are columns of the scan. A reader that decodes files itself reads the columns of the filters first, and the others
for the rows that are left. The operators above drop the same rows again, so the reader may leave any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Column, Expr, Literal, call, col, column_names, conjuncts, substitute
from qcore.plan import nodes as p
from qcore.plan.joins import conjunction
from qcore.record import record

if TYPE_CHECKING:
    from qcore.lowering.lowered import MakeOperator, Pipeline, Run
    from qcore_ext.data.row_filter import RowFilter
    from qcore_ext.join.bridge import JoinBridge

# Join kinds that drop probe rows without a match. Left is the probe side.
_DROPS_UNMATCHED = frozenset({"inner", "left_semi", "right", "right_semi", "right_anti"})
# Of the kinds below, those that drop a build row without effect on other keys. A null-aware join needs nulls of both.
_BUILDS_BY_KEY = frozenset({"left", "left_semi", "left_anti", "mark"})
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


@record(frozen=True)
class ScanKeys:
    """Columns of a scan, by position. Only rows whose values are a build key are needed. `bridge` as in KeyBound."""

    columns: tuple[int, ...]
    bridge: int


def scan_keys(kind: str, probe: p.PlanNode, keys: Sequence[str], bridge: int) -> tuple[str, ScanKeys] | None:
    """(a scan's id, its columns that are all keys of a join), if there is one. `kind` as in key_bounds."""
    if kind not in _DROPS_UNMATCHED or not keys:
        return None
    *_, (scan, columns) = _trace(probe, tuple(keys))
    if not isinstance(scan, p.Scan):
        return None
    return scan.id, ScanKeys(tuple(map(scan.schema.names.index, columns)), bridge)


def held_names(scan: p.Scan) -> dict[str, Expr]:
    """By the name of each column of a scan: the column under the source's own name."""
    return {name: col(held) for name, held in zip(scan.schema.names, scan.columns, strict=True)}


def source_filter(scan: p.Scan) -> Expr | None:
    """The scan's filter for pruning, over the source's own column names."""
    return None if scan.filter is None else substitute(scan.filter, held_names(scan))


def scan_conditions(scan: p.Scan) -> list[tuple[tuple[int, ...], Expr]]:
    """The conjuncts of a scan's filter by the columns that they read: the columns' positions, and a condition over the
    source's own names.
    """
    groups: dict[frozenset[str], list[Expr]] = {}
    for part in [] if scan.filter is None else conjuncts(scan.filter):
        names = next((held for held in groups if column_names(part) <= held), column_names(part))
        groups.setdefault(names, []).append(part)
    held = held_names(scan)
    return [
        (tuple(sorted(map(scan.schema.names.index, names))), substitute(condition, held))
        for names, parts in groups.items()
        if names and (condition := conjunction(parts)) is not None
    ]


# What makes a filter from its columns and a part of the run, the columns, and the part's number.
_FilterStep = tuple[Callable[[tuple[int, ...], Any], "RowFilter"], tuple[int, ...], int]


class RowFilters:
    """The row filters of a scan, of which each driver has its own.

    Parameters
    ----------
    scan : Scan
    conditions : sequence of (tuple of int, int)
        The columns that a condition reads, and the part with its programs.

    Attributes
    ----------
    keys : list of ScanKeys
        Joins above the scan add to them while they are lowered.
    """

    def __init__(self, scan: p.Scan, conditions: Sequence[tuple[tuple[int, ...], int]]) -> None:
        self.keys: list[ScanKeys] = []
        self._scan = scan
        self._conditions = conditions
        self._chosen: list[_FilterStep] | None = None

    def of_driver(self, run: Run) -> list[RowFilter]:
        """Make the filters of one driver."""
        if self._chosen is None:
            self._chosen = self._choose()
        return [make(columns, run.parts[part]) for make, columns, part in self._chosen]

    def _choose(self) -> list[_FilterStep]:
        """Leave out a filter if no other column is left when its columns have been read."""
        if not self._conditions and not self.keys:
            return []
        from qcore_ext.compute.condition_filter import ConditionFilter
        from qcore_ext.join.build_key_filter import BuildKeyFilter

        given: list[_FilterStep] = [
            *((ConditionFilter, columns, part) for columns, part in self._conditions),
            *((BuildKeyFilter, one.columns, one.bridge) for one in self.keys),
        ]
        chosen, read = [], set[int]()
        for one in given:
            read.update(one[1])
            if len(read) < len(self._scan.columns):
                chosen.append(one)
        return chosen


@record(frozen=True)
class KeyFilter:
    """Key columns of an input of a join. Only rows whose values are a build key of another join are needed.

    `bridge` is the number of the run's part that is the other join's bridge, and `join` that join's node id.
    """

    keys: tuple[str, ...]
    bridge: int
    join: str


class KeyFilters:
    """The key filters of a plan that is being lowered.

    Attributes
    ----------
    n_drivers : Counter
        By the part of a bridge, the drivers of its filters. They read its table.
    """

    def __init__(self) -> None:
        self.n_drivers: Counter[int] = Counter()
        self._by_input: dict[tuple[str, str], list[KeyFilter]] = {}

    def choose(self, kind: str, probe: p.PlanNode, keys: Sequence[str], bridge: int, join: str) -> None:
        """Choose the inputs of a join below `probe` that the build keys filter. `kind` takes the probe side as left."""
        for below, side, names in _filtered_inputs(kind, probe, keys):
            self._by_input.setdefault((below, side), []).append(KeyFilter(names, bridge, join))

    def add_to(self, pipeline: Pipeline, join: str, side: str, schema: pa.Schema) -> Pipeline:
        """Append the filters of one input of a join to its pipeline."""
        for one in self._by_input.pop((join, side), ()):
            if set(one.keys) <= set(schema.names):  # a nested key has been replaced
                self.n_drivers[one.bridge] += pipeline.drivers
                pipeline.add(one.join, _filter_maker(one, schema))
        return pipeline


def _filter_maker(one: KeyFilter, schema: pa.Schema) -> MakeOperator:
    from qcore_ext.data.schema import Schema
    from qcore_ext.join.hash_join_probe import HashProbe

    keys, rows, output = list(one.keys), Schema(schema), [("probe", name, name) for name in schema.names]
    return lambda driver, run: HashProbe(one.join, run.memory, run.parts[one.bridge], keys, output, filtered=rows)


def _filtered_inputs(kind: str, probe: p.PlanNode, keys: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The inputs of a join below `probe` whose rows need a build key: its id, 'probe' or 'build', and the columns."""
    found: tuple[p.HashJoin | p.NestedLoopJoin, tuple[str, ...]] | None = None
    if kind in _DROPS_UNMATCHED and keys:
        for node, columns in _trace(probe, tuple(keys)):
            if _passes_rows(node, columns) and node.kind != "inner":
                found = (node, columns)
    if found is None:
        return
    join, names = found
    yield join.id, "probe", names
    if isinstance(join, p.HashJoin) and join.kind in _BUILDS_BY_KEY:
        build_keys = [_build_key(join, name) for name in names]
        if None not in build_keys:
            yield join.id, "build", tuple(filter(None, build_keys))


def _build_key(join: p.HashJoin, name: str) -> str | None:
    """The build key of a join that a column of its probe side must equal, perhaps because of an inner join below it."""
    equal = {name}
    below = join.left
    while isinstance(below, p.HashJoin) and below.kind == "inner":
        for pair in zip(below.left_keys, below.right_keys, strict=True):
            if name in pair:
                equal.update(pair)
        below = below.left
    return next((b for a, b in zip(join.left_keys, join.right_keys, strict=True) if a in equal), None)


def _trace(node: p.PlanNode, names: tuple[str, ...]) -> Iterator[tuple[p.PlanNode, tuple[str, ...]]]:
    """The node and those below it, each with the columns whose values the columns `names` of the node have.

    Ends above an expression that computes one of them, and where dropping a row of the next node would affect other
    rows of this one than those made of it.
    """
    while True:
        yield node, names
        if isinstance(node, p.Filter):
            node = node.child
        elif isinstance(node, p.Project):
            columns = [node.expressions[node.schema.names.index(name)] for name in names]
            names = tuple(column.name for column in columns if isinstance(column, Column))
            if len(names) < len(columns):
                return
            node = node.child
        elif _passes_rows(node, names):
            node = node.left
        else:
            return


def _passes_rows(node: p.PlanNode, names: Sequence[str]) -> TypeGuard[p.HashJoin | p.NestedLoopJoin]:
    """Whether columns of a join are those of its left input, of which a dropped row affects only rows made of it."""
    if not isinstance(node, (p.HashJoin, p.NestedLoopJoin)) or node.build != "right" or node.kind not in _PASSES_ROWS:
        return False
    return set(names) <= set(node.left.schema.names)


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
    """The scan and its column, an integer or a date, whose values a column of the node has; None if there is none."""
    *_, (scan, (column,)) = _trace(node, (name,))
    if not isinstance(scan, p.Scan):
        return None
    type_ = scan.schema.field(column).type
    return (scan, column) if pa.types.is_integer(type_) or pa.types.is_date32(type_) else None


def _between(column: str, type_: pa.DataType, low: int, high: int) -> list[Expr]:
    """The conditions low <= column <= high, for bounds in the physical type of the values."""
    try:
        ends = [Literal(scalar_of(end, type_).as_py(), type_) for end in (low, high)]
    except (pa.ArrowException, OverflowError, ValueError):
        # The build side has rows of a wider type, whose bounds the column's type cannot hold.
        return []
    return [call("greater_equal", col(column), ends[0]), call("less_equal", col(column), ends[1])]
