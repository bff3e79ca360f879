"""Runs a query in DuckDB and, in one of many equivalent ways, in qcore, and compares the answers."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from oracle import assert_same_rows
from qcore.config import Settings
from qcore.connectors.arrow import ArrowSplit, ArrowTable
from qcore.connectors.sources import table_from
from qcore.errors import PlanError
from qcore.expression.tree import Call, col, conjuncts
from qcore.lowering.pipelines import FLIPPED
from qcore.optimizer import RULES, Estimator, optimize
from qcore.plan import nodes as p
from qcore.plan.naming import NodeIds
from qcore.session.result import Result
from qcore.session.session import bind_sources
from qcore.sql.bind import plan_query
from sql_fuzz.queries import Ordered
from sql_fuzz.tables import TableData, zone_of

# Seconds. A query that takes longer is reported as hanging.
TIMEOUT_SECONDS = 60
RESULT_ROWS_MAX = 30_000


@dataclass(frozen=True)
class Way:
    """How the engine runs a query. All ways give the same rows.

    `split_rows` cuts tables in memory into splits of so many rows; None reads Parquet files. `without` names optimizer
    rules to leave out. `rewrites` seeds changes to the optimized plan: hash joins become nested loops, sides are
    flipped, exchanges are put between.
    """

    threads: int = 2
    batch_rows: int = 65_536
    split_rows: int | None = 1 << 20
    without: tuple[str, ...] = ()
    rewrites: int | None = None


def random_way(rng: random.Random) -> Way:
    """A random way."""
    without: tuple[str, ...] = ()
    if rng.random() < 0.5:
        without = tuple(RULES) if rng.random() < 0.5 else tuple(rng.sample(list(RULES), rng.randint(1, 4)))
    return Way(
        threads=rng.choice([1, 2, 3, 4, 8]),
        batch_rows=rng.choice([1, 7, 1024, 65_536]),
        split_rows=rng.choice([1, 3, 10, 1000, None]),
        without=without,
        rewrites=rng.randrange(1 << 30) if rng.random() < 0.6 else None,
    )


class SplitTable(ArrowTable):
    """A table in memory, in splits of few rows, so that a small one keeps many drivers busy."""

    def __init__(self, data: pa.Table, rows: int) -> None:
        super().__init__(data)
        self._rows = max(rows, data.num_rows // 50)

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> Iterator[Any]:
        """Splits of `split_rows` rows."""
        n_rows = self._data.num_rows
        yield from (ArrowSplit(start, min(self._rows, n_rows - start)) for start in range(0, n_rows, self._rows))


@dataclass
class Tables:
    """The tables of some cases, in both engines, kept for many queries; with `capitals` the engine's columns have
    capitals, which queries need not write.
    """

    tables: Sequence[TableData]
    folder: Path
    capitals: bool = False
    duck: duckdb.DuckDBPyConnection = field(init=False)
    _known: dict[int | None, dict[str, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute(f"set timezone = '{zone_of(self.tables)}'")
        for table in self.tables:
            self.duck.register("given", table.data)
            self.duck.execute(f"create table {table.name} as from given")
            self.duck.unregister("given")

    def close(self) -> None:
        """Close DuckDB."""
        self.duck.close()

    def sources(self, split_rows: int | None) -> dict[str, Any]:
        """The tables as qcore's sources."""
        if split_rows not in self._known:
            self._known[split_rows] = {table.name: self._source(table, split_rows) for table in self.tables}
        return self._known[split_rows]

    def _source(self, table: TableData, split_rows: int | None) -> Any:
        data = table.data
        if self.capitals:
            data = data.rename_columns([name.title() for name in data.column_names])
        if split_rows is not None:
            return SplitTable(data, split_rows)
        path = self.folder / f"{table.name}.parquet"
        pyarrow.parquet.write_table(writable(data), path, row_group_size=max(1, data.num_rows // 3))
        return table_from(str(path))


def writable(data: pa.Table) -> pa.Table:
    """The table without run-end encoding, which Parquet does not have."""
    for position, column in enumerate(data.schema):
        if pa.types.is_run_end_encoded(column.type):
            chunks = [pa.compute.run_end_decode(chunk) for chunk in data.column(position).chunks]
            data = data.set_column(position, column.name, pa.chunked_array(chunks, column.type.value_type))
    return data


# --- the oracle ---


def expected_rows(tables: Tables, query: Ordered) -> pa.Table | None:
    """DuckDB's answer; None where it refuses the query, fails, or gives too much. That includes more rows than LIMIT
    allows: `ORDER BY` of constants above a cross join has given all 30 rows of a query with LIMIT 5.
    """
    rows_max = min(RESULT_ROWS_MAX, query.rows_max)
    try:
        reader = tables.duck.sql(query.sql("duckdb")).to_arrow_reader(RESULT_ROWS_MAX)
        batches, n_rows = [], 0
        for batch in reader:
            batches.append(batch)
            n_rows += batch.num_rows
            if n_rows > rows_max:
                return None
        return pa.Table.from_batches(batches, reader.schema)
    except (duckdb.Error, pa.ArrowException, OSError):
        # An error while batches are read is an OSError.
        return None


# --- the engine ---


def plan_text(tables: Tables, query: Ordered) -> Any:
    """The query's plan, unoptimized."""
    schemas = {name: source.schema for name, source in tables.sources(1).items()}
    plan = plan_query(in_some_case(query.sql("qcore")), schemas)
    return replace(plan, output_names=[name.lower() for name in plan.output_names or ()])


def in_some_case(text: str) -> str:
    """The query; for one in five with random capitals, which do not change the meaning of names."""
    seed = zlib.crc32(text.encode())
    if seed % 5:
        return text
    rng = random.Random(seed)
    return _WORD.sub(lambda word: word.group() if word.group()[0] in "'\"" else rng.choice(_CASES)(word.group()), text)


_WORD = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[a-z_]\w*")
_CASES = (str.lower, str.upper, str.title)


def engine_rows(tables: Tables, plan: Any, way: Way) -> pa.Table:
    """qcore's answer."""
    bound = bind_sources(plan.plan, tables.sources(way.split_rows))
    statistics = {id(scan.source): scan.source.statistics() for scan in bound.walk() if isinstance(scan, p.Scan)}

    def of_scan(scan: p.Scan) -> Any:
        return statistics[id(scan.source)]

    optimized = optimize(bound, of_scan, way.without)
    if way.rewrites is not None:
        optimized = rewritten(optimized, random.Random(way.rewrites))
    settings = Settings.make(way.threads, batch_rows=way.batch_rows, timeout=TIMEOUT_SECONDS)
    return Result(optimized, settings, plan.output_names, Estimator(of_scan).rows).to_arrow()


def rewritten(plan: p.PlanNode, rng: random.Random) -> p.PlanNode:
    """The plan with other joins and more exchanges that returns the same rows."""
    ids = NodeIds.of_plan(plan)

    def change(node: p.PlanNode) -> p.PlanNode:
        children = [change(child) for child in node.children]
        if isinstance(node, UNORDERED):
            children = [exchange_node(child, ids, rng) for child in children]
        if children:
            node = node.with_children(*children)
        if isinstance(node, p.HashJoin) and rng.random() < 0.4:
            node = as_nested_loop(node)
        if isinstance(node, (p.HashJoin, p.NestedLoopJoin)) and node.kind in FLIPPED and rng.random() < 0.5:
            node = replace(node, build="left" if node.build == "right" else "right")
        return node

    return change(plan)


# Nodes whose result does not depend on the order of their input.
UNORDERED = (p.Aggregate, p.Window, p.HashJoin, p.NestedLoopJoin, p.OrderBy, p.TopN)


def exchange_node(node: p.PlanNode, ids: NodeIds, rng: random.Random) -> p.PlanNode:
    """The node, sometimes below an exchange."""
    if rng.random() < 0.7:
        return node
    kind = rng.choice(["hash", "round_robin", "gather"])
    keys = [field.name for field in node.schema if hashable(field.type)]
    if kind == "hash" and not keys:
        kind = "round_robin"
    picked = tuple(rng.sample(keys, min(len(keys), rng.randint(1, 2)))) if kind == "hash" else ()
    return p.LocalPartition(ids.new(), node.schema, node, kind, picked, rng.choice([None, 1, 2, 5, 8]))


def hashable(type_: pa.DataType) -> bool:
    """Whether an exchange may partition by a column of this type."""
    return not pa.types.is_nested(type_)


def as_nested_loop(node: p.HashJoin) -> p.PlanNode:
    """The same join as a nested loop."""
    names = [*node.left.schema.names, *node.right.schema.names]
    if node.kind.startswith("null_aware") or len(set(names)) < len(names):
        return node
    parts = [Call("equal", (col(a), col(b))) for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    if node.condition is not None:
        parts += conjuncts(node.condition)
    condition = parts[0] if len(parts) == 1 else Call("and", tuple(parts))
    return p.NestedLoopJoin(node.id, node.schema, node.left, node.right, node.kind, condition, node.build)


# --- comparing ---


@dataclass(frozen=True)
class Difference:
    """A difference. Differences of one `kind` probably have the same cause."""

    kind: str
    text: str
    way: Way | None = None


def difference(tables: Tables, query: Ordered, ways: Sequence[Way], expected: pa.Table) -> Difference | None:
    """The difference of qcore's answer from DuckDB's, or None. A query that qcore refuses is a difference."""
    try:
        plan = plan_text(tables, query)
    except PlanError as error:
        return Difference(f"plan: {shorten_error(error)}", str(error))
    except Exception as error:
        return Difference(f"{type(error).__name__}: {shorten_error(error)}", repr(error))
    for way in ways:
        found = _difference(tables, query, plan, way, expected)
        if found is not None:
            return found
    return None


def _difference(tables: Tables, query: Ordered, plan: Any, way: Way, expected: pa.Table) -> Difference | None:
    try:
        actual = engine_rows(tables, plan, way)
    except Exception as error:
        return Difference(f"{type(error).__name__}: {shorten_error(error)}", f"{type(error).__name__}: {error}", way)
    try:
        assert_same_rows(actual, expected)
        if query.keys:
            # Rows with equal keys may have any order.
            names = [name for name, _, _ in query.keys]
            assert_same_rows(actual.select(names), expected.select(names), ordered=True)
    except AssertionError as error:
        return Difference("rows", str(error), way)
    return None


def shorten_error(error: Exception) -> str:
    """The text of an error without the parts that differ from case to case."""
    text = str(error).split("\n", 1)[0]
    return "".join("#" if char.isdigit() else char for char in text)[:60]
