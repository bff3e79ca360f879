"""COPY (query) TO 'file.parquet': read here: DataFusion would carry it out while planning. SPEC Q2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qcore.errors import PlanError
from qcore.expression.tree import col
from qcore.frontends.text.tokens import SqlText
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Project, TableWrite
from qcore.plan.result import PlanResult
from qcore.plan.schema import check_unique, project_schema
from qcore.writing.file_sets import check_absent, local_path, resolve_target
from qcore.writing.table_write import ROW_GROUP_ROWS, WRITTEN, check_options

_USAGE = "COPY (select …) TO 'file.parquet' [(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 100000)]"


@dataclass(frozen=True)
class Copy:
    """What to write, where, and how."""

    query: str
    path: str
    per_thread: bool
    compression: str
    row_group_rows: int | None


def read_copy(text: str) -> Copy | None:
    """The parts of a COPY statement; None when the text is none. PlanError for one that cannot be read."""
    sql = SqlText.read(text)
    if not sql.is_word(0, "COPY"):
        return None
    n = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
    to = next((i for i in sql.level(1, n) if sql.is_word(i, "TO")), n)
    if to + 1 >= n or to == 1 or sql.tokens[to + 1].kind != "string":
        raise PlanError(f"COPY cannot be read; it is written {_USAGE}")
    is_query = sql.is_sign(1, "(") and sql.partner.get(1) == to - 1
    query = sql.slice(2, to - 1) if is_query else f"SELECT * FROM {sql.slice(1, to)}"
    path = sql.tokens[to + 1].text[1:-1].replace("''", "'")
    options = _options(sql, to + 2, n)
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
        raise PlanError(f"COPY has no option {next(iter(options))}; it is written {_USAGE}")
    if rows is not None and not rows.isdigit():
        raise PlanError(f"COPY: ROW_GROUP_SIZE is a number of rows, not {rows!r}")
    compression = "none" if compression == "uncompressed" else compression
    return Copy(query, path, per_thread, compression, None if rows is None else int(rows))


def _options(sql: SqlText, start: int, end: int) -> dict[str, str]:
    """`(NAME value, …)`, names in upper case; a name alone is true."""
    if start == end:
        return {}
    if not sql.is_sign(start, "(") or sql.partner.get(start) != end - 1:
        raise PlanError(f"COPY cannot be read after its path; it is written {_USAGE}")
    options = {}
    at = start + 1
    while at < end - 1:
        until = next((i for i in sql.level(at, end - 1) if sql.is_sign(i, ",")), end - 1)
        value = sql.slice(at + 1, until)
        options[sql.tokens[at].text.upper()] = value.strip("'\"") if value else "true"
        at = until + 1
    return options


def copy_plan(copy: Copy, planned: PlanResult, names: Sequence[str]) -> PlanResult:
    """The plan that writes the query's rows, its columns called `names`. PlanError where files cannot be so written."""
    check_unique(names, "COPY; a file's columns have names of their own")
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
