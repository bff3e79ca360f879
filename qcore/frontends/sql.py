"""SQL text → plan, with DataFusion's planner and optimizer. SPEC Q1.

DataFusion parses, resolves, decorrelates and simplifies, and writes Substrait; nothing of it runs. It knows the tables
by their schemas only: join order and build sides are decided by qcore.optimizer, which has statistics.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import common_type, plain
from qcore.frontends.cut_planner import CutPlanner, with_known_clauses, with_known_syntax
from qcore.frontends.names import GivenNames, shown_names, with_names
from qcore.frontends.planner.contexts import QueryTables, context_of, import_datafusion, read_only
from qcore.frontends.planner.correlated_names import confused_columns, misjudged, repeated_condition
from qcore.frontends.planner.errors import plan_error, refuse_misread
from qcore.frontends.planner.lost_windows import refuse_lost_windows
from qcore.frontends.planner.marks import (
    asks_of_constant,
    loses_unknown,
    mark_marks,
    mark_null_aware,
    mark_single_grouping_sets,
)
from qcore.frontends.planner.planned_text import planner_text
from qcore.frontends.planner.rules import (
    SHARE,
    SIMPLIFY,
    needs_planner,
    repeats_a_key,
    rules_to_leave_out,
    shares_uint64,
)
from qcore.frontends.planner.syntax_errors import SyntaxFault
from qcore.frontends.planner.types import asked_decimals
from qcore.frontends.text.aliases import with_aliases_written_out
from qcore.frontends.text.asof import without_asof
from qcore.frontends.text.chains import TOO_DEEP
from qcore.frontends.text.files import with_named_files
from qcore.frontends.text.limits import cut_limit
from qcore.frontends.text.order import without_order_by_all
from qcore.frontends.text.parts import Recursion, SetOperation, cut_part
from qcore.frontends.text.pivot import without_pivot
from qcore.frontends.text.repeated import cut_repeated
from qcore.frontends.text.spelling import Spelling, has_capitals, shown_spelling, with_known_spelling
from qcore.frontends.text.stars import with_stars_written_out
from qcore.frontends.text.subqueries import with_counts_for_exists, with_rows_as_exists, without_in_subqueries
from qcore.frontends.text.subscripts import is_of_text, with_text_subscripts
from qcore.frontends.text.tokens import SqlText
from qcore.frontends.text.unnest import Unnesting
from qcore.frontends.text.using import without_using
from qcore.frontends.text.windows import framed_by_peers, mark_windows
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, RecursiveUnion, Unnest, WorkingTable
from qcore.plan.planning_time import check_planning
from qcore.plan.result import PlanResult
from qcore.plan.schema import same_type, unnest_schema
from qcore.plan.set_operations import cast_columns, make_set_operation
from qcore.sql.bind import plan_query
from qcore.sql.reading import NotBound
from qcore.substrait.cut_limits import COUNT_PART, SHARE_PART
from qcore.substrait.cut_subqueries import CutSubqueries
from qcore.substrait.plan import parse_plan, read_plan_message
from qcore.substrait.shared_parts import COPIES_MAX, SharedPart

# What DataFusion says of a rule of its optimizer that fails.
_FAILED_RULE = re.compile(r"Optimizer rule '(\w+)' failed")
# … for a reason that is the query's,
_NEGATIVE = "must be >"
_OUTER = "outer_ref("
_OF_ARGUMENTS = "to satisfy a call to '$subquery"
_QUOTED_NAME = re.compile(r'"((?:[^"]|"")+)"')
_PLAIN_NAME = "$named"
# What it says of a window ordered by times, bytes, durations or intervals.
_NO_RANGE = "Cannot run range queries on datatype"


def plan_sql(
    text: str, tables: Mapping[str, pa.Schema], dialect: Dialect = QCORE, views: Mapping[str, str] | None = None
) -> PlanResult:
    """Plan one query over tables of these schemas.

    Parameters
    ----------
    text : str
        The query.
    tables : mapping of str to pyarrow.Schema
        The tables it may name. Scan nodes of the plan carry these names and no source.
    dialect : Dialect
        What the text means where engines differ.
    views : mapping of str to str, optional
        Queries that it may name as tables, and that may name one another.

    Raises
    ------
    PlanError
        A syntax error, an unknown table, column or function, or a construct the engine cannot run.
    """
    views = dict(views or {})
    try:
        return plan_query(text, tables, dialect, views)
    except NotBound as error:
        return plan_without_binder(text, tables, dialect, views, error)


def plan_without_binder(
    text: str, tables: Mapping[str, pa.Schema], dialect: Dialect, views: Mapping[str, str], why: NotBound
) -> PlanResult:
    """The plan of a text that the binder does not read, `why`. The text has standard quotes in every dialect."""
    if os.environ.get("QCORE_SQL_FALLBACK") == "never":
        raise PlanError(f"{why} is not supported yet") from None
    import_datafusion()
    query = with_named_files(text)[0]
    views = {name: with_named_files(view)[0] for name, view in views.items()}
    try:
        if dialect.name_case == "any" and has_capitals(query, tables, views):
            return _planned_in_any_case(query, tables, dialect, views)
        return _planned_as_spelled(query, tables, dialect, views)
    except SyntaxFault as fault:
        raise fault.located(text) from None
    except RecursionError:
        raise PlanError(TOO_DEEP) from None


def _planned_in_any_case(
    query: str, tables: Mapping[str, pa.Schema], dialect: Dialect, views: dict[str, str]
) -> PlanResult:
    """The plan of a query whose names may be spelled otherwise than its tables and aliases spell them."""
    known = Spelling.of(query, tables, views)
    views = {name: with_known_spelling(view, known) for name, view in views.items()}
    planned = _planned_as_spelled(with_known_spelling(query, known), tables, dialect, views)
    shown = shown_spelling(query, known)
    if planned.output_names is None or not shown:
        return planned
    return replace(planned, output_names=[shown.get(name, name) for name in planned.output_names])


def _planned_as_spelled(
    query: str, tables: Mapping[str, pa.Schema], dialect: Dialect, views: dict[str, str]
) -> PlanResult:
    def columns_of(part: str) -> list[str]:
        return _planned_as_spelled(part, tables, dialect, views).output_names or []

    query = without_asof(without_pivot(query, columns_of), columns_of)
    query, given = with_names(with_stars_written_out(query, columns_of))
    return _planned(query, given, tables, dialect, views)


def _planned(
    text: str, given: GivenNames, tables: Mapping[str, pa.Schema], dialect: Dialect, views: Mapping[str, str]
) -> PlanResult:
    """The plan as DataFusion decorrelates it or, where it does not, with correlated subqueries cut out."""
    try:
        return _Planner(tables, dialect, given).plan_with_views(text, views)
    except PlanError as error:
        read = SqlText.read(text)
        if not views and sum(not read.is_sign(region.start, "(") for region in read.regions) < 2:
            raise
        refused = error
    failed: PlanError | None = None
    for every, casts in ((False, False), (True, False), (False, True), (True, True)):
        if casts and _OF_ARGUMENTS not in str(failed):
            break
        planner = _Planner(tables, dialect, given, CutSubqueries())
        planner.cuts_every, planner.casts_arguments = every, casts
        try:
            planned = planner.plan_with_views(text, views)
        except PlanError as error:
            failed = failed or error
            continue
        if planner.was_cut:
            return planned
    # What is wrong with the query itself, the first error says in the query's own words.
    of_cut = "subquer" in str(refused) or "LATERAL" in str(refused)
    raise (failed if failed is not None and of_cut else refused) from None


class _Planner(CutPlanner):
    """Plans one query, and first the parts of it that are cut out and planned by themselves."""

    def __init__(
        self, tables: Mapping[str, pa.Schema], dialect: Dialect, given: GivenNames, cut: CutSubqueries | None = None
    ) -> None:
        self.tables = QueryTables(tables)
        self.dialect = dialect
        self.given = given
        self.parts: dict[str, Callable[[NodeIds, ColumnNames], PlanNode]] = {}
        self.asked: frozenset[pa.DataType] = frozenset()
        self.count = 0
        #: What is wrong with views that the text perhaps names.
        self.broken_views: dict[str, PlanError] = {}
        self.cut = cut

    def plan_with_views(self, text: str, views: Mapping[str, str]) -> PlanResult:
        self.add_views(text, views)
        try:
            return self.plan(with_known_syntax(text, self.dialect))
        except PlanError as error:
            found = re.match(r"unknown table '([^']+)'", str(error))
            broken = None if found is None else self.broken_views.get(found.group(1))
            if broken is None:
                raise
            raise broken from None

    def plan(self, text: str) -> PlanResult:
        self.asked |= asked_decimals(text)
        columns = {name for schema in self.tables.values() for name in schema.names}
        message = self._cut_message(text)
        rename = partial(shown_names, given=self.given, columns=columns)
        return read_plan_message(
            message, self.tables, self.parts, dialect=self.dialect, rename=rename, asked=self.asked, cut=self.cut
        )

    def add_views(self, text: str, views: Mapping[str, str], within: tuple[str, ...] = ()) -> None:
        """Make tables of the views that the text may name; a view of itself knows no table of its name."""
        names = SqlText.read(text).names if views else frozenset()
        for name, query in views.items():
            if name.lower() not in names or name in self.parts or name in within:
                continue
            self.add_views(query, views, (*within, name))
            self.asked |= asked_decimals(query)
            self.tables.pop(name, None)
            # As a table of a query its columns have names that differ.
            named, given = with_names(f"SELECT * FROM ({query})")
            self.given.within.update(given.within)
            try:
                self._add_query(name, self._cut_message(with_known_syntax(named, self.dialect)))
            except PlanError as error:
                self.broken_views[name] = PlanError(f"the view {name!r}: {error}")

    def _add_query(self, table: str, message: Any, copies: int = COPIES_MAX) -> None:
        """Make a table of a query, which is in a plan that often at most, and then read from the last place."""

        def make(ids: NodeIds, names: ColumnNames) -> PlanNode:
            return self._read(message, (ids, names)).plan

        self.parts[table] = SharedPart(make, copies)
        read = self._read(message, (NodeIds(), ColumnNames()))
        self._add_table(table, read.output_names, read.plan.schema.types)

    def _cut_message(self, text: str) -> Any:
        """The message of a whole query, whose correlated subqueries and computed limits are cut out first."""
        while (found := cut_limit(text, self.count)) is not None:
            text, limit = found
            self.count += 1
            numbers = self._cut_message(limit.query)

            def make(ids: NodeIds, names: ColumnNames, numbers: Any = numbers) -> PlanNode:
                return self._read(numbers, (ids, names)).plan

            self.parts[f"{SHARE_PART if limit.is_share else COUNT_PART}{limit.number}"] = make
        return self.message(self._cut(text))

    def message(self, text: str) -> Any:
        """The Substrait plan of a query over the tables and the parts, those in this text included."""
        try:
            return self._message(text)
        except PlanError as error:
            if not is_of_text(str(error)):
                raise
            refused = error
        for written in with_text_subscripts(text):
            try:
                return self._message(written)
            except PlanError:
                continue
        raise refused

    def _message(self, text: str) -> Any:
        while (repeated := cut_repeated(text, self.count)) is not None:
            self.count += 1
            text, repetition = repeated
            self._add_query(repetition.table, self.message(repetition.query), 1)
        text = with_counts_for_exists(with_rows_as_exists(with_known_clauses(text)))
        while (found := cut_part(text, self.count)) is not None:
            self.count += 1
            text, part = found
            if isinstance(part, Recursion):
                self._add_recursion(part)
            elif isinstance(part, Unnesting):
                self._add_unnesting(part)
            else:
                self._add_set_operation(part)
        return self._checked(self._with_columns(text))

    def _checked(self, text: str) -> Any:
        try:
            return _checked_message(self._marked(text), self.tables, self.dialect)
        except PlanError as error:
            if _NO_RANGE not in str(error):
                raise
        return _checked_message(self._marked(framed_by_peers(text)), self.tables, self.dialect)

    def _columns_of(self, text: str) -> list[str]:
        """The names of a query's columns."""
        return list(self._resolved(text)[1].schema().names)

    def _resolved(self, text: str) -> tuple[Any, Any]:
        """A context, and a query in it as DataFusion resolves it."""
        text = self._with_columns(text)
        try:
            return _resolved(self._marked(text), self.tables, self.dialect)
        except PlanError as error:
            if _NO_RANGE not in str(error):
                raise
        return _resolved(self._marked(framed_by_peers(text)), self.tables, self.dialect)

    def _with_columns(self, text: str) -> str:
        """The text without what stands for columns that only the tables tell."""
        text = self._with_aliases(text)
        try:
            without = without_using(text, self._columns_of)
        except PlanError:
            without = without_using(text, self._columns_of, inner=False)
        return without_order_by_all(without, self._columns_of)

    def _with_aliases(self, text: str) -> str:
        return with_aliases_written_out(text, self.given.repeated, self._columns_of)

    def _marked(self, text: str) -> str:
        return mark_windows(text, self.dialect.null_order)

    def _read(self, message: Any, naming: tuple[NodeIds, ColumnNames]) -> PlanResult:
        return read_plan_message(message, self.tables, self.parts, naming, self.dialect, asked=self.asked, cut=self.cut)

    def _add_table(self, name: str, columns: Sequence[str], types: Sequence[pa.DataType]) -> None:
        names = ColumnNames()
        pairs = zip(columns, types, strict=True)
        self.tables[name] = pa.schema([(names.new(column), plain(type_)) for column, type_ in pairs])

    def _add_set_operation(self, part: SetOperation) -> None:
        left, right = self.message(part.left), self.message(part.right)

        def make(ids: NodeIds, names: ColumnNames) -> PlanNode:
            naming = (ids, names)
            return make_set_operation(
                ids, names, part.kind, self._read(left, naming).plan, self._read(right, naming).plan
            )

        self.parts[part.table] = make
        columns = self._read(left, (NodeIds(), ColumnNames())).output_names
        self._add_table(part.table, columns, make(NodeIds(), ColumnNames()).schema.types)

    def _add_unnesting(self, part: Unnesting) -> None:
        inner = self.message(part.query)

        def make(ids: NodeIds, names: ColumnNames) -> PlanNode:
            read = self._read(inner, (ids, names))
            columns = [read.plan.schema.names[read.output_names.index(name)] for name in part.lists]
            lists = tuple((column, names.new(column)) for column in columns)
            number = None if part.ordinality is None else names.new(part.ordinality)
            schema = unnest_schema(read.plan.schema, lists, number)
            return Unnest(ids.new(), schema, read.plan, lists, part.outer, number)

        self.parts[part.table] = make
        columns = self._read(inner, (NodeIds(), ColumnNames())).output_names
        columns += [] if part.ordinality is None else [part.ordinality]
        self._add_table(part.table, columns, make(NodeIds(), ColumnNames()).schema.types)

    def _add_recursion(self, part: Recursion) -> None:
        first = self.message(self._cut(part.first))
        read = self._read(first, (NodeIds(), ColumnNames()))
        types = [plain(type_) for type_ in read.plan.schema.types]
        self._add_working_table(part, read.output_names, types)
        rest = self._cut(part.repeated)
        repeated = self.message(rest)
        if any(map(pa.types.is_null, types)):
            # A bare null is of the type that the repeated part gives the column.
            given = self._read(repeated, (NodeIds(), ColumnNames())).plan.schema.types
            types = [new if pa.types.is_null(old) else old for old, new in zip(types, given, strict=False)]
            self._add_working_table(part, read.output_names, types)
            repeated = self.message(rest)

        def make(ids: NodeIds, names: ColumnNames) -> PlanNode:
            start = cast_columns(ids, self._read(first, (ids, names)).plan, types)
            key = names.new(part.name)
            self.parts[part.working] = partial(_working_table, self.tables[part.working], key)
            again = _as_first(ids, part.name, read.output_names, self._read(repeated, (ids, names)).plan, types)
            return RecursiveUnion(ids.new(), start.schema, key, (start, again), part.distinct)

        make(NodeIds(), ColumnNames())
        self.parts[part.table] = make
        self._add_table(part.table, read.output_names, types)

    def _add_working_table(self, part: Recursion, columns: Sequence[str], types: Sequence[pa.DataType]) -> None:
        self._add_table(part.working, columns, types)
        self.parts[part.working] = partial(_working_table, self.tables[part.working], part.name)


