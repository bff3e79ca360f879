"""Random queries with correlated subqueries, against DuckDB: `python -m sql_fuzz.correlated --seconds 60 --seed 1`.

A subquery reads columns of queries one or two levels above it. It is in select lists, WHERE, HAVING, ON, ORDER BY,
arguments of aggregates, and after LATERAL. Columns are integers and text with nulls and duplicates.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

import qcore
from oracle import assert_same_rows
from sql_fuzz.queries import Queries, Query
from sql_fuzz.tables import BOOL, INT, TEXT, Facts, Kind, TableData
from sql_fuzz.tree import Tree
from sql_fuzz.values import Column

TABLES = ("t", "u", "v")
INTEGERS = ("i", "n")
COMPARISONS = ("=", "=", "=", "<", "<=", ">", "<>")
# Number of tables in a case of `make fuzz-sql`.
ROWS_MAX = 30
LIMITS = {INT: 2**40}


def tables(rng: random.Random) -> dict[str, pa.Table]:
    """Three small tables with the same columns. One of them may be empty."""
    made = {}
    for name in TABLES:
        n_rows = rng.choice([0, 1, 3, 6, 12])
        made[name] = pa.table({
            "k": pa.array(range(n_rows), pa.int64()),
            "i": pa.array([rng.choice([None, 1, 2, 2, 3, 4]) for _ in range(n_rows)], pa.int64()),
            "n": pa.array([rng.choice([None, 1, 2, 3, 5, 8]) for _ in range(n_rows)], pa.int32()),
            "g": pa.array([rng.choice([None, "a", "b", "c"]) for _ in range(n_rows)], pa.string()),
        })  # fmt: skip
    return made


def correlate_subqueries(queries: Queries, depth: int) -> Query:
    """A query with correlated subqueries over small tables of a case."""
    small = [table for table in queries.tables if table.data.num_rows <= ROWS_MAX]
    if not small:
        return queries.plain(depth)
    sources = [_narrow_table(queries.rng, queries.rng.choice(small)) for _ in range(2)]
    text, outputs = Correlated(queries.rng, sources, queries.name).query()
    columns = tuple(Column(name, Facts(kind, LIMITS.get(kind, 0))) for name, kind in outputs)
    return Query(Tree("query", text), columns, None, ROWS_MAX * 4)


def _narrow_table(rng: random.Random, table: TableData) -> str:
    """The table reduced to the columns that these queries use."""
    integers = [name for name, facts in table.facts.items() if facts.kind == INT and facts.limit <= 1000]
    words = [name for name, facts in table.facts.items() if facts.kind == TEXT]
    i, n = (rng.choice([*integers, "id % 4"]) for _ in INTEGERS)
    g = rng.choice(words) if words else "cast(id % 3 as varchar)"
    return f"(select id as k, cast({i} as bigint) as i, cast({n} as bigint) as n, {g} as g from {table.name})"


# A query's text, and the names and kinds of its columns.
Made = tuple[str, list[tuple[str, Kind]]]


@dataclass
class Correlated:
    """Generates the text of one query."""

    rng: random.Random
    tables: Sequence[str] = TABLES
    names: Callable[[str], str] | None = None
    n_names: int = field(default=0)

    def name(self, letter: str = "q") -> str:
        if self.names is not None:
            return self.names(letter)
        self.n_names += 1
        return f"{letter}{self.n_names}"

    def table(self) -> str:
        return self.rng.choice(list(self.tables))

    def statement(self) -> str:
        """A whole statement."""
        return self.query()[0]

    def query(self) -> Made:
        """A query and its columns."""
        shapes = [self.items, self.items, self.filter_rows, self.filter_rows, self.having, self.join_tables,
                  self.order_rows, self.argument, self.lateral]  # fmt: skip
        return self.rng.choice(shapes)()

    def items(self) -> Made:
        a, k, table = self.name(), self.name("o"), self.table()
        items, columns = [f"{a}.k as {k}"], [(k, INT)]
        for _ in range(self.rng.choice([1, 1, 2])):
            text, kind = self.value([a], 2)
            columns.append((self.name("o"), kind))
            items.append(f"{text} as {columns[-1][0]}")
        return f"select {', '.join(items)} from {table} {a}{self.maybe_where([a])}", columns

    def filter_rows(self) -> Made:
        a, k, i = self.name(), self.name("o"), self.name("o")
        text = f"select {a}.k as {k}, {a}.i as {i} from {self.table()} {a} where {self.condition([a], 2)}"
        return text, [(k, INT), (i, INT)]

    def having(self) -> Made:
        rng = self.rng
        a, x, g, c = self.name(), self.name(), self.name("o"), self.name("o")
        counted = f"select count(*) from {self.table()} {x} where {x}.g {rng.choice(COMPARISONS)} {a}.g"
        text = (
            f"select {a}.g as {g}, count(*) as {c} from {self.table()} {a} group by {a}.g "
            f"having count(*) {rng.choice(COMPARISONS)} ({counted}{self.maybe_and([x])})"
        )
        return text, [(g, TEXT), (c, INT)]

    def join_tables(self) -> Made:
        a, b, k, other = self.name(), self.name(), self.name("o"), self.name("o")
        kind = self.rng.choice(["join", "left join", "right join", "full join"])
        reads = self.rng.choice([[a], [b], [a, b], [a, b]])
        condition = f"{a}.i = {b}.i and {self.predicate(reads, 1)}"
        text = f"select {a}.k as {k}, {b}.k as {other} from {self.table()} {a} {kind} {self.table()} {b} on {condition}"
        return text, [(k, INT), (other, INT)]

    def order_rows(self) -> Made:
        a, k = self.name(), self.name("o")
        by = f"{self.scalar([a], 1)} nulls first, {a}.k"
        return f"select {a}.k as {k} from {self.table()} {a} order by {by} limit 4", [(k, INT)]

    def argument(self) -> Made:
        a, g, s, c = self.name(), self.name("o"), self.name("o"), self.name("o")
        of_all = f"sum({self.scalar([a], 1)}) as {s}, count(*) filter (where {self.predicate([a], 1)}) as {c}"
        return f"select {a}.g as {g}, {of_all} from {self.table()} {a} group by {a}.g", [(g, TEXT), (s, INT), (c, INT)]

    def lateral(self) -> Made:
        rng = self.rng
        a, b, x, k, m = self.name(), self.name(), self.name(), self.name("o"), self.name("o")
        source = f"from {self.table()} {x} where {self.compare_columns([x], [a])}"
        body, kind = rng.choice([
            (f"select {x}.n as m {source}", INT),
            (f"select {x}.n as m {source} order by {x}.n, {x}.k limit 2", INT),
            (f"select max({x}.n) as m {source}", INT),
            (f"select {x}.g as m, count(*) as c {source} group by {x}.g", TEXT),
            (f"select {a}.i + 1 as m", INT),
            (f"select {self.scalar([a], 1)} as m", INT),
        ])  # fmt: skip
        joined = rng.choice([f", lateral ({body}) {b}", f" cross join lateral ({body}) {b}",
                             f" left join lateral ({body}) {b} on true"])  # fmt: skip
        return f"select {a}.k as {k}, {b}.m as {m} from {self.table()} {a}{joined}", [(k, INT), (m, kind)]

    # --- conditions ---

    def compare_columns(self, own: Sequence[str], outer: Sequence[str]) -> str:
        rng = self.rng
        parts = []
        for _ in range(rng.choice([1, 1, 2])):
            mine, other = rng.choice(list(own)), rng.choice(list(outer))
            column = rng.choice(["i", "n", "i", "g"])
            theirs = "g" if column == "g" else rng.choice(INTEGERS)
            parts.append(f"{mine}.{column} {rng.choice(COMPARISONS)} {other}.{theirs}")
        return " and ".join(parts) + self.maybe_and(own)

    def maybe_and(self, own: Sequence[str]) -> str:
        rng = self.rng
        own_column = f"{rng.choice(list(own))}.{rng.choice(INTEGERS)}"
        return rng.choice(["", "", f" and {own_column} > {rng.randint(0, 4)}", f" and {own_column} is not null"])

    def maybe_where(self, values: Sequence[str]) -> str:
        return f" where {self.condition(values, 1)}" if self.rng.random() < 0.3 else ""

    def condition(self, outer: Sequence[str], depth: int) -> str:
        rng = self.rng
        made = self.predicate(outer, depth)
        column = f"{outer[-1]}.{rng.choice(INTEGERS)}"
        return rng.choice([
            made, made, f"not ({made})", f"({made}) or {column} = 2", f"({made}) and {column} < 4",
            f"case when {made} then {column} > 1 else {column} is null end", f"({made}) is null",
            f"({made}) or ({self.predicate(outer, 1)})", f"({made}) and ({self.predicate(outer, 1)})",
        ])  # fmt: skip

    def predicate(self, outer: Sequence[str], depth: int) -> str:
        rng = self.rng
        column = f"{outer[-1]}.{rng.choice(INTEGERS)}"
        rows = self.rows(outer, depth)
        return rng.choice([
            f"exists ({rows})", f"not exists ({rows})", f"{column} in ({rows})", f"{column} not in ({rows})",
            f"{column} {rng.choice(COMPARISONS)} any ({rows})", f"{column} {rng.choice(COMPARISONS)} all ({rows})",
            f"{self.scalar(outer, depth)} {rng.choice(COMPARISONS)} {column}",
        ])  # fmt: skip

    # --- subqueries ---

    def value(self, outer: Sequence[str], depth: int) -> tuple[str, Kind]:
        rng = self.rng
        if rng.random() < 0.4:
            return self.predicate(outer, depth), BOOL
        made = self.scalar(outer, depth)
        return rng.choice([made, made, f"coalesce({made}, -1)", f"{made} + {outer[-1]}.i"]), INT

    def source(self, outer: Sequence[str], depth: int) -> tuple[str, str]:
        """FROM and WHERE of a subquery, and the name of its table."""
        rng = self.rng
        x, table = self.name(), self.table()
        where = self.compare_columns([x], outer)
        if depth > 1 and rng.random() < 0.4:
            where += f" and {self.predicate([*outer, x], depth - 1)}"
        shape = rng.random()
        if shape < 0.1:
            y = self.name()
            kind = rng.choice(["join", "left join", "full join"])
            return f"{table} {x} {kind} {self.table()} {y} on {x}.i = {y}.i where {where}", x
        if shape < 0.2:
            inner = f"select k, i, n, g from {table} where {where.replace(x + '.', '')}"
            # Without qualifiers the names are those of the inner table.
            return f"({inner}) {x}", x
        if shape < 0.28:
            y, other = self.name(), self.table()
            both = f"select k, i, n, g from {table} {x} where {where} union all select k, i, n, g from {other}"
            return f"({both}) {y}", y
        if shape < 0.34:
            y = self.name()
            unique = f"select distinct 0 as k, i, n, g from {table} {x} where {where}"
            return f"({unique}) {y}", y
        return f"{table} {x} where {where}", x

    def scalar(self, outer: Sequence[str], depth: int) -> str:
        rng = self.rng
        source, x = self.source(outer, depth)
        other = f"{rng.choice(list(outer))}.{rng.choice(INTEGERS)}"
        aggregate = rng.choice([
            "count(*)", f"count({x}.n)", f"count(distinct {x}.i)", f"sum({x}.n)", f"max({x}.n)",
            f"min({x}.n + {other})", f"sum({x}.n * {other})", f"count(*) filter (where {x}.n > {other})",
            f"max({x}.i) + count(*)",
        ])  # fmt: skip
        shape = rng.random()
        if shape < 0.15:
            return f"(select {x}.n from {source} order by {x}.n desc nulls last limit 1)"
        if shape < 0.22:
            return f"(select max(z.m) from (select {x}.g, {aggregate} as m from {source} group by {x}.g) z)"
        if shape < 0.29:
            number = f"row_number() over (partition by {x}.g order by {x}.n, {x}.i)"
            return f"(select sum(z.m) from (select {number} as m from {source}) z)"
        if shape < 0.34:
            return f"(with z as (select {x}.n as m from {source}) select max(a.m) from z a, z b where a.m = b.m)"
        if shape < 0.38:
            return f"(select {aggregate} from {source} having count(*) > 1)"
        return f"(select {aggregate} from {source})"

    def rows(self, outer: Sequence[str], depth: int) -> str:
        rng = self.rng
        source, x = self.source(outer, depth)
        shape = rng.random()
        if shape < 0.1:
            return f"select max({x}.n) from {source} group by {x}.g"
        if shape < 0.2:
            return f"select {x}.n from {source} order by {x}.n nulls last limit {rng.choice([0, 1, 2])}"
        if shape < 0.3:
            return f"select distinct {x}.i from {source}"
        if shape < 0.36:
            return f"select max({x}.n) from {source}"
        return f"select {x}.{rng.choice(INTEGERS)} from {source}"


def difference(query: str, data: dict[str, pa.Table], threads: Sequence[int] = (1, 8)) -> str | None:
    """The difference between the answers of qcore and DuckDB: None if there is none, 'refused …' if qcore refuses."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in data.items():
            connection.register(name, table)
        try:
            expected = connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            return f"not for DuckDB: {str(error)[:60]}"
    for n in threads:
        try:
            actual = qcore.sql(query, data, threads=n).to_arrow()
        except qcore.QcoreError as error:
            return f"refused: {str(error)[:110]}"
        try:
            assert_same_rows(actual, expected)
        except AssertionError as error:
            return f"differs with {n} threads: {error}"
    return None


def main() -> int:
    """Run until the time is over. Differences are printed, and the exit status is their number."""
    parser = argparse.ArgumentParser(prog="sql_fuzz.correlated", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    end, number, found = time.monotonic() + options.seconds, 0, 0
    said: Counter[str] = Counter()
    while time.monotonic() < end:
        rng = random.Random(f"{options.seed} {number}")
        data, query = tables(rng), Correlated(rng).statement()
        outcome = difference(query, data)
        if outcome is not None and outcome.startswith("differs"):
            found += 1
            print(f"{options.seed}:{number} {query}\n  {outcome}", flush=True)
        said["same" if outcome is None else outcome.partition(" with ")[0]] += 1
        number += 1
    for outcome, count in said.most_common(30):
        print(f"{count} {outcome}")
    return min(found, 100)


if __name__ == "__main__":
    sys.exit(main())
