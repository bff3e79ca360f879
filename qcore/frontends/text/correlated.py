"""Correlated subqueries cut out of a query's text, whatever they compare and wherever they stand.

DataFusion resolves them all, decorrelates some, and writes no outer column into Substrait. So what it is given has no
subquery: a scalar one is a function of the outer columns that it reads, which are functions without arguments in the
subquery's own text, and is planned by itself. EXISTS, IN, ANY and ALL are scalar subqueries that aggregate their rows.
A LATERAL one is a table that has the outer columns beside its own, joined where they are the same. What the functions
mean is up to qcore.plan.dependent_joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from qcore.errors import PlanError
from qcore.frontends.text.clauses import begins_clause, items, quoted, read_alias, with_visible
from qcore.frontends.text.scopes import (
    Name,
    Select,
    is_query,
    names_in,
    queries_around,
    scopes,
    selects_of,
    stands_for_table,
    tables_before,
)
from qcore.frontends.text.subqueries import operand
from qcore.frontends.text.tokens import SET_OPERATORS, Region, SqlText
from qcore.functions.aggregates import is_aggregate

# How the planner names a column that comes from a query around its own.
_OUTER = "outer_ref("
_COMPARISONS = frozenset("=<>!")
# After these a bracket with a query is a table, or part of a set operation.
_NO_VALUE = ("JOIN", "AS", "MATERIALIZED", "ARRAY", *SET_OPERATORS)

# These take the query in the brackets that follow.
_BEFORE_QUERY = ("EXISTS", "IN", "ANY", "ALL", "SOME", "ARRAY", "FROM", "JOIN", "LATERAL", "AS", "MATERIALIZED")

# The name of a column, and what finds its type, which takes longer.
Described = tuple[str, Callable[[], pa.DataType]]


class Planner(Protocol):
    """What cutting needs of who plans the pieces."""

    def described(self, text: str) -> Described | None:
        """Name and type of the first column of a query; None where it cannot be resolved."""

    def add_outer(self, type_: pa.DataType) -> str:
        """A function without arguments for an outer column."""

    def argument(self, text: str, type_: pa.DataType) -> str:
        """The text of a value of this type as an argument of such a function."""

    def add_subquery(self, text: str, outer: Sequence[str], types: Sequence[pa.DataType]) -> str:
        """A function of values for the outer columns that gives the one value of a query."""

    def add_lateral(self, text: str, outer: Sequence[str], values: str, columns: Sequence[str]) -> str:
        """A table of the rows of a query for each row of `values`, whose columns are the outer ones."""


class Cutting:
    """Cuts the subqueries of one text; `needed` says whether there were any. With `every` those of EXISTS and IN are
    cut that read no outer column, too.
    """

    def __init__(self, planner: Planner, every: bool = False) -> None:
        self._planner = planner
        self._every = every
        self._described: dict[str, Described | None] = {}
        # Calls made of subqueries, by their text and that of the tables around: GROUP BY repeats what is selected.
        self._made: dict[tuple[str, ...], str] = {}
        self._count = 0
        self._left: set[str] = set()
        # Outer columns, as (function, name), that the tables made of LATERAL subqueries read.
        self._pending: dict[str, list[tuple[str, str]]] = {}
        self.needed = False

    def cut(self, text: str) -> str:
        """The text without correlated subqueries. PlanError for one that cannot be cut."""
        text = _in_single_brackets(text)
        while (changed := self._cut_one(SqlText.read(text))) is not None:
            text, self.needed = changed, True
        return text

    def _cut_one(self, sql: SqlText) -> str | None:
        for opens in _common_tables_first(sql):
            query = next((region for region in sql.regions if region.start == opens + 1), None)
            if query is None or not is_query(sql, query):
                continue
            around = queries_around(sql, opens)
            select = next((s for region in around[-1:] for s in selects_of(sql, region) if s.holds(opens)), None)
            if select is None:
                continue
            if sql.is_word(opens - 1, "LATERAL"):
                others = (i for i in sql.level(select.tables[0], opens - 1) if sql.is_word(i, "LATERAL"))
                if any(sql.is_sign(i + 1, "(") for i in others):
                    continue  # which this one may read
                return self._lateral(sql, query, select)
            changed = None if self._is_no_value(sql, opens, select) else self._value(sql, query, select)
            if changed is not None:
                return changed
        return None

    @staticmethod
    def _is_no_value(sql: SqlText, opens: int, select: Select) -> bool:
        if select.start == opens or stands_for_table(sql, opens, select):
            return True
        before = opens - 1 - sql.is_word(opens - 1, "ALL", "DISTINCT")
        return sql.is_word(before, *_NO_VALUE)

    # --- values ---

    def _value(self, sql: SqlText, query: Region, select: Select) -> str | None:
        """The text with the scalar subquery, EXISTS, IN, ANY or ALL as a call; None where it may stay as it is."""
        opens, close = query.start - 1, query.end
        in_join = select.tables[0] <= opens < select.tables[1]
        start, operator, asked = opens, "", None
        if sql.is_word(opens - 1, "EXISTS"):
            start, operator = opens - 1, "EXISTS"
        elif sql.is_word(opens - 1, "IN"):
            operator = "IN"
            end = opens - 1 - sql.is_word(opens - 2, "NOT")
            start = operand(sql, end)
            asked = sql.slice(start, end)
        elif sql.is_word(opens - 1, "ANY", "ALL", "SOME"):
            operator = sql.tokens[opens - 1].text
            end = opens - 1
            while _is_comparison(sql, end - 1):
                end -= 1
            start = operand(sql, end)
            asked = sql.slice(start, end)
        may_stay = operator not in ("ANY", "ALL", "SOME") and not ((in_join or self._every) and operator)
        if may_stay and not self._is_correlated(sql, query):
            return None
        known = (sql.slice(start, close + 1), with_visible(sql, start, ""), *(text for _, text in scopes(sql, start)))
        if known in self._made:
            return sql.replaced(start, close + 1, self._made[known])
        body, outer, types, arguments = self._freed(sql, query)
        if operator == "EXISTS":
            body = f"SELECT count(*) > 0 FROM ({body})"
        elif asked is not None:
            type_ = self._type_of(sql, start, asked, select)
            outer, types, arguments = [*outer, self._planner.add_outer(type_)], [*types, type_], [*arguments, asked]
            compared = "=" if operator == "IN" else sql.slice(end, opens - 1)
            body = _matched(body, f'{quoted(outer[-1])}() {compared} "$in"."$value"', operator == "ALL")
        name = self._planner.add_subquery(_complete(sql, query.start, body), outer, types)
        negated = operator == "IN" and sql.is_word(opens - 2, "NOT")
        values = map(self._planner.argument, arguments, types)
        made = f"{quoted(name)}({', '.join(values)})"
        self._made[known] = made = f"(NOT {made})" if negated else made
        return sql.replaced(start, close + 1, made)

    def _is_correlated(self, sql: SqlText, query: Region) -> bool:
        if self._tables_read(sql, query):
            return True
        return self._first_free(sql, query) is not None

    def _freed(self, sql: SqlText, query: Region) -> tuple[str, list[str], list[pa.DataType], list[str]]:
        """The query's text with its outer columns as functions: these, their types, and what they are outside."""
        names: dict[str, tuple[str, pa.DataType]] = {}
        start = query.start
        pending = self._tables_read(sql, query)
        while (free := self._first_free(sql, query)) is not None:
            select, name, type_ = free
            if sql.is_word(select.start, "VALUES"):
                sql = SqlText.read(sql.replaced(select.start, select.end, _as_selects(sql, select)))
                query = next(region for region in sql.regions if region.start == start)
                continue
            function, _ = names.setdefault(name.text, ("", type_))
            if not function:
                function = self._planner.add_outer(type_)
                names[name.text] = function, type_
            made = f"{quoted(function)}()"
            if _is_item(sql, select, name):
                made += f" AS {quoted(sql.name(name.end - 1))}"
            sql = SqlText.read(sql.replaced(name.start, name.end, made))
            query = next(region for region in sql.regions if region.start == start)
        outer = [function for function, _ in names.values()]
        types = [type_ for _, type_ in names.values()]
        arguments = list(names)
        for function, text in pending:
            found = self._resolved(sql, start, text, beyond=query)
            if found is None:
                raise PlanError(f"{text} is not known where a LATERAL subquery reads it")
            outer.append(function)
            types.append(found[1]())
            arguments.append(text)
        return sql.slice(query.start, query.end), outer, types, arguments

    def _tables_read(self, sql: SqlText, query: Region) -> list[tuple[str, str]]:
        tokens = sql.tokens[query.start : query.end]
        named = {token.text[1:-1] for token in tokens if token.kind == "quoted"}
        return [pair for table, pairs in self._pending.items() if table in named for pair in pairs]

    def _first_free(self, sql: SqlText, query: Region) -> tuple[Select, Name, pa.DataType] | None:
        """The first name in the query that means a column of a query around it, and the column's type."""
        for select, name in names_in(sql, query.start, query.end):
            type_ = self._type_outside(sql, query, name)
            if type_ is None:
                continue
            call = _aggregate_of(sql, select, name)
            if call is None:
                return select, name, type_
            # By the standard, an aggregate of outer columns only is one of the outer query.
            others = [
                other for _, other in names_in(sql, query.start, query.end) if call.start < other.start < call.end
            ]
            found = self._resolved(sql, query.start, call.text, beyond=query)
            if found is None or any(self._type_outside(sql, query, other) is None for other in others):
                return select, name, type_
            return select, call, found[1]()
        return None

    def _type_outside(self, sql: SqlText, query: Region, name: Name) -> pa.DataType | None:
        """The type of what a name in a query means, if that is a column of a query around it."""
        found = self._resolved(sql, name.start, name.text)
        if found is None and "." in name.text:
            # The planner takes b.n for a field of a column b, whatever type that has.
            outside = self._resolved(sql, query.start, name.text, beyond=query)
            return None if outside is None else outside[1]()
        if found is None or not found[0].startswith(_OUTER):
            return None
        is_inside = queries_around(sql, name.start)[-1].start > query.start
        if is_inside and self._resolved(sql, name.start, name.text, within=query):
            return None
        alone = self._resolved(sql, query.start, name.text, beyond=query)
        return (alone or found)[1]()

    def _resolved(
        self, sql: SqlText, i: int, value: str, within: Region | None = None, beyond: Region | None = None
    ) -> Described | None:
        """What a value at token i is, of columns `within` a query only, or of queries `beyond` it: its name, which says
        whether it is an outer column, and its type.
        """
        text = ""
        for query, tables in scopes(sql, i):
            if within is not None and query.start < within.start:
                break
            if beyond is None or query.start < beyond.start:
                text = f"SELECT {f'({text})' if text else value} {f'FROM {tables}' if tables else ''}"
        return self._describe(with_visible(sql, i, text)) if text else None

    def _type_of(self, sql: SqlText, i: int, value: str, select: Select) -> pa.DataType:
        """The type of an expression at token i."""
        groups = [j for j in sql.level(select.start, select.end) if sql.is_word(j, "GROUP")]
        grouped = ""
        if groups:
            ends = (j for j in sql.level(groups[0] + 1, select.end) if begins_clause(sql, j))
            grouped = sql.slice(groups[0], next(ends, select.end))
        for clause in dict.fromkeys([grouped, ""]):
            text = ""
            for depth, (_, tables) in enumerate(scopes(sql, i)):
                inner = f"({text})" if text else value
                text = f"SELECT {inner} {f'FROM {tables}' if tables else ''} {clause if depth == 0 else ''}"
            found = self._describe(with_visible(sql, i, text))
            if found is not None:
                return found[1]()
        raise PlanError(f"what stands before IN, ANY or ALL cannot be resolved: {value}")

    def _describe(self, text: str) -> Described | None:
        if text not in self._described:
            self._described[text] = self._planner.described(text)
        return self._described[text]

    # --- tables ---

    def _lateral(self, sql: SqlText, query: Region, select: Select) -> str:
        """The text with the LATERAL subquery as a table, joined on the outer columns."""
        opens, close = query.start - 1, query.end
        begin = select.tables[0]
        if not stands_for_table(sql, opens, select):
            raise PlanError("LATERAL stands among the tables of FROM")
        before = tables_before(sql, opens, begin)
        is_left = sql.is_word(before, "LEFT")
        outside, body, outer, arguments = self._of_tables(sql, query)
        if not arguments:
            return sql.replaced(opens - 1, opens, "")
        if sql.is_word(before, "RIGHT", "FULL") or sql.is_word(before - 1, "RIGHT", "FULL", "NATURAL"):
            raise PlanError("LATERAL that reads other tables is joined by a comma, CROSS JOIN, JOIN or LEFT JOIN")
        end, alias, columns = read_alias(sql, close + 1, select.tables[1])
        self._count += 1
        alias = alias or f"$lateral{self._count}"
        made = ", ".join(f"{text} AS {quoted(name)}" for text, name in zip(arguments, outer, strict=True))
        made = with_visible(sql, query.start, f"SELECT DISTINCT {made} FROM {sql.slice(begin, before)}")
        values, reads = self._freed_values(sql, query, made)
        table = self._planner.add_lateral(_complete(sql, query.start, body), outer, values, columns)
        self._pending[table] = [*outside, *reads]
        same = [f"{text} IS NOT DISTINCT FROM {quoted(alias)}.{quoted(name)}"
                for text, name in zip(arguments, outer, strict=True)]  # fmt: skip
        if sql.is_word(end, "ON"):
            words = (i for i in sql.level(end + 1, select.tables[1]) if _ends_condition(sql, i))
            until = next(words, select.tables[1])
            same.append(f"({sql.slice(end + 1, until)})")
            end = until
        join = "LEFT JOIN" if is_left else "JOIN"
        joined = f"{join} {quoted(table)} AS {quoted(alias)} ON {' AND '.join(same)}"
        text = self._with_hidden(sql, select, (before, end), joined, outer)
        return sql.replaced(select.start, select.end, text)

    def _of_tables(self, sql: SqlText, query: Region) -> tuple[list[tuple[str, str]], str, list[str], list[str]]:
        """Of a LATERAL subquery: what it reads of queries around its own, its text, its outer columns, and what they
        are in its own query, where those of queries around are functions too.
        """
        body, functions, _, texts = self._freed(sql, query)
        outside, outer, arguments = [], [], []
        own = queries_around(sql, query.start - 1)[-1]
        for function, text in zip(functions, texts, strict=True):
            if self._resolved(sql, query.start, text, within=own, beyond=query) is None:
                outside.append((function, text))
                text = f"{quoted(function)}()"
            outer.append(function)
            arguments.append(text)
        return outside, body, outer, arguments

    def _freed_values(self, sql: SqlText, query: Region, values: str) -> tuple[str, list[tuple[str, str]]]:
        """The query of the outer columns' values, in which the tables may read queries further out themselves."""
        own = queries_around(sql, query.start - 1)[-1]
        around = sql.text[: sql.tokens[own.start].start], sql.text[sql.tokens[own.end - 1].end :]
        if not around[0].strip():
            return values, []
        placed = SqlText.read(f"{around[0]} {values} {around[1]}")
        region = next(region for region in placed.regions if region.start == own.start)
        text, functions, _, texts = self._freed(placed, region)
        return text, list(zip(functions, texts, strict=True))

    @staticmethod
    def _with_hidden(
        sql: SqlText, select: Select, replaced: tuple[int, int], joined: str, hidden: Sequence[str]
    ) -> str:
        """The SELECT with its table replaced, whose columns in `hidden` no * shows. Commas before become CROSS JOIN,
        lest they bind less than the join.
        """
        new = {i: "CROSS JOIN" for i in sql.level(select.tables[0], replaced[0]) if sql.is_sign(i, ",")}
        first = select.start + 1 + sql.is_word(select.start + 1, "DISTINCT", "ALL")
        for a, b in items(sql, first, select.tables[0] - 1) if hidden else ():
            if sql.is_sign(b - 1, "*") and (b - a == 1 or sql.is_sign(b - 2, ".")):
                new[b - 1] = f"* EXCLUDE ({', '.join(map(quoted, hidden))})"
            elif any(sql.is_sign(i, "*") and sql.is_word(i + 1, "EXCLUDE", "EXCEPT", "REPLACE") for i in (a, a + 2)):
                raise PlanError("* EXCLUDE or REPLACE beside LATERAL is not supported; name the columns")
        pieces, at = [], select.start
        for i in range(select.start, select.end):
            if i == replaced[0]:
                pieces += [sql.slice(at, i), joined]
                at = replaced[1]
            elif i in new:
                pieces += [sql.slice(at, i), new[i]]
                at = i + 1
        return " ".join([*pieces, sql.slice(at, select.end)])


