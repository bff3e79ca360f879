"""The branches of an OR, and their common conditions.

(k = l and x) or (k = l and y) becomes k = l and (x or y). Both forms are equal in SQL's three-valued logic.
"""

from __future__ import annotations

from qcore.expression.tree import Call, Expr, conjuncts, same
from qcore.plan.joins import conjunction

# Of two operands, in either order.
_SYMMETRIC = frozenset({"equal", "not_equal", "is_distinct_from", "is_not_distinct_from"})


def factor_condition(expr: Expr) -> Expr:
    """Return the condition with the common conditions of each OR's branches moved before that OR."""
    if not isinstance(expr, Call) or expr.function not in ("and", "or"):
        return expr
    if expr.function == "and":
        parts = tuple(map(factor_condition, expr.arguments))
        return expr if all(a is b for a, b in zip(parts, expr.arguments, strict=True)) else Call("and", parts)
    written = disjuncts(expr)
    made = [factor_condition(branch) for branch in written]
    branches = [conjuncts(branch) for branch in made]
    common = _common(branches)
    if not common:
        return expr if all(a is b for a, b in zip(made, written, strict=True)) else Call("or", tuple(made))
    rests = [[part for part in branch if not _has(common, part)] for branch in branches]
    # If a branch has no other condition, the common conditions alone decide.
    return _join_parts(common if not all(rests) else [*common, Call("or", tuple(map(_join_parts, rests)))])


def disjuncts(expr: Expr) -> list[Expr]:
    """The branches of a disjunction, in order."""
    if isinstance(expr, Call) and expr.function == "or":
        return [branch for argument in expr.arguments for branch in disjuncts(argument)]
    return [expr]


def _common(branches: list[list[Expr]]) -> list[Expr]:
    """The conditions that all branches have, without repetitions."""
    common: list[Expr] = []
    for part in branches[0]:
        if not _has(common, part):
            common.append(part)
    for branch in branches[1:]:
        common = [part for part in common if _has(branch, part)]
        if not common:
            break
    return common


def _has(parts: list[Expr], wanted: Expr) -> bool:
    return any(_alike(part, wanted) for part in parts)


def _alike(a: Expr, b: Expr) -> bool:
    if same(a, b):
        return True
    if not isinstance(a, Call) or not isinstance(b, Call) or a.function != b.function or a.function not in _SYMMETRIC:
        return False
    return same(a.arguments[0], b.arguments[1]) and same(a.arguments[1], b.arguments[0])


def _join_parts(parts: list[Expr]) -> Expr:
    joined = conjunction(parts)
    assert joined is not None
    return joined
