"""Random joins with USING and NATURAL, whose result has each key column once."""

from __future__ import annotations

import random

from sql_fuzz.expressions import Expressions
from sql_fuzz.queries import JOIN_ROWS_MAX, Queries, Query, joinable
from sql_fuzz.tables import TableData
from sql_fuzz.tree import Fixed, Tree
from sql_fuzz.values import Column, merge_facts

KINDS = ("join", "inner join", "left join", "right join", "full join", "full join")


def merged_join(queries: Queries, depth: int) -> Query:
    """A query over two or three tables joined with USING or NATURAL."""
    rng = queries.rng
    tables = [rng.choice(queries.tables) for _ in range(rng.choice([2, 2, 2, 3]))]
    if _size(tables) > JOIN_ROWS_MAX:
        return queries.plain(depth)
    keys = _keys(rng, tables)
    names = [queries.name("k") for _ in keys[0]]
    aliases = [queries.name("j") for _ in tables]
    natural = rng.random() < 0.3
    sides, columns = [], []
    for table, key, alias in zip(tables, keys, aliases, strict=True):
        picked = [name for name in table.facts if name not in key and rng.random() < 0.4]
        # Columns get names of their own, so that the tables share no others.
        given = [queries.name("p") for _ in picked]
        pairs = [*zip(key, names, strict=True), *zip(picked, given, strict=True)]
        rng.shuffle(pairs)
        listed = ", ".join(f"{name} as {new}" for name, new in pairs)
        sides.append(f"(select {listed} from {table.name}) as {alias}")
        columns += [
            Column(rng.choice([new, f"{alias}.{new}"]), table.facts[name])
            for name, new in zip(picked, given, strict=True)
        ]
    text = sides[0]
    for side in sides[1:]:
        kind = rng.choice(KINDS)
        text += f" natural {kind} {side}" if natural else f" {kind} {side} using ({', '.join(names)})"
    for position, name in enumerate(names):
        facts = [table.facts[key[position]] for table, key in zip(tables, keys, strict=True)]
        columns.append(Column(name, merge_facts(facts)))
        if rng.random() < 0.3:
            # The column of one side, null in rows that only the other side has.
            side = rng.randrange(len(tables))
            columns.append(Column(f"{aliases[side]}.{name}", facts[side]))
    return over(queries, Fixed(text), columns, _size(tables))


def over(queries: Queries, relation: Tree, columns: list[Column], rows: float) -> Query:
    """Columns, and values of columns. There are no subqueries, where a name without its table would be their own."""
    rng = queries.rng
    make = Expressions(rng, columns)
    items = [column.value() for column in rng.sample(columns, rng.randint(1, len(columns)))]
    items += [make.value(kind, 2) for kind in queries.kinds()[:2]]
    listed, made = queries.select_list(items)
    tree = Tree("query", "select ", listed, " from ", relation, queries.where(make))
    return Query(tree, made, None, rows)


def select_star(queries: Queries, depth: int) -> Query:
    """`select *` of a join USING id."""
    rng = queries.rng
    tables = [rng.choice(queries.tables) for _ in range(2)]
    names = [[queries.name("p") for _ in list(table.facts)[1:]] for table in tables]
    sides = [
        f"{table.name} as {queries.name('j')}({', '.join(['id', *given])})"
        for table, given in zip(tables, names, strict=True)
    ]
    text = f"select * from {sides[0]} {rng.choice(KINDS)} {sides[1]} using (id)"
    columns = [Column("id", merge_facts([table.facts["id"] for table in tables]))]
    for table, given in zip(tables, names, strict=True):
        columns += [Column(new, facts) for new, facts in zip(given, list(table.facts.values())[1:], strict=True)]
    return Query(Tree("query", Fixed(text)), tuple(columns), ("id",), sum(table.data.num_rows for table in tables))


def _size(tables: list[TableData]) -> float:
    size = 1.0
    for table in tables:
        size *= max(table.data.num_rows, 1)
    return size


def _keys(rng: random.Random, tables: list[TableData]) -> list[list[str]]:
    """The key columns of each table. Columns at the same position may be compared."""
    places: list[list[str]] = []
    for _ in range(rng.choice([1, 1, 2])):
        first = rng.choice(list(tables[0].facts))
        found = [first]
        for table in tables[1:]:
            fits = [
                name
                for name, facts in table.facts.items()
                if joinable(tables[0].facts[first], facts) and name not in [p[len(found)] for p in places]
            ]
            found += [rng.choice(fits)] if fits else []
        if len(found) == len(tables) and first not in [p[0] for p in places]:
            places.append(found)
    places = places or [["id"] * len(tables)]
    return [list(side) for side in zip(*places, strict=True)]
