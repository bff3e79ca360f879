"""GROUP BY, aggregates, grouping sets.

Expressions over groups are bound over the rows before grouping, with columns for the aggregates in them. Each part that
equals a key is then replaced by the key's column. A remaining column of the rows is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, call, children, col, lit, rebuild, same
from qcore.functions.aggregates import aggregate_type
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode
from qcore.plan.projections import readable_name
from qcore.sql.binder import Binder
from qcore.sql.reading import NotBound, take
from qcore.sql.scope import BindContext

_SETS_MAX = 4096


class Grouping:
    """The keys and aggregates of one SELECT. `subqueries` are those in keys and in arguments of aggregates, which are
    joined below the aggregation.
    """

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self.subqueries: list[Any] = []
        self.keys: list[tuple[str, Bound]] = []
        self.sets: tuple[tuple[int, ...], ...] | None = None
        self.calls: list[AggregateCall] = []
        self.is_grouped = False
        self._types: list[pa.DataType] = []
        self._outputs: set[str] = set()
        self._id: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the rows must be grouped."""
        return self.is_grouped or bool(self.calls)

    def add_key(self, value: Bound) -> int:
        """The position of a key. Equal keys are one."""
        for position, (_, known) in enumerate(self.keys):
            if same(known.expr, value.expr):
                return position
        wish = readable_name(value.expr)
        is_free = isinstance(value.expr, Column) and all(wish != name for name, _ in self.keys)
        self.keys.append((wish if is_free else self._binder.names.new(wish), value))
        return len(self.keys) - 1

    def add(
        self,
        function: str,
        arguments: Sequence[Bound],
        distinct: bool,
        filter: Bound | None,
        order: Sequence[tuple[Bound, bool, bool]],
    ) -> Bound:
        """The output column of a call of one of the engine's aggregates. Equal calls are added once."""
        values = tuple(argument.expr for argument in arguments)
        keys = tuple(key.expr for key, _, _ in order)
        directions = tuple((descending, nulls_first) for _, descending, nulls_first in order)
        where = None if filter is None else filter.expr
        for known, type_ in zip(self.calls, self._types, strict=True):
            is_same = known.function == function and known.distinct == distinct and known.order == directions
            if is_same and _all_same((*values, *keys, where), (*known.arguments, known.filter)):
                return Bound(Column(known.name), type_)
        type_ = aggregate_type(function, [argument.type for argument in arguments])
        wish = f"{function}_{readable_name(values[0]) if values else 'rows'}"
        one = AggregateCall(self._binder.names.new(wish), function, (*values, *keys), distinct, where, directions)
        self.calls.append(one)
        self._types.append(type_)
        self._outputs.add(one.name)
        return Bound(Column(one.name), type_)

    def grouping_id(self, positions: Sequence[int]) -> Bound:
        """GROUPING(a, b): a bit for each key, 1 if the row's grouping set lacks it, the last key in the lowest bit."""
        if self.sets is None:
            return Bound(lit(0), pa.int64())
        if self._id is None:
            self._id = self._binder.names.new("$grouping_id")
            self._outputs.add(self._id)
        n_keys = len(self.keys)
        total: Expr | None = None
        for bit_number, position in enumerate(reversed(positions)):
            shifted = call("bitwise_shift_right", col(self._id), n_keys - 1 - position)
            bit = call("bitwise_shift_left", call("bitwise_and", shifted, 1), bit_number)
            total = bit if total is None else call("bitwise_or", total, bit)
        return Bound(lit(0) if total is None else total, pa.int64())

    def node(self, child: PlanNode) -> PlanNode:
        """The aggregation over the rows."""
        keys = tuple((name, value.expr) for name, value in self.keys)
        fields = [pa.field(name, value.type) for name, value in self.keys]
        if self._id is not None:
            fields.append(pa.field(self._id, pa.int64()))
        fields += [pa.field(one.name, type_) for one, type_ in zip(self.calls, self._types, strict=True)]
        if not fields:
            # HAVING alone: a group without keys and aggregates.
            name = self._binder.names.new("rows")
            self.calls.append(AggregateCall(name, "count"))
            fields.append(pa.field(name, pa.int64()))
        return Aggregate(self._binder.ids.new(), pa.schema(fields), child, keys, tuple(self.calls), self.sets, self._id)

    def rewrite(self, expr: Expr, known: set[str]) -> Expr:
        """The expression over the groups. `known` are columns that are added above the aggregation."""
        for name, key in self.keys:
            if same(key.expr, expr):
                return Column(name)
        if isinstance(expr, Column):
            if expr.name in self._outputs or expr.name in known:
                return expr
            raise PlanError(
                f"column {expr.name!r} is neither in GROUP BY nor inside an aggregate; add it to GROUP BY, or write "
                f"any_value({expr.name})"
            )
        parts = children(expr)
        return rebuild(expr, tuple(self.rewrite(part, known) for part in parts)) if parts else expr


