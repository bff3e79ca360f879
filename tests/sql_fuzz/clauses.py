"""Random queries with clauses of DuckDB that the SQL standard lacks: DISTINCT ON, QUALIFY, GROUP BY ALL …."""

from __future__ import annotations

from sql_fuzz.calls import aggregate_call
from sql_fuzz.expressions import Expressions
from sql_fuzz.queries import Queries, Query, Relation
from sql_fuzz.tables import INT, Facts, Kind
from sql_fuzz.tree import Fixed, Listed, Tree, optional
from sql_fuzz.values import COMPARABLE, HASHABLE, ROWS_MAX, SELECTABLE, Column, Value, merge_facts


def sortable(relation: Relation) -> list[Column]:
    """The columns that both engines sort in the same order."""
    return [column for column in relation.columns if column.facts.exact and column.facts.kind in COMPARABLE]


def total_order(queries: Queries, relation: Relation, first: list[Column]) -> str | None:
    """Sort keys without ties that begin with the given columns. None if no such keys are known."""
    rng = queries.rng
    unique = [column for column in relation.columns if column.name in (relation.unique or ())]
    if not unique or any(column not in sortable(relation) for column in unique):
        return None
    order = [*first, *(column for column in unique if column not in first)]
    return ", ".join(
        f"{column.name}{rng.choice(['', ' desc'])}{rng.choice([' nulls first', ' nulls last'])}" for column in order
    )


def distinct_on(queries: Queries, depth: int) -> Query:
    """A query with DISTINCT ON: the first row of each group in an order."""
    rng = queries.rng
    relation = queries.relation(depth - 1)
    columns = sortable(relation)
    picked = rng.sample(columns, min(len(columns), rng.randint(1, 2)))
    order = total_order(queries, relation, picked)
    if order is None:
        return queries.plain(depth)
    make = Expressions(rng, relation.columns)
    items = [column.value() for column in picked if rng.random() < 0.8]
    items += [make.value(kind, 2) for kind in queries.kinds()]
    listed, made = queries.select_list(items)
    keys = ", ".join(column.name for column in picked)
    where = queries.where(make)
    tree = Tree("query", f"select * from (select distinct on ({keys}) ", listed, " from ", relation.tree, where)
    return Query(Tree("query", tree, Fixed(f" order by {order}) as {queries.name('l')}")), made, None, relation.rows)


def qualify(queries: Queries, depth: int) -> Query:
    """A query with QUALIFY."""
    rng = queries.rng
    relation = queries.relation(depth - 1)
    make = Expressions(rng, relation.columns)
    items = [make.value(kind, 1) for kind in queries.kinds()]
    listed, columns = queries.select_list(items)
    call = queries.window_call(make, relation)
    if call.facts.exact and call.kind in COMPARABLE:
        word = rng.choice(["=", "<=", ">", "<>", "is not distinct from"])
        condition = Tree("bool", "(", call.tree, f" {word} ", make.leaf_exact(call.kind).tree, ")")
    else:
        condition = Tree("bool", "(", call.tree, " is not null)")
    if rng.random() < 0.3:
        condition = Tree("bool", "(", condition, rng.choice([" and ", " or "]), make.condition(1).tree, ")")
    tree = Tree("query", "select ", listed, " from ", relation.tree, queries.where(make), " qualify ", condition)
    return Query(tree, columns, None, relation.rows)


def grouped_by_all(queries: Queries, depth: int) -> Query:
    """A query with GROUP BY ALL, HAVING with a subquery, and ORDER BY ALL."""
    rng = queries.rng
    relation = queries.relation(depth - 1)
    make = Expressions(rng, relation.columns)
    columns = sortable(relation)
    keys = [column.value() for column in rng.sample(columns, min(len(columns), rng.randint(0, 2)))]
    if rng.random() < 0.4:
        keys.append(make.exact_value(rng.choice(SELECTABLE), 2))
    keys = [key for key in keys if any(column.name in key.tree.sql("duckdb") for column in relation.columns)]
    calls = [aggregate_call(make) for _ in range(rng.randint(1, 3))]
    items = [*keys, *calls]
    rng.shuffle(items)
    listed, made = queries.select_list(items)
    by = " group by all" if keys or rng.random() < 0.5 else ""
    having = having_subquery(queries, make) if rng.random() < 0.4 else optional(None)
    order, rows = "", relation.rows
    if all(item.facts.exact and item.kind in HASHABLE for item in items) and rng.random() < 0.5:
        order = (
            f" order by all{rng.choice(['', ' desc', ' nulls first', ' desc nulls last'])} limit {rng.randint(0, 9)}"
        )
        rows = 9
    tree = Tree("query", "select ", listed, " from ", relation.tree, queries.where(make), by, having)
    if order:
        tree = Tree("query", "select * from (", tree, Fixed(f"{order}) as {queries.name('l')}"))
    return Query(tree, made, None, rows)


def having_subquery(queries: Queries, make: Expressions) -> Listed:
    """HAVING that compares an aggregate with a subquery."""
    rng = queries.rng
    kind = make.present_kind(COMPARABLE)
    name = rng.choice(["min", "max"])
    found = queries.scalar_subquery(kind, ())
    if found is None or not found.facts.exact:
        return optional(None)
    call = Tree("", f"{name}(", make.exact_value(kind, 1).tree, ")")
    word = rng.choice(["=", "<=", ">", "<>", "is distinct from"])
    return optional(Tree("bool", "(", call, f" {word} ", found.tree, ")"), before=" having ")