def _working_table(schema: pa.Schema, key: str, ids: NodeIds, names: ColumnNames) -> PlanNode:
    return WorkingTable(ids.new(), pa.schema([field.with_name(names.new(field.name)) for field in schema]), key)


def _as_first(
    ids: NodeIds, name: str, columns: Sequence[str], node: PlanNode, types: Sequence[pa.DataType]
) -> PlanNode:
    """The repeated part of a recursive table with the types of its first part. PlanError where values would be lost."""
    if len(node.schema) != len(types):
        raise PlanError(
            f"the recursive table {name!r} begins with {len(types)} columns and goes on with {len(node.schema)}"
        )
    for column, given, type_ in zip(columns, node.schema.types, types, strict=True):
        integers = pa.types.is_integer(given) and pa.types.is_integer(type_)
        if not integers and not same_type(given, type_) and common_type([given, type_]) != type_:
            raise PlanError(
                f"column {column!r} of the recursive table {name!r} is {type_} in its first part and {given} "
                "in the repeated one; cast the first to a type that holds both"
            )
    return cast_columns(ids, node, types)


def _checked_message(text: str, tables: Mapping[str, pa.Schema], dialect: Dialect) -> Any:
    """The Substrait plan of a query, with what Substrait has no place for put into it. PlanError where it would mean
    something else.
    """
    check_planning()
    refuse_misread(text)
    context, frame, logical = _optimized(text, tables, dialect)
    shown = logical.display_indent()
    written = _written(frame, text)
    comes_from_in = False
    of_constant = asks_of_constant(written)
    if of_constant or ("IN (<subquery>)" in written and loses_unknown(written, shown)):
        repeats = repeats_a_key(written)
        if _OUTER not in written and not repeats:
            # Nothing must be decorrelated: the plan as written will do.
            logical, shown = frame.logical_plan(), written
        elif of_constant or repeats or "EXISTS (<subquery>)" in written:
            return _rewritten_message(text, tables, dialect)
        else:
            comes_from_in = True
    message = _substrait_message(logical, context, tables)
    if comes_from_in:
        mark_marks(message)
    mark_single_grouping_sets(message, shown)
    refuse_lost_windows(message, shown)
    if " null_aware" in shown:
        mark_null_aware(message, shown)
    return message


