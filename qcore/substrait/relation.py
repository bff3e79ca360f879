"""A Substrait relation as read."""

from __future__ import annotations

from dataclasses import dataclass

from qcore.plan.nodes import PlanNode
from qcore.substrait.lambdas import Scope


@dataclass
class Relation:
    """A relation as read: `columns` name its columns, in order, within `node`'s schema; the node may have more."""

    node: PlanNode
    columns: list[str]

    def scope(self) -> Scope:
        """For the expressions over this relation."""
        return Scope(self.node, self.columns)
