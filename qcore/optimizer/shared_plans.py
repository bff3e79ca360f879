"""Rule: subplans that occur several times are computed once.

A common table expression that a query names twice is planned twice, and each copy has the columns that are used there.
Aggregates, windows and top-ns of the same rows become one Shared node and SharedReads of it, because their results are
small compared to their inputs. The same is done with inner joins below aggregates if they return few rows. Other joins
and scans are not shared, because each copy may have its best join order and its columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from qcore.expression.tree import Call, Column, Expr, Lambda, Literal, col
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import rebuilt
from qcore.plan.nodes import (
    Aggregate,
    Filter,
    HashJoin,
    Limit,
    NestedLoopJoin,
    PlanNode,
    Project,
    RecursiveUnion,
    Scan,
    Shared,
    SharedRead,
    TopN,
    UnionAll,
    Window,
)
from qcore.plan.schema import MARK_KINDS
from qcore.record import record

_RESULTS = (Aggregate, Window, TopN)
# For each type of node the parameters that decide which rows it returns.
_ROW_PARAMETERS: dict[type[PlanNode], tuple[str, ...]] = {
    Scan: ("table", "filter"),
    Filter: ("predicate",),
    Project: (),
    Window: (),
    Aggregate: ("keys", "grouping_sets"),
    HashJoin: ("kind", "left_keys", "right_keys", "condition"),
    NestedLoopJoin: ("kind", "condition"),
    TopN: ("keys", "count", "offset"),
    Limit: ("count", "offset"),
    UnionAll: (),
}
# Fields whose text is never the name of a column.
_WORDS = frozenset({"function", "mode", "kind", "table", "exclude", "parameter"})


# A join is shared if it returns at most this fraction of the rows of the largest scan below it.
KEPT_ROWS_MAX = 0.1


def share_subplans(plan: PlanNode, estimator: Estimator, meanings: Meanings) -> PlanNode:
    """Return the plan with equal subplans computed once."""
    tables = TablesBelow(plan)
    if not tables.repeat:
        return plan
    ids = {node.id for node in plan.walk()}
    rule = _Sharing(ids, tables, _selective_inputs(plan, tables, estimator), meanings)
    if not rule.may_repeat(plan):
        return plan
    rule.find(plan, frozenset())
    rule.choose()
    return rule.share_repeated(plan) if rule.widest else plan


class TablesBelow:
    """The tables that each node of a plan reads. Nodes with the same rows read the same tables, and comparing tables is
    cheaper.
    """

    def __init__(self, plan: PlanNode) -> None:
        self._tables: dict[PlanNode, tuple[str, ...]] = {}
        # How often a set of tables is read. Nodes above one another that read the same set count once.
        self._counts: dict[tuple[str, ...], int] = {}
        self._count(self._read(plan))

    @property
    def repeat(self) -> bool:
        """Whether several parts of the plan read the same set of tables."""
        return any(count > 1 for count in self._counts.values())

    def of(self, node: PlanNode) -> tuple[str, ...]:
        """The tables that a node reads."""
        return self._tables[node]

    def are_read_again(self, node: PlanNode) -> bool:
        """Whether a node neither above nor below this one reads the same tables."""
        return self._counts[self._tables[node]] > 1

    def _read(self, node: PlanNode) -> tuple[str, ...]:
        inputs = [self._read(child) for child in node.children]
        if len(inputs) == 1:
            found = inputs[0]
        else:
            own = (node.table,) if isinstance(node, Scan) else ()
            found = tuple(sorted([*own, *[table for tables in inputs for table in tables]]))
            for tables in inputs:
                if tables != found:
                    self._count(tables)
        self._tables[node] = found
        return found

    def _count(self, tables: tuple[str, ...]) -> None:
        self._counts[tables] = self._counts.get(tables, 0) + 1


@record(frozen=True)
class Meaning:
    """The rows and columns of a node as numbers that do not depend on column names. Nodes with equal `rows` return the
    same rows, and equal numbers in `columns` mean equal columns of them.
    """

    rows: int
    columns: dict[str, int]


class Meanings:
    """Computes the Meaning of nodes. Each distinct row source and expression gets a number when it first occurs."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._meanings: dict[PlanNode, Meaning | None] = {}

    def meaning(self, node: PlanNode) -> Meaning | None:
        """The meaning of a node; None if it may return other rows each time it runs."""
        if node not in self._meanings:
            self._meanings[node] = self._meaning(node)
        return self._meanings[node]

    def _meaning(self, node: PlanNode) -> Meaning | None:
        below = [self.meaning(child) for child in node.children]
        known = [one for one in below if one is not None]
        if type(node) not in _ROW_PARAMETERS or len(known) < len(below):
            return None
        if isinstance(node, Scan):
            if node.source is None:
                return None
            columns = {name: self._number("scan", of) for name, of in zip(node.schema.names, node.columns, strict=True)}
            return Meaning(self._rows(node, (id(node.source),), columns), columns)
        # Columns of the left input keep their numbers. The numbers of right columns, and of values that depend on more
        # than one row, include the rows of the inputs, because a chain of joins may have one table on the right twice.
        rows = tuple(one.rows for one in known)
        inputs: dict[str, int] = {}
        for side, one in enumerate(known):
            inputs |= {
                name: self._number("right", rows, number) if side else number for name, number in one.columns.items()
            }
        if not isinstance(node, (Project, Window)):
            rows = (self._rows(node, rows, inputs),)
        columns = dict(self._columns(node, rows[0], inputs, known))
        return Meaning(rows[0], {name: columns[name] for name in node.schema.names})

    def _rows(self, node: PlanNode, below: tuple[int, ...], inputs: Mapping[str, int]) -> int:
        parameters = [(name, _parts(getattr(node, name), inputs, name)) for name in _ROW_PARAMETERS[type(node)]]
        return self._number(type(node).__name__, below, *parameters)

    def _columns(
        self, node: PlanNode, rows: int, inputs: dict[str, int], below: list[Meaning]
    ) -> Iterator[tuple[str, int]]:
        """(name, number) of each output column."""
        if isinstance(node, Project):
            for name, expr in zip(node.schema.names, node.expressions, strict=True):
                yield name, inputs[expr.name] if isinstance(expr, Column) else self._number(_parts(expr, inputs))
        elif isinstance(node, Aggregate):
            for name, expr in node.keys:
                yield name, self._number("key", _parts(expr, inputs))
            for call in node.aggregates:
                yield call.name, self._number(_parts(call, inputs))
            if node.grouping_id is not None:
                yield node.grouping_id, self._number("grouping id")
        elif isinstance(node, UnionAll):
            positions = zip(*(one.columns.values() for one in below), strict=True)
            for name, numbers in zip(node.schema.names, positions, strict=True):
                yield name, self._number("union", numbers)
        else:
            yield from inputs.items()
            if isinstance(node, Window):
                of = _parts((node.partition_by, node.order_by), inputs)
                for window_call in node.calls:
                    yield window_call.name, self._number("window", rows, of, _parts(window_call, inputs))
            elif isinstance(node, (HashJoin, NestedLoopJoin)) and node.kind in MARK_KINDS:
                yield node.schema.names[-1], self._number("mark", rows)

    def _number(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


@record
class _Made:
    """A shared subplan, the numbers of its columns, and whether the plan already contains its Shared node."""

    node: Shared
    columns: dict[str, int]
    is_read: bool = False


class _Sharing:
    def __init__(self, ids: set[str], tables: TablesBelow, inputs: set[PlanNode], meanings: Meanings) -> None:
        self._tables = tables
        self._inputs = inputs
        # How many candidates read these tables.
        self._alike: Counter[tuple[str, ...]] = Counter()
        # Nodes with the same rows, by the number of the rows. Repetitions inside a repeated subplan do not count.
        self._copies: dict[int, list[PlanNode]] = {}
        # For each of these the node with the most columns, which contain those of at least one other node.
        self.widest: dict[int, PlanNode] = {}
        self._ids = ids
        self._meanings = meanings
        self._made: dict[int, _Made] = {}

    def may_repeat(self, plan: PlanNode) -> bool:
        """Whether several candidates read the same tables."""
        self._alike = Counter(self._tables.of(node) for node in plan.walk() if self._is_candidate(node))
        return any(count > 1 for count in self._alike.values())

    def find(self, node: PlanNode, above: frozenset[int]) -> None:
        """Find repeated subplans. Inside a repeated subplan only the first copy is searched."""
        if isinstance(node, RecursiveUnion):
            # Its inputs run in separate tasks, once for each round.
            return
        is_alone = self._alike[self._tables.of(node)] < 2 or not self._is_candidate(node)
        meaning = None if is_alone else self._meanings.meaning(node)
        if meaning is not None and meaning.rows not in above:
            copies = self._copies.setdefault(meaning.rows, [])
            copies.append(node)
            if len(copies) > 1:
                return
            above |= {meaning.rows}
        for child in node.children:
            self.find(child, above)

    def choose(self) -> None:
        """Choose for each repeated subplan the copy that is computed."""
        for rows, copies in self._copies.items():
            sets = [
                set(meaning.columns.values())
                for copy in copies
                if (meaning := self._meanings.meaning(copy)) is not None
            ]
            most = max(range(len(sets)), key=lambda i: len(sets[i]))
            if sum(columns <= sets[most] for columns in sets) > 1:
                self.widest[rows] = copies[most]

    def share_repeated(self, node: PlanNode) -> PlanNode:
        """Return the node with repeated subplans replaced by Shared and SharedRead nodes."""
        if isinstance(node, RecursiveUnion):
            return node
        meaning = self._meanings.meaning(node) if self._is_candidate(node) else None
        if meaning is None or meaning.rows not in self.widest:
            return self._with_shared_inputs(node)
        made = self._made.get(meaning.rows) or self._make(meaning.rows)
        names = {number: name for name, number in reversed(made.columns.items())}
        if not names.keys() >= set(meaning.columns.values()):
            return self._with_shared_inputs(node)
        columns = tuple(names[meaning.columns[name]] for name in node.schema.names)
        if made.is_read:
            return SharedRead(node.id, node.schema, made.node.id, columns, made.node)
        made.is_read = True
        if list(columns) == node.schema.names == made.node.schema.names:
            return made.node
        return Project(node.id, node.schema, made.node, tuple(map(col, columns)))

    def _make(self, rows: int) -> _Made:
        node = self.widest[rows]
        meaning = self._meanings.meaning(node)
        assert meaning is not None
        made = Shared(self._new_id(), node.schema, self._with_shared_inputs(node, rows))
        return self._made.setdefault(rows, _Made(made, meaning.columns))

    def _with_shared_inputs(self, node: PlanNode, rows: int | None = None) -> PlanNode:
        """Return the node with repeated subplans below it shared, except for inputs with the same `rows`."""
        children = []
        for child in node.children:
            meaning = None if rows is None else self._meanings.meaning(child)
            same = meaning is not None and meaning.rows == rows
            children.append(self._with_shared_inputs(child, rows) if same else self.share_repeated(child))
        return rebuilt(node, children) if children else node

    def _is_candidate(self, node: PlanNode) -> bool:
        return node in self._inputs or (_is_result(node) and self._tables.are_read_again(node))

    def _new_id(self) -> str:
        number = 1
        while f"shared{number}" in self._ids:
            number += 1
        self._ids.add(f"shared{number}")
        return f"shared{number}"


def _selective_inputs(plan: PlanNode, tables: TablesBelow, estimator: Estimator) -> set[PlanNode]:
    """Inner joins directly below aggregates that return few rows, if other nodes read the same tables."""
    found: set[PlanNode] = set()
    for node in plan.walk():
        if not isinstance(node, Aggregate) or not tables.are_read_again(node):
            continue
        below = node.child
        while isinstance(below, Project):
            below = below.child
        if isinstance(below, (HashJoin, NestedLoopJoin)) and below.kind == "inner":
            most = max((estimator.rows(one) for one in below.walk() if isinstance(one, Scan)), default=0.0)
            if estimator.rows(below) <= KEPT_ROWS_MAX * most:
                found.add(below)
    return found


def _is_result(node: PlanNode) -> bool:
    while isinstance(node, Filter):
        node = node.child
    return isinstance(node, _RESULTS)


def _parts(value: Any, columns: Mapping[str, int], field: str = "") -> Hashable:
    """A parameter of a node as a hashable value, with numbers in place of input columns and without output names."""
    if isinstance(value, Column):
        return "column", columns[value.name]
    if isinstance(value, Literal):
        return "literal", str(value.type), type(value.value), repr(value.value)
    if isinstance(value, Call):
        return Call, value.function, tuple([_parts(argument, columns) for argument in value.arguments])
    if isinstance(value, Lambda):
        return "lambda", _parts(value.body, {name: position for position, name in enumerate(value.parameters)})
    if isinstance(value, (list, tuple)):
        if field == "keys" and len(value) == 2 and isinstance(value[0], str):
            return _parts(value[1], columns)
        return tuple(_parts(part, columns, field) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        named = [part.name for part in fields(value) if part.name != "name" or isinstance(value, Expr)]
        return type(value), tuple(_parts(getattr(value, name), columns, name) for name in named)
    if isinstance(value, str) and field not in _WORDS and value in columns:
        return "column", columns[value]
    return type(value), repr(value)