def _optimized(text: str, tables: Mapping[str, pa.Schema], dialect: Dialect) -> tuple[Any, Any, Any]:
    """The context that knows the query's names, the query in it, and its optimized plan, made without the rules of
    DataFusion's that would go wrong: they only save work, and most of that qcore's optimizer does too.
    """
    context, frame = _resolved(text, tables, dialect)
    written = _written(frame, text)
    confused = confused_columns(written)
    if confused is not None:
        a, b = confused
        raise PlanError(
            f"a correlated subquery that reads both {a} and {b} is not supported yet; give one another name, as in "
            f"FROM (SELECT {b.rpartition('.')[2]} AS other_name FROM …)"
        )
    repeated = repeated_condition(written)
    if repeated is not None:
        raise PlanError(f"IN (subquery) with {repeated} in the subquery too is not supported yet; use EXISTS")
    misread = misjudged(written)
    if misread is not None:
        raise PlanError(f"a correlated subquery {misread} is not supported here; use a join")
    without = (*(() if needs_planner(written) else (SIMPLIFY,)), *rules_to_leave_out(written))
    if without != (SIMPLIFY,):
        context, frame = _resolved(text, tables, dialect, without)
    while True:
        try:
            logical = frame.optimized_logical_plan()
            shown = logical.display_indent()
            if SHARE not in without and shares_uint64(shown):
                without = (*without, SHARE)
            else:
                return context, frame, logical
        except Exception as error:
            failed = _FAILED_RULE.search(str(error))
            if failed is None or failed.group(1) in without or _NEGATIVE in str(error):
                raise plan_error(error, tables) from None
            without = (*without, failed.group(1))
        context, frame = _resolved(text, tables, dialect, without)