def _in_single_brackets(text: str) -> str:
    """The text with one pair of brackets for several around a query that EXISTS, IN or another word before it takes."""
    while True:
        sql = SqlText.read(text)
        opened = (i for i in sql.signs("(") if sql.is_sign(i + 1, "(") and sql.is_word(i - 1, *_BEFORE_QUERY))
        regions = {region.start: region for region in sql.regions}
        inner = (regions.get(i + 2) for i in opened if sql.partner[i + 1] == sql.partner[i] - 1)
        query = next((region for region in inner if region is not None and _begins_query(sql, region)), None)
        if query is None:
            return text
        text = sql.replaced(query.start - 1, query.end + 1, sql.slice(query.start, query.end))


def _begins_query(sql: SqlText, region: Region) -> bool:
    return is_query(sql, region) or sql.is_sign(region.start, "(")


def _as_selects(sql: SqlText, select: Select) -> str:
    """VALUES as SELECTs: the planner takes constants for rows only."""
    opened = [i for i in sql.signs("(") if select.start < i < select.end and sql.enclosing(i)[-1] == select.query]
    rows = [i for i in opened if i == select.start + 1 or sql.is_sign(i - 1, ",")]
    rows = [i for i in rows if not any(other < i < sql.partner[other] for other in rows)]
    made = []
    for opens in rows:
        values = [sql.slice(a, b) for a, b in items(sql, opens + 1, sql.partner[opens])]
        made.append("SELECT " + ", ".join(f"{value} AS column{n}" for n, value in enumerate(values, 1)))
    return " UNION ALL ".join(made)


