"""Correlated subqueries in which DataFusion would take one column, or one condition, for another. Floor P2.

Making a join of a subquery, it gives the columns that the conditions with outer columns and IN read a new qualifier and
keeps only their bare names: of `exists (select 1 from b join d … where b.id = outer.x and d.id = outer.y)` both
conditions then read the same id. Equal conditions become one: of `x in (select y from b where y = x)` that of IN, which
is unknown for nulls, and that of WHERE, which is then not true.
"""

from __future__ import annotations

import re

_TEXT = re.compile(r'Utf8(?:View)?\("(?:[^"\\]|\\.)*"\)')
_OUTER = re.compile(r"outer_ref\([^()]*\)")
_COLUMN = re.compile(r'((?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))*)\.("[^"]+"|[A-Za-z_]\w*)')


def confused_columns(written: str) -> tuple[str, str] | None:
    """Two columns of one name that a correlated subquery's conditions read, or None.

    `written` is the plan before optimization, as DataFusion shows it: a line a node, inputs indented below it.
    """
    lines = written.splitlines()
    for start, line in enumerate(lines):
        node = line.lstrip()
        if not node.startswith("Subquery:"):
            continue
        indent = len(line) - len(node)
        read: dict[str, str] = {}
        for column in _columns_read(lines, start, indent):
            bare = column.rpartition(".")[2]
            if read.setdefault(bare, column) != column:
                return read[bare], column
    return None


def repeated_condition(written: str) -> str | None:
    """What an IN (subquery) compares again in a condition of the subquery, or None. `written` as above."""
    lines = written.splitlines()
    for start, line in enumerate(lines[:-1]):
        if not line.lstrip().startswith("Subquery:"):
            continue
        given = lines[start + 1].lstrip().removeprefix("Projection: ").partition(" AS ")[0]
        indent = len(line) - len(line.lstrip())
        for below in lines[start + 1 :]:
            if len(below) - len(below.lstrip()) <= indent:
                break
            for outer in _OUTER.findall(below):
                asked = outer.removeprefix("outer_ref(").removesuffix(")")
                repeats = f"{given} = {outer}" in below or f"{outer} = {given}" in below
                if repeats and re.search(rf"{re.escape(asked)} (?:NOT )?IN \(<subquery>\)", _parent(lines, start)):
                    return f"{given} = {asked}"
    return None


def _columns_read(lines: list[str], start: int, indent: int) -> list[str]:
    """Columns of a subquery's own that must be read from outside, if it is correlated at all."""
    found: list[str] = []
    correlated = False
    for place in range(start + 1, len(lines)):
        node = lines[place].lstrip()
        if len(lines[place]) - len(node) <= indent:
            break
        text = _TEXT.sub("", node)
        if place == start + 1 and text.startswith("Projection: ") and "IN (<subquery>)" in _parent(lines, start):
            found += _columns(text.removeprefix("Projection: "))
        if "outer_ref(" in text:
            correlated = True
            parts = text.partition(": ")[2].split(" AND ")
            found += [column for part in parts if "outer_ref(" in part for column in _columns(_OUTER.sub("", part))]
    return found if correlated else []


def _parent(lines: list[str], start: int) -> str:
    """The line of the node that a line belongs to."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    above = (line for line in reversed(lines[:start]) if len(line) - len(line.lstrip()) < indent)
    return next(above, "")


def _columns(text: str) -> list[str]:
    return [f"{qualifier}.{name}" for qualifier, name in _COLUMN.findall(text)]
