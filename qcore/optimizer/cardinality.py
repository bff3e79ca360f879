"""Estimates of the number of rows of a node, from the statistics of the sources.

The estimates are used to compare plans. A missing statistic is replaced by a moderate default; it is never an error.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.expression.tree import Call, Cast, Column, Expr, In, Literal, column_names, conjuncts
from qcore.expression.types import is_numeric
from qcore.plan.nodes import (
    Aggregate,
    AggregateStep,
    EnforceSingleRow,
    Filter,
    HashJoin,
    Limit,
    NestedLoopJoin,
    PlanNode,
    Project,
    RecursiveUnion,
    Scan,
    SharedRead,
    TableWrite,
    TopN,
    UnionAll,
    Unnest,
    UserOperator,
    UserSource,
    Values,
    Window,
    WorkingTable,
)
from qcore.plan.schema import MARK_KINDS
from qcore.record import record

# Statistics of a scan: qcore.connectors.base.TableStatistics or None.
StatisticsOf = Callable[[Scan], Any]

ROWS_UNKNOWN = 100_000.0
RANGE_FRACTION = 0.3
COMPARED_FRACTION = 0.2  # a range over something computed, such as HAVING sum(x) > 300
LIKE_FRACTION = 0.1
OTHER_FRACTION = 0.5
ROUNDS = 10.0
LIST_LENGTH = 4.0
WORKING_ROWS = 100.0  # of one round of a recursive query
# Estimates are multiplied by this factor for an input of unknown size, and for a join if it is unknown how often its
# keys repeat. Joins that return at most as many rows as an input are then preferred.
UNCERTAINTY = 4.0
# Assumed numbers of distinct values of a column without statistics, for x = constant.
TEXT_VALUES = 20.0
NUMBER_VALUES = 100.0

_RANGES = {"less": "high", "less_equal": "high", "greater": "low", "greater_equal": "low"}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


@record(frozen=True)
class ColumnEstimate:
    """Estimates of a column.

    `distinct` is the number of distinct values in the whole table; it is an upper bound unless `known`. `rows` is the
    size of the column's table before any filter. `origin` identifies that table. `is_clustered`: rows of equal values
    are near each other in that table. `most_common_share`: the share of its values that are the most common one, None
    if unknown.
    """

    distinct: float
    rows: float
    known: bool = False
    low: float | None = None
    high: float | None = None
    null_fraction: float = 0.0
    origin: Any = None
    is_clustered: bool = False
    most_common_share: float | None = None


class Estimator:
    """Estimates the row counts of nodes and the statistics of columns. Results are cached."""

    def __init__(self, statistics: StatisticsOf) -> None:
        self._statistics = statistics
        self._rows: dict[PlanNode, float] = {}
        self._columns: dict[tuple[PlanNode, str], ColumnEstimate] = {}

    def rows(self, node: PlanNode) -> float:
        """The estimated number of output rows of a node, at least 1."""
        found = self._rows.get(node)
        if found is None:
            found = self._rows[node] = max(1.0, self._count(node))
        return found

    def column(self, node: PlanNode, name: str) -> ColumnEstimate:
        """The estimates of an output column."""
        key = (node, name)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self._column(node, name)
        return found

    def uncertainty(self, node: PlanNode) -> float:
        """A factor by which the node may return more rows than estimated, because sizes of inputs are unknown."""
        if isinstance(node, Scan):
            statistics = self._statistics(node)
            return UNCERTAINTY if statistics is None or statistics.row_count is None else 1.0
        if isinstance(node, (UserSource, RecursiveUnion, WorkingTable)):
            return UNCERTAINTY
        if isinstance(node, Aggregate) and not node.keys:
            return 1.0
        return math.prod(map(self.uncertainty, node.children))

    # --- rows ---

    def _count(self, node: PlanNode) -> float:
        if isinstance(node, Scan):
            statistics = self._statistics(node)
            known = None if statistics is None else statistics.row_count
            return ROWS_UNKNOWN if known is None else float(known)
        if isinstance(node, Values):
            return float(node.data.num_rows)
        if isinstance(node, Filter):
            return self.rows(node.child) * self.fraction(node.predicate, node.child)
        if isinstance(node, Aggregate):
            return self._groups(node)
        if isinstance(node, (HashJoin, NestedLoopJoin)):
            return self._join_rows(node)
        if isinstance(node, TopN):
            return min(self.rows(node.child), float(node.count))
        if isinstance(node, Limit):
            left = max(0.0, self.rows(node.child) - node.offset)
            return left if node.count is None else min(left, float(node.count))
        if isinstance(node, UnionAll):
            return sum(map(self.rows, node.inputs))
        if isinstance(node, RecursiveUnion):
            return ROUNDS * self.rows(node.inputs[0])
        if isinstance(node, WorkingTable):
            return WORKING_ROWS
        if isinstance(node, Unnest):
            return LIST_LENGTH * self.rows(node.child)
        if isinstance(node, (EnforceSingleRow, TableWrite)):
            return 1.0
        if isinstance(node, SharedRead):
            return self.rows(node.like)
        return self.rows(node.children[0]) if node.children else ROWS_UNKNOWN

    def _groups(self, node: Aggregate) -> float:
        if not node.keys:
            return 1.0
        return min(self.rows(node.child), count_combinations([self._key(node, name) for name, _ in node.keys]))

    def _join_rows(self, node: HashJoin | NestedLoopJoin) -> float:
        left, right = self.rows(node.left), self.rows(node.right)
        fraction = 1.0
        if isinstance(node, HashJoin):
            pairs = list(zip(node.left_keys, node.right_keys, strict=True))
            if node.kind in ("left_semi", "left_anti", "null_aware_anti"):
                return left * self._semi_fraction(node, pairs, node.left, node.right)
            if node.kind in ("right_semi", "right_anti"):
                swapped = [(b, a) for a, b in pairs]
                return right * self._semi_fraction(node, swapped, node.right, node.left)
            left_columns = self._key_columns(node.left, node.left_keys)
            right_columns = self._key_columns(node.right, node.right_keys)
            fraction = 1.0 / key_values(left_columns, right_columns, left, right)
        elif node.kind in ("left_semi", "left_anti", "null_aware_anti"):
            return left * OTHER_FRACTION
        elif node.kind in ("right_semi", "right_anti"):
            return right * OTHER_FRACTION
        if node.kind in MARK_KINDS:
            return left
        if node.condition is not None:
            # The estimates of a column of the join use the number of its rows. The condition is ignored there.
            self._rows[node] = max(1.0, left * right * fraction)
            fraction *= self.fraction(node.condition, node)
        inner = left * right * fraction
        kept = {"inner": 0.0, "left": left, "right": right, "full": left + right}
        return max(inner, kept[node.kind])

    def _semi_fraction(
        self, node: HashJoin, pairs: Sequence[tuple[str, str]], kept: PlanNode, other: PlanNode
    ) -> float:
        """The fraction of the kept side's rows that a semi or anti join returns."""
        matched = self.match_fraction(node, kept, other, pairs)
        return max(0.05, 1.0 - matched) if "anti" in node.kind else matched

    def match_fraction(
        self, node: HashJoin, kept: PlanNode, other: PlanNode, pairs: Sequence[tuple[str, str]]
    ) -> float:
        """The fraction of the rows of `kept` that have a match in `other`."""
        a = [self.column(kept, name) for name, _ in pairs]
        b = [self.column(other, name) for _, name in pairs]
        matched = min(1.0, self.rows(other) / max(count_combinations(a), count_combinations(b), 1.0))
        return matched * OTHER_FRACTION if node.condition is not None else matched

    # --- columns ---

    def _column(self, node: PlanNode, name: str) -> ColumnEstimate:
        if isinstance(node, Scan):
            return self._estimate_scan(node, name)
        if isinstance(node, Project):
            return self._estimate_expr(node.expressions[node.schema.names.index(name)], node.child)
        if isinstance(node, Aggregate):
            return self._estimate_aggregate(node, name)
        if isinstance(node, (HashJoin, NestedLoopJoin)):
            return self._of_join(node, name)
        if isinstance(node, SharedRead):
            return self.column(node.like, node.columns[node.schema.names.index(name)])
        is_added = isinstance(node, (Window, Unnest)) and name not in node.child.schema.names
        is_added = is_added or (isinstance(node, Unnest) and name in dict(node.lists).values())
        makes_columns = isinstance(node, (AggregateStep, UnionAll, RecursiveUnion, UserOperator, TableWrite))
        if makes_columns or not node.children or is_added:
            return self._unknown(node, node.schema.field(name).type)
        return self.column(node.children[0], name)

    def _of_join(self, node: HashJoin | NestedLoopJoin, name: str) -> ColumnEstimate:
        for side, kinds in ((node.left, ("right", "full")), (node.right, ("left", "full"))):
            if name not in side.schema.names:
                continue
            column = self.column(side, name)
            if node.kind not in kinds or not isinstance(node, HashJoin):
                return column
            # Rows of the other side without a match have nulls here.
            pairs = list(zip(node.left_keys, node.right_keys, strict=True))
            if side is node.left:
                pairs = [(b, a) for a, b in pairs]
            other = node.right if side is node.left else node.left
            matched = self.match_fraction(node, other, side, pairs)
            return replace(column, null_fraction=1.0 - matched * (1.0 - column.null_fraction))
        return ColumnEstimate(2.0, self.rows(node))

    def _key_columns(self, node: PlanNode, names: Sequence[str]) -> list[ColumnEstimate]:
        """The estimates of the columns of a key, of one table where they are equal to columns of it.

        Columns of several tables seem to have all combinations of their values. In `a join b on a.x = b.x` the key
        (a.y, b.x) is the key (a.y, a.x), which has at most as many values as `a` has rows.
        """
        columns = [self.column(node, name) for name in names]
        if len({column.origin for column in columns}) < 2:
            return columns
        equal = [{column.origin: column for column in self._equal_columns(node, name)} for name in names]
        choices = [columns]
        for origin in dict.fromkeys(origin for found in equal for origin in found):
            choices.append([found.get(origin, column) for found, column in zip(equal, columns, strict=True)])
        return min(choices, key=count_combinations)

    def _equal_columns(self, node: PlanNode, name: str) -> Iterator[ColumnEstimate]:
        """The estimates of a column, and of columns that joins below made equal to it."""
        if isinstance(node, Filter):
            yield from self._equal_columns(node.child, name)
            return
        if isinstance(node, Project):
            expr = node.expressions[node.schema.names.index(name)]
            if isinstance(expr, Column):
                yield from self._equal_columns(node.child, expr.name)
                return
        if isinstance(node, HashJoin) and node.kind == "inner":
            is_left = name in node.left.schema.names
            yield from self._equal_columns(node.left if is_left else node.right, name)
            for left, right in zip(node.left_keys, node.right_keys, strict=True):
                if name == (left if is_left else right):
                    yield from self._equal_columns(*((node.right, right) if is_left else (node.left, left)))
            return
        yield self.column(node, name)

    def _unknown(self, node: PlanNode, type_: pa.DataType) -> ColumnEstimate:
        rows = self.rows(node)
        return ColumnEstimate(2.0 if pa.types.is_boolean(type_) else rows, rows, origin=node)

    def _estimate_expr(self, expr: Expr, child: PlanNode) -> ColumnEstimate:
        while isinstance(expr, Cast):
            expr = expr.argument
        if isinstance(expr, Column):
            return self.column(child, expr.name)
        if isinstance(expr, Literal):
            return ColumnEstimate(1.0, self.rows(child), known=True)
        rows = self.rows(child)
        names = column_names(expr)
        if isinstance(expr, Call) and len(names) == 1:
            # A function of one column has no more values than it.
            distinct = self.column(child, next(iter(names))).distinct
            distinct = min(distinct, _PART_VALUES.get(expr.function, distinct))
            return ColumnEstimate(min(distinct, rows), rows, origin=child)
        return ColumnEstimate(rows, rows, origin=child)

    def _estimate_aggregate(self, node: Aggregate, name: str) -> ColumnEstimate:
        rows = self.rows(node)
        if name not in dict(node.keys):
            return ColumnEstimate(rows, rows, origin=node)
        column = self._key(node, name)
        # A group key is unique among the groups of one key; a HAVING above does not change what it is a key of.
        distinct = rows if len(node.keys) == 1 else min(column.distinct, rows)
        return replace(column, distinct=distinct, rows=rows, origin=node)

    def _key(self, node: Aggregate, name: str) -> ColumnEstimate:
        return self._estimate_expr(dict(node.keys)[name], node.child)

    def _estimate_scan(self, node: Scan, name: str) -> ColumnEstimate:
        rows = self.rows(node)
        position = node.schema.names.index(name)
        type_ = node.schema.field(position).type
        statistics = self._statistics(node)
        if statistics is None:
            return self._unknown(node, type_)
        found = statistics.column(node.columns[position])
        low, high = as_number(found.min), as_number(found.max)
        nulls = min(1.0, found.null_count / rows) if found.null_count else 0.0
        known = found.distinct_count is not None
        distinct = float(found.distinct_count) if known else rows
        if not known:
            if pa.types.is_boolean(type_):
                distinct = 2.0
            elif low is not None and high is not None and _has_steps(type_):
                distinct = min(rows, high - low + 1.0)
        return ColumnEstimate(
            max(1.0, distinct), rows, known, low, high, nulls, node, found.is_clustered, found.most_common_share
        )

    # --- conditions ---

    def fraction(self, predicate: Expr, child: PlanNode) -> float:
        """The fraction of the child's rows for which the predicate is true."""
        result = 1.0
        ranges: dict[str, list[float | None]] = {}
        for part in conjuncts(predicate):
            bound = self._bound(part, child)
            if bound is None:
                result *= self._fraction(part, child)
                continue
            name, end, value = bound
            ends = ranges.setdefault(name, [None, None])
            side = 0 if end == "low" else 1
            known = ends[side]
            if known is None or (value > known) == (end == "low"):
                ends[side] = value
        for name, (low, high) in ranges.items():
            result *= _range_fraction(self.column(child, name), low, high)
        return min(1.0, max(result, 1e-9))

    def _bound(self, part: Expr, child: PlanNode) -> tuple[str, str, float] | None:
        """(column, end, value) of x < constant, if the column's range is known."""
        if not isinstance(part, Call) or part.function not in _RANGES or len(part.arguments) != 2:
            return None
        function, (a, b) = part.function, part.arguments
        if isinstance(a, Literal):
            function, a, b = _MIRRORED[function], b, a
        if not isinstance(a, Column) or not isinstance(b, Literal):
            return None
        value = as_number(b.value)
        column = self.column(child, a.name)
        if value is None or column.low is None or column.high is None:
            return None
        return a.name, _RANGES[function], value

    def _fraction(self, part: Expr, child: PlanNode) -> float:
        if isinstance(part, Literal):
            return 1.0 if part.value is True else 0.0
        if isinstance(part, In):
            return min(1.0, len(part.values) * self._equal_fraction(part.argument, child))
        if not isinstance(part, Call):
            return OTHER_FRACTION
        name, arguments = part.function, part.arguments
        if name == "and":
            return self.fraction(part, child)
        if name == "or":
            missed = 1.0
            for argument in arguments:
                missed *= 1.0 - self.fraction(argument, child)
            return 1.0 - missed
        if name == "not":
            return 1.0 - self.fraction(arguments[0], child)
        if name == "equal":
            return self._estimate_comparison(arguments, child)
        if name == "not_equal":
            return 1.0 - self._estimate_comparison(arguments, child)
        if name in _RANGES:
            constant = any(isinstance(argument, Literal) for argument in arguments)
            scanned = all(self._is_scanned(argument, child) for argument in arguments)
            return OTHER_FRACTION if not constant else RANGE_FRACTION if scanned else COMPARED_FRACTION
        if name in ("like", "ilike", "starts_with", "ends_with", "contains"):
            return LIKE_FRACTION
        if name in ("not_like", "not_ilike"):
            return 1.0 - LIKE_FRACTION
        if name in ("is_null", "is_not_null") and isinstance(arguments[0], Column):
            nulls = self.column(child, arguments[0].name).null_fraction
            return nulls if name == "is_null" else 1.0 - nulls
        return OTHER_FRACTION

    def _is_scanned(self, expr: Expr, child: PlanNode) -> bool:
        if isinstance(expr, Column):
            return isinstance(self.column(child, expr.name).origin, Scan)
        return isinstance(expr, Literal)

    def _estimate_comparison(self, arguments: Sequence[Expr], child: PlanNode) -> float:
        a, b = arguments
        if isinstance(a, Literal):
            a, b = b, a
        if isinstance(b, Literal):
            return self._equal_fraction(a, child)
        return min(self._equal_fraction(a, child), self._equal_fraction(b, child))

    def _equal_fraction(self, expr: Expr, child: PlanNode) -> float:
        """The fraction of the rows in which `expr` has one given value."""
        column = self._estimate_expr(expr, child)
        type_ = child.schema.field(expr.name).type if isinstance(expr, Column) else None
        if column.known or (column.low is not None and (type_ is None or _has_steps(type_))):
            return 1.0 / column.distinct
        is_number = type_ is None or is_numeric(type_)
        return 1.0 / max(1.0, min(column.distinct, NUMBER_VALUES if is_number else TEXT_VALUES))


