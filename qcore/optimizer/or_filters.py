"""Conditions on one input of a join that an OR over both of them implies.

(a = 1 and b = 2) or (a = 3 and b = 4) implies a in (1, 3) and b in (2, 4). These conditions can be applied to each
input before the join. The OR itself is still applied to the joined rows. Examples are TPC-H Q7, TPC-DS Q13 and Q48.
"""

from __future__ import annotations

from collections.abc import Collection

from qcore.expression.tree import Call, Expr, column_names, conjuncts
from qcore.optimizer.simplify import simplify_junction
from qcore.plan.disjunctions import disjuncts
from qcore.plan.joins import conjunction


def imply_conditions(condition: Expr, names: Collection[str]) -> list[Expr]:
    """Return conditions over only the columns `names` that `condition`, an OR of ANDs, implies."""
    branches = disjuncts(condition)
    if len(branches) < 2:
        return []
    made: list[Expr] = []
    for branch in branches:
        own = [part for part in conjuncts(branch) if column_names(part) and column_names(part) <= set(names)]
        joined = conjunction(own)
        if joined is None:
            return []
        made.append(joined)
    return conjuncts(simplify_junction(Call("or", tuple(made))))
