"""Joins, groups, filters and sorts of 20 million rows against DuckDB and Polars (`make micro`).

One process, interleaved rounds, the same tables in memory, results as Arrow. Each row has the target of the project:
qcore's time to the best of the others. The answers are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Tables = dict[str, Any]
# Rows in a chunk of a table, as in tables that file readers return.
CHUNK_ROWS = 131_072


@dataclass(frozen=True)
class Row:
    """One row of the table: its tables, the query as SQL and as a Polars program, and the target."""

    name: str
    tables: Callable[[Any, int], Tables]
    sql: str
    polars: Callable[[dict[str, Any]], Any]
    target: float
    ordered: bool = False


@dataclass
class Measured:
    """(wall, processor) seconds of each round, by engine."""

    name: str
    target: float
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def median(self, engine: str) -> tuple[float, float]:
        """Median wall and processor seconds."""
        walls, processors = zip(*self.seconds[engine], strict=True)
        return statistics.median(walls), statistics.median(processors)

    def ratio(self, which: int = 0) -> float:
        """qcore's median to the best of the others: 0 wall, 1 processor time."""
        others = [self.median(engine)[which] for engine in self.seconds if engine != "qcore"]
        return self.median("qcore")[which] / min(others)

    def line(self) -> str:
        """The figures as a line below the header."""
        walls = "".join(f"{self.median(engine)[0] * 1e3:10.1f}" for engine in self.seconds)
        verdict = "ok" if self.ratio() <= self.target else "missed"
        return f"{self.name:22}{walls}{self.ratio():8.2f}{self.ratio(1):11.2f}{self.target:8.2f}  {verdict}"


