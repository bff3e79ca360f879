"""Correlated subqueries in which DataFusion would take one column, or one condition, for another.

Making a join of a subquery, it gives the columns that the conditions with outer columns and IN read a new qualifier and
keeps only their bare names: of `exists (select 1 from b join d … where b.id = outer.x and d.id = outer.y)` both
conditions then read the same id. Equal conditions become one: of `x in (select y from b where y = x)` that of IN, which
is unknown for nulls, and that of WHERE, which is then not true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEXT = re.compile(r'Utf8(?:View)?\("(?:[^"\\]|\\.)*"\)')
_OUTER = re.compile(r"outer_ref\([^()]*\)")
_ASKED = re.compile(r"(EXISTS |IN |ANY |ALL |SOME )?\(<subquery>\)")
_NUMBERS_ROWS = re.compile(r"Limit:|Aggregate:|Distinct|Union|WindowAggr:|(?:Left|Right|Full) Join:")
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


def misjudged(written: str) -> str | None:
    """A correlated subquery of a kind that DataFusion joins wrongly, in words, or None. `written` as above.

    It loses a condition of one in ON, joins all rows of a scalar one that need not be one row, and takes conditions
    through what counts or numbers the rows of one value of the outer columns: limits, groups, windows, outer joins.
    """
    lines = written.splitlines()
    for start, line in enumerate(lines):
        if not line.lstrip().startswith("Subquery:"):
            continue
        inside = [_TEXT.sub("", other.lstrip()) for other in _below(lines, start)]
        if not any("outer_ref(" in other for other in inside):
            continue
        is_value = "(<subquery>)" in _TEXT.sub("", _parent(lines, start))
        if is_value and " Join:" in _parent(lines, start):
            return "in ON"
        top = next((other for other in inside if not other.startswith("Projection: ")), "")
        is_scalar = is_value and _is_scalar(lines, start)
        if is_scalar and not top.startswith("Aggregate: groupBy=[[]]"):
            return "that may give more than one row"
        top_aggregate = inside.index(top) if is_scalar else -1
        if any(_NUMBERS_ROWS.match(other) for n, other in enumerate(inside) if n != top_aggregate):
            return "with LIMIT, GROUP BY, a set operation, an outer join or a window"
    return None


def _below(lines: list[str], start: int) -> Iterator[str]:
    """The lines of the nodes below the subquery at a line, those of subqueries inside it left out."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    inner: int | None = None
    for line in lines[start + 1 :]:
        node = line.lstrip()
        deep = len(line) - len(node)
        if deep <= indent:
            return
        if inner is None or deep <= inner:
            inner = deep if node.startswith("Subquery:") else None
            if inner is None:
                yield line


def _is_scalar(lines: list[str], start: int) -> bool:
    """Whether the subquery at a line may be a value, not what EXISTS or IN ask."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    above = _TEXT.sub("", _parent(lines, start))
    asked = [found.group(1) is None for found in _ASKED.finditer(above)]
    parent = lines.index(_parent(lines, start)) if above else 0
    place = sum(other.startswith(" " * indent + "Subquery:") for other in lines[parent + 1 : start])
    return asked[place] if place < len(asked) else True


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
