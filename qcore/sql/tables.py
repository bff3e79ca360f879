"""Tables of FROM: registered tables, views, common tables and derived tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.plan.nodes import PlanNode, Scan, Shared, SharedRead, Values
from qcore.plan.schema import unknown
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.parse import Source, parse
from qcore.sql.reading import NotBound, identifier, take
from qcore.sql.recursion import RecursiveTable, recursive_table
from qcore.sql.scope import BindContext, Environment, Level, Named, Part, Relation, Rows, Scope, TableNames, choose

# A common table has up to this many copies in a plan, each with its own conditions and columns. Further reads share the
# last copy. Otherwise the copies of tables that read each other several times would multiply.
COPIES_MAX = 16
# If the plan has this many copies of all common tables together, reads of a table share its copy.
_COPIES_OF_ALL_MAX = 32
# Names that may precede a table's name, as in "memory"."main"."t".
_CATALOGUES = (("main",), ("memory", "main"), ("memory",))


@record
class CommonTable:
    """A named query: a common table or a view. `columns` are the column names in WITH."""

    name: str
    query: Any
    columns: list[str]
    environment: Environment
    source: Source
    n_copies: int = 0
    shared: tuple[Shared, list[Named]] | None = None
    is_being_read: bool = False


def first_place(binder: Binder, environment: Environment) -> BindContext:
    """The context of the first table of FROM."""
    return BindContext(Scope(Rows(Values("", pa.schema([]), None), [], []), environment, binder.dialect), "FROM")


def named_rows(binder: Binder, parts: Sequence[Part], context: BindContext) -> tuple[Relation, str]:
    """The rows of the table, view or common table of this name, and its name."""
    common = context.scope.environment.common
    if len(parts) == 1:
        found = common.get(parts[0][0].lower())
        if found is not None:
            return read_common(binder, found, context), found.name
    name = _known_name(binder, parts)
    if name in binder.tables:
        return _scan(binder, name), name
    view = binder.memory.get(("view", name))
    if view is None:
        statements, source = parse(binder.views[name], binder.dialect)
        if len(statements) != 1:
            raise PlanError(f"the view {name!r} is not one query")
        view = CommonTable(name, statements[0], [], Environment(Level(), {}), source)
        binder.memory["view", name] = view
    try:
        return read_common(binder, view, context), name
    except PlanError as error:
        raise PlanError(f"the view {name!r}: {error}") from None


def _known_name(binder: Binder, parts: Sequence[Part]) -> str:
    """The table or view that a name means. Tables come before views."""
    if binder.known is None:
        binder.known = {}
        for name in (*binder.tables, *(view for view in binder.views if view not in binder.tables)):
            binder.known.setdefault(name.lower(), []).append(name)
    written = ".".join(part[0] for part in parts)
    for known in (written, parts[-1][0]):
        found = choose((known, parts[-1][1]), binder.known.get(known.lower(), ()), binder.dialect, str)
        if found:
            if known is not written and tuple(part[0].lower() for part in parts[:-1]) not in _CATALOGUES:
                continue
            return str(found[0])
    raise unknown("table", written, [*binder.tables, *binder.views], "the query")


def _scan(binder: Binder, name: str) -> Relation:
    columns = _scanned_columns(binder, name)
    names = tuple(column for column, _ in columns)
    own = [binder.names.new(column) for column in names]
    schema = pa.schema([pa.field(new, type_) for new, (_, type_) in zip(own, columns, strict=True)])
    node = Scan(binder.ids.new(), schema, name, None, names)
    return Relation(node, [Named(shown, new) for shown, new in zip(names, own, strict=True)])


def _scanned_columns(binder: Binder, name: str) -> list[tuple[str, pa.DataType]]:
    """The names and types of a table's columns, or of those that the text may name."""
    schema = binder.tables[name]
    key = ("scanned", name, None if binder.reads_all else id(binder.source))
    found: list[tuple[str, pa.DataType]] | None = binder.memory.get(key)
    if found is None:
        positions: Sequence[int] = range(len(schema))
        if not binder.reads_all:
            # One column remains, for the number of rows.
            positions = binder.read_columns.select(schema.names) or positions[:1]
        found = binder.memory[key] = [(field.name, field.type) for field in map(schema.field, positions)]
    binder.is_narrowed = binder.is_narrowed or len(found) < len(schema)
    return found


