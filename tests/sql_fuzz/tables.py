"""Random tables: small domains, so that joins find matches, and every type, layout and division into batches."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

DAY = datetime.date
WORDS = (
    "", "a", "A", "b", "ab", "abc", " pad ", "special requests", "twelve bytes", "thirteen byte", "naïve", "漢字",
    "12", "-7", "1995-03-15", "under_score%", "one prefix of thirty-two bytes: a", "one prefix of thirty-two bytes: b",
)  # fmt: skip
DATES = (
    DAY(1700, 1, 1), DAY(1969, 12, 31), DAY(1970, 1, 1), DAY(1992, 2, 29), DAY(1995, 3, 15), DAY(1995, 12, 31),
    DAY(1996, 1, 1), DAY(2000, 2, 29), DAY(2023, 7, 31),
)  # fmt: skip
TIMES = tuple(
    datetime.datetime(day.year, day.month, day.day, hour, minute, second, micro)
    for day, (hour, minute, second, micro) in zip(
        DATES, [(0, 0, 0, 0), (23, 59, 59, 999_999), (0, 0, 0, 1), (12, 34, 56, 789_000)] * 3, strict=False
    )
)
# Local times since 1970. Some are hours at which other zones of this list change their clocks.
MOMENTS = (
    *(time for time in TIMES if time.year > 1970), datetime.datetime(2021, 3, 14, 6, 30),
    datetime.datetime(2021, 10, 31, 0, 30), datetime.datetime(2021, 11, 7, 5, 59, 59), datetime.datetime(2020, 7, 1),
)  # fmt: skip
CLOCKS = tuple(datetime.time(*parts) for parts in ((0, 0), (0, 0, 0, 1), (12, 34, 56, 789_000), (23, 59, 59, 999_999)))
EIGHTHS = tuple(eighths / 8 for eighths in (-80, -17, -8, -1, 0, 1, 3, 8, 12, 16, 24, 100))
ODD_FLOATS = (math.nan, math.inf, -math.inf, -0.0, 0.0)
TEXT_LAYOUTS = (
    pa.string(), pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.string()),
)  # fmt: skip
SIZES = (0, 1, 2, 3, 5, 8, 8, 13, 13, 20, 20, 30, 40)
# More than a vector, which has 2,048 rows.
BIG = 2500


@dataclass(frozen=True)
class Kind:
    """A type as SQL sees it: what may stand where. Integers of all widths but uint64 are one kind."""

    family: str
    precision: int = 0
    scale: int = 0
    zone: str = ""

    def __str__(self) -> str:
        if self.family == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return self.family + self.zone


INT, UBIG, FLOAT, TEXT, BOOL = Kind("int"), Kind("ubig"), Kind("float"), Kind("text"), Kind("bool")
DATE, TIMESTAMP, NULL, BLOB = Kind("date"), Kind("timestamp"), Kind("null"), Kind("blob")
TIME, MILLIS = Kind("time"), Kind("millis")
# Lists, by the kind of their elements.
INTS, TEXTS = Kind("ints"), Kind("texts")
ELEMENTS = {INTS: INT, TEXTS: TEXT}
# Timestamps with a zone, each in its own; all of a case are in one.
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe")
INSTANTS = tuple(Kind("instant", zone=zone) for zone in ZONES)
DECIMALS = tuple(Kind("decimal", *digits) for digits in ((5, 2), (9, 0), (15, 2), (18, 4), (20, 4), (38, 10)))


@dataclass(frozen=True)
class Facts:
    """What is known of a column's values: absolute numbers (of decimals: unscaled) are below `limit`; `finite` floats
    are neither NaN nor infinite; `exact` ones are the same whatever the order of computing.
    """

    kind: Kind
    limit: float = 0
    finite: bool = True
    exact: bool = True
    # Narrower than what its kind computes in.
    narrow: bool = False


@dataclass(frozen=True)
class TableData:
    """A table of a case. Its first column, `id`, is unique and not null."""

    name: str
    data: pa.Table
    facts: dict[str, Facts]

    def with_data(self, data: pa.Table) -> TableData:
        """The table with other rows or layouts."""
        return replace(self, data=data)


def random_tables(rng: random.Random) -> list[TableData]:
    """Two to four tables."""
    count = rng.randint(2, 4)
    big = rng.randrange(count) if rng.random() < 0.06 else None
    zoned = rng.choice(INSTANTS)
    return [_random_table(rng, f"t{i}", BIG if i == big else rng.choice(SIZES), zoned) for i in range(count)]


def zone_of(tables: Iterable[TableData]) -> str:
    """The zone that the tables' timestamps are in."""
    zones = (getattr(field.type, "tz", None) for table in tables for field in table.data.schema)
    return next((zone for zone in zones if zone is not None), "UTC")