def _written(frame: Any, text: str) -> str:
    """The plan of a query as written, with names that read like expressions under others: what is looked for in it is
    not in names.
    """
    written = str(frame.logical_plan().display_indent())
    names = {name.replace('""', '"') for name in _QUOTED_NAME.findall(text) if not name.isidentifier()}
    for n, name in enumerate(sorted(names, key=len, reverse=True)):
        written = written.replace(name, f"{_PLAIN_NAME}{n}")
    return written


def _resolved(
    written: str, tables: Mapping[str, pa.Schema], dialect: Dialect, without: tuple[str, ...] = (SIMPLIFY,)
) -> tuple[Any, Any]:
    """The context that knows the query's names, and the query in it.

    Unquoted names are lower case, as the standard nearly says. Where that finds nothing and tables have capitals, they
    are taken as written.
    """
    planned = planner_text(written, dialect)
    text, extended = planned.text, planned.has_dialect_functions
    known = partial(
        context_of,
        tables,
        without=without,
        extended=extended,
        null_order=dialect.null_order,
        lambdas=planned.has_lambdas,
    )
    context = known()
    try:
        return context, context.sql_with_options(text, read_only())
    except Exception as error:
        failure = plan_error(error, tables, text)
        if not _differs_in_case(failure, tables):
            raise failure from None
    as_written = known(lower=False)
    try:
        return as_written, as_written.sql_with_options(text, read_only())
    except Exception as error:
        raise plan_error(error, tables) from None


def _differs_in_case(failure: PlanError, tables: Mapping[str, pa.Schema]) -> bool:
    """Whether the name that was not found is there with capitals."""
    found = re.match(r"unknown \w+ '([^']+)'", str(failure))
    names = (name for table, schema in tables.items() for name in (table, *schema.names))
    return found is not None and any(name.lower() == found.group(1).lower() for name in names)


def _substrait_message(logical: Any, context: Any, tables: Mapping[str, pa.Schema]) -> Any:
    from datafusion import substrait

    try:
        encoded = substrait.Producer.to_substrait_plan(logical, context).encode()
    except Exception as error:
        raise plan_error(error, tables) from None
    return parse_plan(encoded, any_depth=True)


# --- what DataFusion would get wrong ---


def _rewritten_message(text: str, tables: Mapping[str, pa.Schema], dialect: Dialect) -> Any:
    """The plan with IN (subquery) in terms of EXISTS."""
    try:
        return _checked_message(without_in_subqueries(text), tables, dialect)
    except PlanError as error:
        raise PlanError(
            "IN (correlated subquery) beside EXISTS, or inside an expression that tells null from false, is not "
            f"supported: {error}; use EXISTS or a join"
        ) from None