def read_common(binder: Binder, table: CommonTable | RecursiveTable, context: BindContext) -> Relation:
    """The rows of a common table in a context.

    It can use the names of the query that defines it, not those of the query that reads it.
    """
    if not isinstance(table, CommonTable):
        return table.read(binder, context)
    if table.is_being_read:
        raise PlanError(f"{table.name!r} reads itself; WITH RECURSIVE allows that")
    if table.shared is not None:
        return _read_again(binder, *table.shared)
    level = Level(context, context.scope.level.depth + 1, True, table.environment.level.depth)
    source, binder.source = binder.source, table.source
    table.is_being_read = True
    try:
        relation = binder.query(table.query, Environment(level, table.environment.common))
    finally:
        table.is_being_read = False
        binder.source = source
    relation = with_own_columns(binder, relation)
    shown = [named.shown for named in relation.columns]
    if len(table.columns) > len(shown):
        raise PlanError(f"{table.name!r} has {len(shown)} columns, and {len(table.columns)} names are given")
    shown[: len(table.columns)] = table.columns
    if table.columns:
        relation = Relation(
            relation.node, [Named(a, named.own) for a, named in zip(shown, relation.columns, strict=True)]
        )
    table.n_copies += 1
    n_of_all = binder.memory.get("copies", 0) + (table.n_copies > 1)
    binder.memory["copies"] = n_of_all
    most = COPIES_MAX if n_of_all <= _COPIES_OF_ALL_MAX else 2
    if table.n_copies >= most and not level.captured and not level.has_passed:
        node = binder.exact(relation)
        shared = Shared(binder.ids.number_word("part"), node.schema, node)
        columns = [Named(a, own) for a, own in zip(shown, node.schema.names, strict=True)]
        table.shared = shared, columns
        return Relation(shared, columns)
    return relation


def _read_again(binder: Binder, shared: Shared, columns: list[Named]) -> Relation:
    held = shared.schema
    new = [binder.names.new(field.name) for field in held]
    schema = pa.schema([field.with_name(name) for field, name in zip(held, new, strict=True)])
    node: PlanNode = SharedRead(binder.ids.new(), schema, shared.id, tuple(held.names), shared)
    return Relation(node, [Named(named.shown, name) for named, name in zip(columns, new, strict=True)])


def derived_rows(binder: Binder, query: Any, context: BindContext) -> tuple[Relation, dict[str, Any]]:
    """The rows of a query in FROM, and the values of earlier tables that it reads with LATERAL."""
    level = Level(context, context.scope.level.depth + 1, True)
    common = context.scope.environment.common
    relation = binder.query(query, Environment(level, common))
    if level.captured and level.has_passed:
        # The query reads earlier tables and outer tables. All these values pass through the join.
        level = Level(context, context.scope.level.depth + 1)
        relation = binder.query(query, Environment(level, common))
    return with_own_columns(binder, relation), level.captured


def with_own_columns(binder: Binder, relation: Relation) -> Relation:
    """The relation with a separate column for each name.

    A query above may group by both x and y of `a as x, a as y`.
    """
    if len({named.own for named in relation.columns}) == len(relation.columns):
        return relation
    node = binder.exact(relation)
    return Relation(
        node, [Named(named.shown, own) for named, own in zip(relation.columns, node.schema.names, strict=True)]
    )


def with_alias(relation: Relation, name: str, alias: Any, is_table: bool = False) -> Rows:
    """The rows of a relation under an alias, which may name its columns too. Only a registered table, `is_table`, may
    have two columns of one name.
    """
    columns = list(relation.columns)
    parts = (name,)
    if alias is not None:
        own_name, given = take(alias, "this", "columns")
        if own_name is not None:
            parts = (identifier(own_name)[0],)
        names = [_alias_column(one) for one in given or ()]
        if len(names) > len(columns):
            raise PlanError(f"{parts[0]!r} has {len(columns)} columns, and {len(names)} names are given")
        columns = [Named(names[i], named.own) if i < len(names) else named for i, named in enumerate(columns)]
    columns = columns if is_table else distinct_names(columns)
    return Rows(relation.node, [TableNames(parts, tuple(columns))], columns)


def _alias_column(node: Any) -> str:
    if type(node).__name__ == "Identifier":
        return identifier(node)[0]
    if type(node).__name__ == "ColumnDef":
        raise NotBound(node, "a type of a column in an alias", "write the name alone, and cast the column")
    return str(node.name)


def distinct_names(columns: Sequence[Named]) -> list[Named]:
    """The columns of a derived table: the second of the same name gets a number."""
    taken: set[str] = set()
    result = []
    for named in columns:
        shown, n = named.shown, 0
        while shown.lower() in taken:
            n += 1
            shown = f"{named.shown}_{n}"
        taken.add(shown.lower())
        result.append(named if shown == named.shown else Named(shown, named.own))
    return result


def common_tables(binder: Binder, clause: Any, environment: Environment) -> Environment:
    """The environment with the common tables of a WITH clause. An inner one hides an outer one of its name."""
    if clause is None:
        return environment
    tables, recursive = take(clause, "expressions", "recursive")
    common = dict(environment.common)
    own: set[str] = set()
    for table in tables:
        query, alias, _ = take(table, "this", "alias", "materialized")
        name_node, columns = take(alias, "this", "columns")
        name, _ = identifier(name_node)
        if name.lower() in own:
            raise PlanError(f"two common tables are named {name!r}; rename one of them")
        own.add(name.lower())
        names = [_alias_column(one) for one in columns or ()]
        around = Environment(environment.level, dict(common))
        made = recursive_table(binder, name, query, names, around) if recursive else None
        common[name.lower()] = made or CommonTable(name, query, names, around, binder.source)
    return Environment(environment.level, common)