def _aggregate_of(sql: SqlText, select: Select, name: Name) -> Name | None:
    """The aggregate that a name is an argument of, as written."""
    for opens in reversed(sql.signs("(")):
        close = sql.partner[opens]
        if not opens < name.start < close or opens < select.start:
            continue
        function = sql.tokens[opens - 1]
        is_window = sql.is_word(close + 1, "OVER", "FILTER", "WITHIN")
        if function.kind == "word" and is_aggregate(function.text.lower()) and not is_window:
            return Name(opens - 1, close + 1, sql.slice(opens - 1, close + 1))
    return None


def _common_tables_first(sql: SqlText) -> list[int]:
    """The opening brackets, the last first: but first those of common tables, which the others may read."""
    bodies = [(table.body, table.body_end) for region in sql.regions for table in region.common]

    def place(opens: int) -> tuple[int, int]:
        return min((end for start, end in bodies if start <= opens < end), default=len(sql.tokens)), -opens

    return sorted(sql.signs("("), key=place)


def _is_comparison(sql: SqlText, i: int) -> bool:
    return sql.tokens[i].kind == "sign" and sql.tokens[i].text in _COMPARISONS


def _complete(sql: SqlText, i: int, body: str) -> str:
    """A query at token i with the common tables that it may name."""
    return with_visible(sql, i, body if body.lstrip()[:6].upper() == "SELECT" else f"SELECT * FROM ({body})")