def cut_chunks(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    n = len(next(iter(columns.values())))
    starts = range(0, n, CHUNK_ROWS)
    return pa.Table.from_batches(
        [pa.record_batch({name: pa.array(v[at : at + CHUNK_ROWS]) for name, v in columns.items()}) for at in starts]
    )


def sparse_keys(rng: Any, n: int) -> Any:
    import numpy as np

    keys = np.unique(rng.integers(0, 2**62, n))
    rng.shuffle(keys)
    return keys


def groups_of(n_groups: int) -> Callable[[Any, int], Tables]:
    def make(rng: Any, n: int) -> Tables:
        keys = sparse_keys(rng, min(n_groups, n))
        return {"t": cut_chunks({"k": keys[rng.integers(0, len(keys), n)], "v": rng.integers(0, 1000, n)})}

    return make


def text_groups(n_groups: int, n_keys: int) -> Callable[[Any, int], Tables]:
    """A quarter of the rows, with texts of 25 bytes: a key of n_groups values, or two keys of about n_groups pairs."""

    def make(rng: Any, n: int) -> Tables:
        import pyarrow as pa

        n //= 4
        n_values = n_groups if n_keys == 1 else math.isqrt(n_groups)
        columns = {}
        for name in "kl"[:n_keys]:
            texts = pa.array([f"customer_number_{number:09}" for number in range(n_values)])
            columns[name] = texts.take(pa.array(rng.integers(0, n_values, n)))
        return {"t": cut_chunks({**columns, "v": rng.integers(0, 1000, n)})}

    return make


def make_join(n_keys: int) -> Callable[[Any, int], Tables]:
    def make(rng: Any, n: int) -> Tables:
        keys = sparse_keys(rng, min(n_keys, n))
        probe = {"k": keys[rng.integers(0, len(keys), n)], "v": rng.integers(0, 1000, n)}
        return {"t": cut_chunks(probe), "b": cut_chunks({"k": keys, "w": rng.integers(0, 1000, len(keys))})}

    return make


def numbers(rng: Any, n: int) -> Tables:
    return {"t": cut_chunks({"k": rng.integers(0, 100, n), "v": rng.integers(0, 1000, n), "f": rng.random(n)})}


def spread(rng: Any, n: int) -> Tables:
    return {"t": cut_chunks({"k": rng.integers(-(2**62), 2**62, n)})}


def three_keys(rng: Any, n: int) -> Tables:
    n //= 2
    return {"t": cut_chunks({"a": rng.integers(0, 100, n), "b": rng.integers(0, 1000, n), "c": rng.random(n)})}


def rows() -> Iterator[Row]:
    """All rows of the table."""
    import polars as pl

    def group(frames: dict[str, Any]) -> Any:
        return frames["t"].group_by("k").agg(pl.col("v").sum().alias("s"), pl.len().alias("n"))

    def join(frames: dict[str, Any]) -> Any:
        return frames["t"].join(frames["b"], on="k").select("v", "w")

    def passing(percent: int) -> Callable[[dict[str, Any]], Any]:
        return lambda frames: frames["t"].filter(pl.col("k") < percent).select("v", "f")

    for name, n, target in (("1K", 1000, 0.33), ("100K", 10**5, 0.33), ("1M", 10**6, 0.33), ("10M", 10**7, 0.33)):
        yield Row(f"join {name}", make_join(n), "select t.v, b.w from t join b on t.k = b.k", join, target)
    groups = (("10", 10, 0.33), ("1K", 1000, 0.45), ("100K", 10**5, 0.33), ("1M", 10**6, 0.33), ("10M", 10**7, 0.33))
    for name, n, target in groups:
        yield Row(
            f"group {name}", groups_of(n), "select k, sum(v) as s, count(*) as n from t group by k", group, target
        )
    for name, n in (("1K", 1000), ("1M", 10**6)):
        yield Row(
            f"text {name}, quarter",
            text_groups(n, 1),
            "select k, sum(v) as s, count(*) as n from t group by k",
            group,
            0.5,
        )
        yield Row(
            f"two texts {name}, quarter",
            text_groups(n, 2),
            "select k, l, sum(v) as s, count(*) as n from t group by k, l",
            lambda frames: frames["t"].group_by("k", "l").agg(pl.col("v").sum().alias("s"), pl.len().alias("n")),
            0.5,
        )
    for percent in (1, 50, 99):
        yield Row(
            f"filter {percent} %",
            numbers,
            f"select v, f from t where k < {percent}",
            passing(percent),
            0.6,
        )
    yield Row(
        "scan and sum",
        numbers,
        "select sum(v) as v, sum(f) as f from t",
        lambda frames: frames["t"].select(pl.col("v").sum(), pl.col("f").sum()),
        0.6,
    )
    yield Row("sort int64", spread, "select k from t order by k", lambda frames: frames["t"].sort("k"), 0.8, True)
    yield Row(
        "sort 3 keys, half",
        three_keys,
        "select a, b, c from t order by a, b, c",
        lambda frames: frames["t"].sort("a", "b", "c"),
        0.8,
        True,
    )
    yield Row(
        "top 100",
        spread,
        "select k from t order by k limit 100",
        lambda frames: frames["t"].sort("k").head(100),
        0.5,
        True,
    )


def engines(row: Row, tables: Tables, threads: int) -> dict[str, Callable[[], Any]]:
    """The query as a function that returns a pyarrow Table, planning included, by engine."""
    import duckdb
    import polars as pl

    import qcore

    connection = duckdb.connect(config={"threads": threads})
    session = qcore.Session(threads=threads)
    for name, table in tables.items():
        connection.register(name, table)
        session.register(name, table)
    frames = {name: pl.from_arrow(table).lazy() for name, table in tables.items()}
    return {
        "qcore": lambda: session.sql(row.sql).to_arrow(),
        "duckdb": lambda: connection.sql(row.sql).to_arrow_table(),
        "polars": lambda: row.polars(frames).collect(engine="streaming").to_arrow(),
        "polars in memory": lambda: row.polars(frames).collect(engine="in-memory").to_arrow(),
    }


def check(row: Row, runs: dict[str, Callable[[], Any]]) -> None:
    """Compare the engines' answers: row counts, and rows in order or sums of all columns. Raises SystemExit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text_types = (pa.string(), pa.large_string(), pa.string_view())

    def summary(table: Any) -> list[Any]:
        if row.ordered:
            head, tail = table.slice(0, 1000), table.slice(max(0, table.num_rows - 1000))
            return [table.num_rows, head.to_pydict(), tail.to_pydict()]
        # Sums of sparse keys would overflow. For a text the number at its end is added.
        columns = [
            pc.utf8_slice_codeunits(pc.cast(column, "string"), 16) if column.type in text_types else column
            for column in table.columns
        ]
        doubles = [pc.cast(column, "float64", safe=False) for column in columns]
        return [table.num_rows, *(float(pc.sum(values).as_py()) for values in doubles)]

    expected = summary(runs["duckdb"]())
    for engine, run in runs.items():
        for ours, theirs in zip(summary(run()), expected, strict=True):
            same = math.isclose(ours, theirs, rel_tol=1e-9) if isinstance(ours, float) else ours == theirs
            if not same:
                sys.exit(f"{row.name}: {engine} answers {ours!r}, duckdb {theirs!r}"[:500])


def measure(row: Row, options: argparse.Namespace) -> Measured:
    """Time every engine in each round, in turns."""
    import numpy as np

    runs = engines(row, row.tables(np.random.default_rng(1), options.rows), options.threads)
    check(row, runs)
    measured = Measured(row.name, row.target, {engine: [] for engine in runs})
    for round_number in range(options.rounds):
        for engine in list(runs)[:: 1 if round_number % 2 else -1]:
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            result = runs[engine]()
            seconds = time.perf_counter() - wall, time.process_time() - processor
            measured.seconds[engine].append(seconds)
            del result
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows whose names begin so: join, 'group 1K', sort")
    parser.add_argument("--json", metavar="FILE", help="write every measurement here")
    options = parser.parse_args()
    # The checked mode of the tests would change the measurements.
    os.environ.pop("QCORE_DEBUG", None)
    os.environ["POLARS_MAX_THREADS"] = str(options.threads)
    import pyarrow as pa

    pa.set_cpu_count(options.threads)
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f} before: trust the ratios of processor time only" if load > 0.5 else ""
    print(f"{options.rows:,} rows, {options.threads} threads of {os.cpu_count()}, median ms of {options.rounds}{busy}")
    names = ("qcore", "duckdb", "polars", "in memory")
    print(f"{'':22}" + "".join(f"{name:>10}" for name in names) + f"{'wall':>8}{'processor':>11}{'target':>8}")
    done = []
    for row in rows():
        if options.only and not row.name.startswith(tuple(options.only)):
            continue
        done.append(measure(row, options))
        print(done[-1].line(), flush=True)
    if done:
        means = [math.exp(statistics.fmean(math.log(one.ratio(which)) for one in done)) for which in (0, 1)]
        print(f"{'geometric mean':62}{means[0]:8.2f}{means[1]:11.2f}{0.33:8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"name": one.name, "target": one.target, "seconds": one.seconds} for one in done], file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
