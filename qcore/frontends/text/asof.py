"""ASOF JOIN written as a join on the nearest row, which a window finds.

The left table's rows and the right one's keys, together, are ordered by what the join compares; the largest key of the
right that has come before a row (the smallest, from the other end) is what it is joined on, by =.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from qcore.errors import PlanError
from qcore.frontends.text.clauses import (
    JOINS,
    ColumnsOf,
    clauses_of,
    items,
    quoted,
    read_alias,
    selects,
    with_visible,
)
from qcore.frontends.text.tokens import SqlText

_MATCH = '"$asof"'
_FLIPPED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_USAGE = "t ASOF [LEFT] JOIN u ON t.k = u.k AND t.x >= u.x, or USING (k, x)"


def without_asof(text: str, columns_of: ColumnsOf) -> str:
    """The text with ASOF JOIN written otherwise.

    Raises
    ------
    PlanError
        A condition without exactly one <, <=, > or >= of both tables; a join before it in the same FROM.
    """
    while True:
        sql = SqlText.read(text)
        found = [i for i in sql.places("ASOF") if _is_join(sql, i)]
        if not found:
            return text
        text = _without(sql, found[-1], columns_of)


def _is_join(sql: SqlText, i: int) -> bool:
    is_table = sql.is_word(i - 1, "FROM", "JOIN", "AS") or sql.is_sign(i - 1, ",")
    return not is_table and any(sql.is_word(i + n, "JOIN") for n in (1, 2, 3))


def _without(sql: SqlText, asof: int, columns_of: ColumnsOf) -> str:
    region = sql.enclosing(asof)[-1]
    if asof not in sql.level(region.main, region.end):
        raise PlanError("ASOF JOIN in brackets is not supported; write a subquery")
    start, end = next((a, b) for a, b in selects(sql, region) if a <= asof < b)
    clauses = clauses_of(sql, start, end)
    begin = next(i for i in clauses if sql.is_word(i, "FROM"))
    until = next((i for i in clauses if i > begin), end)
    first, last = next((a, b) for a, b in items(sql, begin + 1, until) if a <= asof < b)
    if any(sql.is_word(i, *JOINS) for i in sql.level(first, asof)):
        raise PlanError("ASOF JOIN behind another join is not supported; put the tables before it into a subquery")
    outer = sql.is_word(asof + 1, "LEFT")
    table = asof + 1
    while not sql.is_word(table, "JOIN"):
        if not sql.is_word(table, "LEFT", "OUTER", "INNER"):
            raise PlanError(f"ASOF {sql.tokens[table].text} JOIN is not supported; it is written {_USAGE}")
        table += 1
    condition = next((i for i in sql.level(table + 1, last) if sql.is_word(i, "ON", "USING")), None)
    if condition is None:
        raise PlanError(f"ASOF JOIN has no condition; it is written {_USAGE}")
    stop = next((i for i in sql.level(condition + 1, last) if _begins_join(sql, i)), last)
    left, right = _Table(sql, first, asof, "$left", columns_of), _Table(sql, table + 1, condition, "$right", columns_of)
    if sql.is_word(condition, "USING"):
        close = sql.partner[condition + 1]
        names = [quoted(sql.name(a)) for a, _ in items(sql, condition + 2, close)]
        equal = [(f"{left.name}.{name}", f"{right.name}.{name}") for name in names[:-1]]
        compared = (f"{left.name}.{names[-1]}", ">=", f"{right.name}.{names[-1]}")
        joined = f"USING ({', '.join([*names[:-1], _MATCH])})"
        nearest = right.with_one_row(equal, compared, names[-1])
    else:
        equal, compared = _condition(sql, condition + 1, stop, left, right)
        pairs = [f"({a}) = ({b})" for a, b in equal]
        joined = f"ON {' AND '.join([*pairs, f'{left.name}.{_MATCH} = ({compared[2]})'])}"
        nearest = right.with_one_row(equal, compared, None)
    kind = "LEFT JOIN" if outer else "JOIN"
    made = f"{left.with_match(right, equal, compared)} {kind} {nearest} {joined}"
    listed = _without_match(sql, start + 1, begin, left.name)
    return sql.replaced(start, stop, f"SELECT {listed} FROM {sql.slice(begin + 1, first)} {made}")


def _begins_join(sql: SqlText, i: int) -> bool:
    if sql.is_word(i, "LEFT", "RIGHT") and sql.is_sign(i + 1, "("):
        return False
    return sql.is_word(i, "JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "ASOF")


def _without_match(sql: SqlText, begin: int, end: int, left: str) -> str:
    """The select list with stars that leave the column of the nearest key out."""
    made = []
    for a, b in items(sql, begin, end):
        a += (head := sql.is_word(a, "DISTINCT", "ALL"))
        word = f"{sql.tokens[a - 1].text} " if head else ""
        star = a
        while sql.is_sign(star + 1, "."):
            star += 2
        text = sql.slice(a, b)
        if sql.is_sign(star, "*") and (star == a or quoted(sql.name(a)) == left):
            if sql.is_word(star + 1, "EXCLUDE", "EXCEPT") and sql.is_sign(star + 2, "("):
                text = f"{sql.slice(a, star + 3)}{_MATCH}, {sql.slice(star + 3, b)}"
            elif sql.is_word(star + 1, "EXCLUDE", "EXCEPT"):
                text = f"{sql.slice(a, star + 2)} ({_MATCH}, {sql.slice(star + 2, star + 3)}) {sql.slice(star + 3, b)}"
            else:
                text = f"{sql.slice(a, star + 1)} EXCLUDE ({_MATCH}) {sql.slice(star + 1, b)}"
        made.append(word + text)
    return ", ".join(made)


class _Table:
    """One side of the join: tokens a to b, a name or a query in brackets with perhaps an alias."""

    def __init__(self, sql: SqlText, a: int, b: int, unnamed: str, columns_of: ColumnsOf) -> None:
        after = sql.partner[a] + 1 if sql.is_sign(a, "(") else a + 1
        while sql.is_sign(after, "."):
            after += 2
        after = sql.partner[after] + 1 if sql.is_sign(after, "(") and after < b else after
        end, alias, renamed = read_alias(sql, after, b)
        if end != b:
            raise PlanError(f"ASOF JOIN of {sql.slice(a, b)!r} is not supported; put it into a subquery")
        own = unnamed if sql.is_sign(a, "(") else sql.name(after - 1)
        self.name = quoted(alias or own)
        listed = f"({', '.join(map(quoted, renamed))})" if renamed else ""
        self.text = f"{sql.slice(a, after)} AS {self.name}{listed}"
        self.columns = list(columns_of(with_visible(sql, a, f"SELECT * FROM {self.text}")))

    def owns(self, sql: SqlText, a: int, b: int) -> set[bool]:
        """Whether the columns that tokens a to b name are this table's: for each, or none."""
        lower = {column.lower() for column in self.columns}
        found = set()
        for i in range(a, b):
            if sql.tokens[i].kind not in ("word", "quoted") or sql.is_sign(i + 1, "(") or sql.is_sign(i - 1, "."):
                continue
            if sql.is_sign(i + 1, "."):
                found.add(quoted(sql.name(i)) == self.name)
            elif sql.name(i).lower() in lower:
                found.add(True)
        return found

    def with_match(self, right: _Table, equal: Sequence[tuple[str, str]], compared: tuple[str, str, str]) -> str:
        """The left table with the nearest key of the right one beside its columns."""
        value, sign, key = compared
        own = ", ".join(f"{self.name}.{quoted(name)}" for name in self.columns)
        none = ", ".join(f"NULL AS {quoted(name)}" for name in self.columns)
        lefts = "".join(f', {a} AS "$k{n}"' for n, (a, _) in enumerate(equal))
        rights = "".join(f', {b} AS "$k{n}"' for n, (_, b) in enumerate(equal))
        keys = ", ".join(f'"$k{n}"' for n in range(len(equal)))
        # Of equal keys the right's come first where they count.
        right_first = sign in (">=", "<=")
        descending = " DESC" if sign[0] == "<" else ""
        pick = "min" if descending else "max"
        window = f'{f"PARTITION BY {keys} " if keys else ""}ORDER BY "$at"{descending} NULLS LAST, "$side"'
        rows = (
            f'SELECT {own}{lefts}, {value} AS "$at", NULL AS "$key", {int(right_first)} AS "$side", true AS "$is" '
            f"FROM {self.text} UNION ALL "
            f"SELECT {none}{rights}, {key}, {key}, {int(not right_first)}, false FROM {right.text} "
            f"WHERE ({key}) IS NOT NULL"
        )
        listed = ", ".join(map(quoted, self.columns))
        near = f'CASE WHEN "$at" IS NOT NULL THEN {pick}("$key") OVER ({window} ROWS UNBOUNDED PRECEDING) END'
        return (
            f'(SELECT {listed}, {_MATCH} FROM (SELECT {listed}, {near} AS {_MATCH}, "$is" FROM ({rows}) AS "$rows") '
            f'AS "$near" WHERE "$is") AS {self.name}'
        )

    def with_one_row(self, equal: Sequence[tuple[str, str]], compared: tuple[str, str, str], merged: str | None) -> str:
        """The right table with one row of each key; what is `merged` is called as the left's column is."""
        keys = ", ".join([*(b for _, b in equal), compared[2]])
        listed = f"{self.name}.*" if merged is None else f"{self.name}.* EXCLUDE ({merged}), {compared[2]} AS {_MATCH}"
        number = f"row_number() OVER (PARTITION BY {keys} ORDER BY {compared[2]})"
        return f"(SELECT {listed} FROM {self.text} QUALIFY {number} = 1) AS {self.name}"