def _ends_condition(sql: SqlText, i: int) -> bool:
    if sql.is_word(i, "LEFT", "RIGHT") and sql.is_sign(i + 1, "("):
        return False
    return sql.is_sign(i, ",") or sql.is_word(i, "JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL")


def _is_item(sql: SqlText, select: Select, name: Name) -> bool:
    """Whether a name is all that an item of a select list says."""
    if not sql.is_word(select.start, "SELECT"):
        return False
    first = select.start + 1 + sql.is_word(select.start + 1, "DISTINCT", "ALL")
    end = next((i for i in sql.level(first, select.end) if begins_clause(sql, i)), select.end)
    return (name.start, name.end) in set(items(sql, first, end))


def _matched(body: str, condition: str, of_all: bool) -> str:
    """The query of whether a condition holds for any row of another, or for all: unknown where nulls could decide."""
    rows = f'(SELECT {condition} AS "$found" FROM ({body}) AS "$in"("$value")) AS "$each"'
    if of_all:
        cases = 'WHEN NOT bool_and("$found") THEN FALSE WHEN count(*) = count("$found") THEN TRUE'
    else:
        cases = 'WHEN bool_or("$found") THEN TRUE WHEN count(*) = count("$found") THEN FALSE'
    return f"SELECT CASE {cases} END FROM {rows}"
