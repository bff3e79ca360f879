"""Random subqueries in FROM that read the tables before them."""

from __future__ import annotations

from sql_fuzz.calls import aggregate_call
from sql_fuzz.expressions import Expressions
from sql_fuzz.queries import Queries, Query, joinable
from sql_fuzz.tables import INT, Facts
from sql_fuzz.tree import Fixed, Listed, Tree
from sql_fuzz.values import COMPARABLE, SELECTABLE, Column, Value, compose

ROWS_MAX = 60


def lateral(queries: Queries, depth: int) -> Query:
    """A table and a LATERAL subquery over it: aggregates, matches, the first matches, or values."""
    rng = queries.rng
    outer = queries.table()
    inner = queries.table()
    pairs = [(a, b) for a in inner.columns for b in outer.columns if joinable(a.facts, b.facts)]
    if outer.rows > ROWS_MAX or inner.rows > ROWS_MAX or not pairs:
        return queries.plain(depth)
    shape = rng.choice(["aggregates", "aggregates", "rows", "rows", "first", "values"])
    word = rng.choice(["=", "=", "=", "=", "<", ">=", "<>"])
    if word != "=":
        pairs = [(a, b) for a, b in pairs if a.facts.kind in COMPARABLE] or pairs
        word = word if pairs[0][0].facts.kind in COMPARABLE else "="
    parts = [Tree("bool", f"{a.name} {word} {b.name}") for a, b in [rng.choice(pairs)]]
    make = Expressions(rng, inner.columns)
    if rng.random() < 0.4:
        parts.append(make.condition(1).tree)
    both = Expressions(rng, [*inner.columns, *outer.columns] if rng.random() < 0.4 else inner.columns)
    items: list[Value]
    source = Tree("", " from ", inner.tree, Listed(parts, " and ", minimum=0, before=" where "))
    end = Fixed("")
    if shape == "aggregates":
        items = [aggregate_call(make) for _ in range(rng.randint(1, 2))]
    elif shape == "values":
        items = [Expressions(rng, outer.columns).value(rng.choice(SELECTABLE), 2) for _ in range(rng.randint(1, 2))]
        source = Tree("")
    else:
        items = [both.value(rng.choice(SELECTABLE), 2) for _ in range(rng.randint(1, 2))]
    if shape == "first":
        # Tables are in the order of their numbers.
        down = rng.choice(["", " desc"])
        offset = rng.choice(["", "", " offset 1"])
        end = Fixed(f" order by {(inner.unique or ('',))[0]}{down} limit {rng.randint(1, 2)}{offset}")
    listed, columns = queries.select_list(items)
    alias = queries.name("x")
    joins = [", lateral (", " cross join lateral (", " left join lateral ("]
    join = rng.choice(joins)
    after = " on true" if join.startswith(" left") else ""
    tree = Tree("relation", outer.tree, join, "select ", listed, source, end, f") as {alias}{after}")
    known = [*outer.columns, *(Column(f"{alias}.{column.name}", column.facts) for column in columns)]
    make = Expressions(rng, known)
    results = [column.value() for column in known[-len(columns) :]]
    results += [column.value() for column in rng.sample(list(outer.columns), rng.randint(1, len(outer.columns)))]
    results += [make.value(kind, 2) for kind in queries.kinds()[:1]]
    if rng.random() < 0.2:
        results = [compose(Facts(INT, 10**7), "count(*)")]
    listed, columns = queries.select_list(results)
    whole = Tree("query", "select ", listed, " from ", tree, queries.where(make))
    return Query(whole, columns, None, outer.rows * max(inner.rows, 1))
