"""Random queries: operators are joined and nested in every way that has exactly one answer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sql_fuzz.calls import aggregate_call, call_in_window
from sql_fuzz.expressions import Expressions
from sql_fuzz.frames import excluding, range_frame, rows_frame
from sql_fuzz.tables import (
    BLOB,
    BOOL,
    DATE,
    ELEMENTS,
    FLOAT,
    INT,
    TEXT,
    Facts,
    Kind,
    TableData,
)
from sql_fuzz.tree import Dialects, Fixed, Listed, Part, Tree, optional
from sql_fuzz.values import COMPARABLE, HASHABLE, ROWS_MAX, SELECTABLE, SORTABLE, Column, Value, compose, merge_facts

# The most rows that a join may have, by estimate.
JOIN_ROWS_MAX = 50_000


@dataclass(frozen=True)
class Query:
    """A query, its output columns, its key columns (None: not known), and its estimated number of rows."""

    tree: Tree
    columns: tuple[Column, ...]
    unique: tuple[str, ...] | None
    rows: float


@dataclass(frozen=True)
class Relation:
    """An entry of FROM. The names of its columns are qualified."""

    tree: Tree
    columns: tuple[Column, ...]
    unique: tuple[str, ...] | None
    rows: float


@dataclass(frozen=True)
class Ordered:
    """A whole statement: with, query, order by output columns, limit (only where the order is total)."""

    tree: Tree
    # (output column, descending, nulls first)
    keys: tuple[tuple[str, bool, bool], ...] = ()
    limit: str = ""

    def sql(self, dialect: str) -> str:
        """The text."""
        keys = ", ".join(
            f"{name}{' desc' if down else ''} nulls {'first' if first else 'last'}" for name, down, first in self.keys
        )
        return self.tree.sql(dialect) + (f" order by {keys}" if keys else "") + self.limit

    @property
    def rows_max(self) -> float:
        """The most rows that the statement may have."""
        return int(self.limit.split()[1]) if self.limit else math.inf


# Makes a query of some depth, for Queries.
Shape = Callable[["Queries", int], Query]


class Queries:
    """Generates queries over tables."""

    def __init__(
        self,
        rng: random.Random,
        tables: Sequence[TableData],
        recursive: Callable[[Queries, str], Query] | None = None,
        others: Mapping[Shape, float] | None = None,
    ) -> None:
        self.rng = rng
        self.tables = tables
        # Further shapes of queries, and the weight of each.
        self.others = dict(others or {})
        # Generates a recursive query for the common table expression of a name.
        self.recursive = recursive
        self.ctes: list[tuple[str, Query]] = []
        self._n_names = 0

    def name(self, letter: str) -> str:
        """A new name."""
        self._n_names += 1
        return f"{letter}{self._n_names}"

    def statement(self) -> Ordered:
        """A whole statement."""
        rng = self.rng
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            self.ctes.append((self.name("w"), self.query(rng.randint(0, 1))))
        recursive = self.recursive is not None and rng.random() < 0.06
        if recursive:
            name = self.name("w")
            self.ctes.append((name, self.recursive(self, name)))
        body = self.query(rng.choice([1, 1, 2, 2, 3]))
        parts = [Tree("", f"{name} as (", query.tree, ")") for name, query in self.ctes]
        before = "with recursive " if recursive else "with "
        tree = Tree("", Listed(parts, minimum=0, before=before, after=" "), body.tree)
        if rng.random() < 0.4:
            return Ordered(tree)
        sortable = [column for column in body.columns if column.facts.exact and column.facts.kind in HASHABLE]
        if len(sortable) == len(body.columns) and rng.random() < 0.5:
            return Ordered(tree, self._order(body.columns), self._limit())
        picked = rng.sample(sortable, min(len(sortable), rng.randint(1, 3)))
        return Ordered(tree, self._order(picked) if picked else ())

    def _order(self, columns: Sequence[Column]) -> tuple[tuple[str, bool, bool], ...]:
        rng = self.rng
        shuffled = rng.sample(list(columns), len(columns))
        return tuple((column.name, rng.random() < 0.5, rng.random() < 0.5) for column in shuffled)

    def _limit(self) -> str:
        rng = self.rng
        offset = rng.choice(["", "", f" offset {rng.choice([0, 1, 2, 7, 100])}"])
        return f" limit {rng.choice([0, 1, 2, 3, 5, 10, 1000])}{offset}"

    # --- queries ---

    def query(self, depth: int) -> Query:
        """Any query."""
        shapes: dict[Callable[[int], Query], float] = {
            self.plain: 5, self.aggregate: 5, self.window: 3, self.set_operation: 3, self.limit: 1, self.distinct: 1,
            self.unnest_lists: 1,
        }  # fmt: skip
        if depth <= 0:
            return self.plain(depth)
        other, others = None, sum(self.others.values())
        if self.rng.random() < others / (others + sum(shapes.values())):
            other = self.rng.choices(list(self.others), list(self.others.values()))[0]
        return self.rng.choices(list(shapes), list(shapes.values()))[0](depth) if other is None else other(self, depth)

    def kinds(self) -> list[Kind]:
        """The kinds of some output columns."""
        return [self.rng.choice(SELECTABLE) for _ in range(self.rng.randint(1, 4))]

    def expressions(self, relation: Relation, depth: int) -> Expressions:
        """A generator of expressions over a relation's columns, with subqueries while `depth` allows them."""
        columns = relation.columns
        if depth <= 0 or relation.rows > 200:
            return Expressions(self.rng, columns)
        return Expressions(
            self.rng,
            columns,
            lambda kind: self.scalar_subquery(kind, columns),
            lambda: self.condition_subquery(columns, depth - 1),
        )

    def plain(self, depth: int, kinds: Sequence[Kind] | None = None, distinct: bool = False) -> Query:
        """SELECT expressions FROM … WHERE …"""
        rng = self.rng
        relation = self.relation(depth - 1)
        make = self.expressions(relation, depth)
        items: list[Value] = []
        for kind in kinds if kinds is not None else self.kinds():
            items.append(make.value(kind, rng.choice([0, 1, 2, 3])))
        unique = None
        if kinds is None:
            picked = rng.sample(list(relation.columns), min(len(relation.columns), rng.randint(0, 3)))
            items += [column.value() for column in picked]
            if relation.unique and rng.random() < 0.7:
                by_name = {column.name: column for column in relation.columns}
                start = len(items)
                items += [by_name[name].value() for name in relation.unique]
                unique = range(start, len(items))
        if distinct:
            items = [item for item in items if item.facts.exact and item.kind in HASHABLE] or [make.literal(INT)]
            unique = range(len(items))
        listed, columns = self.select_list(items)
        tree = Tree(
            "query", f"select {'distinct ' if distinct else ''}", listed, " from ", relation.tree, self.where(make)
        )
        names = None if unique is None else tuple(columns[position].name for position in unique)
        return Query(tree, columns, names, relation.rows)

    def distinct(self, depth: int) -> Query:
        """SELECT DISTINCT."""
        return self.plain(depth, distinct=True)

    def where(self, make: Expressions) -> Listed:
        """A WHERE clause, or nothing."""
        rng = self.rng
        if rng.random() < 0.4:
            return optional(None)
        parts = [make.condition(rng.choice([1, 2, 2, 3])).tree for _ in range(rng.choice([1, 1, 2]))]
        return Listed(parts, " and ", minimum=0, before=" where ")

    def select_list(self, items: Sequence[Value]) -> tuple[Listed, tuple[Column, ...]]:
        """The select list, with new names."""
        columns = [Column(self.name("o"), item.facts) for item in items]
        trees = [Tree("", item.tree, f" as {column.name}") for item, column in zip(items, columns, strict=True)]
        return Listed(trees), tuple(columns)

    def limit(self, depth: int) -> Query:
        """A query with LIMIT in a total order."""
        inner = self.query(depth - 1)
        sortable = all(column.facts.exact and column.facts.kind in HASHABLE for column in inner.columns)
        if not sortable:
            return inner
        keys = ", ".join(
            f"{name}{' desc' if down else ''} nulls {'first' if first else 'last'}"
            for name, down, first in self._order(inner.columns)
        )
        first = Fixed(f") as {self.name('l')} order by {keys}{self._limit()}")
        tree = Tree("query", "select * from (select * from (", inner.tree, first, f") as {self.name('l')}")
        return Query(tree, inner.columns, inner.unique, min(inner.rows, 1000))

    def unnest_lists(self, depth: int) -> Query:
        """A query with unnest(): the elements of lists beside the columns of their rows."""
        rng = self.rng
        relation = self.derive_table(self.query(depth - 1)) if depth > 1 and rng.random() < 0.5 else self.table()
        lists = [column for column in relation.columns if column.facts.kind in ELEMENTS]
        if not lists or relation.rows > 200:
            return self.plain(depth)
        make = self.expressions(relation, 0)
        kept = rng.sample(list(relation.columns), min(len(relation.columns), rng.randint(0, 3)))
        kept = kept or [relation.columns[0]]
        picked = rng.choice(lists)
        of_element = replace(picked.facts, kind=ELEMENTS[picked.facts.kind])
        if rng.random() < 0.5:
            calls = [compose(of_element, f"unnest({picked.name})")]
            if rng.random() < 0.3:
                other = rng.choice(lists)
                # The shorter list is extended by nulls.
                calls.append(compose(replace(other.facts, kind=ELEMENTS[other.facts.kind]), f"unnest({other.name})"))
            listed, columns = self.select_list([*(column.value() for column in kept), *calls])
            tree = Tree("query", "select ", listed, " from ", relation.tree, self.where(make))
            return Query(tree, columns, None, relation.rows * 5)
        alias = self.name("u")
        element = Column(f"{alias}.e", of_element)
        make = Expressions(rng, [*relation.columns, element])
        items = [*(column.value() for column in kept), element.value(), make.value(rng.choice(SELECTABLE), 2)]
        listed, columns = self.select_list(items)
        join = Fixed(rng.choice([f", unnest({picked.name}) as {alias}(e)",
                                 f" cross join unnest({picked.name}) as {alias}(e)",
                                 f" left join unnest({picked.name}) as {alias}(e) on true"]))  # fmt: skip
        tree = Tree("query", "select ", listed, " from ", relation.tree, join, self.where(make))
        return Query(tree, columns, None, relation.rows * 5)

    def set_operation(self, depth: int) -> Query:
        """UNION, INTERSECT or EXCEPT of two queries."""
        rng = self.rng
        kinds = self.kinds()
        word = rng.choice(["union all", "union all", "union", "intersect", "except", "intersect all", "except all"])
        sides = [self.plain(depth - 1, kinds) for _ in range(rng.choice([2, 2, 3]) if "union" in word else 2)]
        exact = all(column.facts.exact for side in sides for column in side.columns)
        if not exact:
            word = "union all"
        columns = []
        for position, kind in enumerate(kinds):
            facts = [side.columns[position].facts for side in sides]
            columns.append(
                Column(
                    sides[0].columns[position].name,
                    replace(merge_facts(facts), kind=kind),
                )
            )
        unique = tuple(column.name for column in columns) if word in ("union", "intersect", "except") else None
        branches = [Tree("", "(", side.tree, ")") for side in sides]
        tree = Tree("query", "select * from (", Listed(branches, f" {word} "), f") as {self.name('s')}")
        return Query(tree, tuple(columns), unique, sum(side.rows for side in sides))

    # --- aggregates ---

    def aggregate(self, depth: int) -> Query:
        """A query with aggregates: GROUP BY keys, grouping sets or nothing, and HAVING."""
        rng = self.rng
        relation = self.relation(depth - 1)
        make = self.expressions(relation, 0)
        keys = []
        for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
            columns = [column for column in relation.columns if column.facts.exact and column.facts.kind in HASHABLE]
            if columns and rng.random() < 0.7:
                keys.append(rng.choice(columns).value())
            else:
                keys.append(make.exact_value(rng.choice(SELECTABLE), 2))
        # One engine takes a constant key for a position, the other for a value.
        keys = [key for key in keys if any(column.name in key.tree.sql("duckdb") for column in relation.columns)]
        sets = len(keys) > 0 and rng.random() < 0.25
        if sets:
            # One engine refuses a key that is given twice.
            keys = list({key.tree.sql("qcore"): key for key in keys}.values())
        calls = [aggregate_call(make) for _ in range(rng.randint(0 if keys else 1, 4))]
        items = [*keys, *calls]
        if not sets and calls and rng.random() < 0.15:
            items.append(self.window_over_groups(keys, calls))
        if sets and rng.random() < 0.4:
            items.append(compose(Facts(INT, 2), "cast(grouping(", Fixed(keys[0].tree), ") as bigint)"))
        listed, columns = self.select_list(items)
        having = optional(None)
        if rng.random() < 0.25:
            # Over the aggregates, because the input's columns are not visible here.
            condition = Expressions(rng, [Column(call.tree.sql("qcore"), call.facts) for call in calls])
            if all(not any(isinstance(part, Dialects) for tree in call.tree.walk() for part in tree.parts)
                   for call in calls) and calls:  # fmt: skip
                having = optional(condition.condition(1).tree, before=" having ")
        by: Tree = Listed([Tree("", key.tree) for key in keys], minimum=0, before=" group by ")
        if keys and rng.random() < 0.15:
            by = Fixed(f" group by {', '.join(str(position + 1) for position in range(len(keys)))}")
        if sets:
            by = Fixed(" group by ", self.grouping_sets([key.tree for key in keys]))
        tree = Tree("query", "select ", listed, " from ", relation.tree, self.where(make), by, having)
        unique = tuple(column.name for column in columns[: len(keys)]) if not sets else None
        return Query(tree, columns, unique if keys else (), relation.rows if keys else 1)

    def window_over_groups(self, keys: Sequence[Value], calls: Sequence[Value]) -> Value:
        """A window function over aggregates."""
        rng = self.rng
        exact = [value for value in (*keys, *calls) if value.facts.exact and value.kind in SORTABLE]
        exact = exact or [compose(Facts(INT), "count(*)")]
        parts = [value.tree for value in keys[:1] if rng.random() < 0.5]
        by = Listed(parts, minimum=0, before="partition by ", after=" ")
        order = Tree("", "order by ", rng.choice(exact).tree, rng.choice([" nulls first", " desc nulls last"]))
        name = rng.choice(["rank()", "dense_rank()", "count(*)"])
        return compose(Facts(INT, ROWS_MAX), f"{name} over (", by, order, ")")

    def grouping_sets(self, keys: Sequence[Tree]) -> Tree:
        """ROLLUP, CUBE or GROUPING SETS of the keys."""
        rng = self.rng
        shape = rng.random()
        if shape < 0.6:
            return Listed(keys, before=rng.choice(["rollup(", "cube("]), after=")")
        # One engine refuses a key that is in no set, the other returns null for it.
        sets = [Listed(keys)]
        for _ in range(rng.randint(0, 2)):
            sets.append(Listed(rng.sample(list(keys), rng.randint(0, len(keys)))))
        return Listed([Tree("", "(", part, ")") for part in sets], before="grouping sets (", after=")")

    # --- windows ---

    def window(self, depth: int) -> Query:
        """A query with window functions."""
        rng = self.rng
        relation = self.relation(depth - 1)
        make = self.expressions(relation, 0)
        picked = rng.sample(list(relation.columns), min(len(relation.columns), rng.randint(1, 3)))
        items = [column.value() for column in picked]
        for _ in range(rng.randint(1, 3)):
            items.append(self.window_call(make, relation))
        listed, columns = self.select_list(items)
        tree = Tree("query", "select ", listed, " from ", relation.tree, self.where(make))
        return Query(tree, columns, None, relation.rows)

    def window_call(self, make: Expressions, relation: Relation) -> Value:
        """A window function with its OVER clause."""
        rng = self.rng
        sortable = [column for column in relation.columns if column.facts.exact and column.facts.kind in SORTABLE]
        parts = rng.sample(sortable, min(len(sortable), rng.choice([0, 1, 1, 2])))
        order = rng.sample(sortable, min(len(sortable), rng.choice([0, 1, 1, 2])))
        unique = [column for column in relation.columns if column.name in (relation.unique or ())]
        total = bool(unique) and all(c.facts.kind in SORTABLE for c in unique) and rng.random() < 0.6
        if total:
            names = [column.name for column in order]
            order += [column for column in unique if column.name not in names]
        keys = [
            f"{column.name}{rng.choice(['', ' asc', ' desc'])}{rng.choice([' nulls first', ' nulls last'])}"
            for column in order
        ]
        by = Listed([Tree("", column.name) for column in parts], minimum=0, before="partition by ", after=" ")
        sort = Fixed(f"order by {', '.join(keys)} " if keys else "")
        if total and rng.random() < 0.6:
            return self.by_position(make, by, sort)
        peers = [("rank()", INT), ("dense_rank()", INT), ("percent_rank()", FLOAT), ("cume_dist()", FLOAT)]
        if keys and rng.random() < 0.4:
            text, kind = rng.choice(peers)
            facts = Facts(kind, ROWS_MAX, exact=kind == INT)
            return compose(facts, f"{text} over (", by, sort, ")")
        frame = ""
        if total:
            frame = rows_frame(rng)
        elif keys:
            frame = rng.choice(["", "range unbounded preceding", "range between unbounded preceding and current row",
                                "range between current row and unbounded following",
                                "range between unbounded preceding and unbounded following"])  # fmt: skip
            if len(order) == 1 and rng.random() < 0.5:
                frame = range_frame(rng, order[0].facts) or frame
            if rng.random() < 0.3:
                frame = rows_frame(rng, "groups")
        call = call_in_window(make)
        return compose(call.facts, call.tree, " over (", by, sort, excluding(rng, frame), ")")

    def by_position(self, make: Expressions, by: Listed, sort: Fixed) -> Value:
        """A window function of the order of rows, which is total."""
        rng = self.rng
        shape = rng.random()
        if shape < 0.3:
            return compose(Facts(INT, ROWS_MAX), "row_number() over (", by, sort, ")")
        if shape < 0.4:
            return compose(Facts(INT, ROWS_MAX), f"ntile({rng.randint(1, 5)}) over (", by, sort, ")")
        value = make.leaf(make.present_kind(COMPARABLE))
        if shape < 0.7:
            distance: list[Part] = [rng.choice(["", ", 1", ", 2", ", 0"])]
            number = make.column(INT, lambda facts: facts.exact) if rng.random() < 0.25 else None
            if number is not None:
                distance = [", cast(", number.tree, f" % {rng.randint(1, 4)} as bigint)"]
            if rng.random() < 0.3:
                default = make.firm_literal(value.kind).tree.sql("qcore")
                distance = [*(distance if number is not None else [", 1"]), f", {default}"]
            distance.append(rng.choice(["", "", " ignore nulls"]))
            return compose(
                value.facts, f"{rng.choice(['lag', 'lead'])}(", value.tree, *distance, ") over (", by, sort, ")"
            )
        frame = excluding(rng, rows_frame(rng))
        if rng.random() < 0.25:
            text = make.column(TEXT, lambda facts: facts.exact)
            if text is not None and rng.random() < 0.6:
                return compose(Facts(TEXT), "string_agg(", text.tree, ", '-') over (", by, sort, frame, ")")
            number = make.column(INT, lambda facts: facts.exact) or make.literal(INT)
            of_lists = next(lists for lists, element in ELEMENTS.items() if element == INT)
            value = compose(replace(number.facts, kind=of_lists), "array_agg(cast(", number.tree, " as bigint))")
            return compose(value.facts, value.tree, " over (", by, sort, frame, ")")
        name = rng.choice(["first_value", "last_value", "nth_value"])
        number = f", {rng.randint(1, 4)}" if name == "nth_value" else ""
        number += rng.choice(["", "", " ignore nulls"])
        return compose(value.facts, f"{name}(", value.tree, f"{number}) over (", by, sort, frame, ")")

    # --- what stands in FROM ---

    def relation(self, depth: int) -> Relation:
        """A table, a query in brackets, or a join."""
        shape = self.rng.random()
        if shape < 0.4:
            return self.join(depth)
        if shape < 0.6 and depth > 0:
            return self.derive_table(self.query(depth))
        if shape < 0.64:
            return self.values()
        return self.table()

    def values(self) -> Relation:
        """A VALUES list."""
        rng = self.rng
        kinds = [rng.choice([INT, TEXT, FLOAT, BOOL, DATE]) for _ in range(rng.randint(1, 3))]
        make = Expressions(rng, ())
        alias = self.name("v")
        n_rows = rng.randint(1, 5)
        # The first row determines the types of the columns.
        rows = [[make.firm_literal(kind) for kind in kinds]]
        rows += [[make.literal(kind) for kind in kinds] for _ in range(n_rows - 1)]
        trees = [Tree("", "(", Fixed(", ".join(value.tree.sql("qcore") for value in row)), ")") for row in rows]
        names = [f"c{position}" for position in range(len(kinds))]
        tree = Tree("relation", "(values ", Listed(trees), f") as {alias}({', '.join(names)})")
        columns = tuple(Column(f"{alias}.{name}", Facts(kind, 16)) for name, kind in zip(names, kinds, strict=True))
        return Relation(tree, columns, None, n_rows)

    def table(self) -> Relation:
        """A table or a common table expression, with a new alias."""
        rng = self.rng
        if self.ctes and rng.random() < 0.3:
            return self.name_query(*rng.choice(self.ctes))
        table = rng.choice(self.tables)
        alias = self.name("a")
        columns = tuple(Column(f"{alias}.{name}", facts) for name, facts in table.facts.items())
        return Relation(Tree("relation", f"{table.name} as {alias}"), columns, (f"{alias}.id",), table.data.num_rows)

    def name_query(self, name: str, query: Query) -> Relation:
        """A common table expression."""
        return self._under(f"{name} as ", query, self.name("e"), "")

    def derive_table(self, query: Query) -> Relation:
        """A query in FROM."""
        return self._under("(", query, self.name("d"), ") as ")

    def _under(self, before: str, query: Query, alias: str, after: str) -> Relation:
        columns = tuple(replace(column, name=f"{alias}.{column.name}") for column in query.columns)
        unique = None if query.unique is None else tuple(f"{alias}.{name}" for name in query.unique)
        parts: list[Part] = [before, query.tree, after] if after else [before]
        return Relation(Tree("relation", *parts, alias), columns, unique, query.rows)

    def join(self, depth: int) -> Relation:
        """Two relations joined."""
        rng = self.rng
        left = self.relation(depth - 1) if rng.random() < 0.4 else self.table()
        right = self.derive_table(self.query(depth - 1)) if depth > 0 and rng.random() < 0.3 else self.table()
        return self.join_relations(left, right)

    def join_relations(self, left: Relation, right: Relation) -> Relation:
        """A join of both, or the left one alone if the join may have too many rows."""
        rng = self.rng
        if left.rows * right.rows > JOIN_ROWS_MAX * 20:
            return left
        kind: Part = rng.choice(["join", "join", "left join", "right join", "full join", "cross join", "semi", "anti"])
        both = left.columns + right.columns
        pairs = [(a, b) for a in left.columns for b in right.columns if joinable(a.facts, b.facts)]
        equal = bool(pairs) and rng.random() < 0.8
        if left.rows * right.rows > JOIN_ROWS_MAX:
            # Only with a key of one side. Other conditions may give too many rows.
            pairs = [(a, b) for a, b in pairs if (a.name,) == left.unique or (b.name,) == right.unique]
            if not pairs or kind == "cross join":
                return left
            equal = True
        if kind in ("semi", "anti") and not equal:
            # Without a condition on both sides, one engine takes a row of the right side before it filters.
            kind = "left join"
        unique = None if left.unique is None or right.unique is None else left.unique + right.unique
        rows = left.rows * right.rows
        if kind == "cross join":
            return Relation(Tree("relation", left.tree, f" {kind} ", right.tree), both, unique, rows)
        if kind in ("semi", "anti"):
            both, unique, rows = left.columns, left.unique, left.rows
            kind = Dialects(f"{kind} join", f"left {kind} join")
        picked = rng.sample(pairs, min(len(pairs), rng.choice([1, 1, 2]))) if equal else []
        parts = [self._pair(a, b) for a, b in picked]
        if equal and rng.random() < 0.2 and left.rows * right.rows <= JOIN_ROWS_MAX:
            kind_of_key = rng.choice([INT, TEXT, DATE])
            sides = [Expressions(rng, side.columns).exact_value(kind_of_key, 2) for side in (left, right)]
            parts.append(Tree("bool", "(", sides[0].tree, " = ", sides[1].tree, ")"))
        if equal and not isinstance(kind, Dialects):
            rows = max(left.rows, right.rows) * 4
        if rng.random() < 0.35 or not parts:
            parts.append(Expressions(rng, left.columns + right.columns).condition(1).tree)
        tree = Tree("relation", left.tree, " ", kind, " ", right.tree, Listed(parts, " and ", before=" on "))
        return Relation(tree, both, unique, rows)

    def _pair(self, a: Column, b: Column) -> Tree:
        word = self.rng.choice(["=", "=", "=", "=", "=", "is not distinct from"])
        pair = [a.name, b.name] if self.rng.random() < 0.5 else [b.name, a.name]
        # Without brackets one parser takes what follows IS DISTINCT FROM for a part of it.
        return Tree("bool", f"({pair[0]} {word} {pair[1]})")

    # --- subqueries ---

    def scalar_subquery(self, kind: Kind, outer: Sequence[Column]) -> Value | None:
        """`(select aggregate …)`, which has one row. It may be correlated by an equality."""
        rng = self.rng
        inner = self.table() if rng.random() < 0.8 else self.join(0)
        if kind not in COMPARABLE or inner.rows > 200:
            return None
        make = Expressions(rng, inner.columns)
        value = make.leaf_exact(kind)
        name = rng.choice(["min", "max"])
        if kind == INT and rng.random() < 0.5:
            # A count of no rows is 0, not null, also after decorrelation.
            value = compose(Facts(INT, ROWS_MAX), rng.choice(["1", value.tree.sql("qcore")]))
            name = "count"
        where = self._correlate(inner, outer) if rng.random() < 0.5 else self.where(make)
        return compose(value.facts, f"(select {name}(", value.tree, ") from ", inner.tree, where, ")")

    def condition_subquery(self, outer: Sequence[Column], depth: int) -> Tree | None:
        """IN, NOT IN, EXISTS, NOT EXISTS."""
        rng = self.rng
        inner = self.table() if rng.random() < 0.8 else self.join(0)
        if inner.rows > 500:
            return None
        make = Expressions(rng, inner.columns)
        if rng.random() < 0.5:
            # Brackets are needed: one parser reads NOT EXISTS … IS NULL as (NOT EXISTS …) IS NULL.
            word = rng.choice(["(exists", "(not exists"])
            where = self._correlate(inner, outer, rng.choice(["=", "=", "=", "<", ">=", "<>"]))
            return Tree("bool", f"{word} (select 1 from ", inner.tree, where, "))")
        kinds = [c.facts.kind for c in outer if c.facts.kind in (*COMPARABLE, BLOB) and c.facts.exact]
        if not kinds:
            return None
        kind = rng.choice(kinds)
        value = Expressions(rng, outer).leaf_exact(kind)
        where = self._correlate(inner, outer) if rng.random() < 0.3 else self.where(make)
        word = rng.choice(["in", "in", "not in"])
        return Tree(
            "bool", "(", value.tree, f" {word} (select ", make.leaf_exact(kind).tree, " from ", inner.tree, where, "))"
        )

    def _correlate(self, inner: Relation, outer: Sequence[Column], word: str = "=") -> Listed:
        rng = self.rng
        pairs = [(a, b) for a in inner.columns for b in outer if joinable(a.facts, b.facts)]
        if word != "=":
            pairs = [(a, b) for a, b in pairs if a.facts.kind in COMPARABLE]
        parts = [Tree("bool", f"{a.name} {word} {b.name}") for a, b in (rng.sample(pairs, 1) if pairs else [])]
        if rng.random() < 0.4:
            parts.append(Expressions(rng, inner.columns).condition(1).tree)
        return Listed(parts, " and ", minimum=0, before=" where ")


def joinable(a: Facts, b: Facts) -> bool:
    """Whether columns of these kinds may be compared as keys."""
    return a.kind == b.kind and a.kind in HASHABLE and a.exact and b.exact
