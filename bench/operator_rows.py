"""Single operators over tables in memory: joins, groups, filters, sorts, and partitioning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from engines import PEERS, Tables, open_engines
from measurement import Engine, Row, Target, Workload

# Rows of a chunk of the tables, as readers of files make them.
CHUNK_ROWS = 131_072
MakeTables = Callable[[np.random.Generator, int], Tables]
Program = Callable[[dict[str, Any]], Any]
JOIN = "select t.v, b.w from t join b on t.k = b.k"
GROUP = "select k, sum(v) as s, count(*) as n from t group by k"


def cut_chunks(columns: dict[str, Any]) -> pa.Table:
    """A table of these columns in chunks."""
    n = len(next(iter(columns.values())))
    starts = range(0, n, CHUNK_ROWS)
    return pa.Table.from_batches(
        [pa.record_batch({name: pa.array(v[at : at + CHUNK_ROWS]) for name, v in columns.items()}) for at in starts]
    )


def sparse_keys(rng: np.random.Generator, n: int) -> np.ndarray:
    """About n different keys out of 2^62."""
    keys = np.unique(rng.integers(0, 2**62, n))
    rng.shuffle(keys)
    return keys


def join_tables(probe: dict[str, Any], build: dict[str, Any], rng: np.random.Generator) -> Tables:
    """The sides t and b of a join of these keys, each with a number of payload."""
    for keys, payload in ((probe, "v"), (build, "w")):
        keys[payload] = rng.integers(0, 1000, len(next(iter(keys.values()))))
    return {"t": cut_chunks(probe), "b": cut_chunks(build)}


def join_of(n_keys: int) -> MakeTables:
    """Each probe row has one match among n sparse keys."""

    def make(rng: np.random.Generator, n: int) -> Tables:
        keys = sparse_keys(rng, min(n_keys, n))
        return join_tables({"k": keys[rng.integers(0, len(keys), n)]}, {"k": keys}, rng)

    return make


def zipf_join(rng: np.random.Generator, n: int) -> Tables:
    """A million keys, whose shares of the probe rows fall with the power 1.1 of their ranks."""
    keys = sparse_keys(rng, min(10**6, n))
    shares = np.cumsum(np.arange(1, len(keys) + 1) ** -1.1)
    ranks = np.searchsorted(shares, rng.random(n) * shares[-1])
    return join_tables({"k": keys[np.minimum(ranks, len(keys) - 1)]}, {"k": keys}, rng)


def selective_join(rng: np.random.Generator, n: int) -> Tables:
    """A tenth of the probe rows have a match among a million keys."""
    keys = sparse_keys(rng, min(10**7, 10 * n))
    return join_tables({"k": keys[rng.integers(0, len(keys), n)]}, {"k": keys[: len(keys) // 10]}, rng)


def join_of_duplicates(rng: np.random.Generator, n: int) -> Tables:
    """A quarter of the rows, each with four matches in a build side of a million rows."""
    keys = sparse_keys(rng, min(250_000, n))
    repeated = rng.permutation(np.repeat(keys, 4))
    return join_tables({"k": keys[rng.integers(0, len(keys), n // 4)]}, {"k": repeated}, rng)


def join_with_nulls(rng: np.random.Generator, n: int) -> Tables:
    """A tenth of the keys of both sides are null."""

    def with_nulls(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(len(values)) < 0.1)

    keys = sparse_keys(rng, min(10**6, n))
    return join_tables({"k": with_nulls(keys[rng.integers(0, len(keys), n)])}, {"k": with_nulls(keys)}, rng)


def join_of_pairs(rng: np.random.Generator, n: int) -> Tables:
    """A million keys of an int64 and an int32."""
    keys = sparse_keys(rng, min(10**6, n))
    seconds = rng.integers(0, 2**31, len(keys), dtype=np.int32)
    drawn = rng.integers(0, len(keys), n)
    return join_tables({"k": keys[drawn], "l": seconds[drawn]}, {"k": keys, "l": seconds}, rng)


def join_of_texts(rng: np.random.Generator, n: int) -> Tables:
    """A quarter of the rows, with a million keys of 16 characters."""
    n //= 4
    texts = pa.array(np.char.zfill(rng.permutation(min(10**6, n)).astype(str), 16).tolist())
    return join_tables({"k": texts.take(pa.array(rng.integers(0, len(texts), n)))}, {"k": texts}, rng)


def groups_of(n_groups: int) -> MakeTables:
    """Groups of sparse keys."""

    def make(rng: np.random.Generator, n: int) -> Tables:
        keys = sparse_keys(rng, min(n_groups, n))
        return {"t": cut_chunks({"k": keys[rng.integers(0, len(keys), n)], "v": rng.integers(0, 1000, n)})}

    return make


def text_groups(n_groups: int, n_keys: int) -> MakeTables:
    """A quarter of the rows, with texts of 25 bytes: a key of n_groups values, or two keys of about n_groups pairs."""

    def make(rng: np.random.Generator, n: int) -> Tables:
        n //= 4
        n_values = n_groups if n_keys == 1 else math.isqrt(n_groups)
        columns = {}
        for name in "kl"[:n_keys]:
            texts = pa.array([f"customer_number_{number:09}" for number in range(n_values)])
            columns[name] = texts.take(pa.array(rng.integers(0, n_values, n)))
        return {"t": cut_chunks({**columns, "v": rng.integers(0, 1000, n)})}

    return make


def numbers(rng: np.random.Generator, n: int) -> Tables:
    """Small and large numbers."""
    return {"t": cut_chunks({"k": rng.integers(0, 100, n), "v": rng.integers(0, 1000, n), "f": rng.random(n)})}


def spread(rng: np.random.Generator, n: int) -> Tables:
    """Integers of all sizes."""
    return {"t": cut_chunks({"k": rng.integers(-(2**62), 2**62, n)})}


def text_and_number(rng: np.random.Generator, n: int) -> Tables:
    """Half of the rows, with 100,000 texts of 10 bytes."""
    n //= 2
    texts = pa.array(np.char.zfill(rng.integers(0, 10**9, 100_000).astype(str), 10).tolist())
    drawn = texts.take(pa.array(rng.integers(0, len(texts), n)))
    return {"t": cut_chunks({"a": drawn, "b": rng.integers(0, 10**6, n)})}


def three_keys(rng: np.random.Generator, n: int) -> Tables:
    """Half of the rows, with keys of 100, of 1,000 and of all values."""
    n //= 2
    return {"t": cut_chunks({"a": rng.integers(0, 100, n), "b": rng.integers(0, 1000, n), "c": rng.random(n)})}


def workloads(options: Any) -> Iterator[Workload]:
    """All workloads of single operators."""
    import polars as pl

    def workload(make: MakeTables, row: Row) -> Workload:
        def tables() -> Tables:
            return make(np.random.default_rng(1), options.rows)

        return Workload(row.name, lambda: [row], partial(open_engines, tables, ("qcore", *PEERS)))

    def summed(make: MakeTables, name: str, target: float, sql: str, program: Program) -> Workload:
        return workload(make, Row(name, sql, program, (Target(target),), summed=True))

    def ordered(make: MakeTables, name: str, target: float, sql: str, program: Program) -> Workload:
        return workload(make, Row(name, sql, program, (Target(target),), ordered=True))

    def join_on(*keys: str) -> Program:
        return lambda frames: frames["t"].join(frames["b"], on=list(keys)).select("v", "w")

    def group_by(*keys: str) -> Program:
        return lambda frames: frames["t"].group_by(*keys).agg(pl.col("v").sum().alias("s"), pl.len().alias("n"))

    def passing(percent: int) -> Program:
        return lambda frames: frames["t"].filter(pl.col("k") < percent).select("v", "f")

    for name, n in (("1K", 1000), ("100K", 10**5), ("1M", 10**6), ("10M", 10**7)):
        yield summed(join_of(n), f"join {name}", 0.33, JOIN, join_on("k"))
    for name, make in (
        ("Zipf 1.1", zipf_join),
        ("10 % match", selective_join),
        ("4 duplicates, quarter", join_of_duplicates),
        ("10 % nulls", join_with_nulls),
    ):
        yield summed(make, f"join {name}", 0.4, JOIN, join_on("k"))
    yield summed(join_of_pairs, "join int64, int32", 0.4, f"{JOIN} and t.l = b.l", join_on("k", "l"))
    yield summed(join_of_texts, "join 16 bytes, quarter", 0.4, JOIN, join_on("k"))
    groups = (("10", 10, 0.33), ("1K", 1000, 0.45), ("100K", 10**5, 0.33), ("1M", 10**6, 0.33), ("10M", 10**7, 0.33))
    for name, n, target in groups:
        yield summed(groups_of(n), f"group {name}", target, GROUP, group_by("k"))
    two = "select k, l, sum(v) as s, count(*) as n from t group by k, l"
    for name, n in (("1K", 1000), ("1M", 10**6)):
        yield summed(text_groups(n, 1), f"text {name}, quarter", 0.5, GROUP, group_by("k"))
        yield summed(text_groups(n, 2), f"two texts {name}, quarter", 0.5, two, group_by("k", "l"))
    for percent in (1, 50, 99):
        yield summed(numbers, f"filter {percent} %", 0.6, f"select v, f from t where k < {percent}", passing(percent))
    yield summed(
        numbers,
        "scan and sum",
        0.6,
        "select sum(v) as v, sum(f) as f from t",
        lambda frames: frames["t"].select(pl.col("v").sum(), pl.col("f").sum()),
    )
    yield ordered(spread, "sort int64", 0.8, "select k from t order by k", lambda frames: frames["t"].sort("k"))
    for name, make, keys in (("text, int64", text_and_number, ["a", "b"]), ("3 keys", three_keys, ["a", "b", "c"])):
        text = f"select * from t order by {', '.join(keys)}"
        yield ordered(make, f"sort {name}, half", 0.8, text, lambda frames, keys=keys: frames["t"].sort(*keys))
    top = "select k from t order by k limit 100"
    yield ordered(spread, "top 100", 0.5, top, lambda frames: frames["t"].sort("k").head(100))
    yield Workload("partition", partition_rows, open_partitioning)


# Hash partitioning

PARTITIONS = (8, 64, 512)
PARTITION_TARGETS = (Target(0.25, ("polars memory",)), Target(1 / 0.4, ("memcpy",)))


def partition_rows() -> list[Row]:
    """A row for each number of partitions: at most a quarter of Polars' time, at least 0.4 of memcpy's speed."""
    return [Row(f"partition {n}", targets=PARTITION_TARGETS) for n in PARTITIONS]


def partition_table(n: int) -> pa.Table:
    """40 bytes a row: two int64, a float64, and text of up to 12 bytes as a view has it."""
    rng = np.random.default_rng(1)
    return cut_chunks(
        {
            "k": rng.integers(0, 1 << 40, n),
            "a": rng.integers(0, 1 << 40, n),
            "x": rng.random(n),
            "s": pa.array(rng.integers(0, 1 << 30, n)).cast(pa.string()).cast(pa.string_view()),
        }
    )


def open_partitioning(options: Any) -> tuple[dict[str, Engine], None]:
    """The output of a task into partitions; Polars' frames by the hash of the key; and a copy of as many bytes."""
    import polars as pl

    import qcore

    table = partition_table(options.rows)
    frame = pl.from_arrow(table)
    # The output buffers take all rows, because one thread reads a partition after the other.
    n_bytes = 4 * table.nbytes
    source = np.ones(table.nbytes, np.uint8)
    target = np.zeros_like(source)
    cuts = np.linspace(0, len(source), options.threads + 1, dtype=np.int64)

    def by_qcore(row: Row) -> Any:
        n = int(row.name.split()[1])
        plan = qcore.PlanBuilder().scan("t", source=table).partitioned_output("k", n, buffer_bytes=n_bytes).build()
        with qcore.Task(plan, drivers=options.threads).output_buffers() as buffers:
            return [list(buffers.reader(partition)) for partition in range(n)]

    def by_polars(row: Row) -> Any:
        n = int(row.name.split()[1])
        numbered = frame.with_columns((pl.col("k").hash() % n).alias("p"))
        return numbered.partition_by("p", maintain_order=False, include_key=False)

    def copy(row: Row) -> None:
        with ThreadPoolExecutor(options.threads) as pool:
            parts = itertools.pairwise(cuts)
            list(pool.map(lambda part: np.copyto(target[part[0] : part[1]], source[part[0] : part[1]]), parts))

    engines = {"qcore": Engine(by_qcore), "polars memory": Engine(by_polars), "memcpy": Engine(copy)}
    return {name: engine for name, engine in engines.items() if name not in PEERS or name in options.engines}, None
