"""The entry point of the SQL frontend: SQL text to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.recursion import deep_recursion
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.dependent_joins import replace_dependent_joins
from qcore.plan.nodes import PlanNode
from qcore.plan.projections import rename_result
from qcore.plan.result import PlanResult
from qcore.record import record
from qcore.sql import (
    expressions,
    function_calls,
    joins,
    lambdas,
    literals,
    pivot,
    queries,
    set_operations,
    stars,
    subqueries,
    summaries,
)
from qcore.sql.binder import Binder, ExpressionReader, QueryReader, TableReader
from qcore.sql.parse import locate_message, parse
from qcore.sql.read_columns import NeedsAllColumns
from qcore.sql.scope import Environment, Level


@record(frozen=True)
class Readers:
    """Readers by class name of parse-tree nodes."""

    expressions: Mapping[str, ExpressionReader]
    queries: Mapping[str, QueryReader]
    tables: Mapping[str, TableReader]


READERS = Readers(
    {
        **literals.READERS,
        **expressions.READERS,
        **function_calls.READERS,
        **lambdas.READERS,
        **stars.READERS,
        **subqueries.READERS,
    },
    {**queries.READERS, **set_operations.READERS, **pivot.READERS, **summaries.READERS},
    {**joins.READERS, **set_operations.TABLES},
)

# Statements other than queries, by class: their name in messages, or None for the first words of the text.
_STATEMENTS = {
    "Create": None, "Drop": None, "Alter": None, "Insert": "INSERT", "Update": "UPDATE", "Delete": "DELETE",
    "Merge": "MERGE", "Command": None, "Set": "SET", "Transaction": "BEGIN", "Commit": "COMMIT",
    "Rollback": "ROLLBACK", "Attach": "ATTACH", "Detach": "DETACH", "Pragma": "PRAGMA", "TruncateTable": "TRUNCATE",
}  # fmt: skip


def plan_query(
    text: str,
    tables: Mapping[str, pa.Schema],
    dialect: Dialect = QCORE,
    views: Mapping[str, str] | None = None,
    read_rows: Callable[[PlanNode], pa.Table] | None = None,
) -> PlanResult:
    """Plan one query over tables of these schemas.

    Parameters
    ----------
    text : str
        The query.
    tables : mapping of str to pyarrow.Schema
        The tables that the query may name. Scan nodes of the plan have these names and no source.
    dialect : Dialect
        The meaning of the text where engines differ.
    views : mapping of str to str, optional
        Queries that it may name as tables, and that may name one another.
    read_rows : callable, optional
        Runs a plan over the tables and returns its rows. PIVOT without a list of its values needs it.

    Raises
    ------
    PlanError
        A syntax error, an unknown table, column or function, or a construct that the engine cannot run. The message
        has the position in the text.
    """
    with deep_recursion():
        try:
            return _plan_text(text, tables, dialect, views or {}, read_rows, may_narrow=True)
        except _BoundInPart:
            return _plan_text(text, tables, dialect, views or {}, read_rows, may_narrow=False)


class _BoundInPart(Exception):
    """Bind a query again, over all columns of its tables, after binding over the columns that it names has failed.

    A star, or a table's name as a row, may refer to the other columns. Errors can then also suggest all columns.
    """


def _plan_text(
    text: str,
    tables: Mapping[str, pa.Schema],
    dialect: Dialect,
    views: Mapping[str, str],
    read_rows: Callable[[PlanNode], pa.Table] | None,
    may_narrow: bool,
) -> PlanResult:
    statements, source = parse(text, dialect)
    if not statements:
        raise PlanError("the text is empty; it cannot be planned as a query")
    if len(statements) > 1:
        end = next(token for token in source.tokens if token.token_type.name == "SEMICOLON")
        message = "the text has more than one statement; it cannot be planned as a query"
        raise PlanError(locate_message(message, text, end.start, end.end))
    if type(statements[0]).__name__ in _STATEMENTS:
        words = [token.text.upper() for token in source.tokens[:2]]
        message = f"{_STATEMENTS[type(statements[0]).__name__] or ' '.join(words)} is not supported here"
        raise PlanError(locate_message(message, text, source.tokens[0].start, source.tokens[0].end))
    binder = Binder(
        tables, views, dialect, source, READERS.expressions, READERS.queries, READERS.tables,
        may_narrow=may_narrow, read_rows=read_rows,
    )  # fmt: skip
    try:
        relation = binder.query(statements[0], Environment(Level(), {}))
        plan = binder.exact(relation)
        plan = replace_dependent_joins(plan, binder.ids, binder.names)
    except NeedsAllColumns:
        raise _BoundInPart from None
    except PlanError as error:
        if binder.is_narrowed:
            raise _BoundInPart from None
        raise _locate_error(error, binder) from None
    except RecursionError:
        raise PlanError("the query is nested too deeply; compute parts of it in common tables first") from None
    names = [named.shown for named in relation.columns]
    return PlanResult(rename_result(binder.ids, plan, names), names)


def _locate_error(error: PlanError, binder: Binder) -> PlanError:
    if binder.fault is None:
        return error
    span, source = binder.fault
    return PlanError(locate_message(str(error), source.text, *span))
