"""Sessions: registered tables and settings, and the methods that run SQL, plans and Substrait with them."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from qcore.access import ANY_FILE, FileAccess
from qcore.config import Settings, bytes_of
from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import Table, under_policy
from qcore.connectors.files import FileTable
from qcore.connectors.sources import table_from
from qcore.connectors.view import expand_view
from qcore.connectors.zoned import table_in_zone, zone_of
from qcore.errors import PlanError
from qcore.expression.recursion import bounded_depth
from qcore.functions.dialect import Dialect
from qcore.optimizer import Estimator, optimize, source_statistics
from qcore.plan import nodes as p
from qcore.plan.planning_time import limit_planning, watch_moments
from qcore.plan.schema import unknown
from qcore.plan.time_zones import check_zone, plan_in_zone
from qcore.session import statements
from qcore.session.plan_cache import CacheAnswer, PlanCache, PlannedQuery
from qcore.session.result import Result
from qcore.session.statements import INFORMATION_SCHEMA
from qcore_ext.ground.memory_pool import MemoryPool
from qcore_ext.ground.process import ProcessLock, check_not_leaving

if TYPE_CHECKING:
    from qcore.spark.distributed_query import SparkResult
    from qcore.sql.statements import CreateView, Insert, Statement


# The module that runs queries on Spark. It is imported when a query asks for it.
SPARK_QUERIES = "qcore.spark.distributed_query"


class Session:
    """Tables and settings that queries share. Several threads may use a session at the same time.

    Parameters
    ----------
    threads : int, optional
        Number of worker threads; by default one for each processor that this process may use.
    memory_limit : int or str, optional
        Memory that one query may use, in bytes or as a text such as '512MB' or '1.5 GiB' (KB, MB, GB and TB are powers
        of 1000; KiB, MiB, GiB and TiB are powers of 1024). By default no limit. A query that needs more ends with
        MemoryLimitError. Arrow data that the application holds in memory does not count.
    batch_rows : int, optional
        Number of rows that sources aim at for each batch; by default 65,536.
    timeout : float, optional
        Seconds after which a query stops with Timeout. Planning and running are timed separately. By default none.
    dialect : Dialect or {'qcore', 'duckdb', 'postgresql', 'spark'}, optional
        The meaning of SQL text where engines differ, such as 7 / 2 or the sort position of nulls.
    session_memory_limit : int or str, optional
        Memory that all queries and the tables of CREATE TABLE may use together, in the units of `memory_limit`. By
        default no limit. Above an eighth of the limit only one query at a time runs; the others wait, without a thread,
        until it ends or returns memory.
    file_access : {"any", "none"} or list of folders and URL prefixes, optional
        The files that the text of queries, Substrait plans and the paths in PlanBuilder's plans may read and write; by
        default any. Tables that the program registers or passes to sql() are not restricted.
    time_zone : str, optional
        The time zone in which queries read and show timestamps with a time zone, such as 'Europe/Paris'. It replaces
        the zones of the columns. By default each column keeps its zone, and timestamps that SQL makes are in UTC. In
        Spark's dialect the default is the zone of the Spark session of the first DataFrame.

    Raises
    ------
    SettingError
        A number or a size is not positive, or a size has an unknown unit.
    ValueError
        `file_access` has another form.
    PlanError
        There is no such dialect or time zone.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> session = qcore.Session(threads=2)
    >>> session.register("t", pa.table({"a": [1, 2, 3]}))
    >>> session.sql("select sum(a) as s from t").to_arrow().to_pylist()
    [{'s': 6}]

    Attributes
    ----------
    plan_cache : PlanCache
        Plans of texts that the session has seen. Its `hits` and `misses` count queries.
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
        self.dialect = Dialect.find(dialect)
        self.time_zone = check_zone(time_zone)
        self.settings = Settings.make(threads, memory_limit, batch_rows, timeout)
        self.change(session_memory_limit=session_memory_limit, file_access=file_access)
        self._tables: dict[str, Table] = {}
        self._views: dict[str, str] = {}
        self._changing = ProcessLock()
        #: Plans of texts that were planned before; its `hits` and `misses` count queries.
        self.plan_cache = PlanCache()

    def change(self, **settings: Any) -> None:
        """Change settings for later queries, such as change(batch_rows=1000). Queries that have begun keep theirs.

        The settings are threads, memory_limit, batch_rows, timeout, session_memory_limit and file_access. A changed
        session_memory_limit also holds for running queries that already have one.

        Raises
        ------
        SettingError
            A value is invalid.
        PlanError
            There is no setting of that name.
        """
        names = ("threads", "memory_limit", "batch_rows", "timeout")
        for name in settings:
            if name not in (*names, "session_memory_limit", "file_access"):
                known = ", ".join((*names, "session_memory_limit", "file_access"))
                raise PlanError(f"a session has no setting {name!r}; it has {known}")
        changed = Settings.make(**{name: settings.get(name, getattr(self.settings, name)) for name in names})
        session = weakref.ref(self)

        def change_session(**settings: Any) -> None:
            if (alive := session()) is not None:
                alive.change(**settings)

        pool = self.settings.memory_pool
        if "session_memory_limit" in settings:
            pool = pool_with_limit(settings["session_memory_limit"], pool)
        access = FileAccess.of(settings.get("file_access", self.settings.file_access))
        self.settings = replace(changed, change=change_session, memory_pool=pool, file_access=access)

    def register(self, name: str, source: Any, on_schema_change: str | None = None, trusted: bool = False) -> None:
        """Make `source` a table of this session, in place of an earlier table or view of that name.

        Parameters
        ----------
        name : str
            The table's name in queries.
        source : object
            A path, URL, glob, folder or list of files; Arrow data; a pandas or polars frame; a pyarrow Dataset; a Spark
            DataFrame.
        on_schema_change : {'evolve', 'error'}, optional
            For files with different schemas. 'evolve' (the default) makes one table with the union of their columns:
            matched by name, types widened, null where a file lacks a column. 'error' raises SchemaChangeError.
        trusted : bool
            Skip the check of Arrow data in memory and of Arrow streams. Without it the data is checked when it is first
            read, so that an invalid offset is an error and not a crash. Arrow buffers are immutable: what was checked
            is not checked again, and must not be written to. Files are always checked.

        Raises
        ------
        PlanError
            There is no such file, it is damaged, or `source` is of no supported kind.
        SchemaChangeError
            Schemas differ and do not widen into one, or differ at all under 'error'.

        Examples
        --------
        >>> import pyarrow as pa, qcore
        >>> session = qcore.Session()
        >>> session.register("t", pa.table({"a": [1, 2]}))
        >>> session.sql("select max(a) as m from t").to_arrow().to_pylist()
        [{'m': 2}]
        """
        self._set_table(name, table_from(source, on_schema_change, trusted))

    def _set_table(self, name: str, table: Table) -> None:
        self._tables[name] = table
        self._views.pop(name, None)
        self.plan_cache.forget(name)

    @overload
    def sql(self, text: str, tables: Mapping[str, Any] | None = None, on: None = None) -> Result: ...

    @overload
    def sql(self, text: str, tables: Mapping[str, Any] | None = None, *, on: Any) -> SparkResult: ...

    def sql(self, text: str, tables: Mapping[str, Any] | None = None, on: Any = None) -> Result | SparkResult:
        """Plan a statement over the session's tables and `tables`. A query runs when its result is read.

        Semicolons separate several statements. They run in order, and the result is that of the last.

        - COPY (query) TO 'file.parquet' writes a query's rows. Its result is one row: path, rows and bytes.
        - EXPLAIN [ANALYZE], DESCRIBE, SUMMARIZE and SHOW TABLES return rows. So do queries of information_schema.tables
          and information_schema.columns.
        - SET name = value changes a setting, as change() does: SET threads = 2. RESET name takes the default.
        - CREATE TABLE name AS query runs the query at once and keeps its rows in memory. INSERT INTO, CREATE VIEW and
          DROP change the session's tables and views.

        Parameters
        ----------
        text : str
            The statements.
        tables : mapping of str to source, optional
            Sources as register() takes them, for these statements only. They hide the session's tables of these names.
        on : pyspark.sql.SparkSession, optional
            Run the query in tasks of Spark. The last statement must be a query or EXPLAIN.

        Returns
        -------
        Result or SparkResult
            With `on` a SparkResult.

        Raises
        ------
        PlanError
            The text has a syntax error, names an unknown table or column, or uses a feature that qcore does not have.
            With `on`: a part of the query runs in this process only.
        Timeout
            Planning took longer than the session's timeout.
        """
        check_not_leaving()
        key = None if tables else (text, self.dialect, self.time_zone, self.settings.file_access)
        kept = None if key is None else self.plan_cache.get(key)
        if kept is not None:
            return self._result(kept, self.plan_cache.answer(is_hit=True), on)
        from qcore.sql.parse import import_parser
        from qcore.sql.statements import split_statements

        given = {name: table_from(source) for name, source in (tables or {}).items()}
        import_parser(self.dialect)  # before a timeout begins: the first import takes longer than many timeouts
        *before, last = split_statements(self._in_standard_quotes(text), self.dialect)
        for statement in before:
            for _ in self._statement(statement, given):
                pass
        return self._statement(last, given, None if before else key, on)

    def _statement(self, text: str, given: Mapping[str, Table], key: Hashable | None = None, on: Any = None) -> Any:
        """Plan a query, or carry out another statement."""
        from qcore.sql.statements import Explain, read_statement

        known = {**self._tables, **given}
        statement = read_statement(text, self.dialect)
        if statement is None:
            return self._query(text, known, key, on)
        if on is None:
            return self._carry_out(statement, known)
        if not isinstance(statement, Explain):
            raise PlanError("on= runs queries only; run other statements without on=")
        return statements.explanation(statement, self._query(statement.query, known, None, on), self.settings)

    def _query(self, text: str, known: Mapping[str, Table], key: Hashable | None = None, on: Any = None) -> Any:
        """Plan a query. With a key its plan is kept in the plan cache if it can be reused."""
        state = self.plan_cache.state
        if INFORMATION_SCHEMA in text.lower():
            key, known = None, {**known, **self._information_schema(known, text)}
        from qcore.sql.bind import plan_query
        from qcore.sql.copying import copy_plan, read_copy

        copy = read_copy(text, self.dialect)
        query_text = text if copy is None else copy.query
        views, files = self._views_and_files(query_text, known)
        known, zone = self._in_zone({**known, **files})
        dialect = self.dialect
        if zone is not None and dialect.syntax == "spark":
            dialect = replace(dialect, timestamp="instant")
        schemas = {name: table.schema for name, table in known.items()}

        has_read_rows = False

        def read_rows(plan: p.PlanNode) -> pa.Table:
            nonlocal has_read_rows
            has_read_rows = True
            plan = plan if zone is None else plan_in_zone(plan, zone)
            rows: pa.Table = self._run(plan, None, known).collect_charged("PIVOT without a list of values")
            return rows

        with limit_planning(self.settings.timeout), watch_moments() as moments:
            result = plan_query(query_text, schemas, dialect, views, read_rows)
            result = result if copy is None else copy_plan(copy, result, result.output_names or [])
            plan = result.plan if zone is None else plan_in_zone(result.plan, zone)
            bound = self._bound(plan, known)
            query = self._optimize_plan(bound, result.output_names)
        if key is not None and not moments and not has_read_rows:
            listed = [table for table in files.values() if isinstance(table, FileTable)]
            self.plan_cache.keep(key, query, bound, [text, *views.values()], listed, state)
        return self._result(query, None if key is None else self.plan_cache.answer(is_hit=False), on)

    def _information_schema(self, known: Mapping[str, Table], text: str) -> dict[str, Table]:
        """The tables of information_schema that a text names, with its other tables and the session's views."""
        found: dict[str, Table] = {}
        if statements.TABLES in text.lower():
            found[statements.TABLES] = table_from(statements.information_of_tables(known, self._views))
        if statements.COLUMNS in text.lower():
            schemas = {name: table.schema for name, table in known.items()}
            for view in self._views:
                if view not in schemas and INFORMATION_SCHEMA not in self._views[view].lower():
                    schemas[view] = self._query(f"SELECT * FROM {self._quote_name(view)}", known).schema
            found[statements.COLUMNS] = table_from(statements.information_of_columns(schemas))
        return found

    def _in_zone(self, tables: Mapping[str, Table]) -> tuple[Mapping[str, Table], str | None]:
        """The tables with their timestamps in the session's time zone, and that zone; None: there is none."""
        zone = self.time_zone
        if zone is None and self.dialect.syntax == "spark":
            zone = check_zone(next(filter(None, map(zone_of, tables.values())), None))
        if zone is None:
            return tables, None
        return {name: table_in_zone(table, zone) for name, table in tables.items()}, zone

    def _views_and_files(self, text: str, known: Mapping[str, Table]) -> tuple[dict[str, str], dict[str, Table]]:
        """The views that a query may read, and the tables of the files that it and they name."""
        from qcore.sql.files import named_files, names_in

        files = named_files(text, self.dialect)
        views: dict[str, str] = {}
        texts = [text] if self._views else []
        while texts:
            names = names_in(texts.pop(), self.dialect)
            for name, query in self._views.items():
                if name.lower() in names and name not in known and name not in views:
                    views[name] = query
                    files |= named_files(query, self.dialect)
                    texts.append(query)
        return views, {name: self._named_files(paths) for name, paths in files.items() if name not in known}

    def _in_standard_quotes(self, text: str) -> str:
        """A text of Spark's dialect with names and texts in standard quotes, as the parser and views expect."""
        if self.dialect.syntax != "spark":
            return text
        from qcore.sql.spark_texts import with_standard_texts

        return with_standard_texts(text)

    def _named_files(self, paths: Sequence[str]) -> Table:
        """Return the table of files that a query names."""
        return FileTable(paths[0] if len(paths) == 1 else list(paths), access=self.settings.file_access)

    def _carry_out(self, statement: Statement, known: Mapping[str, Table]) -> Result:
        from qcore.sql.statements import CreateView, Describe, Drop, Explain, Insert, SetSetting, ShowTables, Summarize

        if isinstance(statement, SetSetting):
            self.change(**{statement.name: statement.value})
            return statements.nothing(self.settings)
        if isinstance(statement, Summarize):
            summary: Result = self._query(f"SUMMARIZE FROM ({statement.query})", known)
            return summary
        if isinstance(statement, Explain):
            return statements.explanation(statement, self._query(statement.query, known), self.settings)
        if isinstance(statement, Describe):
            return statements.description(self._query(statement.query, known), self.settings)
        if isinstance(statement, ShowTables):
            return statements.table_names({*known, *self._views}, self.settings)
        if isinstance(statement, Drop):
            held: dict[str, Any] = self._views if statement.is_view else self._tables
            name = self._find_spelling(statement.name, held)
            dropped = held.pop(name, None)
            self.plan_cache.forget(name)
            if dropped is None and not statement.may_be_missing:
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
            raise PlanError(f"the {there} {statement.name!r} exists already; CREATE OR REPLACE {kind} replaces it")
        if isinstance(statement, CreateView):
            self._create_view(statement, known)
            return statements.nothing(self.settings)
        what = f"CREATE TABLE {statement.name}"
        rows = statements.number_equal_names(self._query(statement.query, known).collect_charged(what))
        self._set_table(statement.name, self._in_memory(rows))
        return statements.count_of(rows.num_rows, self.settings)

    def _create_view(self, statement: CreateView, known: Mapping[str, Table]) -> None:
        if statement.name in known:
            raise PlanError(f"{statement.name!r} is a table; give the view another name, or drop the table first")
        before = self._views.get(statement.name)
        self._views[statement.name] = statement.query
        self.plan_cache.forget(statement.name)
        try:
            # Raises at once if the query cannot be planned or if the view reads itself.
            self._query(f"SELECT * FROM {self._quote_name(statement.name)}", known)
        except BaseException:
            if before is None:
                del self._views[statement.name]
            else:
                self._views[statement.name] = before
            self.plan_cache.forget(statement.name)
            raise

    def _quote_name(self, name: str) -> str:
        from qcore.sql.statements import quote_name

        return quote_name(name)

    def _find_spelling(self, name: str, held: Collection[str]) -> str:
        """The spelling of `name` among the tables or views `held`, if the dialect ignores case."""
        if self.dialect.name_case != "any":
            return name
        return statements.spelled_among(name, held)

    def _insert(self, statement: Insert, known: Mapping[str, Table]) -> Result:
        statement = replace(statement, table=self._find_spelling(statement.table, self._tables))
        table = self._tables.get(statement.table)
        if table is None and statement.table in self._views:
            raise PlanError(f"INSERT INTO {statement.table}: it is a view; insert into the tables that its query reads")
        if table is None:
            raise unknown("table", statement.table, self._tables, "INSERT INTO")
        if not isinstance(table, ArrowTable):
            raise PlanError(
                f"INSERT INTO {statement.table}: the table is not in memory; make a table in memory with "
                "CREATE TABLE … AS, or write files with COPY (…) TO"
            )
        columns = tuple(self._find_spelling(name, table.schema.names) for name in statement.columns)
        statement = replace(statement, columns=columns)
        given = self._query(statement.query, known).collect_charged(f"INSERT INTO {statement.table}")
        rows = statements.convert_inserted(table.schema, statement, given, self.settings)
        # The lock is taken after the query has run, because functions that the query calls may use the session.
        with self._changing:
            held = self._tables.get(statement.table)
            if not isinstance(held, ArrowTable) or held.schema != table.schema:
                raise PlanError(f"INSERT INTO {statement.table}: the table was dropped or replaced meanwhile")
            self._set_table(statement.table, self._in_memory(pa.concat_tables([held.rows(), rows]), held, rows))
        return statements.count_of(rows.num_rows, self.settings)

    def _in_memory(self, rows: pa.Table, before: ArrowTable | None = None, added: pa.Table | None = None) -> ArrowTable:
        """Make a statement's rows a table in memory, charged to the session's memory pool.

        With `before`, the table that an INSERT extends, only the rows `added` are charged: the others already are.
        """
        table = ArrowTable(rows, trusted=True)
        if self.settings.memory_pool is not None:
            table.kept = [
                *(before.kept if before is not None else []),
                self.settings.memory_pool.keep((rows if added is None else added).nbytes),
            ]
        return table

    def substrait(self, plan_bytes: bytes) -> Result:
        """Plan a serialised Substrait message over the session's tables. It runs when the result is read.

        Raises
        ------
        PlanError
            The bytes are not a Substrait plan, or use a table, column or feature that qcore does not have.
        """
        check_not_leaving()
        tables, zone = self._in_zone(self._tables)
        with limit_planning(self.settings.timeout):
            from qcore.substrait.plan import read_substrait

            planned = read_substrait(plan_bytes, {name: table.schema for name, table in tables.items()})
            files = {name: self._named_files(paths) for name, paths in planned.files.items()}
            if zone is None:
                return self._run(planned.plan, planned.output_names, {**tables, **files})
            files = {name: table_in_zone(table, zone) for name, table in files.items()}
            return self._run(plan_in_zone(planned.plan, zone), planned.output_names, {**tables, **files})

    @overload
    def execute(self, plan: p.PlanNode, on: None = None) -> Result: ...

    @overload
    def execute(self, plan: p.PlanNode, *, on: Any) -> SparkResult: ...

    def execute(self, plan: p.PlanNode, on: Any = None) -> Result | SparkResult:
        """Run a plan that PlanBuilder built. Its scans name tables of this session or contain a source.

        Parameters
        ----------
        plan : PlanNode
            The plan.
        on : pyspark.sql.SparkSession, optional
            Run the plan in tasks of Spark. The result is then a SparkResult.

        Raises
        ------
        PlanError
            A scan names a table that is not registered, or a file that the session's file_access denies. With `on`:
            a part of the plan runs in this process only.

        Examples
        --------
        >>> import pyarrow as pa, qcore
        >>> plan = qcore.PlanBuilder().values(pa.table({"a": [1, 2, 3]})).limit(1).build()
        >>> qcore.Session().execute(plan).to_arrow().num_rows
        1
        """
        with limit_planning(self.settings.timeout):
            return self._run(plan, None, self._tables, on)

    def _run(
        self, plan: p.PlanNode, output_names: list[str] | None, tables: Mapping[str, Table], on: Any = None
    ) -> Any:
        return self._result(self._optimize_plan(self._bound(plan, tables), output_names), None, on)

    def _bound(self, plan: p.PlanNode, tables: Mapping[str, Table]) -> p.PlanNode:
        """The plan with the source of every scan, all of which the session may read or write."""
        with bounded_depth():
            bound = bind_sources(plan, tables, self.settings.file_access)
        if isinstance(bound, p.TableWrite):
            self.settings.file_access.check_path(bound.path)
        return bound

    def _optimize_plan(self, bound: p.PlanNode, output_names: list[str] | None) -> PlannedQuery:
        of_scan = source_statistics()
        return PlannedQuery(optimize(bound, of_scan), output_names, Estimator(of_scan).rows)

    def _result(self, query: PlannedQuery, found: CacheAnswer | None = None, on: Any = None) -> Any:
        if on is not None:
            return import_module(SPARK_QUERIES).spark_result(on, query, self.settings)
        return Result(query.plan, self.settings, query.output_names, query.estimates, query.lowered, found)


def pool_with_limit(limit: int | str | None, pool: MemoryPool | None) -> MemoryPool | None:
    """Return the session's memory pool with a new limit: `pool` itself if there is one. None: no limit, no pool."""
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
    """Return the plan with the source of every scan set; `shared` maps shared subplans to their bound copies.

    Raises
    ------
    PlanError
        A scan names a table that is not in `tables`, or a file that `access` does not allow.
    """
    shared = {} if shared is None else shared
    if plan in shared:
        return shared[plan]
    if isinstance(plan, p.Scan):
        if plan.source is not None:
            own = plan.source
            return expand_view(
                plan.with_fields(source=own.under_access(access)) if isinstance(own, FileTable) else plan
            )
        if plan.table not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise PlanError(f"table {plan.table!r} is not registered (node {plan.id}); registered: {known}")
        table = under_policy(tables[plan.table], plan.on_schema_change)
        return expand_view(plan.with_fields(source=table))
    children = [bind_sources(child, tables, access, shared) for child in plan.children]
    bound = plan.with_children(*children) if children else plan
    if isinstance(bound, p.Shared):
        shared[plan] = bound
    if isinstance(bound, p.SharedRead):
        bound = replace(bound, like=bind_sources(bound.like, tables, access, shared))
    return bound


@overload
def sql(
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    timeout: float | None = None,
    dialect: Dialect | str | None = None,
    time_zone: str | None = None,
    on: None = None,
) -> Result: ...


