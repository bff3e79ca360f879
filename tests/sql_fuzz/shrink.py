"""Reduction of a failing case: parts of the query, rows of the tables, and the simplest way to run it that fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sql_fuzz.queries import Ordered
from sql_fuzz.run import Difference, Tables, Way, difference, expected_rows
from sql_fuzz.tables import TableData
from sql_fuzz.tree import smaller

SECONDS_MAX = 90.0


@dataclass(frozen=True)
class Case:
    """Tables, a query over them, and a way to run the query."""

    tables: tuple[TableData, ...]
    query: Ordered
    way: Way

    def text(self) -> str:
        """Python that makes the case again."""
        lines = [f"query = {self.query.sql('qcore')!r}"]
        if self.query.sql("duckdb") != self.query.sql("qcore"):
            lines.append(f"duckdb = {self.query.sql('duckdb')!r}")
        lines.append(f"way = {self.way!r}")
        for table in self.tables:
            columns = ", ".join(
                f"{name!r}: pa.array({column.to_pylist()!r}, {column.type!r})"
                for name, column in zip(table.data.column_names, table.data.columns, strict=True)
            )
            chunks = [len(batch) for batch in table.data.to_batches()]
            lines.append(
                f"{table.name} = pa.table({{{columns}}})" + (f"  # batches {chunks}" if len(chunks) > 1 else "")
            )
        return "\n".join(lines)


Failing = Callable[[Case], "Difference | None"]


def fault(case: Case) -> Difference | None:
    """The difference of a case that runs alone."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            tables = Tables(case.tables, Path(folder))
        except Exception:
            return None
        try:
            expected = expected_rows(tables, case.query)
            return None if expected is None else difference(tables, case.query, [case.way], expected)
        finally:
            tables.close()


def shrunk(case: Case, wanted: Difference, failing: Failing = fault) -> Case:
    """The smallest case found with the same kind of difference."""
    deadline = time.monotonic() + SECONDS_MAX

    def fails(candidate: Case) -> bool:
        found = failing(candidate)
        return found is not None and found.kind == wanted.kind

    if not fails(case):
        return case
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for step in (_plainer_ways, _smaller_queries, _fewer_tables, _fewer_rows, _fewer_columns, _plainer_data):
            case, better = _reduce_case(case, step, fails, deadline)
            progress = progress or better
    return case


def _reduce_case(
    case: Case, step: Callable[[Case], Iterator[Case]], fails: Callable[[Case], bool], deadline: float
) -> tuple[Case, bool]:
    """The case after all steps of one kind that leave the difference."""
    better, again = False, True
    while again:
        again = False
        for candidate in step(case):
            if time.monotonic() > deadline:
                return case, better
            if fails(candidate):
                case, better, again = candidate, True, True
                break
    return case, better


def _plainer_ways(case: Case) -> Iterator[Case]:
    way, plain = case.way, Way(threads=1)
    options: list[Way] = [plain, Way()]
    for name in ("threads", "batch_rows", "split_rows", "without", "rewrites"):
        options.append(replace(way, **{name: getattr(plain, name)}))
    options += [replace(way, without=tuple(rule for rule in way.without if rule != left)) for left in way.without]
    if way.threads > 2:
        options.append(replace(way, threads=2))
    seen = [way] if way != plain else options
    if way == Way():
        options = [plain]
    for option in options:
        if option not in seen:
            seen.append(option)
            yield replace(case, way=option)


def _smaller_queries(case: Case) -> Iterator[Case]:
    query = case.query
    if query.limit:
        yield replace(case, query=replace(query, limit=""))
    elif query.keys:
        yield replace(case, query=replace(query, keys=()))
        if len(query.keys) > 1:
            for position in range(len(query.keys)):
                keys = query.keys[:position] + query.keys[position + 1 :]
                yield replace(case, query=replace(query, keys=keys))
    for tree in smaller(query.tree):
        yield replace(case, query=replace(query, tree=tree))


def _fewer_tables(case: Case) -> Iterator[Case]:
    for position in range(len(case.tables)):
        if len(case.tables) > 1:
            yield replace(case, tables=case.tables[:position] + case.tables[position + 1 :])


def _with_table(case: Case, position: int, data: pa.Table) -> Case:
    changed: Sequence[TableData] = [
        table.with_data(data) if i == position else table for i, table in enumerate(case.tables)
    ]
    return replace(case, tables=tuple(changed))


def _fewer_rows(case: Case) -> Iterator[Case]:
    for position, table in enumerate(case.tables):
        data, size = table.data, table.data.num_rows
        while size:
            for start in range(0, data.num_rows, size):
                rest = pa.concat_tables([data.slice(0, start), data.slice(start + size)])
                yield _with_table(case, position, rest)
            size //= 2


def _fewer_columns(case: Case) -> Iterator[Case]:
    text = case.query.sql("qcore")
    for position, table in enumerate(case.tables):
        names = table.data.column_names
        unused = [name for name in names if f".{name}" not in text]
        # One table must stay.
        unused = unused[1:] if len(unused) == len(names) else unused
        if unused:
            yield _with_table(case, position, table.data.drop_columns(unused))


def _plainer_data(case: Case) -> Iterator[Case]:
    for position, table in enumerate(case.tables):
        data = table.data
        if any(column.num_chunks > 1 for column in data.columns):
            yield _with_table(case, position, data.combine_chunks())
        for i, column in enumerate(data.schema):
            if pa.types.is_dictionary(column.type) or column.type in (pa.string_view(), pa.large_string()):
                yield _with_table(case, position, data.set_column(i, column.name, data.column(i).cast(pa.string())))
