"""SELECT. Its clauses are bound in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, Literal, col, lit, same, walk
from qcore.plan.joins import conjunction
from qcore.plan.nodes import Filter, OrderBy, PlanNode, Project, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import project, readable_name
from qcore.plan.set_operations import distinct
from qcore.sql.binder import Binder, QueryReader
from qcore.sql.expressions import chain
from qcore.sql.grouping import Grouping, grouping_sets, has_sets, read_group_by
from qcore.sql.joins import as_condition, from_rows, with_views
from qcore.sql.limits import limit_rows
from qcore.sql.naming import item_texts
from qcore.sql.ordering import read_ordered
from qcore.sql.random_columns import RandomValue
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.samples import sample_rows
from qcore.sql.scope import BindContext, Environment, Named, Part, Relation, Rows, Scope
from qcore.sql.stars import Item, columns_calls, each_column, is_star, star_items
from qcore.sql.subqueries import Rewrite, as_it_is, bind_conjunct, join_subqueries
from qcore.sql.tables import common_tables
from qcore.sql.unnest import Unnested
from qcore.sql.windows import Windows

SortValue = tuple[Expr, bool, bool]
# The most replacements of aliases by their expressions, and the most parts of an expression after such replacements.
_WRITTEN_OUT_MAX = 10_000
_PARTS_MAX = 100_000


class SelectAliases:
    """The aliases of a select list, for use in other clauses. `bound` has the items that are already bound. Places in
    `shares` use these values; other clauses bind the item's expression again.
    """

    def __init__(self, binder: Binder, items: Sequence[Item]) -> None:
        self._binder = binder
        self.bound: dict[int, Bound] = {}
        self.shares: set[int] = set()
        self._by_name: dict[str, list[int]] = {}
        self._open: set[int] = set()
        self._n_written_out = 0
        self._items = items
        for n, item in enumerate(items):
            if item.has_alias:
                self._by_name.setdefault(item.shown.lower(), []).append(n)

    def find(self, part: Part, context: BindContext) -> Bound | None:
        """The value of an alias in a context; None if there is none, or if its own expression is being bound."""
        found = [n for n in self._by_name.get(part[0].lower(), ()) if n not in self._open]
        if id(context.subqueries) in self.shares:
            # An item can only use aliases of the items before it.
            found = [n for n in found if n in self.bound]
        if not found:
            return None
        if len(found) > 1:
            raise PlanError(f"two columns of the select list are named {part[0]!r}; rename one of them")
        n = found[0]
        if id(context.subqueries) in self.shares:
            return self.bound[n]
        self._n_written_out += 1
        if self._n_written_out > _WRITTEN_OUT_MAX:
            raise PlanError("the select list is too long after its aliases are replaced; use a subquery in FROM")
        self._open.add(n)
        try:
            return self._binder.expression(self._items[n].node, context)
        finally:
            self._open.discard(n)

    def open(self, n: int) -> None:
        """Hide an item's alias while its expression is bound."""
        self._open.add(n)

    def close(self, n: int) -> None:
        """Show it again."""
        self._open.discard(n)