_PART_VALUES = {"year": 10.0, "quarter": 4.0, "month": 12.0, "week": 53.0, "day": 31.0, "day_of_week": 7.0}


def _has_steps(type_: pa.DataType) -> bool:
    """Whether the length of a range of this type is its number of values: whole numbers and days."""
    return bool(pa.types.is_integer(type_) or pa.types.is_date(type_))


def count_combinations(columns: Sequence[ColumnEstimate]) -> float:
    """The number of distinct combinations of columns. Columns of one table have at most as many as it has rows."""
    by_origin: dict[Any, tuple[float, float]] = {}
    for column in columns:
        distinct, rows = by_origin.get(column.origin, (1.0, column.rows))
        by_origin[column.origin] = (distinct * column.distinct, max(rows, column.rows))
    result = 1.0
    for distinct, rows in by_origin.values():
        result *= min(distinct, rows)
    return result


def key_values(
    a: Sequence[ColumnEstimate], b: Sequence[ColumnEstimate], rows_a: float = 1.0, rows_b: float = 1.0
) -> float:
    """The divisor of the estimate rows_a * rows_b / divisor, for a join on these keys.

    If the key of a side is unique, each row of the other side matches at most one row. The divisor is then at least the
    number of rows of the unique side, `rows_a` or `rows_b`.
    """
    if is_unique(b):
        return max(_values_of_unique(b, a), rows_b)
    if is_unique(a):
        return max(_values_of_unique(a, b), rows_a)
    values_a, values_b = count_combinations(a), count_combinations(b)
    if all(column.known for column in (*a, *b)):
        return max(values_a, values_b, 1.0)
    # If the numbers are only upper bounds, a foreign key seems to have as many values as rows. The smaller bound is
    # more accurate.
    return max(min(values_a, values_b), 1.0)


