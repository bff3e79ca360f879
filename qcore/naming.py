"""Fresh node ids and column names. Floor P2."""

from __future__ import annotations

from collections.abc import Iterable

from qcore.plan import PlanNode


class NodeIds:
    """Hands out "0", "1", … leaving out ids that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
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

    def new(self) -> str:
        """A fresh id."""
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
