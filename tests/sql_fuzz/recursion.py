"""Random recursive queries that end: a few rounds over rows, and walks that end when they find nothing new."""

from __future__ import annotations

import random

from sql_fuzz.expressions import Expressions
from sql_fuzz.queries import Queries, Query, Relation
from sql_fuzz.tables import BOOL, DATE, INT, TEXT, Facts, Kind
from sql_fuzz.tree import Fixed, Listed, Tree, optional
from sql_fuzz.values import Column, Value, compose

# Bounds of the values that a round computes.
INT_LIMIT, TEXT_LENGTH = 1000, 20


def recursive(queries: Queries, name: str) -> Query:
    """A recursive query for the common table expression of this name."""
    make = _walk if queries.rng.random() < 0.4 else _rounds
    return make(queries, name)


def _bound_value(kind: Kind, value: Value) -> Value:
    """The value with the type of the recursion's column."""
    if kind == INT:
        return compose(Facts(INT, INT_LIMIT), "cast((", value.tree, f") % {INT_LIMIT} as bigint)")
    if kind == TEXT:
        return compose(Facts(TEXT), "cast(left(", value.tree, f", {TEXT_LENGTH}) as varchar)")
    type_ = {"date": "date", "bool": "boolean"}[kind.family]
    return compose(Facts(kind), "cast(", value.tree, f" as {type_})")


def _rounds(queries: Queries, name: str) -> Query:
    """A recursion of a few rounds. Each column is computed from the columns of the round before."""
    rng = queries.rng
    start = queries.relation(0)
    kinds = [rng.choice([INT, INT, TEXT, DATE, BOOL]) for _ in range(rng.randint(1, 3))]
    make = Expressions(rng, start.columns)
    first = [_bound_value(kind, make.value(kind, 2)) for kind in kinds]
    listed, columns = queries.select_list(first)
    step = queries.name("n")
    before = queries.name("r")
    known = [Column(f"{before}.{column.name}", column.facts) for column in columns]
    again, places = Expressions(rng, known), optional(None)
    source: Relation | None = queries.table() if rng.random() < 0.3 else None
    if source is not None and source.columns[0].facts.kind == INT and start.rows * source.rows <= 400:
        # Joined by a key, so that each row has at most one successor.
        places = Listed([Tree("", source.tree, f" on {source.columns[0].name} = {before}.{step}")], before=" join ")
        again = Expressions(rng, [*known, *source.columns])
    others, _ = queries.select_list([_bound_value(kind, again.value(kind, 2)) for kind in kinds])
    rounds = rng.randint(1, 4)
    where = Listed([again.condition(1).tree for _ in range(rng.choice([0, 1]))], minimum=0, before=" and ")
    union = rng.choice([" union all ", " union all ", " union "])
    tree = Tree(
        "", f"select cast(0 as bigint) as {step}, ", Fixed(listed), " from ", start.tree, queries.where(make), union,
        f"select {before}.{step} + 1, ", Fixed(others), f" from {name} as {before}", places,
        f" where {before}.{step} < {rounds}", where,
    )  # fmt: skip
    return Query(tree, (Column(step, Facts(INT, 16)), *columns), None, start.rows * (rounds + 1))


def _walk(queries: Queries, name: str) -> Query:
    """The pairs that are connected by a path through a table. The recursion ends when it finds no new row."""
    rng: random.Random = queries.rng
    table = rng.choice(queries.tables)
    numbers = [column for column, facts in table.facts.items() if facts.kind == INT]
    start, end = rng.choice(numbers), rng.choice(numbers)
    a, b, before = queries.name("a"), queries.name("a"), queries.name("r")
    x, y = queries.name("o"), queries.name("o")
    some = Expressions(rng, [Column(f"{a}.{column}", facts) for column, facts in table.facts.items()])
    more = Expressions(rng, [Column(f"{b}.{column}", facts) for column, facts in table.facts.items()])
    where = Listed([more.condition(1).tree for _ in range(rng.choice([0, 0, 1]))], minimum=0, before=" and ")
    if table.data.num_rows > 50:
        where = Listed([Tree("", f"{b}.id < 50")], before=" and ")
    tree = Tree(
        "", f"select cast({a}.{start} as bigint) as {x}, cast({a}.{end} as bigint) as {y} from {table.name} as {a}",
        queries.where(some), f" union select {before}.{x}, cast({b}.{end} as bigint) from {name} as {before} ",
        f"join {table.name} as {b} on {before}.{y} = {b}.{start}", where,
    )  # fmt: skip
    facts = [Facts(INT, table.facts[column].limit) for column in (start, end)]
    rows = float(table.data.num_rows) ** 2
    return Query(tree, (Column(x, facts[0]), Column(y, facts[1])), (x, y), rows)
