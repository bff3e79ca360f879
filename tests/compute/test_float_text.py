"""Floats as text: the shortest digits that identify the float, in DuckDB's format (SPEC Q3)."""

from __future__ import annotations

import math
import random
import struct

import duckdb
import pyarrow as pa

import qcore


def test_floats_as_text(duck: duckdb.DuckDBPyConnection) -> None:
    draw = random.Random(5)
    values = [
        0.0,
        -0.0,
        1.0,
        1e15,
        9.999999999999999e15,
        1e16,
        1e-4,
        9.9e-5,
        1e-5,
        5e-324,
        math.nan,
        math.inf,
        -math.inf,
    ]
    values += [struct.unpack("d", draw.randbytes(8))[0] for _ in range(1000)]
    values += [draw.uniform(-1, 1) * 10 ** draw.randint(-8, 20) for _ in range(1000)]
    values += [round(draw.uniform(-1e6, 1e6), draw.randint(0, 5)) for _ in range(1000)]
    values += [float(draw.randint(-(10**17), 10**17)) for _ in range(500)]
    narrow = [value if not math.isfinite(value) or abs(value) < 3e38 else 1e-45 for value in values]
    table = pa.table({"f": values, "r": pa.array(narrow, pa.float32())})
    query = "select f::varchar as f, r::varchar as r from t"
    found = qcore.sql(query, {"t": table}, threads=1, dialect="duckdb").to_arrow().to_pydict()
    duck.register("t", table)
    expected = duck.sql(query).to_arrow_table().to_pydict()
    assert found["f"] == expected["f"]
    # DuckDB's text of a float32 is not always the shortest.
    read = pa.array(map(float, found["r"]), pa.float32())
    assert [str(value) for value in read] == [str(value) for value in table["r"]]
    assert all(len(ours) <= len(theirs) for ours, theirs in zip(found["r"], expected["r"], strict=True))
