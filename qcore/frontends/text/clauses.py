"""The clauses of one SELECT, among the tokens of a query: its select list, aliases, where its tables end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, Region, SqlText

# A query → the names of its columns.
ColumnsOf = Callable[[str], Sequence[str]]
# What ends a select list, or a list of tables.
CLAUSES = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY"})
JOINS = frozenset({"JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "ON", "USING", "LATERAL", "OUTER"})
_BEFORE_QUERY = SET_OPERATORS | {"ALL", "DISTINCT"}
# Words that may stand last in an expression, or before its last word: what follows them names no column.
_NO_ALIAS = frozenset({"END", "NULL", "TRUE", "FALSE", "UNKNOWN", "ISNULL", "NOTNULL"})
_BEFORE_OPERAND = frozenset(
    {"AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "BETWEEN", "THEN", "ELSE", "WHEN", "FROM"}
)
# Last words of types that have several, and what stands before them.
_LAST_OF_TYPE = {"PRECISION": "DOUBLE", "ZONE": "TIME", "VARYING": "CHARACTER"}
# What may follow the number of an INTERVAL.
UNITS = frozenset(
    {unit + plural for plural in ("", "S") for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")}
)


def is_distinct_from(sql: SqlText, i: int) -> bool:
    """Whether token i is the FROM of IS [NOT] DISTINCT FROM."""
    return sql.is_word(i, "FROM") and sql.is_word(i - 1, "DISTINCT") and sql.is_word(i - 2, "IS", "NOT")


def begins_clause(sql: SqlText, i: int) -> bool:
    """Whether a clause of a SELECT begins at token i, or what follows it; not at the FROM of IS DISTINCT FROM."""
    return sql.is_word(i, *CLAUSES, *TAIL) and not is_distinct_from(sql, i)


def clauses_of(sql: SqlText, start: int, end: int) -> list[int]:
    """Where the clauses behind the select list of the SELECT of tokens start to end begin."""
    return [i for i in sql.level(start + 1, end) if sql.is_word(i, *CLAUSES) and not is_distinct_from(sql, i)]


def selects(sql: SqlText, region: Region) -> Iterator[tuple[int, int]]:
    """The SELECTs that a query's set operators join."""
    return ((start, end) for start, end in operands(sql, region) if sql.is_word(start, "SELECT"))


def select_list(sql: SqlText, start: int, stop: int) -> list[tuple[int, int]]:
    """The items of the select list of the SELECT of tokens start to stop: where each begins and ends."""
    begin = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
    if sql.is_word(start + 1, "DISTINCT") and sql.is_word(start + 2, "ON") and sql.is_sign(start + 3, "("):
        begin = sql.partner[start + 3] + 1
    end = next((i for i in sql.level(begin, stop) if begins_clause(sql, i)), stop)
    return [(a, b) for a, b in items(sql, begin, end) if a < b]


def operands(sql: SqlText, region: Region) -> Iterator[tuple[int, int]]:
    """What a query's set operators join."""
    start = region.main
    for i in sql.level(region.main, region.end):
        is_operator = sql.is_word(i, *SET_OPERATORS) and i > start and not sql.is_sign(i - 1, "*")
        if is_operator or sql.is_word(i, *TAIL):
            yield start, i
            if sql.is_word(i, *TAIL):
                return
            start = i + 1 + sql.is_word(i + 1, "ALL", "DISTINCT")
            start += 2 * (sql.is_word(start, "BY") and sql.is_word(start + 1, "NAME"))
    yield start, region.end


def with_select_lists(text: str) -> str:
    """The text with the select list before every FROM that stands before it, SELECT * where there is none."""
    while (changed := _with_select_list(SqlText.read(text))) is not None:
        text = changed
    return text


def _with_select_list(sql: SqlText) -> str | None:
    begins = {region.main for region in sql.regions}
    if not any(i in begins or sql.is_word(i - 1, *_BEFORE_QUERY) for i in sql.places("FROM")):
        return None
    for region in sql.regions:
        for start, end in operands(sql, region):
            # TRIM(FROM x) is no query.
            if not sql.is_word(start, "FROM") or sql.is_word(start - 2, "TRIM"):
                continue
            behind = next((i for i in sql.level(start, end) if sql.is_word(i, "SELECT")), end)
            if behind == end:
                return f"{sql.text[: sql.tokens[start].start]}SELECT * {sql.text[sql.tokens[start].start :]}"
            until = next((i for i in sql.level(behind, end) if begins_clause(sql, i)), end)
            return sql.replaced(start, until, f"{sql.slice(behind, until)} {sql.slice(start, behind)}")
    return None