def _random_table(rng: random.Random, name: str, n_rows: int, zoned: Kind) -> TableData:
    ids = list(range(n_rows))
    rng.shuffle(ids)
    id_type = rng.choice([pa.int64(), pa.int32(), pa.int16()])
    columns: dict[str, pa.Array] = {"id": pa.array(ids, id_type)}
    facts = {"id": Facts(INT, BIG, narrow=id_type != pa.int64())}
    for position in range(rng.randint(3, 7)):
        type_, pool, known = _random_column(rng, zoned)
        null_share = rng.choice([0.0, 0.0, 0.1, 0.3, 0.3, 1.0 if rng.random() < 0.3 else 0.5])
        columns[f"c{position}"] = _array(rng, n_rows, type_, pool, null_share)
        facts[f"c{position}"] = known
    table = pa.table(columns)
    return TableData(name, _cut(rng, table), facts)


def _random_column(rng: random.Random, zoned: Kind) -> tuple[pa.DataType, list[Any], Facts]:
    """A type, the values to choose from, and the facts known about them."""
    family = rng.choice(
        ["int"] * 6 + ["float"] * 3 + ["text"] * 4 + ["decimal"] * 3 + ["date", "date", "timestamp", "bool", "bool"]
        + ["ubig", "null", "blob", "time", "ints", "ints", "texts", "instant", "instant"]
    )  # fmt: skip
    few = rng.random() < 0.7
    if family == "int":
        return _integers(rng)
    if family == "ubig":
        return pa.uint64(), [0, 1, 2, 3, 2**63, 2**64 - 1], Facts(UBIG, 2**64)
    if family == "float":
        type_ = rng.choice([pa.float64(), pa.float64(), pa.float32()])
        finite = rng.random() < 0.6
        pool = _some(rng, EIGHTHS, few) + ([] if finite else list(ODD_FLOATS))
        return type_, pool, Facts(FLOAT, 16, finite=finite, narrow=type_ == pa.float32())
    if family == "text":
        return rng.choice(TEXT_LAYOUTS), _some(rng, WORDS, few), Facts(TEXT)
    if family == "decimal":
        return _decimals(rng, few)
    if family == "date":
        return pa.date32(), _some(rng, DATES, few), Facts(DATE)
    if family == "timestamp":
        # Parquet has no seconds, and DuckDB no nanoseconds that reach the year 1700.
        unit = rng.choice(["us", "us", "us", "ms"])
        # Milliseconds are compared with milliseconds only, because constants have microseconds.
        return pa.timestamp(unit), _some(rng, _in_unit(unit), few), Facts(TIMESTAMP if unit == "us" else MILLIS)
    if family == "instant":
        instants = [time.replace(tzinfo=datetime.UTC) for time in _some(rng, MOMENTS, few)]
        return pa.timestamp("us", zoned.zone), instants, Facts(zoned)
    if family in ("ints", "texts"):
        return _lists(rng, Kind(family))
    if family == "time":
        return pa.time64("us"), list(CLOCKS), Facts(TIME)
    if family == "bool":
        return pa.bool_(), [True, False], Facts(BOOL)
    if family == "blob":
        return (
            rng.choice([pa.binary(), pa.binary_view()]),
            [b"", b"\0", b"\xff\xfe", b"a longer run of bytes"],
            Facts(BLOB),
        )
    return pa.null(), [None], Facts(NULL)


