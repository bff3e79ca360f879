"""Functions that format numbers, name types, and make dates from their parts, against DuckDB. SPEC Q2, Q3."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

N = 60
START = datetime.datetime(1999, 11, 28, 22, 30, 5, 123456)
T = pa.table({
    "i": pa.array([None if i % 11 == 5 else i * 37 % 23 - 9 for i in range(N)], pa.int64()),
    "k": pa.array([None if i % 5 == 3 else i - 30 for i in range(N)], pa.int32()),
    "m": pa.array([i % 12 + 1 for i in range(N)], pa.int64()),
    "s": [None if i % 8 == 3 else "größe"[: i % 6] for i in range(N)],
    "f": [None if i % 7 == 2 else (i * 31 % 170) / 4 for i in range(N)],
    "d": [None if i % 9 == 4 else Decimal(i * 13 % 50 + 1) / 100 for i in range(N)],
    "b": [None if i % 4 == 2 else i % 2 == 0 for i in range(N)],
    "day": [None if i % 10 == 7 else START.date() + datetime.timedelta(days=i * i) for i in range(N)],
    "ts": [None if i % 10 == 9 else START + datetime.timedelta(hours=i * i * 3) for i in range(N)],
})  # fmt: skip
QUERIES = [
    "select typeof(i) as a, typeof(k) as b, typeof(s) as c, typeof(f) as d, typeof(d) as e, typeof(b) as f from t",
    "select typeof(day) as a, typeof(ts) as b, typeof(i + 1) as c, typeof(i / 2) as d, typeof([k]) as e from t",
    "select typeof(1::int) as a, typeof(1.5) as b, typeof('a') as c, typeof([1::int]) as d, typeof(true) as "
    "e, typeof(1e0) as f",
    "select typeof(date '2024-01-01') as a, typeof(interval '1 day') as b, typeof(1::tinyint) as c",
    "select typeof('a'::blob) as a, typeof(time '10:00:00') as b, typeof(timestamptz '2024-01-01') as c",
    "select hex(s) as a, hex(i) as b, bin(k) as c, bin(s) as d, unhex(hex(s)) as e, unbin(bin(s)) as f from t",
    "select hex('abc') as a, hex(255) as b, hex(-1) as c, unhex('4d5') as d, from_hex('4D') as e, bin(0) as f",
    "select bit_count(i) as a, bit_count(k) as b, bit_count(k::smallint) as c, bit_count(5) as d from t",
    "select format('{} and {}', i, s) as a, format('{:.2f}', f) as b, format('{:>8}|{:05d}', s, k) as c from t",
    "select format('{}', ts) as a, format('{}', day) as b, format('{}', d) as c, format('{}', b) as d from t",
    "select format('{1} {0}', 'a', 'b') as a, format('{:,}', 1234567) as b, format('x') as c, format('{}', 2e0) as d",
    "select printf('%d-%s', i, s) as a, printf('%.2f', f) as b, printf('%5s|%05d', s, k) as c, printf('%x', 255) as d "
    "from t",
    "select make_timestamp(2000 + k, m, m, 3, 4, f) as a, make_timestamp(i * 1000000) as b from t where f < 60",
    "select make_time(m, 2, 3.5) as a, make_date(2000 + k, m, 1) as b, make_timestamp(2024, 1, 2, 3, 4, 60.0) "
    "as c from t",
    "select date_sub('month', day, date '2004-02-29') as a, datesub('day', day, date '2004-07-31') as b, "
    "date_sub('year', ts, day) as c, date_sub('hour', ts, timestamp '2004-06-30 12:00:00') as d from t",
    "select date_sub('quarter', ts, timestamp '2004-06-30 12:00:00') as a, date_sub('weeks', ts, day) as b, "
    "date_sub('decade', ts, day) as c, date_sub('month', ts, last_day(day)) as d from t",
    "select time_bucket(interval '1 month', day) as a, time_bucket(interval '3 months', ts) as b, "
    "time_bucket(interval '2 years', ts) as c, time_bucket(interval '7 months', ts, date '2024-03-05') as d from t",
    "select time_bucket(interval '2 days', ts) as a, time_bucket(interval '15 minutes', ts) as b, "
    "time_bucket(interval '2 days', ts, timestamp '2024-01-01') as c, time_bucket(interval '2 days', day) as d, "
    "time_bucket(interval '2 days', ts, interval '1 day') as e from t",
    "select weekday(day) as a, nanosecond(ts) as b from t",
    "select strftime('%Y', ts) as a, strftime(ts, '%Y-%m') as b, strftime('%d', day) as c from t",
]


FORMS = ["%f", "%.1f", "%12.3F|", "%-12.2f|", "%+f", "% .0f", "%#.0f", "%012.3f", "%d|%f", "%.f%%"]


@pytest.mark.parametrize("form", FORMS)
def test_q2_long_decimals_in_forms(form: str) -> None:
    """Long decimals are formatted like short ones, which are converted to floats."""
    for number in ("-12.5", "0.25", "1234.75"):
        values = ", ".join([*(["7"] * form.count("%d")), number])
        long, short = (
            qcore.sql(f"select printf('{form}', {values}::decimal({digits}, 2)) as x", {}).to_arrow()["x"].to_pylist()
            for digits in (38, 9)
        )
        assert long == short


@pytest.mark.parametrize("query", QUERIES)
def test_q2_as_duckdb(query: str) -> None:
    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    duck.register("t", T)
    actual = qcore.sql(query, {"t": T}, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("unhex('xyz')", "non-hexadecimal"),
        ("unbin('012')", "digits 0 and 1"),
        ("format('{} {}', i)", "does not fit the values"),
        ("printf('%d', s)", "does not fit the values"),
        ("printf('%*f', 9, 1.5::decimal(38, 1))", r"a width or precision of \* is not supported for a decimal"),
        ("make_time(25, 1, 1.0)", "hour must be in"),
        ("make_timestamp(2024, 13, 1, 1, 1, 1.0)", "month must be in"),
        ("date_sub('moon', day, day)", "unknown unit 'moon'"),
        ("time_bucket(interval '1 month 1 day', day)", "either months, or days and times"),
        ("hex(f)", "takes an integer, text or bytes"),
    ],
)
def test_q3_errors_name_the_fault(expression: str, message: str) -> None:
    with pytest.raises(qcore.QcoreError, match=message):
        qcore.sql(f"select {expression} as a from t where s > '' and day > date '2000-01-01'", {"t": T}).to_arrow()
