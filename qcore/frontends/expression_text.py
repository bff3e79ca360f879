"""Expressions written as SQL text. They need the `sql` extra; col() and lit() never do."""

from __future__ import annotations

import re

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Column, Expr
from qcore.frontends.sql import plan_fragment
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode, Project, Scan
from qcore.plan.schema import unknown

# The table the text is planned over.
_INPUT = "input"
_ALIAS = re.compile(r"\s+as\s+(?:\"((?:[^\"]|\"\")+)\"|(\w+))\s*$", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def split_alias(text: str) -> tuple[str, str | None]:
    """An expression's text and the name after its `as`, if there is one."""
    found = _ALIAS.search(text)
    if found is None:
        return text, None
    return text[: found.start()], (found.group(1) or found.group(2)).replace('""', '"')


def parse_expression(text: str, schema: pa.Schema, where: str) -> Expr:
    """The expression of a text over columns of `schema`.

    Raises
    ------
    PlanError
        A syntax error, an unknown column or function, an aggregate; the message names `where` and quotes the text.

    Examples
    --------
    >>> parse_expression("a * 2 > 3", pa.schema([("a", pa.int64())]), "filter")
    ((a * 2) > 3)
    """
    if text in schema.names:
        return Column(text)
    if _IDENTIFIER.fullmatch(text.strip()) and text.strip().lower() not in ("true", "false", "null"):
        raise unknown("column", text.strip(), schema.names, where)
    plan = _plan(text, schema, where)
    if isinstance(plan, Project) and isinstance(plan.child, Scan) and len(plan.expressions) == 1:
        return plan.expressions[0]
    if isinstance(plan, Scan) and len(plan.schema) == 1:
        return Column(plan.columns[0])
    if any(isinstance(node, Aggregate) for node in plan.walk()):
        raise PlanError(f"{where}: {text!r} is an aggregate; use aggregate()")
    raise PlanError(f"{where}: {text!r} is no single expression over the input's columns")


def parse_aggregate(text: str, name: str, schema: pa.Schema, where: str) -> AggregateCall:
    """The aggregate of a text such as "sum(x)", "count(distinct y)" or "sum(x) filter (where y > 1)"."""
    plan = _plan(text, schema, where)
    if isinstance(plan, Project) and all(isinstance(expr, Column) for expr in plan.expressions):
        # The name of the output.
        plan = plan.child
    if not isinstance(plan, Aggregate) or not isinstance(plan.child, Scan) or len(plan.aggregates) != 1 or plan.keys:
        raise PlanError(f"{where}: {text!r} must be one aggregate, such as sum(x); project() can compute with it")
    call = plan.aggregates[0]
    return AggregateCall(name, call.function, call.arguments, call.distinct, call.filter, call.order)


def _plan(text: str, schema: pa.Schema, where: str) -> PlanNode:
    try:
        return plan_fragment(f"select ({text}) from {_INPUT}", {_INPUT: schema})
    except PlanError as error:
        raise PlanError(f"{where}: {text!r}: {error}") from None
