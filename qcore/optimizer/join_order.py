"""Rule: the order of inner joins, by estimated rows.

The rule splits a group of inner joins into relations and conditions, and joins these again in the cheapest order. Up to
DP_RELATIONS_MAX relations are ordered by dynamic programming over connected subsets, more relations greedily.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from qcore.expression.tree import Call, Column, Expr, call, col, column_names, conjuncts
from qcore.optimizer.cardinality import (
    OTHER_FRACTION,
    UNCERTAINTY,
    ColumnEstimate,
    Estimator,
    is_unique,
    key_values,
)
from qcore.optimizer.nodes import rebuilt
from qcore.plan.joins import conjunction, join_on_keys, split_conditions
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Filter, HashJoin, NestedLoopJoin, PlanNode
from qcore.record import record

DP_RELATIONS_MAX = 10
# A build row costs more than a probe row: about 2 : 1, measured with tables larger than the cache.
BUILD_WEIGHT = 2.0
PROBE_WEIGHT = 1.0
OUTPUT_WEIGHT = 1.0


def order_joins(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """Return the plan with every group of inner joins in its cheapest order."""
    if not is_inner_join(plan):
        children = [order_joins(child, ids, estimator) for child in plan.children]
        return rebuilt(plan, children, ids) if children else plan
    leaves: list[PlanNode] = []
    conditions: list[Expr] = []
    take_apart(plan, leaves, conditions)
    leaves = [order_joins(leaf, ids, estimator) for leaf in leaves]
    names = [name for leaf in leaves for name in leaf.schema.names]
    if len(set(names)) != len(names):
        # Relations have equal column names, which projections between the joins renamed. The order is not changed.
        children = [order_joins(child, ids, estimator) for child in plan.children]
        return rebuilt(plan, children, ids)
    return _Graph(leaves, conditions, ids, estimator).best()


def is_inner_join(node: PlanNode) -> bool:
    """Whether `take_apart` takes the node apart."""
    return isinstance(node, (HashJoin, NestedLoopJoin)) and node.kind == "inner"


def take_apart(node: PlanNode, leaves: list[PlanNode], conditions: list[Expr]) -> None:
    """Add the relations of a group of inner joins to `leaves`, and its conditions to `conditions`."""
    if not is_inner_join(node):
        leaves.append(node)
        return
    assert isinstance(node, (HashJoin, NestedLoopJoin))
    take_apart(node.left, leaves, conditions)
    take_apart(node.right, leaves, conditions)
    if isinstance(node, HashJoin):
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        conditions += [call("equal", col(a), col(b)) for a, b in pairs]
    if node.condition is not None:
        conditions += conjuncts(node.condition)


@record(slots=True)
class _Tree:
    """A way to join a subset of the relations.

    `rows` is the estimated number of rows, multiplied by UNCERTAINTY for each join that may return more. `split` has
    the two subsets that are joined last; None for one relation.
    """

    rows: float
    cost: float
    split: tuple[int, int] | None = None
    uncertainty: float = 1.0


def _mask_of(members: dict[int, ColumnEstimate], test: Callable[[ColumnEstimate], bool]) -> int:
    """The relations whose column passes a test."""
    return sum(1 << leaf for leaf, column in members.items() if test(column))


def _is_unique(column: ColumnEstimate) -> bool:
    return is_unique((column,))


def _is_known(column: ColumnEstimate) -> bool:
    return column.known or column.distinct < column.rows


def _least_cost(left: _Tree, right: _Tree) -> float:
    """The cost of the join of two subsets, without the cost of its output rows."""
    build, probe = (left.rows, right.rows) if left.rows <= right.rows else (right.rows, left.rows)
    return left.cost + right.cost + BUILD_WEIGHT * build + PROBE_WEIGHT * probe


class _Graph:
    """Relations and conditions of one group. Subsets of relations are bit masks."""

    def __init__(
        self, leaves: Sequence[PlanNode], conditions: Sequence[Expr], ids: NodeIds, estimator: Estimator
    ) -> None:
        self.ids = ids
        self.estimator = estimator
        self.leaves = list(leaves)
        self.leaf_of = {name: i for i, leaf in enumerate(leaves) for name in leaf.schema.names}
        self.classes: list[list[str]] = []
        self.others: list[tuple[int, Expr]] = []
        for condition in conditions:
            if not self._add_equality(condition):
                self.others.append((self._mask(condition), condition))
        self._filter_leaves()
        self.rows = [estimator.rows(leaf) for leaf in self.leaves]
        self.by_rows = sorted(range(len(self.leaves)), key=lambda i: self.rows[i])
        self.members = [self._members(group) for group in self.classes]
        self.class_masks = [sum(1 << leaf for leaf in members) for members in self.members]
        #: By class: the relations whose column is unique, and those of whose values something is known.
        self.unique_masks = [_mask_of(members, _is_unique) for members in self.members]
        self.known_masks = [_mask_of(members, _is_known) for members in self.members]
        #: The relations of each condition on several that is no equality of columns.
        self.links = [mask for mask, _ in self.others if mask]
        self.fractions = [OTHER_FRACTION if mask else 1.0 for mask, _ in self.others]
        # If no column is known to be unique, all orders are equally uncertain.
        self.link_uncertainty = UNCERTAINTY if any(self.unique_masks) else 1.0
        #: For each subset the relations that share a class of equal columns with it, including its own relations.
        self._neighbours: dict[int, int] = {}
        self._subset_rows: dict[int, float] = {}
        #: Estimated rows of subsets, by equal columns alone.
        self._joined_rows: dict[int, float] = {}

    # --- relations and conditions ---

    def _mask(self, condition: Expr) -> int:
        mask = 0
        for name in column_names(condition):
            mask |= 1 << self.leaf_of[name]
        return mask

    def _add_equality(self, condition: Expr) -> bool:
        """Add column = column to the classes of equal columns. False for another condition."""
        if not isinstance(condition, Call) or condition.function != "equal":
            return False
        a, b = condition.arguments
        if not isinstance(a, Column) or not isinstance(b, Column) or self.leaf_of[a.name] == self.leaf_of[b.name]:
            return False
        types = [self.leaves[self.leaf_of[c.name]].schema.field(c.name).type for c in (a, b)]
        if types[0] != types[1]:
            return False
        touched = [group for group in self.classes if a.name in group or b.name in group]
        merged = list(dict.fromkeys([*(name for group in touched for name in group), a.name, b.name]))
        self.classes = [group for group in self.classes if group not in touched] + [merged]
        return True

    def _filter_leaves(self) -> None:
        """Apply conditions on one relation to it, including equal columns of one relation (a.x = b.y = a.z)."""
        for group in self.classes:
            first: dict[int, str] = {}
            for name in list(group):
                leaf = self.leaf_of[name]
                if leaf in first:
                    self.others.append((1 << leaf, call("equal", col(first[leaf]), col(name))))
                    group.remove(name)
                else:
                    first[leaf] = name
        for i, relation in enumerate(self.leaves):
            own = conjunction([condition for mask, condition in self.others if mask == 1 << i])
            if own is not None:
                self.leaves[i] = Filter(self.ids.new(), relation.schema, relation, own)
        self.others = [(mask, condition) for mask, condition in self.others if mask.bit_count() != 1]

    def _members(self, group: Sequence[str]) -> dict[int, ColumnEstimate]:
        """Estimates of a class's columns, by relation."""
        return {self.leaf_of[name]: self.estimator.column(self.leaves[self.leaf_of[name]], name) for name in group}

    # --- sizes ---

    def subset_rows(self, subset: int) -> float:
        """The estimated rows of the join of a subset. The estimate does not depend on the order."""
        found = self._subset_rows.get(subset)
        if found is None:
            found = self._subset_rows[subset] = self._estimate(subset)
        return found

    def _estimate(self, subset: int) -> float:
        rows = self._equal_rows(subset)
        for (mask, _), fraction in zip(self.others, self.fractions, strict=True):
            if mask & subset == mask:
                rows *= fraction
        return max(1.0, rows)

    def _equal_rows(self, subset: int) -> float:
        """The estimate by equal columns alone: the last relation joined with the rest of the subset."""
        found = self._joined_rows.get(subset)
        if found is None:
            last = self._last(subset)
            rest = subset ^ (1 << last)
            found = self.rows[last]
            if rest:
                found = self._equal_rows(rest) * (found / self._divisor(rest, last))
            self._joined_rows[subset] = found
        return found

    def _last(self, subset: int) -> int:
        """The last relation of a subset when small relations are joined first.

        With this order the effect of a filter on a small table is known before that table is joined with a large one.
        The order of the other relations does not depend on the last one.
        """
        left = [i for i in self.by_rows if subset >> i & 1]
        joined = 1 << left[0]
        following = left.pop(0)
        while left:
            # The smallest relation that is connected, or just the smallest.
            neighbours = self._neighbours_of(joined)
            for following in left:
                if neighbours >> following & 1 or (self.links and self._are_linked(joined, 1 << following)):
                    break
            else:
                following = left[0]
            left.remove(following)
            joined |= 1 << following
        return following

    def _divisor(self, joined: int, added: int) -> float:
        of_added: list[ColumnEstimate] = []
        of_joined: list[ColumnEstimate] = []
        shared: list[dict[int, ColumnEstimate]] = []
        for members, mask in zip(self.members, self.class_masks, strict=True):
            if mask >> added & 1 and mask & joined:
                of_added.append(members[added])
                shared.append({leaf: column for leaf, column in members.items() if joined >> leaf & 1})
        if not shared:
            return 1.0
        # If one relation has all columns, they are combined there: its rows limit the number of combinations.
        common = set(shared[0]).intersection(*shared[1:])
        for members in shared:
            leaf = min(common) if common else min(members, key=lambda leaf: members[leaf].distinct)
            of_joined.append(members[leaf])
        return key_values(of_joined, of_added, rows_b=self.rows[added])

    def _is_connected(self, a: int, b: int) -> bool:
        return bool(self._neighbours_of(a) & b) or (bool(self.links) and self._are_linked(a, b))

    def _neighbours_of(self, subset: int) -> int:
        """The relations that share a class of equal columns with a subset."""
        neighbours = self._neighbours.get(subset)
        if neighbours is None:
            neighbours = 0
            for mask in self.class_masks:
                if mask & subset:
                    neighbours |= mask
            self._neighbours[subset] = neighbours
        return neighbours

    def _are_linked(self, a: int, b: int) -> bool:
        """Whether two subsets have all relations of another condition, and each has one of them."""
        return any(mask & a and mask & b and not mask & ~(a | b) for mask in self.links)

    # --- choosing ---

    def best(self) -> PlanNode:
        """The cheapest join of all relations found."""
        trees = {1 << i: _Tree(rows, 0.0) for i, rows in enumerate(self.rows)}
        if len(self.leaves) <= DP_RELATIONS_MAX:
            self._enumerate(trees)
        self._greedy(trees)
        return self._build((1 << len(self.leaves)) - 1, trees)

    def _joined_tree(self, a: int, b: int, trees: dict[int, _Tree]) -> _Tree:
        left, right = trees[a], trees[b]
        pairs = left.rows * right.rows
        has_keys, is_certain = self._link(a, b)
        uncertainty = left.uncertainty * right.uncertainty * (1.0 if is_certain else self.link_uncertainty)
        rows = min(self.subset_rows(a | b) * uncertainty, pairs)
        cost = _least_cost(left, right) + OUTPUT_WEIGHT * rows
        if not has_keys:
            # Every pair of rows is compared. An estimate of one row for a side may be wrong.
            cost += pairs * self._leaf_uncertainty(a | b)
        return _Tree(rows, cost, (a, b), uncertainty)

    def _leaf_uncertainty(self, subset: int) -> float:
        leaves = [leaf for i, leaf in enumerate(self.leaves) if subset >> i & 1]
        return math.prod(map(self.estimator.uncertainty, leaves))

    def _link(self, a: int, b: int) -> tuple[bool, bool]:
        """Whether the subsets share a class of equal columns, and whether the estimate of their join is certain.

        It is certain if statistics count the values on both sides, or if a row of one side matches at most one row.
        """
        has_keys, all_known, both = False, True, a | b
        for mask, unique, known in zip(self.class_masks, self.unique_masks, self.known_masks, strict=True):
            if mask & a and mask & b:
                if unique & both:
                    return True, True
                has_keys = True
                all_known = all_known and not mask & both & ~known
        return has_keys, all_known

    def _enumerate(self, trees: dict[int, _Tree]) -> None:
        """Compute the cheapest tree of every connected subset, small subsets first."""
        for subset in range(3, 1 << len(self.leaves)):
            if subset & (subset - 1) == 0:
                continue
            lowest = subset & -subset
            rest = subset ^ lowest
            best: _Tree | None = None
            # One half is a part of `rest` together with the lowest relation.
            part = rest
            while part:
                part = (part - 1) & rest
                a, b = part | lowest, rest ^ part
                if a in trees and b in trees and self._is_connected(a, b):
                    if best is not None and _least_cost(trees[a], trees[b]) >= best.cost:
                        continue
                    tree = self._joined_tree(a, b, trees)
                    if best is None or tree.cost < best.cost:
                        best = tree
            if best is not None:
                trees[subset] = best

    def _greedy(self, trees: dict[int, _Tree]) -> None:
        """Join the remaining subsets, the smallest result first.

        These are unconnected subsets, and those of groups that are too large to enumerate.
        """
        full = (1 << len(self.leaves)) - 1
        if full in trees:
            return
        parts = self._largest_parts(trees)
        while len(parts) > 1:
            pairs = [(a, b) for i, a in enumerate(parts) for b in parts[i + 1 :]]
            connected = [pair for pair in pairs if self._is_connected(*pair)]
            a, b = min(connected or pairs, key=lambda pair: self.subset_rows(pair[0] | pair[1]))
            trees[a | b] = self._joined_tree(a, b, trees)
            parts = [part for part in parts if part not in (a, b)] + [a | b]

    def _largest_parts(self, trees: dict[int, _Tree]) -> list[int]:
        """Disjoint subsets that have trees and cover everything."""
        parts: list[int] = []
        covered = 0
        for subset in sorted(trees, key=int.bit_count, reverse=True):
            if not subset & covered:
                parts.append(subset)
                covered |= subset
        return parts

    # --- the new plan ---

    def _build(self, subset: int, trees: dict[int, _Tree]) -> PlanNode:
        split = trees[subset].split
        if split is None:
            return self.leaves[subset.bit_length() - 1]
        a, b = split
        left, right = self._build(a, trees), self._build(b, trees)
        if self.estimator.rows(left) < self.estimator.rows(right):
            # The rule build_sides would make this join again.
            a, b, left, right = b, a, right, left
        pairs: list[tuple[Expr, Expr]] = []
        for group, mask in zip(self.classes, self.class_masks, strict=True):
            if mask & a and mask & b:
                in_a = next(name for name in group if a >> self.leaf_of[name] & 1)
                in_b = next(name for name in group if b >> self.leaf_of[name] & 1)
                pairs.append((col(in_a), col(in_b)))
        now = [
            condition
            for mask, condition in self.others
            if mask & subset == mask and mask & a != mask and mask & b != mask
        ]
        # Conditions without columns are added to the last join.
        if subset == (1 << len(self.leaves)) - 1:
            now += [condition for mask, condition in self.others if mask == 0]
        more, rest = split_conditions(now, left.schema, right.schema)
        return join_on_keys(self.ids, "inner", left, right, [*pairs, *more], rest)