def free_name(wish: str, taken: set[str]) -> str:
    """The wished name, or it with a number behind, which is `taken` then; those are in lower case."""
    free, n = wish, 0
    while free.lower() in taken:
        n += 1
        free = f"{wish}_{n}"
    taken.add(free.lower())
    return free


def quoted(name: str) -> str:
    """The name as an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def with_visible(sql: SqlText, position: int, query: str) -> str:
    """The query with the common tables that one at token `position` may name."""
    definitions = sql.visible(position)
    return f"WITH {', '.join(definitions)} {query}" if definitions else query


def items(sql: SqlText, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between commas."""
    at = start
    for i in sql.level(start, end):
        if sql.is_sign(i, ","):
            yield at, i
            at = i + 1
    yield at, end


def named(sql: SqlText, a: int, b: int) -> tuple[int, str]:
    """Where the expression of a select item ends, and its name."""
    if b - a > 2 and sql.is_word(b - 2, "AS"):
        return b - 2, sql.name(b - 1)
    last, before = sql.tokens[b - 1], sql.tokens[b - 2]
    follows_value = before.kind in ("string", "quoted", "number") or any(sql.is_sign(b - 2, sign) for sign in ")]}")
    follows_value = follows_value or (before.kind == "word" and before.text not in _BEFORE_OPERAND)
    if sql.is_word(b - 2, "OVER"):
        return b, sql.slice(a, b).lower()
    if b - a > 2 and sql.is_word(b - 3, "INTERVAL") and last.text in UNITS:
        return b, sql.slice(a, b).lower()
    if last.kind == "word" and last.text in _LAST_OF_TYPE and sql.is_word(b - 2, _LAST_OF_TYPE[last.text]):
        return b, sql.slice(a, b).lower()
    if b - a > 1 and follows_value and (last.kind == "quoted" or (last.kind == "word" and last.text not in _NO_ALIAS)):
        return b - 1, sql.name(b - 1)
    if last.kind in ("word", "quoted") and (b - a == 1 or sql.is_sign(b - 2, ".")):
        return b, sql.name(b - 1)
    return b, sql.slice(a, b).lower()


def read_alias(sql: SqlText, at: int, end: int) -> tuple[int, str, list[str]]:
    """`[AS] name [(columns)]` at token `at`: where it ends, and the names; none where there is no alias."""
    at += sql.is_word(at, "AS")
    if at >= end or sql.tokens[at].kind not in ("word", "quoted") or sql.is_word(at, *JOINS, *CLAUSES):
        return at, "", []
    name, columns = sql.name(at), []
    at += 1
    if at < end and sql.is_sign(at, "("):
        columns = [sql.name(i) for i in range(at + 1, sql.partner[at]) if not sql.is_sign(i, ",")]
        at = sql.partner[at] + 1
    return at, name, columns


def is_reference(sql: SqlText, i: int) -> bool:
    """Whether token i may be a column named without its table: no function, type, field of a date or alias."""
    if sql.tokens[i].kind not in ("word", "quoted") or any(sql.is_sign(i + 1, sign) for sign in ".("):
        return False
    if i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind == "string":
        return False
    before = sql.tokens[i - 1]
    follows_extract = sql.is_sign(i - 1, "(") and sql.is_word(i - 2, "EXTRACT")
    return not (
        follows_extract
        or before.kind in ("string", "number")
        or before.text in (".", ":")
        or sql.is_word(i - 1, "AS", "WINDOW", "OVER")
    )


def is_type(sql: SqlText, i: int) -> bool:
    """Whether a word stands where a type does: behind ::, or behind the AS of a CAST."""
    if sql.is_sign(i - 1, ":") and sql.is_sign(i - 2, ":"):
        return True
    if not sql.is_word(i - 1, "AS"):
        return False
    at = i - 1
    while at > 0:
        at -= 1
        if at in sql.partner and sql.partner[at] < at:
            at = sql.partner[at]
        elif at in sql.partner:
            return sql.is_word(at - 1, "CAST", "TRY_CAST")
    return False