@overload
def sql(
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    timeout: float | None = None,
    dialect: Dialect | str | None = None,
    time_zone: str | None = None,
    on: Any,
) -> SparkResult: ...


def sql(
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    timeout: float | None = None,
    dialect: Dialect | str | None = None,
    time_zone: str | None = None,
    on: Any = None,
) -> Result | SparkResult:
    """Run one SQL statement over `tables` in a new session.

    Parameters
    ----------
    text : str
        One statement. Planning needs the package's extra `sql`.
    tables : mapping of str to source, optional
        A source is a path, a glob or a list of files, Arrow data, a pandas or polars frame, or a Spark DataFrame.
    threads, memory_limit, timeout, dialect, time_zone
        As the parameters of Session.
    on : pyspark.sql.SparkSession, optional
        Run the query in tasks of Spark, as in Session.sql().

    Returns
    -------
    Result or SparkResult
        A stream of batches; `to_arrow()` and `to_pandas()` collect them. With `on` a SparkResult.

    Raises
    ------
    PlanError
        The text has a syntax error, names an unknown table or column, or uses a feature that qcore does not have.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> qcore.sql("select a + 1 as b from t", {"t": pa.table({"a": [1]})}).to_arrow().to_pylist()
    [{'b': 2}]
    """
    session = Session(threads, memory_limit, timeout=timeout, dialect=dialect, time_zone=time_zone)
    return session.sql(text, tables, on=on)
