"""LIMIT, OFFSET and FETCH."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Expr, Literal
from qcore.functions.casts import bind_cast
from qcore.plan.computed_limits import limit_by_rows
from qcore.plan.nodes import Limit, PlanNode
from qcore.plan.projections import project
from qcore.sql.binder import Binder
from qcore.sql.literals import constant
from qcore.sql.reading import get, take
from qcore.sql.scope import BindContext, Environment, Relation, Rows, Scope
from qcore.sql.single_row import one_row
from qcore.sql.subqueries import join_subqueries


def limit_rows(binder: Binder, relation: Relation, limit: Any, offset: Any, environment: Environment) -> Relation:
    """The rows within LIMIT and OFFSET, in their order."""
    if limit is None and offset is None:
        return relation
    try:
        return _apply_limit(binder, relation, limit, offset, environment)
    except PlanError:
        binder.blame(offset if limit is None else limit)
        raise


def _apply_limit(binder: Binder, relation: Relation, limit: Any, offset: Any, environment: Environment) -> Relation:
    count, is_share = (None, False) if limit is None else _count(limit)
    first = None
    if offset is not None:
        first, unread = take(offset, "expression", "expressions")
        if unread:
            raise PlanError("LIMIT … BY is not supported; use row_number() OVER (PARTITION BY …) and a condition")
    one = one_row(binder)
    context = BindContext(Scope(Rows(one, [], []), environment, binder.dialect), "LIMIT")
    values = [_bound(binder, value, context, word) for value, word in ((count, "LIMIT"), (first, "OFFSET"))]
    if is_share:
        _check_share(values[0])
    numbers: list[Any] = [value.expr.value if isinstance(value.expr, Literal) else _UNKNOWN for value in values]
    node: PlanNode
    if not is_share and all(number is None or isinstance(number, int) for number in numbers):
        for number, word in zip(numbers, ("LIMIT", "OFFSET"), strict=True):
            if number is not None and number < 0:
                raise PlanError(f"{word} {number}: a number of rows cannot be negative")
        node = Limit(binder.ids.new(), relation.node.schema, relation.node, numbers[0], numbers[1] or 0)
        return Relation(node, relation.columns)

    ids, names = binder.ids, binder.names
    below = join_subqueries(binder, one, context.subqueries)
    exprs = [_number(binder, value, is_share and n == 0) for n, value in enumerate(values)]
    computed = project(ids.new(), below, [names.new("count"), names.new("offset")], exprs)
    return Relation(limit_by_rows(ids, names, relation.node, computed, is_share), relation.columns)


_UNKNOWN = object()


def _check_share(value: Bound) -> None:
    share = value.expr.value if isinstance(value.expr, Literal) else None
    if share is None:
        raise PlanError("LIMIT n %: the percentage must be a number, not an expression")
    if not 0 <= share <= 100:
        raise PlanError(f"LIMIT {share} %: a percentage is from 0 % to 100 %")


def _number(binder: Binder, value: Bound, is_share: bool) -> Expr:
    if is_share:
        return bind_cast(value, pa.float64(), binder.dialect).expr
    # A negative number is an error.
    return bind_cast(bind_cast(value, pa.uint64(), binder.dialect), pa.int64(), binder.dialect).expr


def _bound(binder: Binder, node: Any, context: BindContext, word: str) -> Bound:
    if node is None or type(node).__name__ == "Null":
        return constant(None, pa.int64())
    value = binder.expression(node, context)
    if isinstance(value.expr, Literal) and pa.types.is_string(value.type) and str(value.expr.value).strip().isdigit():
        return constant(int(value.expr.value), pa.int64())
    if pa.types.is_string(value.type) or pa.types.is_boolean(value.type) or pa.types.is_nested(value.type):
        raise PlanError(f"{word} takes a number of rows, not {value.type}")
    return value


def _count(node: Any) -> tuple[Any, bool]:
    """The number of rows as an expression, and whether it is a percentage."""
    if type(node).__name__ == "Fetch":
        count, options, _ = take(node, "count", "limit_options", "direction")
        # Older versions of sqlglot read ROW in FETCH NEXT ROW ONLY as the number.
        is_word = type(count).__name__ == "Identifier" and count.name.lower() in ("row", "rows")
        count = _one() if count is None or is_word else count
    else:
        count, options, by, _ = take(node, "expression", "limit_options", "expressions", "offset")
        if by or get(node, "offset") is not None:
            raise PlanError("LIMIT takes one number; write the number of rows to skip with OFFSET")
    is_share = False
    if options is not None:
        percent, _, ties = take(options, "percent", "rows", "with_ties")
        if ties:
            raise PlanError("FETCH FIRST … WITH TIES is not supported; use rank() and a condition")
        is_share = bool(percent)
    if type(count).__name__ == "Mod" and get(count, "expression") is None:
        is_share, count = True, get(count, "this")
    return (None if _is_all(count) else count), is_share


def _is_all(node: Any) -> bool:
    """Whether it is the word ALL, which is a name in one version of the parser and a word in another."""
    if type(node).__name__ == "Var":
        return str(take(node, "this")[0]).lower() == "all"
    return type(node).__name__ == "Column" and node.name.lower() == "all" and not node.this.args.get("quoted")


def _one() -> Any:
    """The node of the number 1."""
    from sqlglot import exp

    return exp.Literal.number(1)
