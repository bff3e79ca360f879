"""Fresh node ids and column names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from qcore.errors import PlanError
from qcore.plan.nodes import PlanNode, Scan
from qcore.plan.planning_time import check_planning, note_moment


class NodeIds:
    """Makes new node ids "0", "1", … that are not taken. All parts of a plan share one object, and with it the time at
    which planning began.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._began_nanos = time.time_ns()
        self._taken = set(taken)
        self._next = 0

    @property
    def began_nanos(self) -> int:
        """The time at which planning began, in ns since 1970. A plan that holds it is not used again."""
        return note_moment(self._began_nanos)

    @staticmethod
    def of_plan(plan: PlanNode) -> NodeIds:
        """The ids of `plan` are taken."""
        return NodeIds([node.id for node in plan.walk()])

    def take(self, id: str) -> bool:
        """Reserve an id; False when it is taken already."""
        if id in self._taken:
            return False
        self._taken.add(id)
        return True

    def number_word(self, word: str) -> str:
        """A new id of a word and a number, for Shared nodes. Renumbering does not change it."""
        number = 1
        while not self.take(f"{word}{number}"):
            number += 1
        return f"{word}{number}"

    def new(self) -> str:
        """A new id. Timeout if planning takes too long: steps that make many nodes call this often."""
        check_planning()
        number = self._next
        while (id := str(number)) in self._taken:
            number += 1
        self._taken.add(id)
        self._next = number + 1
        return id


class ColumnNames:
    """Makes column names that are not taken: x, x_1, x_2 …"""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def new(self, wish: str) -> str:
        """The name `wish`, with a number appended if it is taken."""
        name = wish
        while name in self._taken:
            count = self._counts[wish] = self._counts.get(wish, 0) + 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name


def fresh_ids(plan: PlanNode, free: frozenset[str], taken: set[str]) -> dict[str, str]:
    """New ids for the nodes of `plan` whose ids are taken.

    Numbers and the ids in `free` may change. PlanError if another id is taken.
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


def replace_ids(plan: PlanNode, fresh: Mapping[str, str]) -> PlanNode:
    """The plan with the ids in `fresh` replaced."""
    if not fresh:
        return plan
    new = tuple(replace_ids(child, fresh) for child in plan.children)
    node = plan.with_children(*new) if new else plan
    return node.with_fields(id=fresh.get(node.id, node.id))
