"""Marks of IN, and what else Substrait has no place for, put into the hints of a message's relations.

DataFusion's plans say it in their text, in the order in which the message has the relations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from qcore.errors import PlanError
from qcore.substrait.join_relations import NULL_AWARE
from qcore.substrait.relations import GROUPING_SET

LEFT_ANTI, LEFT_MARK = 6, 11
# A mark read otherwise than as a condition that holds; and IN (subquery) where the planner takes it for never unknown.
_MARK_READ = re.compile(
    r"NOT [\w.]*\.mark\b|\.mark (?:IS|=|!=|<|>)|NOT \(.*\.mark\b|(?:coalesce|\() ?.*\.mark\b.*\bIS\b|CASE .*\.mark\b"
)
_IN_FOLDED = re.compile(r"IN \(<subquery>\)\)? IS|(?:coalesce|nullif|CASE)\b.*IN \(<subquery>\)", re.IGNORECASE)
_ASKED = re.compile(r"(.*?)(?:NOT )?IN \(<subquery>\)")
_CONSTANTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"(?!\.)|\d\.")
_BESIDE = re.compile(r" AND | OR |Filter: |Projection: |CASE |WHEN |THEN |ELSE |NOT ")


def mark_marks(message: Any) -> None:
    """Put into the hints of all mark joins that they come from IN."""
    for join in _relations(message.relations[0].root.input, "join", once=False):
        if join.type == LEFT_MARK:
            join.common.hint.alias = NULL_AWARE


def mark_null_aware(message: Any, shown: str) -> None:
    """Put into the joins' hints which anti joins come from NOT IN: DataFusion knows, Substrait has no place for it.

    The plan's text and the messages list the anti joins in the same order: a node, its subqueries, its inputs.
    """
    flags = [line.rstrip().endswith("null_aware") for line in shown.splitlines() if "LeftAnti Join:" in line]
    joins = _as_shown(message, "join", len(flags), LEFT_ANTI)
    if len(joins) != len(flags):
        raise PlanError("NOT IN (subquery) over nullable columns cannot be planned here; use NOT EXISTS")
    for join, null_aware in zip(joins, flags, strict=True):
        if null_aware:
            join.common.hint.alias = NULL_AWARE


def mark_single_grouping_sets(message: Any, shown: str) -> None:
    """Put into aggregates' hints that they have one grouping set, and so a grouping id, which one group by has not."""
    lines = [line for line in shown.splitlines() if "Aggregate: groupBy=" in line or line.lstrip() == "Distinct:"]
    flags = [" groupBy=[[GROUPING SETS" in line for line in lines]
    if not any(flags):
        # To walk the message takes longer than to plan some queries.
        return
    aggregates = _as_shown(message, "aggregate", len(flags))
    for aggregate, has_sets in zip(aggregates, flags, strict=False) if len(aggregates) == len(flags) else ():
        if has_sets and len(aggregate.groupings) == 1:
            aggregate.common.hint.alias = GROUPING_SET


def _as_shown(message: Any, kind: str, count: int, type_: int | None = None) -> list[Any]:
    """The relations of a kind, and of this type, as many as the plan's text shows where that can be had: a message has
    the operand of a BETWEEN twice, with its subquery.
    """
    found: list[Any] = []
    for once in (False, True):
        relations = _relations(message.relations[0].root.input, kind, once)
        found = [relation for relation in relations if type_ is None or relation.type == type_]
        if len(found) == count:
            break
    return found


def _relations(rel: Any, kind: str, once: bool) -> Iterator[Any]:
    """Relations of one kind, in the order in which DataFusion shows them; with `once`, a subquery that an expression
    repeats counts once.
    """
    body = getattr(rel, rel.WhichOneof("rel_type"))
    if rel.WhichOneof("rel_type") == kind:
        yield body
    inputs = []
    for field, value in body.ListFields():
        if field.message_type is None:
            continue
        parts = value if field.is_repeated else [value]
        if field.message_type.name == "Rel":
            inputs += list(parts)
        else:
            for part in parts:
                seen: set[bytes] = set()
                for subquery in _subqueries(part):
                    written = subquery.SerializeToString() if once else b""
                    if written not in seen:
                        yield from _relations(subquery, kind, once)
                    seen.update([written] if once else [])
    for part in inputs:
        yield from _relations(part, kind, once)


def _subqueries(message: Any) -> Iterator[Any]:
    """Relations inside an expression, in order."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else [value]:
            if field.message_type.name == "Rel":
                yield part
            else:
                yield from _subqueries(part)


def loses_unknown(written: str, shown: str) -> bool:
    """Whether it matters somewhere that IN (subquery) is unknown, not false, among nulls, and the optimized plan's
    marks have but two values.

    EXISTS, which is never unknown, makes marks of the same look; only the query as written tells them apart.
    """
    marked = "LeftMark Join" in shown and any(map(_MARK_READ.search, shown.splitlines()))
    return marked or any(map(_IN_FOLDED.search, written.splitlines()))


def asks_of_constant(written: str) -> bool:
    """Whether an IN (subquery) has no column before it: what it compares is then a condition of the subquery's rows
    alone, under which the planner loses those with a null.
    """
    for line in written.splitlines() if "IN (<subquery>)" in written else ():
        for before in _ASKED.findall(line) if "IN (<subquery>)" in line else ():
            if "." not in _BESIDE.split(_CONSTANTS.sub("", before))[-1]:
                return True
    return False