def ordered_by_all(queries: Queries, depth: int) -> Query:
    """A query with ORDER BY ALL and LIMIT."""
    rng = queries.rng
    inner = queries.query(depth - 1)
    if not all(column.facts.exact and column.facts.kind in HASHABLE for column in inner.columns):
        return inner
    order = rng.choice(["", " desc", " nulls first", " desc nulls last"])
    end = Fixed(f") as {queries.name('l')} order by all{order} limit {rng.randint(0, 9)}")
    tree = Tree("query", "select * from (select * from (", inner.tree, end, f") as {queries.name('l')}")
    return Query(tree, inner.columns, inner.unique, min(inner.rows, 10))


def united_by_name(queries: Queries, depth: int) -> Query:
    """UNION BY NAME. Columns that one side lacks are null in its rows."""
    rng = queries.rng
    kinds: dict[str, Kind] = {queries.name("y"): rng.choice(SELECTABLE) for _ in range(rng.randint(1, 4))}
    sides: list[tuple[Tree, dict[str, Column], float]] = []
    for _ in range(rng.choice([2, 2, 3])):
        names = rng.sample(list(kinds), rng.randint(1, len(kinds)))
        side = queries.plain(depth - 1, [kinds[name] for name in names])
        listed = ", ".join(f"{column.name} as {name}" for column, name in zip(side.columns, names, strict=True))
        tree = Tree("", f"select {listed} from (", side.tree, f") as {queries.name('b')}")
        sides.append((tree, dict(zip(names, side.columns, strict=True)), side.rows))
    columns = []
    # In the order of their first occurrence.
    for name in dict.fromkeys(name for _, by_name, _ in sides for name in by_name):
        columns.append(Column(name, merge_facts([by_name[name].facts for _, by_name, _ in sides if name in by_name])))
    word = "union all by name"
    if all(column.facts.exact for column in columns) and rng.random() < 0.5:
        word = "union by name"
    tree = Tree("query", "select * from (", Listed([side for side, _, _ in sides], f" {word} "))
    return Query(
        Tree("query", tree, f") as {queries.name('s')}"), tuple(columns), None, sum(rows for *_, rows in sides)
    )


def named_twice(queries: Queries, depth: int) -> Query:
    """A query with a common table that another common table reads twice."""
    rng = queries.rng
    name = queries.name("w")
    inner = queries.query(depth - 1)
    queries.ctes.append((name, inner))
    sides = [queries.name_query(name, inner), queries.name_query(name, inner)]
    relation = queries.join_relations(*sides)
    make = Expressions(rng, relation.columns)
    items: list[Value] = [make.value(kind, 2) for kind in queries.kinds()]
    if rng.random() < 0.4:
        items = [aggregate_call(make) for _ in items]
    listed, columns = queries.select_list(items)
    queries.ctes.pop()
    tree = Tree("query", "select ", listed, " from ", relation.tree, queries.where(make))
    whole = Tree("query", f"select * from (with {name} as (", inner.tree, ") ", tree, f") as {queries.name('l')}")
    return Query(whole, columns, None, relation.rows)


def in_rows(queries: Queries, outer: Relation) -> Tree | None:
    """A query with `(a, b) IN (subquery)`."""
    rng = queries.rng
    inner = queries.table()
    pairs = [
        (a, b) for a in outer.columns for b in inner.columns
        if a.facts.kind == b.facts.kind and a.facts.kind in COMPARABLE and a.facts.exact and b.facts.exact
    ]  # fmt: skip
    if len(pairs) < 2 or inner.rows > 500:
        return None
    picked = rng.sample(pairs, 2)
    left, right = (", ".join(pair[side].name for pair in picked) for side in (0, 1))
    where = queries.where(Expressions(rng, inner.columns))
    word = rng.choice(["in", "in", "not in"])
    return Tree("bool", f"(({left}) {word} (select {right} from ", inner.tree, where, "))")


def among_rows(queries: Queries, depth: int) -> Query:
    """A condition that tests whether several columns together are among other rows."""
    rng = queries.rng
    relation = queries.relation(depth - 1)
    condition = in_rows(queries, relation) if relation.rows <= 5000 else None
    if condition is None:
        return queries.plain(depth)
    make = Expressions(rng, relation.columns)
    listed, columns = queries.select_list([make.value(kind, 2) for kind in queries.kinds()])
    parts = [condition, make.condition(1).tree] if rng.random() < 0.3 else [condition]
    where = Listed(parts, " and ", before=" where ")
    return Query(Tree("query", "select ", listed, " from ", relation.tree, where), columns, None, relation.rows)


def count(queries: Queries, depth: int) -> Query:
    """A query that counts the rows of a query nested several levels deeper."""
    inner = queries.query(depth + 1)
    for _ in range(queries.rng.randint(1, 3)):
        inner = Query(
            Tree("query", "select * from (", inner.tree, f") as {queries.name('d')}"),
            inner.columns, inner.unique, inner.rows,
        )  # fmt: skip
    if queries.rng.random() < 0.7:
        return inner
    column = Column(queries.name("o"), Facts(INT, ROWS_MAX))
    tree = Tree("query", f"select count(*) as {column.name} from (", inner.tree, f") as {queries.name('d')}")
    return Query(tree, (column,), (column.name,), 1)


SHAPES = {
    distinct_on: 1.0, qualify: 1.0, grouped_by_all: 1.0, ordered_by_all: 0.5, united_by_name: 1.0, named_twice: 0.8,
    among_rows: 0.7, count: 0.5,
}  # fmt: skip
