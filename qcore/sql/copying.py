"""COPY (query) TO 'file.parquet'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qcore.errors import PlanError
from qcore.expression.tree import col
from qcore.functions.dialect import Dialect
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Project, TableWrite
from qcore.plan.result import PlanResult
from qcore.plan.schema import check_unique, project_schema
from qcore.record import record
from qcore.sql.statement_text import StatementText, at_first_word, first_word, sign_of
from qcore.writing.file_sets import check_absent, local_path, resolve_target
from qcore.writing.table_write import ROW_GROUP_ROWS, WRITTEN, check_options

_USAGE = "COPY (select …) TO 'file.parquet' [(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 100000)]"


@record(frozen=True)
class Copy:
    """What to write, where, and how."""

    query: str
    path: str
    per_thread: bool
    compression: str
    row_group_rows: int | None


def read_copy(text: str, dialect: Dialect) -> Copy | None:
    """The parts of a COPY statement; None for another statement. PlanError if its syntax is wrong."""
    word, rest = first_word(text)
    if word != "COPY":
        return None
    try:
        return _copy(StatementText(word, rest, dialect))
    except PlanError as error:
        raise at_first_word(error, text) from None


def _copy(sql: StatementText) -> Copy:
    to = next((i for i in sql.level(1, sql.end) if sql.is_word(i, "TO")), sql.end)
    is_query = sql.is_word(1, "(") and sql.close(1) == to - 1
    is_empty = to == (3 if is_query else 1)
    if is_empty or to + 1 >= sql.end or sql.tokens[to + 1].token_type.name != "STRING":
        raise PlanError(f"COPY cannot be read; the syntax is {_USAGE}")
    query = sql.slice(2, to - 1) if is_query else f"SELECT * FROM {sql.slice(1, to)}"
    path = str(sql.tokens[to + 1].text)
    options = _options(sql, to + 2)
    format_ = options.pop("FORMAT", "parquet" if path.endswith(".parquet") or "PER_THREAD_OUTPUT" in options else "")
    if format_.lower() != "parquet":
        raise PlanError(
            f"COPY writes Parquet, not {format_ or path.rpartition('.')[2]!r}: name the file '….parquet', or read the "
            "result and write it with another library"
        )
    per_thread = options.pop("PER_THREAD_OUTPUT", "false").lower() in ("true", "1")
    compression = options.pop("COMPRESSION", "snappy").lower()
    rows = options.pop("ROW_GROUP_SIZE", None)
    if options:
        raise PlanError(f"COPY has no option {next(iter(options))}; the syntax is {_USAGE}")
    if rows is not None and not rows.isdigit():
        raise PlanError(f"COPY: ROW_GROUP_SIZE is a number of rows, not {rows!r}")
    compression = "none" if compression == "uncompressed" else compression
    return Copy(query, path, per_thread, compression, None if rows is None else int(rows))


def _options(sql: StatementText, start: int) -> dict[str, str]:
    """`(NAME value, …)`, names in upper case; a name alone is true."""
    if start == sql.end:
        return {}
    if not sql.is_word(start, "(") or sql.close(start) != sql.end - 1:
        raise PlanError(f"COPY cannot be read after its path; the syntax is {_USAGE}")
    options = {}
    for a, b in sql.items(start + 1, sql.end - 1):
        if a == b:
            raise PlanError(f"COPY cannot be read after its path; the syntax is {_USAGE}")
        value = sql.slice(a + 1, b) if b > a + 1 else "true"
        options[sign_of(sql.tokens[a]).upper()] = value.strip("'\"")
    return options


def copy_plan(copy: Copy, planned: PlanResult, names: Sequence[str]) -> PlanResult:
    """The plan that writes the query's rows, with columns `names`. PlanError if such files cannot be written."""
    check_unique(names, "COPY; the columns of a file must have different names")
    target = local_path(copy.path, "COPY")
    if copy.per_thread:
        check_absent(target, "COPY")
    else:
        resolve_target(target, "COPY")
    rows = ROW_GROUP_ROWS if copy.row_group_rows is None else copy.row_group_rows
    check_options(copy.compression, rows, "COPY")
    ids = NodeIds.of_plan(planned.plan)
    child = planned.plan
    if child.schema.names != list(names):
        expressions = tuple(map(col, child.schema.names))
        child = Project(ids.new(), project_schema(names, expressions, child.schema), child, expressions)
    plan = TableWrite(ids.new(), WRITTEN, child, target, not copy.per_thread, copy.compression, rows)
    return replace(planned, plan=plan, output_names=WRITTEN.names)
