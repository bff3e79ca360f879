"""Rows of the benchmark and their measurement: answers compared first, then rounds in which the engines take turns."""

from __future__ import annotations

import datetime
import gc
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from answers_of import Answer, assert_answers

# Other engines compute averages and products of decimals with fewer digits: TPC-H's average discount has six.
PEER_TOLERANCE = 2e-5


@dataclass(frozen=True)
class Target:
    """The most that the time of `engine` may be of the best time of `peers`; no peers: of all other engines."""

    ratio: float
    peers: tuple[str, ...] = ()
    engine: str = "qcore"


@dataclass(frozen=True)
class Row:
    """One row of the table: its query as SQL and as a Polars program, and what the project wants of it.

    Rows with large answers are `summed`: their answers are compared by numbers of rows and sums. Those that are
    `ordered` are compared by their first and last rows.
    """

    name: str
    sql: str = ""
    polars: Callable[[dict[str, Any]], Any] | None = None
    targets: tuple[Target, ...] = ()
    summed: bool = False
    ordered: bool = False
    #: Processor time that a run of qcore may take, in ms.
    millis_max: float | None = None


@dataclass(frozen=True)
class Engine:
    """A way to run a row, `times` times a run. `prepare` is called before each run and is not measured."""

    run: Callable[[Row], Any]
    times: int = 1
    takes: Callable[[Row], bool] = lambda row: True
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Workload:
    """Rows over the same tables, whose names begin with the workload's.

    `open` returns the engines by name, and the connection to DuckDB whose answers are the right ones, or None.
    """

    name: str
    rows: Callable[[], Sequence[Row]]
    open: Callable[[Any], tuple[dict[str, Engine], Any]]
    #: Returns the most memory of each engine, where it is wanted.
    memory: Callable[[Row, Any], dict[str, int]] | None = None


@dataclass
class Measured:
    """A measured row: (wall, processor) seconds of each round by engine, and why other engines have none."""

    name: str
    targets: list[Target]
    threads: int
    millis_max: float | None = None
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    #: The most memory of a process that runs the row, in bytes, by engine.
    memory: dict[str, int] = field(default_factory=dict)
    #: The machine's load before the row. Engines have a part in it if other rows came before.
    load: float = 0.0
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Measured:
        """The row that `asdict` made of one."""
        targets = [Target(one["ratio"], tuple(one["peers"]), one["engine"]) for one in kept["targets"]]
        return cls(**{**kept, "targets": targets})

    def kept(self) -> dict[str, Any]:
        """The row for a JSON file."""
        return asdict(self)

    def median(self, engine: str, which: int = 0) -> float:
        """Median seconds of the rounds: 0 wall, 1 processor time."""
        return statistics.median(seconds[which] for seconds in self.seconds[engine])

    def peers(self, target: Target) -> list[str]:
        """The engines that a target names and that have times; those of qcore are peers only by name."""
        named = target.peers or tuple(engine for engine in self.seconds if not engine.startswith("qcore"))
        return [engine for engine in named if engine in self.seconds]

    def ratio(self, target: Target, which: int = 0) -> float | None:
        """The engine's median to that of the best peer; None if one of them has no times."""
        peers = self.peers(target)
        if target.engine not in self.seconds or not peers:
            return None
        return self.median(target.engine, which) / min(self.median(peer, which) for peer in peers)

    def is_met(self) -> bool | None:
        """Whether all targets are met; None: it has none, or none could be measured."""
        found = [(self.ratio(target), target.ratio) for target in self.targets]
        if self.millis_max is not None and "qcore" in self.seconds:
            found.append((self.median("qcore", 1) * 1e3, self.millis_max))
        if self.memory:
            found.append((self.memory["qcore"], self.memory["duckdb"]))
        known = [value <= limit for value, limit in found if value is not None]
        return all(known) if known else None


def measure(row: Row, engines: dict[str, Engine], oracle: Any, options: Any) -> Measured:
    """Compare the engines' answers, then time each engine once a round, beginning with another one each time."""
    measured = Measured(row.name, list(row.targets), options.threads, row.millis_max, load=os.getloadavg()[0])
    taking = {name: engine for name, engine in engines.items() if engine.takes(row)}
    answer = None if oracle is None else Expected(row, oracle)
    for name, engine in taking.items():
        try:
            engine.prepare()
            result = engine.run(row)
            if answer is not None:
                answer.compare(result, is_peer=not name.startswith("qcore"))
            measured.seconds[name] = []
        # DataFusion's panics are BaseExceptions.
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            measured.failures[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]
        result = None
    names = list(measured.seconds)
    for number in range(options.rounds):
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            measured.seconds[name].append(time_run(taking[name], row))
    return measured


def time_run(engine: Engine, row: Row) -> tuple[float, float]:
    """Wall and processor seconds of one run. Freeing the answer is not measured."""
    engine.prepare()
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    result = engine.run(row)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    del result
    return seconds[0] / engine.times, seconds[1] / engine.times


class Expected:
    """DuckDB's answer to a row, or a summary of it if it is large."""

    def __init__(self, row: Row, connection: Any) -> None:
        self._row = row
        self._answer: Any = None
        if row.summed or row.ordered:
            self._answer = self._summary(connection.sql(row.sql).to_arrow_table())
        else:
            self._answer = Answer.of(connection, row.sql)

    def compare(self, actual: pa.Table, is_peer: bool) -> None:
        """Raise AssertionError if an answer differs. Those of other engines may have fewer digits."""
        if isinstance(self._answer, Answer):
            assert_answers(*((as_floats(actual), self._answer, PEER_TOLERANCE) if is_peer else (actual, self._answer)))
            return
        for ours, theirs in zip(self._summary(actual), self._answer, strict=True):
            same = math.isclose(ours, theirs, rel_tol=1e-9) if isinstance(ours, float) else ours == theirs
            assert same, f"{ours!r}, duckdb {theirs!r}"[:300]

    def _summary(self, table: pa.Table) -> list[Any]:
        if self._row.ordered:
            ends = table.slice(0, 1000), table.slice(max(0, table.num_rows - 1000))
            return [table.num_rows, *(list(part.to_pydict().values()) for part in ends)]
        # Sums of sparse keys would overflow. Of a text the number at its end is added. The products of neighbours tell
        # which values are in one row.
        doubles = [pc.cast(number_of(column), "float64", safe=False) for column in table.columns]
        products = [pc.multiply(*pair) for pair in itertools.pairwise(doubles)]
        return [table.num_rows, *(pc.sum(values).as_py() for values in doubles + products)]


def number_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of numbers, or the numbers at the ends of texts."""
    if column.type in (pa.string(), pa.large_string(), pa.string_view()):
        return pc.utf8_slice_codeunits(pc.cast(column, "string"), 16)
    return column


def as_floats(table: pa.Table) -> pa.Table:
    """The table with decimals as float64."""
    columns = [pc.cast(column, "float64") if pa.types.is_decimal(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, [f"c{i}" for i in range(len(columns))])


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers; nan of none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan
