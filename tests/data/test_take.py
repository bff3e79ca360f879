"""Values of every width and their validity are gathered and scattered by position, as sorts, groups and joins do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

import qcore
from qcore_testing.units import gather
from random_tables import SIZES

# Widths of 1, 2, 4, 8 and 16 bytes.
TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.decimal128(30, 0)]


def positions(order: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    if order.startswith("1 of"):
        chosen = np.flatnonzero(rng.random(40 * n) * float(order[5:]) < 1)[:n]
        chosen[-1:] += 5        # a gap before the last value
        return chosen
    if order == "some apart":
        # Near each other, but for one in a hundred, which is anywhere before.
        near = np.cumsum(rng.integers(0, 5, n))
        return np.where(rng.random(n) < 0.01, rng.integers(0, 5, n), near)
    return {
        "all": np.arange(n),
        "one": np.zeros(n, np.int64),
        "repeated": np.arange(n) // 4,
        "descending": np.arange(n)[::-1],
        "anywhere": rng.integers(0, 3 * n + 1, n),
    }[order]


@pytest.mark.each_value
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("n", [*SIZES, 8, 9, 40, 100])
@pytest.mark.parametrize(
    "order", ["all", "1 of 1.1", "1 of 2", "1 of 8", "some apart", "one", "repeated", "descending", "anywhere"]
)
def test_values_of_rows(order: str, n: int, width: int, level: int) -> None:
    rows = positions(order, n).astype(np.uint32)
    values = np.random.default_rng(1).integers(0, 256, ((rows.max() + 1) if n else 0, width), np.uint8)
    assert gather(values.reshape(-1), width, rows) == values[rows].tobytes()


AT_THE_END = """if True:
    import ctypes, mmap
    import numpy as np
    from qcore_testing.units import gather

    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    values = np.frombuffer(memory, np.uint8, mmap.PAGESIZE)
    values[:] = np.random.default_rng(1).integers(0, 256, len(values))
    for width in (1, 2, 4, 8, 16):
        wide = values.reshape(-1, width)
        for n in range(1, 60):
            for step in (1, 2, 4):
                rows = (len(wide) - 1 - np.arange(n)[::-1] * step).astype(np.uint32)
                assert gather(values, width, rows) == wide[rows].tobytes()
    print("ok")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_nothing_after_the_last_value_is_read() -> None:
    """The values end where memory begins that cannot be read."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def table_of(type_: pa.DataType, n: int, n_distinct: int) -> pa.Table:
    rng = np.random.default_rng(n)
    keys = [None if row % 11 == 4 else int(rng.integers(0, n_distinct)) for row in range(n)]
    return pa.table({"k": pa.array(keys, pa.int64()).cast(type_), "row": pa.array(range(n), pa.int64())})


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_keys_gathered_by_a_sort(type_: pa.DataType, n: int) -> None:
    table = table_of(type_, n, 100)
    plan = qcore.PlanBuilder().values(table).order_by(["k nulls first", "row"]).build()
    got = qcore.Session(threads=1).execute(plan).to_arrow()
    rows = sorted(table.to_pylist(), key=lambda row: (row["k"] is not None, row["k"] or 0, row["row"]))
    assert got.to_pylist() == rows


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize(("n", "n_distinct"), [(1, 1), (2049, 100), (40_000, 100)])
def test_rows_scattered_to_groups(type_: pa.DataType, n: int, n_distinct: int) -> None:
    table = table_of(type_, n, n_distinct)
    plan = qcore.PlanBuilder().values(table).aggregate(["k"], {"s": ("sum", "row"), "n": ("count",)}).build()
    got = qcore.Session(threads=1).execute(plan).to_arrow()
    sums: dict[object, tuple[int, int]] = {}
    for row in table.to_pylist():
        total, count = sums.get(row["k"], (0, 0))
        sums[row["k"]] = (total + row["row"], count + 1)
    assert {row["k"]: (row["s"], row["n"]) for row in got.to_pylist()} == sums


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_nulls_gathered_by_a_join_table(type_: pa.DataType) -> None:
    """The rows of a large table with several rows a key are put in the order of the keys."""
    n_keys = 20_000
    keys = np.random.default_rng(5).permutation(np.arange(2 * n_keys + 7) % n_keys)
    build = table_of(type_, len(keys), 100).append_column("b", pa.array(keys))
    found = pa.Table.from_batches(hash_join(pa.table({"p": np.arange(0, n_keys, 7)}), build, "inner", ["p"], ["b"]))
    assert found.num_rows == np.isin(keys, np.arange(0, n_keys, 7)).sum()
    assert found["k"].null_count > 100
    assert found["k"].cast(type_).equals(build["k"].take(found["row"].combine_chunks()))
