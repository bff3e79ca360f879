"""Sessions: registered tables, settings, and running SQL, plans and Substrait with them."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.access import ANY_FILE, FileAccess
from qcore.config import Settings, bytes_of
from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import Table, TableStatistics, under_policy
from qcore.connectors.files import FileTable
from qcore.connectors.sources import table_from
from qcore.connectors.view import expand_view
from qcore.connectors.zoned import table_in_zone, zone_of
from qcore.errors import PlanError
from qcore.frontends.planner.contexts import import_datafusion
from qcore.frontends.sql import plan_sql
from qcore.frontends.text.clauses import quoted
from qcore.frontends.text.files import with_named_files
from qcore.frontends.text.spark import with_standard_texts
from qcore.frontends.text.spelling import spelled_among
from qcore.frontends.text.statements import (
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    ShowTables,
    Statement,
    read_statement,
)
from qcore.frontends.text.tokens import SqlText
from qcore.optimizer import Estimator, optimize
from qcore.plan import nodes as p
from qcore.plan.dialect import Dialect
from qcore.plan.planning_time import limit_planning
from qcore.plan.schema import unknown
from qcore.plan.time_zones import check_zone, plan_in_zone
from qcore.session import statements
from qcore.session.result import Result
from qcore.substrait import read_substrait
from qcore_ext.ground.memory_pool import MemoryPool
from qcore_ext.ground.process import ProcessLock, check_not_leaving


class Session:
    """Tables and settings that queries share. Usable from several threads.

    Parameters
    ----------
    threads : int, optional
        Worker threads; by default one for every processor this process may use.
    memory_limit : int or str, optional
        Memory that one query may take, in bytes or as a text such as '512MB' or '1.5 GiB' (KB, MB, GB and TB are powers
        of 1000, KiB, MiB, GiB and TiB powers of 1024); by default no limit. Past it the query ends with
        MemoryLimitError. Arrow data that the application holds in memory does not count.
    batch_rows : int, optional
        Rows of a batch that sources aim at.
    timeout : float, optional
        Seconds after which a query stops with Timeout: while it is planned, and again while it runs.
    dialect : Dialect or {'qcore', 'duckdb', 'postgresql', 'spark'}, optional
        What SQL text means where engines differ, such as 7 / 2 or where nulls sort (docs/SQL.md).
    session_memory_limit : int or str, optional
        Memory that all queries and the tables of CREATE TABLE may take together, given as memory_limit is; by default
        no limit. Past an eighth of it one query at a time goes on, and the others wait without a thread until it is
        over or gives memory back.
    file_access : {"any", "none"} or list of folders and URL prefixes, optional
        Which files the text of queries, Substrait plans and the paths in PlanBuilder's plans may name, to read and to
        write; by default any. What the program registers, or gives to sql() as tables, is not restricted (docs/SQL.md).
    time_zone : str, optional
        The zone whose clocks timestamps with a time zone are read by, such as 'Europe/Paris', whatever zone their
        columns name (docs/SQL.md). By default each column's own, and UTC for those that SQL makes; in Spark's dialect
        that of the Spark session of the first DataFrame.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> session = qcore.Session(threads=2)
    >>> session.register("t", pa.table({"a": [1, 2, 3]}))
    >>> session.sql("select sum(a) as s from t").to_arrow().to_pylist()
    [{'s': 6}]
    """

    def __init__(
        self,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        batch_rows: int | None = None,
        timeout: float | None = None,
        dialect: Dialect | str | None = None,
        session_memory_limit: int | str | None = None,
        file_access: str | Sequence[str] = "any",
        time_zone: str | None = None,
    ) -> None:
        self.dialect = Dialect.named(dialect)
        self.time_zone = check_zone(time_zone)
        self.settings = Settings.make(threads, memory_limit, batch_rows, timeout)
        self.change(session_memory_limit=session_memory_limit, file_access=file_access)
        self._tables: dict[str, Table] = {}
        self._views: dict[str, str] = {}
        self._changing = ProcessLock()

    def change(self, **settings: Any) -> None:
        """Run later queries with other settings, such as change(batch_rows=1000); those begun keep theirs.

        Another session_memory_limit holds for queries that share one already, too.

        Raises
        ------
        SettingError
            A value makes no sense.
        PlanError
            There is no setting of that name.
        """
        names = ("threads", "memory_limit", "batch_rows", "timeout")
        for name in settings:
            if name not in (*names, "session_memory_limit", "file_access"):
                known = ", ".join((*names, "session_memory_limit", "file_access"))
                raise PlanError(f"a session has no setting {name!r}; it has {known}")
        made = Settings.make(**{name: settings.get(name, getattr(self.settings, name)) for name in names})
        session = weakref.ref(self)

        def change_session(**settings: Any) -> None:
            if (alive := session()) is not None:
                alive.change(**settings)

        pool = self.settings.memory_pool
        if "session_memory_limit" in settings:
            pool = pool_under(settings["session_memory_limit"], pool)
        access = FileAccess.of(settings.get("file_access", self.settings.file_access))
        self.settings = replace(made, change=change_session, memory_pool=pool, file_access=access)

    def register(self, name: str, source: Any, on_schema_change: str | None = None, trusted: bool = False) -> None:
        """Make `source` (path, glob, list of files, Arrow data, frame, Spark DataFrame) a table of this session.

        Files of different schemas are one table of the union of their columns: by name, types widened, null where a
        file lacks one; with on_schema_change="error" they are refused with a SchemaChangeError.

        Arrow data in memory, or of a stream, is checked when it is first read: a wrong offset in it is an error, not a
        crash. `trusted=True` leaves that out, for data known to be well-formed; files are checked all the same.
        """
        self._tables[name] = table_from(source, on_schema_change, trusted)
        self._views.pop(name, None)

    def sql(self, text: str, tables: Mapping[str, Any] | None = None) -> Result:
        """Plan a query over the session's tables and `tables`; it runs when the result is read.

        COPY (query) TO 'file.parquet' writes the query's rows; its result is a row of the path, rows and bytes. EXPLAIN
        [ANALYZE], DESCRIBE and SHOW TABLES give rows. CREATE TABLE name AS query, which runs the query at once and
        keeps its rows in memory, INSERT INTO, CREATE VIEW and DROP change the session's tables.

        Raises
        ------
        PlanError
            The text has a syntax error, names an unknown table or column, or asks for what the engine cannot run.
        """
        check_not_leaving()
        known = dict(self._tables)
        for name, source in (tables or {}).items():
            known[name] = table_from(source)
        if self.dialect.syntax == "spark":
            text = with_standard_texts(text)
        statement = read_statement(text)
        return self._query(text, known) if statement is None else self._carry_out(statement, known)

    def _query(self, text: str, known: Mapping[str, Table]) -> Result:
        text, views, files = self._with_files(text, known)
        known, zone = self._in_zone({**known, **files})
        dialect = self.dialect
        if zone is not None and dialect.syntax == "spark":
            dialect = replace(dialect, timestamp="instant")
        import_datafusion()  # the first time takes longer than most queries may
        with limit_planning(self.settings.timeout):
            planned = plan_sql(text, {name: table.schema for name, table in known.items()}, dialect, views)
            plan = planned.plan if zone is None else plan_in_zone(planned.plan, zone)
            return self._run(plan, planned.output_names, known)

    def _in_zone(self, tables: Mapping[str, Table]) -> tuple[Mapping[str, Table], str | None]:
        """The tables with timestamps of the session's time zone, and this, if it has one."""
        zone = self.time_zone
        if zone is None and self.dialect.syntax == "spark":
            zone = check_zone(next(filter(None, map(zone_of, tables.values())), None))
        if zone is None:
            return tables, None
        return {name: table_in_zone(table, zone) for name, table in tables.items()}, zone

    def _with_files(self, text: str, known: Mapping[str, Table]) -> tuple[str, dict[str, str], dict[str, Table]]:
        """The text and the views it may name, with names for the files they read, and these as tables."""
        text, files = with_named_files(text)
        views: dict[str, str] = {}
        texts = [text] if self._views else []
        while texts:
            names = SqlText.read(texts.pop()).names
            for name, query in self._views.items():
                if name.lower() in names and name not in known and name not in views:
                    views[name], of_view = with_named_files(query)
                    files |= of_view
                    texts.append(query)
        return text, views, {name: self._named_files(paths) for name, paths in files.items() if name not in known}

    def _named_files(self, paths: Sequence[str]) -> Table:
        """The table of files that a query names."""
        return FileTable(paths[0] if len(paths) == 1 else list(paths), access=self.settings.file_access)

    def _carry_out(self, statement: Statement, known: Mapping[str, Table]) -> Result:
        if isinstance(statement, Explain):
            return statements.explanation(statement, self._query(statement.query, known), self.settings)
        if isinstance(statement, Describe):
            return statements.description(self._query(statement.query, known), self.settings)
        if isinstance(statement, ShowTables):
            return statements.table_names({*known, *self._views}, self.settings)
        if isinstance(statement, Drop):
            held: dict[str, Any] = self._views if statement.is_view else self._tables
            if held.pop(self._spelled(statement.name, held), None) is None and not statement.may_be_missing:
                kind = "view" if statement.is_view else "table"
                raise unknown(kind, statement.name, held, f"DROP {kind.upper()}")
            return statements.nothing(self.settings)
        if isinstance(statement, Insert):
            return self._insert(statement, known)
        kind = "VIEW" if isinstance(statement, CreateView) else "TABLE"
        if (statement.name in known or statement.name in self._views) and not statement.replaces:
            if statement.may_exist:
                return statements.count_of(0, self.settings)
            there = "view" if statement.name in self._views else "table"
            raise PlanError(f"the {there} {statement.name!r} is there already; CREATE OR REPLACE {kind} replaces it")
        if isinstance(statement, CreateView):
            self._create_view(statement, known)
            return statements.nothing(self.settings)
        what = f"CREATE TABLE {statement.name}"
        rows = statements.with_unlike_names(self._query(statement.query, known).kept_rows(what))
        self._tables[statement.name] = self._in_memory(rows)
        self._views.pop(statement.name, None)
        return statements.count_of(rows.num_rows, self.settings)

    def _create_view(self, statement: CreateView, known: Mapping[str, Table]) -> None:
        if statement.name in known:
            raise PlanError(f"{statement.name!r} is a table; a view needs another name, or DROP TABLE before it")
        before = self._views.get(statement.name)
        self._views[statement.name] = statement.query
        try:
            # What cannot be planned, and a view of itself, is refused at once.
            self._query(f"SELECT * FROM {quoted(statement.name)}", known)
        except BaseException:
            if before is None:
                del self._views[statement.name]
            else:
                self._views[statement.name] = before
            raise

    def _spelled(self, name: str, held: Collection[str]) -> str:
        """A statement's name of one of the tables or views `held`, as that is spelled."""
        return spelled_among(name, held) if self.dialect.name_case == "any" else name

    def _insert(self, statement: Insert, known: Mapping[str, Table]) -> Result:
        statement = replace(statement, table=self._spelled(statement.table, self._tables))
        table = self._tables.get(statement.table)
        if table is None and statement.table in self._views:
            raise PlanError(f"INSERT INTO {statement.table}: it is a view, whose rows are those of its query's tables")
        if table is None:
            raise unknown("table", statement.table, self._tables, "INSERT INTO")
        if not isinstance(table, ArrowTable):
            raise PlanError(
                f"INSERT INTO {statement.table}: its rows are not in the session's memory; CREATE TABLE … AS keeps a "
                "query's rows there, and COPY (…) TO writes files"
            )
        columns = tuple(self._spelled(name, table.schema.names) for name in statement.columns)
        statement = replace(statement, columns=columns)
        given = self._query(statement.query, known).kept_rows(f"INSERT INTO {statement.table}")
        rows = statements.as_rows_of(table.schema, statement, given, self.settings)
        # The query has run: what it calls may use the session too.
        with self._changing:
            held = self._tables.get(statement.table)
            if not isinstance(held, ArrowTable) or held.schema != table.schema:
                raise PlanError(f"INSERT INTO {statement.table}: the table was dropped or replaced meanwhile")
            self._tables[statement.table] = self._in_memory(pa.concat_tables([held.rows(), rows]), held, rows)
        return statements.count_of(rows.num_rows, self.settings)

    def _in_memory(self, rows: pa.Table, before: ArrowTable | None = None, added: pa.Table | None = None) -> ArrowTable:
        """Rows of a statement as a table of the session, whose memory counts among what its queries share.

        `before`: the table they were added to, whose rows count already.
        """
        table = ArrowTable(rows, trusted=True)
        if self.settings.memory_pool is not None:
            table.kept = [
                *(before.kept if before is not None else []),
                self.settings.memory_pool.keep((rows if added is None else added).nbytes),
            ]
        return table

    def substrait(self, plan_bytes: bytes) -> Result:
        """Run a Substrait plan, given as its serialised protobuf message, over the session's tables."""
        check_not_leaving()
        tables, zone = self._in_zone(self._tables)
        with limit_planning(self.settings.timeout):
            planned = read_substrait(plan_bytes, {name: table.schema for name, table in tables.items()})
            files = {name: self._named_files(paths) for name, paths in planned.files.items()}
            if zone is None:
                return self._run(planned.plan, planned.output_names, {**tables, **files})
            files = {name: table_in_zone(table, zone) for name, table in files.items()}
            return self._run(plan_in_zone(planned.plan, zone), planned.output_names, {**tables, **files})

    def execute(self, plan: p.PlanNode) -> Result:
        """Run a plan of PlanBuilder's; its scans name tables of this session or bring their own source."""
        with limit_planning(self.settings.timeout):
            return self._run(plan, None, self._tables)

    def _run(self, plan: p.PlanNode, output_names: list[str] | None, tables: Mapping[str, Table]) -> Result:
        bound = bind_sources(plan, tables, self.settings.file_access)
        if isinstance(bound, p.TableWrite):
            self.settings.file_access.check_path(bound.path)
        statistics: dict[int, TableStatistics] = {}

        def of_scan(scan: p.Scan) -> TableStatistics:
            key = id(scan.source)
            if key not in statistics:
                statistics[key] = scan.source.statistics()
            return statistics[key]

        return Result(optimize(bound, of_scan), self.settings, output_names, Estimator(of_scan).rows)


