"""Steps of a plan that combine whole rows of several inputs. SPEC Q2."""

from __future__ import annotations

from typing import Any, Self

from qcore.builder.plan_steps import PlanSteps
from qcore.errors import PlanError
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, UnionAll
from qcore.plan.schema import same_type
from qcore.plan.set_operations import make_set_operation


class SetSteps(PlanSteps):
    """The part of PlanBuilder for unions, intersections and differences."""

    def union_all(self, *others: Any, id: str | None = None) -> Self:
        """All rows of this and the other inputs; columns go by position, names are this one's."""
        first = self._input("union_all")
        builder: Any = self
        nodes = [first]
        for position, other in enumerate(others):
            left, right, free = builder._both("union_all", other, nodes)
            _check_union(left, right, f"union_all(), input {position + 2}")
            nodes.append(right)
            builder = builder._with(left, free)
        made: Self = builder._continued(UnionAll(id or builder._new_id(nodes), first.schema, tuple(nodes)))
        return made

    def intersect(self, other: Any, all: bool = False) -> Self:
        """The rows that the other input (a PlanBuilder or a plan) has too, each once; with `all`, as often as both
        have it. Columns go by position, nulls are equal, names are this one's.
        """
        return self._set_operation("intersect", other, all)

    def except_(self, other: Any, all: bool = False) -> Self:
        """The rows that the other input (a PlanBuilder or a plan) has not, each once; with `all`, as often as this
        input has more of it. Columns go by position, nulls are equal, names are this one's.
        """
        return self._set_operation("except", other, all)

    def _set_operation(self, kind: str, other: Any, all: bool) -> Self:
        left, right, free = self._both("except_" if kind == "except" else kind, other)
        ids = NodeIds(node.id for root in (left, right) for node in root.walk())
        names = ColumnNames([*left.schema.names, *right.schema.names])
        made = make_set_operation(ids, names, f"{kind}_all" if all else kind, left, right)
        joined: Self = self._with(made, free)
        return joined


def _check_union(first: PlanNode, other: PlanNode, where: str) -> None:
    if len(first.schema) != len(other.schema):
        raise PlanError(f"{where} has {len(other.schema)} columns, the first input {len(first.schema)}")
    for a, b in zip(first.schema, other.schema, strict=True):
        if not same_type(a.type, b.type):
            raise PlanError(f"{where}: column {b.name!r} is {b.type}, the first's {a.name!r} is {a.type}; cast one")