def _all_same(a: Sequence[Expr | None], b: Sequence[Expr | None]) -> bool:
    if len(a) != len(b):
        return False
    for one, other in zip(a, b, strict=True):
        if (one is None) != (other is None):
            return False
        if one is not None and other is not None and not same(one, other):
            return False
    return True


def read_group_by(node: Any) -> tuple[list[Any], bool]:
    """The elements of GROUP BY: expressions, and ROLLUP, CUBE, GROUPING SETS; and whether it is GROUP BY ALL."""
    elements, is_all, rollups, cubes, sets = take(node, "expressions", "all", "rollup", "cube", "grouping_sets")
    elements = [*(elements or ()), *(rollups or ()), *(cubes or ()), *(sets or ())]
    return elements, bool(is_all)


def has_sets(elements: Sequence[Any]) -> bool:
    """Whether elements of GROUP BY make grouping sets."""
    return any(type(element).__name__ in ("Rollup", "Cube", "GroupingSets") for element in elements)


def grouping_sets(elements: Sequence[Any], add: Any) -> tuple[tuple[int, ...], ...]:
    """The grouping sets of GROUP BY: the product of its elements' sets. `add` gives a key's position."""
    sets: list[tuple[int, ...]] = [()]
    for element in elements:
        own = _sets_of(element, add)
        if len(sets) * len(own) > _SETS_MAX:
            raise PlanError(f"GROUP BY has more than {_SETS_MAX} grouping sets")
        sets = [tuple(dict.fromkeys((*a, *b))) for a, b in itertools.product(sets, own)]
    return tuple(sets)


def _sets_of(element: Any, add: Any) -> list[tuple[int, ...]]:
    kind = type(element).__name__
    if kind == "GroupingSets":
        (parts,) = take(element, "expressions")
        return [one for part in parts for one in _sets_of(part, add)]
    if kind in ("Rollup", "Cube"):
        (parts,) = take(element, "expressions")
        if not parts:
            raise NotBound(element, f"WITH {kind.upper()}", f"write GROUP BY {kind.upper()} (a, b)")
        keys = [_keys_of(part, add) for part in parts]
        if kind == "Rollup":
            chosen = [keys[:n] for n in range(len(keys), -1, -1)]
        else:
            if len(keys) > 12:
                raise PlanError(
                    f"CUBE of {len(keys)} columns has {2 ** len(keys)} grouping sets; the maximum is {_SETS_MAX}"
                )
            orders = itertools.product((True, False), repeat=len(keys))
            chosen = [[key for key, is_in in zip(keys, order, strict=True) if is_in] for order in orders]
        return [tuple(dict.fromkeys(itertools.chain.from_iterable(one))) for one in chosen]
    return [tuple(dict.fromkeys(_keys_of(element, add)))]


def _keys_of(element: Any, add: Any) -> tuple[int, ...]:
    """The keys of one element: an expression, or several in brackets."""
    if type(element).__name__ == "Tuple":
        (parts,) = take(element, "expressions")
        return tuple(add(part) for part in parts or ())
    if type(element).__name__ == "Paren":
        (inner,) = take(element, "this")
        return _keys_of(inner, add)
    return (add(element),)


def bind_grouping_function(binder: Binder, node: Any, arguments: Sequence[Any], context: BindContext) -> Bound:
    """GROUPING(a, …) or GROUPING_ID(a, …)."""
    grouping: Grouping | None = context.grouping
    if grouping is None:
        raise PlanError(f"GROUPING cannot be in {context.clause}")
    if not arguments:
        return grouping.grouping_id(range(len(grouping.keys)))
    positions = []
    for argument in arguments:
        value = binder.expression(argument, context.within("GROUPING"))
        found = [n for n, (_, key) in enumerate(grouping.keys) if same(key.expr, value.expr)]
        if not found:
            raise PlanError("GROUPING takes expressions of GROUP BY")
        positions.append(found[0])
    return grouping.grouping_id(positions)