def pool_under(limit: int | str | None, pool: MemoryPool | None) -> MemoryPool | None:
    """The pool that a session's queries keep their memory in: the one there is, if any, under another limit."""
    n_bytes = bytes_of(limit, "session_memory_limit")
    if n_bytes is None:
        return None
    if pool is None:
        return MemoryPool(n_bytes)
    pool.limit = n_bytes
    return pool


def bind_sources(
    plan: p.PlanNode,
    tables: Mapping[str, Table],
    access: FileAccess = ANY_FILE,
    shared: dict[p.PlanNode, p.PlanNode] | None = None,
) -> p.PlanNode:
    """The plan with every scan's source filled in; `shared` are the shared subplans that have theirs already.
    PlanError for a table nobody registered, and for files that the plan names and `access` does not allow.
    """
    shared = {} if shared is None else shared
    if plan in shared:
        return shared[plan]
    if isinstance(plan, p.Scan):
        if plan.source is not None:
            own = plan.source
            return expand_view(replace(plan, source=own.under_access(access)) if isinstance(own, FileTable) else plan)
        if plan.table not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise PlanError(f"table {plan.table!r} is not registered (node {plan.id}); registered: {known}")
        table = under_policy(tables[plan.table], plan.on_schema_change)
        return expand_view(replace(plan, source=table))
    children = tuple(bind_sources(child, tables, access, shared) for child in plan.children)
    made = plan.with_children(*children) if children else plan
    if isinstance(made, p.Shared):
        shared[plan] = made
    if isinstance(made, p.SharedRead):
        made = replace(made, like=bind_sources(made.like, tables, access, shared))
    return made


def sql(
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    timeout: float | None = None,
    dialect: Dialect | str | None = None,
    time_zone: str | None = None,
) -> Result:
    """Run SQL over `tables` (name → source), without a session of one's own.

    Parameters
    ----------
    text : str
        One SELECT statement. Planning needs the `sql` extra.
    tables : mapping of str to source
        A source is a path, a glob or a list of files, Arrow data, a frame, or a Spark DataFrame.
    threads, memory_limit, timeout, dialect, time_zone
        As Session's.

    Returns
    -------
    Result
        Streams; `to_arrow()` and `to_pandas()` collect it.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> qcore.sql("select a + 1 as b from t", {"t": pa.table({"a": [1]})}).to_arrow().to_pylist()
    [{'b': 2}]
    """
    session = Session(threads, memory_limit, timeout=timeout, dialect=dialect, time_zone=time_zone)
    return session.sql(text, tables)
