"""Fresh node ids and column names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from qcore.errors import PlanError
from qcore.plan.nodes import PlanNode, Scan
from qcore.plan.planning_time import check_planning


class NodeIds:
    """Hands out "0", "1", … leaving out ids that are taken. The parts of one plan share it, and with it the moment at
    which the plan was begun: `began_nanos` since 1970.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.began_nanos = time.time_ns()
        self._taken = set(taken)
        self._next = 0

    @staticmethod
    def of_plan(plan: PlanNode) -> NodeIds:
        """Ids that no node of `plan` has."""
        return NodeIds(node.id for node in plan.walk())

    def take(self, id: str) -> bool:
        """Reserve an id; False when it is taken already."""
        if id in self._taken:
            return False
        self._taken.add(id)
        return True

    def numbered(self, word: str) -> str:
        """A fresh id of a word and a number, which no renumbering changes: of a Shared node, whose id is its name."""
        number = 1
        while not self.take(f"{word}{number}"):
            number += 1
        return f"{word}{number}"

    def new(self) -> str:
        """A fresh id. Timeout where planning takes too long: what makes many nodes asks for many ids."""
        check_planning()
        while not self.take(str(self._next)):
            self._next += 1
        return str(self._next)


class ColumnNames:
    """Hands out column names, each once: x, x_1, x_2 …"""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def new(self, wish: str) -> str:
        """The wished name, or it with a number behind."""
        name = wish
        while name in self._taken:
            count = self._counts[wish] = self._counts.get(wish, 0) + 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name


def fresh_ids(plan: PlanNode, free: frozenset[str], taken: set[str]) -> dict[str, str]:
    """New ids for nodes of `plan` whose ids are taken.

    Numbers, and scans' ids among `free`, may change; PlanError for others.
    """
    own = {node.id for node in plan.walk()}
    used = taken | own
    fresh: dict[str, str] = {}
    for node in plan.walk():
        if node.id not in taken:
            continue
        if node.id not in free and (isinstance(node, Scan) or not node.id.isdigit()):
            raise PlanError(f"both plans have a node with the id {node.id!r}; give one another id")
        if isinstance(node, Scan):
            number = 1
            while f"{node.id}_{number}" in used:
                number += 1
            fresh[node.id] = f"{node.id}_{number}"
        else:
            fresh[node.id] = NodeIds(used).new()
        used.add(fresh[node.id])
    return fresh


def with_ids(plan: PlanNode, fresh: Mapping[str, str]) -> PlanNode:
    """The plan with the ids that `fresh` has new ones for replaced."""
    if not fresh:
        return plan
    new = tuple(with_ids(child, fresh) for child in plan.children)
    node = plan.with_children(*new) if new else plan
    return replace(node, id=fresh.get(node.id, node.id))
