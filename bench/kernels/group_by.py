"""Grouping and aggregating, one thread: python bench/kernels/group_by.py [rows].

Nanoseconds a row, GB of input a second, and the share of random access: the time of one random line of a table as large
as the keys and states of the groups, in the same run, to the time of a row.

CPU time of the operator alone, vectors loaded by it from plain Arrow columns; beside it the wall time of DuckDB on one
thread.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from memory_speed import limits_text, line_nanos
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

REPEATS = 5
BATCH_ROWS = 65_536
INT64 = pa.int64()


@dataclass(frozen=True)
class Case:
    """Keys first in the table; each other column is summed, and rows are counted."""

    name: str
    table: pa.Table
    n_keys: int


def one_letter(codes: np.ndarray, letters: str) -> pa.Array:
    return pa.array(list(letters)).take(pa.array(codes)).cast(pa.string_view())


def cases(n: int) -> list[Case]:
    """TPC-H Q1's groups and sums, then one int64 sum over keys of many kinds and numbers."""
    rng = np.random.default_rng(1)
    x = pa.array(rng.integers(0, 10**7, n))
    codes = rng.choice(4, n, p=[0.25, 0.25, 0.01, 0.49])
    flags = {"f": one_letter(codes, "ANNR"), "l": one_letter(codes, "FOFO")}
    made = [Case("Q1: 2 strings, 5 sums", pa.table(flags | {f"x{i}": x for i in range(5)}), 2)]
    for n_groups in (10, 1_000, 30_000):
        made.append(Case(f"{n_groups} dense", pa.table({"k": rng.integers(0, n_groups, n), "x": x}), 1))
    for n_groups in (10, 1_000, 100_000, 1_000_000):
        keys = rng.integers(-(2**62), 2**62, n_groups)
        made.append(Case(f"{n_groups} sparse", pa.table({"k": rng.choice(keys, n), "x": x}), 1))
    for width in (5, 10, 20):
        for n_groups in (1_000, 100_000):
            texts = pa.array([str(v).zfill(width) for v in range(n_groups)])
            drawn = texts.take(pa.array(rng.integers(0, n_groups, n)))
            made.append(Case(f"{n_groups} strings of {width}", pa.table({"k": drawn, "x": x}), 1))
    pair = {"k": rng.integers(0, 1000, n) * 7_919, "d": rng.integers(0, 100, n).astype(np.int32)}
    made.append(Case("100000 int64, int32", pa.table(pair | {"x": x}), 2))
    made.append(Case("in order, 4 rows each", pa.table({"k": np.arange(n) // 4, "x": x}), 1))
    made.append(Case("all distinct", pa.table({"k": rng.permutation(n) * 7_919, "x": x}), 1))
    return made


def run(case: Case, step: str) -> tuple[float, int]:
    """CPU seconds and groups (of step 'partial': rows given)."""
    names = case.table.column_names[case.n_keys :]
    calls = [("sum", case.n_keys + i, -1, False) for i in range(len(names))] + [("count", -1, -1, False)]
    sum_type = pa.decimal128(38, 0) if step == "partial" else INT64
    keys = [case.table.schema.field(i) for i in range(case.n_keys)]
    schema = pa.schema([*keys, *((name, sum_type) for name in names), ("n", INT64)])
    operator = HashAggregation("agg", Account(), None, case.n_keys, calls, step, Schema(schema))
    run_chain([operator], case.table.to_batches(max_chunksize=BATCH_ROWS))
    counters = operator.stats_snapshot()
    return (counters["add_input"]["cpu_nanos"] + counters["get_output"]["cpu_nanos"]) / 1e9, counters["output_rows"]


def duckdb_seconds(case: Case) -> float:
    keys = ", ".join(case.table.column_names[: case.n_keys])
    sums = ", ".join(f"sum({name})" for name in case.table.column_names[case.n_keys :])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("t", case.table)
        began = time.perf_counter()
        connection.sql(f"select {keys}, {sums}, count(*) from t group by {keys}").to_arrow_table()
        return time.perf_counter() - began


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(limits_text())
    head = f"{'ns/row':28} {'groups':>9} {'single':>7} {'partial':>8} {'rows out':>9} {'duckdb':>7}"
    print(f"{head} {'GB/s':>6} {'random':>7}")
    for case in cases(n):
        single = [run(case, "single") for _ in range(REPEATS)]
        partial = [run(case, "partial") for _ in range(REPEATS)]
        peer = min(duckdb_seconds(case) for _ in range(2))
        nanos = min(s for s, _ in single) * 1e9 / n
        # The key and the states of a group, and a word for its hash.
        group_bytes = case.table.nbytes // n + 16
        print(
            f"{case.name:28} {single[0][1]:9} {nanos:7.2f} "
            f"{min(s for s, _ in partial) * 1e9 / n:8.2f} {partial[0][1]:9} {peer * 1e9 / n:7.1f} "
            f"{case.table.nbytes / n / nanos:6.2f} {line_nanos(single[0][1] * group_bytes) / nanos:7.2f}"
        )


if __name__ == "__main__":
    main()