def _condition(
    sql: SqlText, a: int, b: int, left: _Table, right: _Table
) -> tuple[list[tuple[str, str]], tuple[str, str, str]]:
    """The pairs that must be equal, and what is compared: an expression of the left, a sign, one of the right."""
    equal, compared = [], []
    while sql.is_sign(a, "(") and sql.partner[a] == b - 1:
        a, b = a + 1, b - 1
    bounds = [a - 1, *(i for i in sql.level(a, b) if sql.is_word(i, "AND", "OR")), b]
    for before, after in itertools.pairwise(bounds):
        first, last = before + 1, after
        while sql.is_sign(first, "(") and sql.partner[first] == last - 1:
            first, last = first + 1, last - 1
        signs = [i for i in sql.level(first, last) if any(sql.is_sign(i, sign) for sign in "<>=")]
        sign = "".join(sql.tokens[i].text for i in signs)
        if sign not in ("=", *_FLIPPED) or sql.is_word(after, "OR") or sql.is_word(before, "OR"):
            raise PlanError(f"ASOF JOIN takes =, <, <=, > and >= joined by AND, not {sql.slice(first, last)!r}")
        sides = (first, signs[0]), (signs[-1] + 1, last)
        texts = [sql.slice(*side) for side in sides]
        owners = [(left.owns(sql, *side), right.owns(sql, *side)) for side in sides]
        if not _is_of(owners[0]) or not _is_of(owners[1][::-1]):
            texts.reverse()
            sign = _FLIPPED.get(sign, sign)
            owners.reverse()
        if not _is_of(owners[0]) or not _is_of(owners[1][::-1]):
            raise PlanError(
                "ASOF JOIN compares an expression of the one table with one of the other, not "
                f"{sql.slice(first, last)!r}; say of each column which table's it is"
            )
        if sign == "=":
            equal.append((texts[0], texts[1]))
        else:
            compared.append((texts[0], sign, texts[1]))
    if len(compared) != 1:
        raise PlanError(f"ASOF JOIN has one <, <=, > or >=, not {len(compared)}; it is written {_USAGE}")
    return equal, compared[0]


def _is_of(owners: tuple[set[bool], set[bool]]) -> bool:
    """Whether all columns that an expression names are the first table's, and none the other's."""
    own, other = owners
    return False not in own and True not in other
