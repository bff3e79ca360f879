"""The main expression kernels, one thread: python bench/kernels/expressions.py [rows].

Nanoseconds a row, GB of input a second, and the share of what memcpy moves in the same run.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from memory_speed import copy_rate, limits_text
from qcore.expression.tree import Case, Expr, call, col, column_names, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.dispatch import instruction_set, use_level
from qcore_ext.ground.memory import Account

REPEATS = 15


def lineitem(n: int) -> pa.RecordBatch:
    """The columns of TPC-H's lineitem that its expressions read, with its value ranges."""
    rng = np.random.default_rng(1)

    def money(low: int, high: int) -> pa.Array:
        cents = rng.integers(low, high, n)
        wide = np.stack([cents, np.where(cents < 0, -1, 0)], axis=1).tobytes()
        return pa.Array.from_buffers(pa.decimal128(15, 2), n, [None, pa.py_buffer(wide)])

    modes = np.array(["MAIL", "SHIP", "AIR", "REG AIR", "TRUCK", "RAIL", "FOB"])
    words = np.array(["special", "requests", "packages", "sleep", "furiously", "carefully final", "deposits", "the"])
    comments = [" ".join(row) for row in words[rng.integers(0, len(words), (n, 5))]]
    return pa.record_batch(
        {
            "price": money(90000, 10494950),
            "discount": money(0, 11),
            "tax": money(0, 9),
            "quantity": money(100, 5001),
            "date": pa.array(rng.integers(8036, 10592, n).astype("int32"), pa.date32()),
            "nullable": pa.array(rng.integers(0, 1000, n), mask=rng.random(n) < 0.1),
            "key": pa.array(rng.integers(0, 10**9, n)),
            "x": pa.array(rng.random(n)),
            "mode": pa.array(modes[rng.integers(0, len(modes), n)]),
            "comment": pa.array(comments),
        }
    )


def best(run: Callable[[], object], n: int) -> float:
    """Nanoseconds a row of the fastest of some runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e9 / n


def day(year: int, month: int = 1, day_of_month: int = 1) -> Expr:
    """A date literal."""
    return lit(dt.date(year, month, day_of_month))


PRICE = col("price") * (1 - col("discount"))
PREDICATES = {
    "date <= constant (98 %)": col("date") <= day(1998, 9, 2),
    "date in a year (15 %)": (col("date") >= day(1994)) & (col("date") < day(1995)),
    "Q6": (col("date") >= day(1994))
    & (col("date") < day(1995))
    & col("discount").between(lit("0.05").cast(pa.decimal128(15, 2)), lit("0.07").cast(pa.decimal128(15, 2)))
    & (col("quantity") < 24),
    "int64 < constant": col("key") < 10**8,
    "int64 with nulls < constant": col("nullable") < 500,
    "mode = constant": col("mode") == "MAIL",
    "mode in (2)": col("mode").isin(["MAIL", "SHIP"]),
    "comment like %special%requests%": col("comment").like("%special%requests%"),
}
LOADS = {
    "Q1 chain": [PRICE, PRICE * (1 + col("tax"))],
    "Q1 all inputs": [col("quantity"), col("price"), PRICE, PRICE * (1 + col("tax")), col("discount")],
    "price * discount": [col("price") * col("discount")],
    "int64 + constant": [col("key") + 1],
    "float64 * float64": [col("x") * col("x")],
    "case": [Case(((col("mode") == "MAIL", PRICE),), lit(0))],
    "year(date)": [call("year", col("date"))],
    "substring(comment, 1, 2)": [call("substring", col("comment"), lit(1), lit(2))],
}


def main() -> None:
    """Print a line for each kernel: from memory, and from the cache."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20
    if len(sys.argv) > 2:
        use_level(int(sys.argv[2]))
    big = lineitem(n)
    small = big.slice(0, 8192)
    print(f"{instruction_set()}; {limits_text()}")
    print(f"ns a row over {n} rows, and over {len(small)} again and again; GB/s of inputs from memory, share of memcpy")
    batches = [(PyBatch.from_arrow(batch), len(batch)) for batch in (big, small)]

    def line(name: str, evaluator: Evaluator, method: str, columns: Iterable[str]) -> None:
        run = getattr(evaluator, method)
        figures = [best(lambda batch=batch: run(batch), rows) for batch, rows in batches]
        rate = sum(big.column(read).nbytes for read in columns) / n / figures[0]
        share = rate / copy_rate()
        print(f"{method.split('_')[0]:8} {name:34} {figures[0]:7.2f} {figures[1]:7.2f} {rate:7.2f} {share:6.2f}")

    for name, predicate in PREDICATES.items():
        evaluator = Evaluator(compile_predicate(predicate, big.schema), Account())
        line(name, evaluator, "select_batch", column_names(predicate))
    for name, expressions in LOADS.items():
        named = [(str(i), expr) for i, expr in enumerate(expressions)]
        evaluator = Evaluator(compile_projection(named, big.schema), Account())
        for method in ("load_batch", "project_batch"):
            line(name, evaluator, method, set().union(*map(column_names, expressions)))


if __name__ == "__main__":
    main()