def _values_of_unique(key: Sequence[ColumnEstimate], others: Sequence[ColumnEstimate]) -> float:
    """The number of values that `others` can have, if `key` is unique in its table."""
    in_range = values_in_range(key, others)
    if not all(column.known for column in (*key, *others)):
        return max(min(count_combinations(key), count_combinations(others)), in_range)
    return max(count_combinations(others), in_range if in_range > 1.0 else count_combinations(key))


def is_unique(columns: Sequence[ColumnEstimate]) -> bool:
    """Whether one of the columns seems to be a key of its table.

    It has as many distinct values, or as many whole numbers in its range, as the table has rows. Each row of another
    table then has at most one match.
    """
    return any((column.known or column.low is not None) and column.distinct >= column.rows > 1.0 for column in columns)


def values_in_range(keys: Sequence[ColumnEstimate], others: Sequence[ColumnEstimate]) -> float:
    """The number of values of a unique key within the range of the other side's values, at least 1.

    The fraction of these values that remains after filters is the fraction of the other side's rows with a match.
    Values outside the range must not count: a calendar may have 200 years, and a table of sales only five of them.
    """
    found = 1.0
    for key, other in zip(keys, others, strict=True):
        if key.low is None or key.high is None or key.distinct < key.rows:
            continue
        width = common = key.high - key.low + 1.0
        if other.low is not None and other.high is not None:
            common = min(key.high, other.high) - max(key.low, other.low) + 1.0
        found = max(found, key.distinct * min(1.0, max(common, 0.0) / width))
    return found


def as_number(value: Any) -> float | None:
    """The value as a number, to compute fractions of ranges. None for types that are not numeric or temporal."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    if isinstance(value, datetime.datetime):
        naive = value.replace(tzinfo=None) if value.tzinfo is not None else value
        return (naive - datetime.datetime(1970, 1, 1)).total_seconds() / 86_400.0
    if isinstance(value, datetime.date):
        return float(value.toordinal() - datetime.date(1970, 1, 1).toordinal())
    return None


def _range_fraction(column: ColumnEstimate, low: float | None, high: float | None) -> float:
    assert column.low is not None and column.high is not None
    start = column.low if low is None else max(low, column.low)
    end = column.high if high is None else min(high, column.high)
    if end < start:
        return 1e-6
    if column.high == column.low:
        return 1.0
    # A condition's range may be smaller than the distance of two values.
    return min(1.0, max((end - start) / (column.high - column.low), 1.0 / column.distinct, 1e-6))
