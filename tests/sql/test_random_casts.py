"""Random comparisons of casts with constants, against DuckDB.

A cast that rounds or fails is not removed. SPEC Q1, Q3.
"""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from sweeps import every

Database = duckdb.DuckDBPyConnection
ROWS = 12
SEEDS = range(16)
CASES = 100
N = None


def decimals(texts: str) -> list[object]:
    return [*map(Decimal, texts.split()), N]


COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 2, 3, 100, 127, N]),
    "i16": (pa.int16(), [-32768, -200, -1, 0, 1, 2, 300, 32767, N]),
    "i32": (pa.int32(), [-(1 << 31), -70000, -1, 0, 1, 2, 3, 40000, (1 << 31) - 1, N]),
    "i64": (pa.int64(), [-(1 << 63), -(10**12), -1, 0, 1, 2, 3, 200, 10**12, (1 << 53) + 1, (1 << 63) - 1, N]),
    "u8": (pa.uint8(), [0, 1, 2, 128, 255, N]),
    "u32": (pa.uint32(), [0, 1, 2, 1 << 31, (1 << 32) - 1, N]),
    "d2": (pa.decimal128(10, 2), decimals("-2.50 -1.49 -0.51 0.00 0.49 0.50 1.26 2.49 2.50 99999999.99")),
    "d4": (pa.decimal128(18, 4), decimals("-1.0050 -0.0050 0.0049 1.0050 1.2650 2.4999 2.5000 99999999999.5")),
    "f": (pa.float64(), [-2.5, -1.5, -0.5, 0.0, 0.49, 1.26, 2.4, 3.5, 1e10, N]),
    "s": (pa.string(), ["1", "01", "2", "2.5", "-3", "x", "", "2020-01-01", "2020-1-2", "300", "true", N]),
    "b": (pa.bool_(), [True, False, N]),
    "day": (pa.date32(), [date(1969, 12, 31), date(2020, 1, 1), date(2020, 1, 2), date(2020, 2, 29), N]),
    "ts": (
        pa.timestamp("us"),
        [
            datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 600),
            datetime(2020, 1, 2, 12), N,
        ],
    ),
}  # fmt: skip
NUMBERS = ["tinyint", "smallint", "int", "bigint", "decimal(10, 2)", "decimal(6, 1)", "decimal(5, 0)", "double"]
NUMBERS += ["decimal(22, 2)", "decimal(38, 4)"]
INTEGERS, DECIMALS = ("i8", "i16", "i32", "i64", "u8", "u32"), ("d2", "d4")
# Types to which each column is cast, with the same result in both engines.
TARGETS: dict[str, list[str]] = {
    **{name: [*NUMBERS, "varchar"] for name in (*INTEGERS, *DECIMALS)},
    "f": ["tinyint", "smallint", "int", "bigint", "double"],
    "s": ["tinyint", "int", "bigint", "date", "varchar"],
    "b": ["int", "varchar", "boolean"],
    "day": ["date", "timestamp", "varchar"],
    "ts": ["date", "timestamp"],
}
CONSTANTS = {
    "varchar": ["'1'", "'2'", "'2.50'", "'-1'", "'true'", "'2020-01-01'", "''"],
    "boolean": ["true", "false"],
    "date": ["date '2020-01-01'", "date '1970-01-01'", "date '2020-01-02'"],
    "timestamp": [
        "timestamp '2020-01-01 00:00:00'", "timestamp '2020-01-01 00:00:00.0006'", "timestamp '2020-01-02 12:00:00'",
    ],
    "double": ["1.5e0", "-0.5e0", "2e0", "1.26e0"],
}  # fmt: skip
INTEGER_CONSTANTS = ["-200", "-1", "0", "1", "2", "3", "100", "127", "128", "300", "40000", "1000000000000"]
DECIMAL_CONSTANTS = ["-1.5", "0.0", "0.5", "1.3", "1.26", "2.5", "2", "100.00", "3"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]


def _table(rng: random.Random) -> pa.Table:
    columns = {
        name: pa.array([rng.choice(values) for _ in range(ROWS)], type_) for name, (type_, values) in COLUMNS.items()
    }
    return pa.table({"n": pa.array(range(ROWS)), **columns})


def _constant(rng: random.Random, target: str) -> str:
    choice = DECIMAL_CONSTANTS if target.startswith("decimal") else CONSTANTS.get(target, INTEGER_CONSTANTS)
    return rng.choice(choice)


def _comparison(rng: random.Random) -> str:
    """A cast compared with a constant on either side, in a list, a range or a CASE."""
    column = rng.choice(list(TARGETS))
    target = rng.choice(TARGETS[column])
    made = f"try_cast({column} as {target})"
    if rng.random() < 0.15 and column in INTEGERS:
        target = rng.choice(TARGETS[column])
        made = f"try_cast({made} as {target})"
    elif rng.random() < 0.15:
        made = f"coalesce({made}, {_constant(rng, target)})"
    a, b, c = (_constant(rng, target) for _ in range(3))
    shape = rng.randrange(7)
    if shape == 0:
        return f"{b} {rng.choice(OPERATORS)} {made}"
    if shape == 1:
        return f"{made} {rng.choice(['', 'not '])}in ({a}, {b}, {c})"
    if shape == 2:
        return f"{made} {rng.choice(['', 'not '])}between {a} and {b}"
    if shape == 3:
        return f"case when {made} {rng.choice(OPERATORS)} {a} then {made} = {b} else {made} is null end"
    if shape == 4:
        return f"{rng.choice(['not ', ''])}({made} {rng.choice(OPERATORS)} {a} or {made} {rng.choice(OPERATORS)} {b})"
    return f"{made} {rng.choice(OPERATORS)} {a}"


@pytest.mark.parametrize("seed", every(8, SEEDS))
def test_casts_beside_constants(seed: int) -> None:
    """Q3: 2,560 comparisons as values, and as conditions of filters, joins and groups."""
    rng = random.Random(seed)
    table = _table(rng)
    session, database = qcore.Session(threads=1), duckdb.connect(config={"threads": 1})
    session.register("t", table)
    database.register("t", table)
    cases = [_comparison(rng) for _ in range(CASES)]
    values = ", ".join(f"{case} as c{position}" for position, case in enumerate(cases))
    wrong = _differing(session, database, f"select {values} from t order by n", cases)
    for case in cases[::5]:
        for text in (
            f"select n from t where {case} order by n",
            f"select n from (select n, {case} as x from t) p where x order by n",
            f"select a.n, b.n as m from t a left join t b on a.n = b.n and {_of('b', case)} order by 1",
        ):
            wrong += _differing(session, database, text, [case] * 2)
    assert not wrong, f"{len(wrong)} differ, first {wrong[:5]}"


def _of(table: str, case: str) -> str:
    for column in COLUMNS:
        case = case.replace(f"({column} as", f"({table}.{column} as")
    return case


def _differing(session: qcore.Session, database: Database, text: str, cases: list[str]) -> list[object]:
    found, wanted = session.sql(text).to_arrow(), database.sql(text).to_arrow_table()
    pairs = zip(found.columns, wanted.columns, cases, strict=False)
    return [(case, a.to_pylist(), b.to_pylist()) for a, b, case in pairs if a.to_pylist() != b.to_pylist()]