class _Select:
    """Binds one SELECT."""

    def __init__(self, binder: Binder, node: Any, environment: Environment) -> None:
        (
            self.select_list, self.from_, self.joins, self.where, self.group, self.having, self.named_windows,
            self.qualify, self.distinct, self.order, self.limit, self.offset, with_, kind, operators, sample,
            self.views,
        ) = take(
            node, "expressions", "from", "joins", "where", "group", "having", "windows", "qualify", "distinct",
            "order", "limit", "offset", "with", "kind", "operation_modifiers", "sample", "laterals",
        )  # fmt: skip
        if kind is not None or operators:
            raise NotBound(node, f"SELECT {'AS ' if kind else ''}{kind or operators[0]}".upper(), "write SELECT alone")
        self.sample = sample
        self.binder = binder
        self.node = node
        self.environment = common_tables(binder, with_, environment)

    def relation(self) -> Relation:
        binder = self.binder
        rows = self._from_rows()
        if self.sample is not None:
            if self.from_ is None:
                raise PlanError("USING SAMPLE needs tables in FROM")
            rows = sample_rows(binder, rows, self.sample)
        self.scope = scope = Scope(rows, self.environment, binder.dialect, self.has_all_columns)
        self.items = self._read_items()
        self.aliases = SelectAliases(binder, self.items)
        self.grouping = Grouping(binder)
        self.windows = Windows(binder, self.named_windows or ())
        if self.where is not None:
            (condition,) = take(self.where, "this")
            context = BindContext(scope, "WHERE", aliases=self.aliases)
            scope.node = self._filter_rows(scope.node, condition, context, as_it_is)
        self.unnested = Unnested(binder)
        self.context = BindContext(
            scope, "the select list", [], self.grouping, self.windows, self.aliases, unnested=self.unnested
        )
        self.aliases.shares.add(id(self.context.subqueries))
        self.aliases.shares.add(id(self.windows.subqueries))
        self._bind_keys()
        values = self._bind_items()
        having = BindContext(scope, "HAVING", [], self.grouping, None, self.aliases, True)
        having_conditions = None if self.having is None else self._conditions(self.having, having)
        qualify = BindContext(scope, "QUALIFY", [], self.grouping, self.windows, self.aliases)
        self.aliases.shares.add(id(qualify.subqueries))
        n_before = len(self.context.subqueries)
        qualified = None if self.qualify is None else self._conditions(self.qualify, qualify)
        on = self._distinct_on()
        order = self._bind_order(values)

        node = join_subqueries(binder, scope.node, self.grouping.subqueries)
        self.known: set[str] = set()
        rewrite: Rewrite = as_it_is
        if self.having is not None:
            self.grouping.is_grouped = True
        if self.grouping.is_needed:
            node = self.grouping.node(node)
            rewrite = self._rewrite
        if having_conditions is not None:
            try:
                node = self._apply(node, having_conditions, having.subqueries, rewrite)
            except PlanError:
                binder.blame(self.having)
                raise
        self._know(self.windows.subqueries)
        node = self.windows.node(node, rewrite)
        self.known |= self.windows.outputs.keys()
        self._know(self.context.subqueries)
        if qualified is not None:
            # Items of the select list that QUALIFY reads are computed below it.
            reads_items = bool(n_before)
            if reads_items:
                node = join_subqueries(binder, node, self.context.subqueries, rewrite)
                self.context.subqueries.clear()
            node = self._apply(node, qualified, qualify.subqueries, rewrite)
        node = join_subqueries(binder, node, self.context.subqueries, rewrite)
        node = self.unnested.node(node, rewrite)
        self.known.update(self.unnested.outputs)
        return self._finish_query(node, values, on, order, rewrite)

    def _rewrite(self, expr: Expr) -> Expr:
        return self.grouping.rewrite(expr, self.known)

    def _know(self, waiting: Sequence[Any]) -> None:
        """Add the columns of joined subqueries to the known columns."""
        for one in waiting:
            if isinstance(one, RandomValue):
                self.known.add(one.name)
            else:
                # Conditions read the subquery's columns too.
                self.known.update(one.right.schema.names)
                self.known.add(one.output)

    def _from_rows(self) -> Rows:
        """The rows of FROM.

        Its tables have all columns if the select list has a star, else those that the text names.
        """
        binder = self.binder
        reads_all = binder.reads_all
        has_star = binder.read_columns.has_star and (not self.select_list or any(map(is_star, self.select_list)))
        binder.reads_all = has_star or not binder.may_narrow or binder.read_columns.words is None
        self.has_all_columns = binder.reads_all
        try:
            rows = from_rows(binder, self.from_, self.joins or (), self.environment)
            return with_views(binder, rows, self.views or (), self.environment)
        finally:
            binder.reads_all = reads_all

    # --- items ---

    def _read_items(self) -> list[Item]:
        texts: list[str] | None = None
        items: list[Item] = []
        for n, node in enumerate(self.select_list or ()):
            if is_star(node):
                items += star_items(node, self.scope, self.binder.dialect)
                continue
            calls = columns_calls(node) if self.binder.has_columns_calls else []
            if calls:
                items += self._columns_items(node, calls)
                continue
            if type(node).__name__ == "Alias":
                value, _ = take(node, "this", "alias")
                items.append(Item(self._alias(get(node, "alias")), value, has_alias=True))
                continue
            if type(node).__name__ == "Aliases":
                raise NotBound(node, "an item with several aliases", "give each item one: a AS x")
            if type(node).__name__ == "Column":
                items.append(Item("", node))
                continue
            if texts is None:
                texts = item_texts(self.node, self.binder.source)
            items.append(Item(texts[n] if n < len(texts) else str(node), node))
        if not items:
            raise PlanError("the select list is empty")
        return items

    def _columns_items(self, node: Any, calls: Sequence[Any]) -> list[Item]:
        """The items that an item with COLUMNS expands to."""
        alias = None
        if type(node).__name__ == "Alias":
            alias = self._alias(get(node, "alias"))
            (node, _) = take(node, "this", "alias")
        each = each_column(node, calls, self.scope, self.binder.dialect)
        return [Item(name if alias is None else alias, one, has_alias=alias is not None) for name, one in each]

    def _parts(self, condition: Any) -> list[Any]:
        """The conjuncts of a condition. A conjunct with COLUMNS becomes one for each column."""
        parts = chain(condition) if type(condition).__name__ in ("And", "Paren") else [condition]
        if not self.binder.has_columns_calls:
            return parts
        result = []
        for part in parts:
            calls = columns_calls(part)
            if calls:
                result += [one for _, one in each_column(part, calls, self.scope, self.binder.dialect)]
            else:
                result.append(part)
        return result

    def _alias(self, node: Any) -> str:
        text, quoted = identifier(node)
        return text.lower() if self.binder.dialect.name_case == "lower" and not quoted else text

    def _bind_items(self) -> list[Bound]:
        values = []
        for n, item in enumerate(self.items):
            value = self.aliases.bound.get(n) or item.value
            if value is None:
                self.aliases.open(n)
                value = self.binder.expression(item.node, self.context)
                self.aliases.close(n)
                if item.has_alias:
                    _check_size(value.expr)
            if not item.shown:
                item.shown = self._column_name(item.node, value)
            self.aliases.bound[n] = value
            values.append(value)
        return values

    def _column_name(self, node: Any, value: Bound) -> str:
        """The name of a column as its table spells it."""
        if isinstance(value.expr, Column):
            for named in self.scope.rows.columns:
                if named.own == value.expr.name:
                    return named.shown
            for table in self.scope.rows.tables:
                for named in table.columns:
                    if named.own == value.expr.name:
                        return named.shown
        return str(node.name)

    # --- conditions ---

    def _conditions(self, clause: Any, context: BindContext) -> list[Bound]:
        (condition,) = take(clause, "this")
        result = []
        for part in chain(condition) if type(condition).__name__ in ("And", "Paren") else [condition]:
            value = bind_conjunct(self.binder, part, context)
            if value is not None:
                result.append(as_condition(value, self.binder, part))
        return result

    def _filter_rows(self, node: PlanNode, condition: Any, context: BindContext, rewrite: Rewrite) -> PlanNode:
        """The rows for which a condition is true. Conditions without subqueries filter before these are joined."""
        before: list[Bound] = []
        after: list[Bound] = []
        for part in self._parts(condition):
            n_waiting = len(context.subqueries)
            value = bind_conjunct(self.binder, part, context)
            if value is not None:
                value = as_condition(value, self.binder, part)
                (before if n_waiting == len(context.subqueries) else after).append(value)
        node = self._apply(node, before, (), rewrite)
        return self._apply(node, after, context.subqueries, rewrite)

    def _apply(self, node: PlanNode, conditions: Sequence[Bound], waiting: Sequence[Any], rewrite: Rewrite) -> PlanNode:
        if waiting and rewrite is not as_it_is:
            self._know(waiting)
        node = join_subqueries(self.binder, node, waiting, rewrite)
        parts = [rewrite(value.expr) for value in conditions]
        parts = [part for part in parts if not (isinstance(part, Literal) and part.value is True)]
        predicate = conjunction(parts)
        return node if predicate is None else Filter(self.binder.ids.new(), node.schema, node, predicate)

    # --- grouping ---

    def _bind_keys(self) -> None:
        if self.group is None:
            return
        self.grouping.is_grouped = True
        elements, is_all = read_group_by(self.group)
        context = BindContext(self.scope, "GROUP BY", self.grouping.subqueries, None, None, self.aliases)

        def add(node: Any) -> int:
            return self.grouping.add_key(self._key(node, context))

        if not elements and not is_all:
            raise PlanError("syntax error: GROUP BY without expressions")
        if is_all:
            self._group_by_all()
        if has_sets(elements):
            self.grouping.sets = grouping_sets(elements, add)
            return
        for element in elements:
            for part in _in_brackets(element):
                add(part)

    def _key(self, node: Any, context: BindContext) -> Bound:
        position = _position(node)
        if position is None:
            return self.binder.expression(node, context)
        item = self.items[self._check_position(position, "GROUP BY", node)]
        return item.value or self.binder.expression(item.node, context)

    def _check_position(self, position: int, clause: str, node: Any) -> int:
        if not 1 <= position <= len(self.items):
            n = len(self.items)
            self.binder.blame(node)
            raise PlanError(f"{clause} {position}: the select list has {n} column{'s' if n > 1 else ''}")
        return position - 1

    def _group_by_all(self) -> None:
        """Every item without aggregates and window functions is a key."""
        for n, item in enumerate(self.items):
            n_calls, n_windows = len(self.grouping.calls), len(self.windows.outputs)
            value = item.value or self.binder.expression(item.node, self.context)
            if item.value is None:
                self.aliases.bound[n] = value
                if not item.shown:
                    item.shown = self._column_name(item.node, value)
            reads = {part.name for part in _columns(value.expr)}
            has_calls = len(self.grouping.calls) > n_calls or any(one.name in reads for one in self.grouping.calls)
            if not has_calls and len(self.windows.outputs) == n_windows and not isinstance(value.expr, Literal):
                self.grouping.add_key(value)

    # --- order ---

    def _distinct_on(self) -> list[Expr]:
        if self.distinct is None:
            return []
        (on,) = take(self.distinct, "on")
        if on is None:
            return []
        return [self._order_value(part, [])[0] for part in _in_brackets(on)]

    def _bind_order(self, values: list[Bound]) -> list[SortValue]:
        if self.order is None:
            return []
        (keys,) = take(self.order, "expressions")
        result: list[SortValue] = []
        for key in keys:
            value, descending, nulls_first = read_ordered(key)
            if is_order_by_all(value):
                result += [(one.expr, descending, nulls_first) for one in values]
                continue
            result.append((self._order_value(value, values)[0], descending, nulls_first))
        return result

    def _order_value(self, node: Any, values: list[Bound]) -> tuple[Expr, Any]:
        position = _position(node)
        if position is not None:
            n = self._check_position(position, "ORDER BY", node)
            return self.aliases.bound[n].expr, n
        if type(node).__name__ == "Column" and get(node, "table") is None:
            name, _ = identifier(get(node, "this"))
            for n, item in enumerate(self.items):
                if item.shown.lower() == name.lower() and (item.has_alias or item.value is None):
                    return self.aliases.bound[n].expr, n
        return self.binder.expression(node, self.context).expr, None

    # --- output ---

    def _finish_query(
        self, node: PlanNode, values: list[Bound], on: list[Expr], order: list[SortValue], rewrite: Rewrite
    ) -> Relation:
        binder = self.binder
        exprs = []
        for item, value in zip(self.items, values, strict=True):
            try:
                exprs.append(rewrite(value.expr))
            except PlanError:
                binder.blame(item.node)
                raise
        sort = [(rewrite(expr), descending, nulls_first) for expr, descending, nulls_first in order]
        keys = [rewrite(expr) for expr in on]
        is_distinct = self.distinct is not None and not on
        hidden = [expr for expr, *_ in sort] + keys
        if is_distinct:
            for expr in hidden:
                if not any(same(expr, known) for known in exprs):
                    binder.blame(self.order)
                    raise PlanError(
                        "ORDER BY of a SELECT DISTINCT takes expressions of its select list; add the expression to it"
                    )
        node, names = self._project(node, exprs, hidden, values)
        columns = [Named(item.shown, name) for item, name in zip(self.items, names, strict=False)]
        sort_names = names[len(exprs) : len(exprs) + len(sort)]
        sort_keys = _unique([SortKey(name, *key[1:]) for name, key in zip(sort_names, sort, strict=True)])
        relation = Relation(node, columns)
        if is_distinct:
            of = dict.fromkeys(named.own for named in columns)
            exact = binder.exact(Relation(node, [Named(name, name) for name in of]))
            relation = Relation(distinct(binder.ids, exact), columns)
        if keys:
            relation = self._first_rows(relation, names[len(exprs) + len(sort) :], sort_keys)
        if sort_keys:
            node = OrderBy(binder.ids.new(), relation.node.schema, relation.node, sort_keys)
            relation = Relation(node, relation.columns)
        return limit_rows(binder, relation, self.limit, self.offset, self.environment)

    def _project(
        self, node: PlanNode, exprs: list[Expr], hidden: list[Expr], values: list[Bound]
    ) -> tuple[PlanNode, list[str]]:
        """The node with columns for all expressions, and their names."""
        if all(isinstance(expr, Column) for expr in (*exprs, *hidden)):
            return node, [expr.name for expr in (*exprs, *hidden)]  # type: ignore[attr-defined]
        names: list[str] = []
        computed: dict[str, Expr] = {}
        fields: list[pa.Field] = []
        schema = node.schema
        for n, expr in enumerate((*exprs, *hidden)):
            if isinstance(expr, Column):
                name = expr.name
                if name not in computed:
                    computed[name] = expr
                    fields.append(schema.field(name))
                names.append(name)
                continue
            if n < len(exprs):
                name = self.binder.names.new(self.items[n].shown or readable_name(expr))
                computed[name] = expr
                fields.append(pa.field(name, values[n].type))
                names.append(name)
                continue
            known = next((names[i] for i, one in enumerate(exprs) if same(one, expr)), None)
            if known is None:
                known = self.binder.names.new("order")
                computed[known] = expr
            names.append(known)
        if len(fields) == len(computed):
            return Project(self.binder.ids.new(), pa.schema(fields), node, tuple(computed.values())), names
        return project(self.binder.ids.new(), node, list(computed), list(computed.values())), names

    def _first_rows(self, relation: Relation, keys: list[str], order: tuple[SortKey, ...]) -> Relation:
        """DISTINCT ON: the first row, in the order, of those with equal keys."""
        binder, node = self.binder, relation.node
        number = binder.names.new("row_number")
        call = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
        schema = node.schema.append(pa.field(number, pa.int64()))
        numbered = Window(binder.ids.new(), schema, node, tuple(dict.fromkeys(keys)), order, (call,))
        first = Filter(binder.ids.new(), schema, numbered, col(number) <= lit(1))
        return Relation(first, relation.columns)