def _integers(rng: random.Random) -> tuple[pa.DataType, list[Any], Facts]:
    signed = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
    unsigned = (pa.uint8(), pa.uint16(), pa.uint32())
    if rng.random() < 0.15:
        type_ = rng.choice(unsigned)
        pool, limit = [0, 1, 2, 3, 5, 2**type_.bit_width - 1], 2**type_.bit_width
        return type_, pool, Facts(INT, limit, narrow=True)
    type_ = rng.choice(signed)
    narrow = type_ != pa.int64()
    shape = rng.random()
    if shape < 0.15:
        layout = rng.choice([pa.dictionary(pa.int32(), type_), pa.run_end_encoded(pa.int32(), type_)])
        return layout, [0, 1, 2, 5], Facts(INT, 16, narrow=narrow)
    if shape < 0.7:
        low = rng.choice([-3, 0, 5])
        return type_, list(range(low, low + rng.choice([2, 4, 8]))), Facts(INT, 16, narrow=narrow)
    if shape < 0.85:
        bound = min(2 ** (type_.bit_width - 1), 2**40) - 1
        return type_, [rng.randint(-bound, bound) for _ in range(12)], Facts(INT, bound + 1, narrow=narrow)
    ends = 2 ** (type_.bit_width - 1)
    return type_, [-ends, ends - 1, 0, 1, -1], Facts(INT, ends, narrow=narrow)


def _lists(rng: random.Random, kind: Kind) -> tuple[pa.DataType, list[Any], Facts]:
    """Lists: empty ones, long ones, and ones with nulls."""
    layout = rng.choice([pa.list_, pa.list_, pa.large_list])
    values: list[Any] = [None, *range(-2, 6)] if kind == INTS else [None, *WORDS]
    pool = [[rng.choice(values) for _ in range(length)] for length in (0, 1, 1, 2, 3, 7)]
    return layout(pa.int64() if kind == INTS else pa.string()), pool, Facts(kind, 16)


def _decimals(rng: random.Random, few: bool) -> tuple[pa.DataType, list[Any], Facts]:
    kind = rng.choice(DECIMALS)
    limit = 10**kind.precision
    small = [value for value in (-350, -100, -5, 0, 1, 50, 125, 1000, 99999) if abs(value) < limit]
    pool = _some(rng, small, few)
    bound = 10**5
    if rng.random() < 0.3:
        # Sums of a few thousand values fit.
        bound = max(bound, limit // 10**6)
        pool += [rng.randint(-bound, bound) for _ in range(4)]
    values = [Decimal(value).scaleb(-kind.scale) for value in pool]
    return pa.decimal128(kind.precision, kind.scale), values, Facts(kind, bound)


def _in_unit(unit: str) -> list[datetime.datetime]:
    """The values of TIMES that the unit can hold."""
    step = 1 if unit == "us" else 1000
    return sorted({time.replace(microsecond=time.microsecond // step * step) for time in TIMES})


def _some(rng: random.Random, pool: Any, few: bool) -> list[Any]:
    return rng.sample(list(pool), min(len(pool), 4)) if few else list(pool)


def _array(rng: random.Random, n_rows: int, type_: pa.DataType, pool: list[Any], null_share: float) -> pa.Array:
    values = [None if rng.random() < null_share else rng.choice(pool) for _ in range(n_rows)]
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode()
    if pa.types.is_run_end_encoded(type_):
        return pc.run_end_encode(pa.array(values, type_.value_type), run_end_type=type_.run_end_type)
    if type_ in (pa.string_view(), pa.binary_view()):
        return pa.array(values, pa.string() if type_ == pa.string_view() else pa.binary()).cast(type_)
    return pa.array(values, type_, from_pandas=False)


def _cut(rng: random.Random, table: pa.Table) -> pa.Table:
    """The table in one batch, in equal batches, or in batches of random sizes, some of them empty."""
    shape = rng.random()
    if shape < 0.4 or not table.num_rows:
        return table
    if shape < 0.7:
        rows = rng.choice([1, 3, 7])
        return pa.Table.from_batches(table.to_batches(max_chunksize=max(rows, table.num_rows // 50)), table.schema)
    batches, start = [], 0
    while start < table.num_rows:
        length = rng.choice([0, 1, 2, 5, table.num_rows])
        batches += table.slice(start, length).to_batches() or [_empty(table.schema)]
        start += length
    return pa.Table.from_batches(batches, table.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