def _check_size(expr: Expr) -> None:
    for n, _ in enumerate(walk(expr)):
        if n > _PARTS_MAX:
            raise PlanError("the select list is too long when its aliases are written out; use a subquery in FROM")


def is_order_by_all(node: Any) -> bool:
    """Whether an element of ORDER BY is ALL."""
    return type(node).__name__ == "Var" and node.name.upper() == "ALL"


def _columns(expr: Expr) -> list[Column]:
    return [part for part in walk(expr) if isinstance(part, Column)]


def _unique(keys: Sequence[SortKey]) -> tuple[SortKey, ...]:
    return tuple({key.column: key for key in reversed(keys)}[name] for name in dict.fromkeys(k.column for k in keys))


def _position(node: Any) -> int | None:
    """The number of an item that an element of GROUP BY or ORDER BY is."""
    if type(node).__name__ == "Literal" and not node.is_string and node.this.isdigit():
        return int(node.this)
    return None


def _in_brackets(node: Any) -> list[Any]:
    """The expressions of (a, b), or the one that has no brackets."""
    if type(node).__name__ == "Tuple":
        return list(take(node, "expressions")[0] or ())
    if type(node).__name__ == "Paren":
        return _in_brackets(take(node, "this")[0])
    return [node]


def bind_select(binder: Binder, node: Any, environment: Environment) -> Relation:
    """The rows of a SELECT."""
    return _Select(binder, node, environment).relation()


READERS: dict[str, QueryReader] = {"Select": bind_select}
