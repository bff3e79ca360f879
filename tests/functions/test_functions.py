"""Scalar functions in SQL against DuckDB. Functions computed by pyarrow are called in every way. SPEC Q3."""

from __future__ import annotations

import datetime
import runpy
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from expression_table import make_table

import qcore
from oracle import assert_same_rows
from qcore import col, lit
from qcore.expression.tree import call

DOCS = Path(__file__).parents[2] / "docs"

# qcore's text, and DuckDB's where it differs.
TEXT = [
    "s ~ 'a.*e' | regexp_matches(s, 'a.*e')",
    "s ~* 'MAIL|pad' | regexp_matches(s, 'mail|pad', 'i')",
    "s !~ '^[a-z]' | not regexp_matches(s, '^[a-z]')",
    "s !~* '^[a-z]+$' | not regexp_matches(s, '^[a-z]+$', 'i')",
    "s ~ left(r, 2) | regexp_matches(s, left(r, 2))",
    "s similar to '%(special/MAIL)%' | regexp_matches(s, '(special|MAIL)')",
    "s not similar to '_{4}' | not regexp_full_match(s, '.{4}')",
    "s similar to '[A-Z. ]+' | regexp_full_match(s, '[A-Z. ]+')",
    "s like '%!_score!%' escape '!'",
    "s like 'under!_s%' escape '!'",
    "s like '_nder!_score!%' escape '!'",
    "s not like '%!%' escape '!'",
    "s ilike 'UNDER!_score!%' escape '!'",
    "s like r escape '!'",
    "s ilike upper(r) escape '!'",
    "regexp_like(s, 'MAIL/x') | regexp_matches(s, 'MAIL|x')",
    "regexp_matches(s, 'mail', 'i')",
    "regexp_matches(s, '[é-]')",
    "(regexp_match(s, 's(.)e'))[1] | nullif(regexp_extract(s, 's(.)e', 1), '')",
    "regexp_replace(s, '[aeiou]', '<\\0>', 'g')",
    "regexp_replace(s, '(.)e', '\\1E')",
    "regexp_count(s, 'e') | length(s) - length(replace(s, 'e', ''))",
    "regexp_instr(s, 't') | strpos(s, 't')",
    "regexp_instr(s, 'größe') | strpos(s, 'größe')",
    "regexp_extract(s, '[a-z]+')",
    "regexp_extract(s, '([a-z]+) ([a-z]+)', 1)",
    "regexp_extract(s, '(?:[(]a)?([a-z]+) ([a-z]+)', 2)",
    "regexp_full_match(s, '[A-Z ]+')",
    "split_part(s, ' ', 2)",
    "split_part(s, 'e', -2)",
    "split_part(s, 'e', j64)",
    "lpad(s, j64, 'xé') | lpad(s, j64::int, 'xé')",
    "rpad(s, 5, 'x')",
    "repeat(s, j64)",
    "reverse(replace(s, 'é', 'e'))",
    "translate(s, 'aeé', 'xy')",
    "instr(s, 'a')",
    "position('a' in s)",
    "ascii(s)",
    "unicode(s)",
    "chr(j64 * 700) | chr((j64 * 700)::int)",
    "concat_ws(', ', s, r, 'x')",
    "concat_ws(r, s, s)",
    "md5(s)",
    "sha1(s)",
    "sha256(s)",
    "encode(digest(s, 'md5'), 'hex') | md5(s)",
    "base64(s) | base64(encode(s))",
    "to_hex(j64) | lower(to_hex(j64))",
    "overlay(s placing 'XX' from 2 for 1) | left(s, 1) || 'XX' || substring(s, 3)",
    "trim(both 'x' from s)",
    "bit_length(s)",
    "octet_length(s) | strlen(s)",
    "strlen(s)",
    "len(s)",
    "prefix(s, 'th')",
    "suffix(s, 'g')",
    "nvl2(s, 'a', 'b') | case when s is not null then 'a' else 'b' end",
]
NUMBERS = [
    "trunc(f)",
    "trunc(p)",
    "trunc(w)",
    "trunc(f, 2) | trunc(f * 100) / 100",
    "round(f, j64 % 3) | round(f, (j64 % 3)::int)",
    "round(p, j64 % 3) | case j64 % 3 when 0 then round(p, 0) when 1 then round(p, 1) when 2 then p end",
    "round(i64, -(j64 % 3)) | case j64 % 3 when 0 then i64 when 1 then round(i64, -1) when 2 then round(i64, -2) end",
    "log(j64)",
    "log(2, j64 + 1)",
    "log10(j64)",
    "log2(j64)",
    "ln(j64)",
    "exp(f)",
    "sqrt(abs(f))",
    "power(f, 2)",
    *[f"{name}(f)" for name in ("sin", "cos", "tan", "cot", "atan", "sinh", "cosh", "tanh", "asinh", "cbrt")],
    *[f"{name}(f / 100)" for name in ("asin", "acos", "atanh", "degrees", "radians")],
    "acosh(j64)",
    "atan2(f, f32) | atan2(f, f32::double)",
    "pi()",
    "gcd(i64, j64)",
    "lcm(i64, j64)",
    "factorial(j64 % 20) | factorial((j64 % 20)::int)",
    "isnan(g)",
    "isinf(g)",
    "isfinite(g)",
    "nanvl(g, 0) | case when isnan(g) then 0 else g end",
    "mod(i64, 7)",
    "mod(p, 7)",
    "sign(f)",
    "sign(i64)",
    "ceiling(f)",
    "i64 & 3",
    "xor(i64, 3)",
    "j64 << 2",
    "i64 >> 2",
    "greatest(i64, j64, 5)",
    "least(i64, f)",
]
TIMES = [
    *[f"extract({part} from t)" for part in ("isodow", "isoyear", "century", "decade", "millennium", "week", "epoch")],
    *[f"extract({part} from ts)" for part in ("millisecond", "microsecond", "epoch", "isoyear", "hour", "second")],
    *[f"date_trunc('{unit}', ts)" for unit in ("millennium", "century", "decade", "week", "second", "millisecond")],
    "date_part('dow', t)",
    "date_trunc('decade', t)",
    "strftime(ts, '%Y/%m/%d %H:%M:%S %j')",
    "strftime(t, '%a %-d.%-m.%y %f')",
    "to_char(ts, '%Y/%m/%d %H') | strftime(ts, '%Y/%m/%d %H')",
    "strptime('2020-01-0' || (j64 % 9 + 1)::varchar, '%Y-%m-%d')",
    "try_strptime(s, '%Y-%m-%d')",
    "to_timestamp(j64) | make_timestamp(j64 * 1000000)",
    "to_timestamp(f) | make_timestamp((f * 1000000)::bigint)",
    "to_timestamp_millis(j64) | make_timestamp(j64 * 1000)",
    "from_unixtime(j64) | make_timestamp(j64 * 1000000)",
    "to_unixtime(ts) | floor(epoch(ts))::bigint",
    "make_date(2020, 1, j64 % 28 + 1)",
    *[f"date_diff('{unit}', t, u)" for unit in ("year", "quarter", "month", "week", "day", "decade", "century")],
    *[
        f"date_diff('{unit}', u, ts) | date_diff('{unit}', u::timestamp, ts)"
        for unit in ("month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
    ],
    "datediff(t, u) | date_diff('day', u, t)",
    "date_add(ts, interval '1 month') | ts + interval 1 month",
    "date_sub(t, 3) | t - 3",
    "t + interval '90 minutes'",
    "t - interval '1 day' | (t - interval 1 day)::date",
    "add_months(t, 2)::timestamp | t + interval 2 month",
    "last_day(t)",
    "age(ts, u) | age(ts, u::timestamp)",
    "age(u, ts) | age(u::timestamp, ts)",
    "monthname(t)",
    "dayname(t)",
    *[f"{name}(t)" for name in ("year", "quarter", "dayofweek", "dayofyear", "weekofyear", "isodow", "dayofmonth")],
    "hour(ts)",
    "ts + to_hours(j64)",
    "ts - to_months(j64) | ts - to_months(j64::int)",
    "t + j64::int",
    "t - j64 | t - j64::int",
    "ts::time + interval '20 hours'",
    "extract(day from ts - timestamp '2000-01-01') | datepart('day', ts - timestamp '2000-01-01')",
    "extract(epoch from ts - timestamp '2000-01-01') | epoch(ts - timestamp '2000-01-01')",
    "time_bucket(interval '15 minutes', ts)",
    "date_bin(interval '15 minutes', ts) | time_bucket(interval 15 minute, ts, timestamp '1970-01-01')",
]
# ('/' in a pattern stands for '|', which separates qcore's text from DuckDB's.)
GROUPS = {"text": TEXT, "numbers": NUMBERS, "times": TIMES}


def both(cases: Sequence[str]) -> tuple[str, str]:
    """One query with all cases as columns, for qcore and for DuckDB."""
    pairs = [(case.partition(" | ")[0], case.partition(" | ")[2]) for case in cases]
    ours = [(ours.replace("/MAIL", "|MAIL").replace("MAIL/", "MAIL|"), theirs or ours) for ours, theirs in pairs]
    texts = [", ".join(f"{pair[side]} as x{i}" for i, pair in enumerate(ours)) for side in (0, 1)]
    return f"select {texts[0]} from t", f"select {texts[1]} from t"


@pytest.mark.parametrize("n_rows", [1, 2049, 5000])
@pytest.mark.parametrize("group", GROUPS)
def test_as_duckdb(group: str, n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    table = pa.Table.from_batches([make_table(n_rows)])
    duck.register("t", table)
    ours, theirs = both(GROUPS[group])
    actual, expected = qcore.sql(ours, {"t": table}, threads=1).to_arrow(), duck.sql(theirs).to_arrow_table()
    for i, case in enumerate(GROUPS[group]):
        try:
            assert_same_rows(actual.select([i]), expected.select([i]), ordered=True)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from None


def test_or_of_bits(duck: duckdb.DuckDBPyConnection) -> None:
    table = pa.Table.from_batches([make_table(100)])
    duck.register("t", table)
    query = "select i64 | 3 from t"
    assert_same_rows(qcore.sql(query, {"t": table}).to_arrow(), duck.sql(query).to_arrow_table())


# --- functions computed by pyarrow, wherever expressions stand ---


@pytest.mark.parametrize(
    "query",
    [
        "select i64, regexp_replace(s, '[aeiou]', '', 'g') x, regexp_replace(s, '[aeiou]', '', 'g') || r as y from t",
        "select i64 from t where regexp_matches(s, 'e.*a') and i64 > 0",
        "select i64 from t where i64 % 50 = 0 and regexp_matches(s, 'e.*a')",
        "select s from t where regexp_matches(translate(s, 'e', 'a'), 'aa/pa')",
        "select regexp_extract(s, '[a-z]+') as k, count(*), sum(strlen(md5(r))) from t group by 1",
        "select regexp_extract(s, '[a-z]+') as k, max(i64) from t where i32 > 900 group by 1",
        "select max(translate(s, 'e', 'a')) from t where i32 > 0",
        "select a.s, b.r from t a join t b on a.i64 = b.i64 and regexp_matches(a.s || b.r, 'e.*a')",
        "select s from t order by translate(s, 'aeiou', 'uoiea'), i64 limit 10",
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_arrow_functions_everywhere(query: str, threads: int, duck: duckdb.DuckDBPyConnection) -> None:
    batch = make_table(5000)
    table = pa.Table.from_batches([batch.slice(0, 100), batch.slice(100, 0), batch.slice(100)])
    duck.register("t", table)
    query = query.replace("aa/pa", "aa|pa")
    assert_same_rows(qcore.sql(query, {"t": table}, threads=threads).to_arrow(), duck.sql(query).to_arrow_table())


@pytest.mark.sweep
def test_rows_not_taken_may_fail() -> None:
    """CASE does not compute values that it does not choose, so they do not fail. Also below an arrow function."""
    table = pa.table({"s": ["61", "xyz", None, "62"] * 1000, "n": [1, 2, 3, 4] * 1000})
    query = """select case when n % 3 = 1 then encode(decode(s, 'hex'), 'base64') else s end as a,
                      case when n % 3 = 1 then to_hex(cast(s as bigint)) end as b from t"""
    assert qcore.sql(query, {"t": table}).to_arrow().slice(0, 4).to_pylist() == [
        {"a": "YQ==", "b": "3d"},
        {"a": "xyz", "b": None},
        {"a": None, "b": None},
        {"a": "Yg==", "b": "3e"},
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select decode(s, 'hex') as x from t", r"decode\('zz', 'hex'\)"),
        ("select strptime(s, '%Y') from t", r"strptime\('61', '%Y'\)"),
        ("select to_hex(cast(s as bigint)) from t", "cannot cast 'zz' of type string to int64"),
        ("select n from t where decode(s, 'hex') is not null", r"decode\('zz', 'hex'\)"),
        ("select regexp_matches(s, '(a') from t", r"regexp_like\('61', '\(a'\).*missing"),
        ("select regexp_extract(s, 'a', 3) from t", "there is no group 3"),
        ("select regexp_matches(s, 'a', 'q') from t", "unknown flag 'q'"),
        ("select s ~ r from t", "missing"),
        ("select encode(s, 'rot13') from t", "unknown encoding 'rot13'"),
        ("select chr(n - 1) from t", r"chr is not defined for 0"),
        ("select s like 'a!' escape '!' from t", "ends with its escape character"),
        ("select split_part(s, ',', n - 1) from t", "split_part is not defined"),
        ("select repeat(s, 1000000000) from t", "repeat is not defined"),
        ("select acos(n + 1) from t", "acos is not defined for 2.0"),
        ("select factorial(n + 20) from t", r"factorial\(21\) overflows int64"),
        ("select make_date(2023, 2, 28 + n) from t", "make_date is not defined for 2023, 2, 29"),
        ("select n << 63 from t", "overflows int64"),
    ],
)
def test_errors_name_function_and_value(query: str, message: str) -> None:
    table = pa.table({"s": ["61", "zz"], "r": ["a", "(a"], "n": [1, 1]})
    with pytest.raises(qcore.QcoreError, match=message):
        qcore.sql(query, {"t": table}).to_arrow()


def test_power_sign_in_text() -> None:
    text = pa.table({"s": ["a^b"]})
    assert qcore.sql("select s = 'a^b' as x from t -- ^", {"t": text}).to_arrow().to_pylist() == [{"x": True}]


def test_calls_are_counted() -> None:
    """Calls of functions that pyarrow computes are counted in the stats of their operator."""
    table = pa.table({"s": ["abc", "def"] * 2000})
    result = qcore.sql("select regexp_replace(s, 'b', 'x') as x, upper(s) as y from t", {"t": table}, threads=1)
    result.to_arrow()
    counted = [counters for pipeline in result.stats()["pipelines"] for counters in pipeline["operators"]]
    assert sum(counters["arrow_rows"] for counters in counted) == 4000
    assert sum(counters["arrow_calls"] for counters in counted) == 1
    assert sum(counters["arrow_wall_nanos"] for counters in counted) > 0
    assert "pyarrow ms" in result.profile()
    assert "pyarrow ms" in result.explain(analyze=True)
    native = qcore.sql("select upper(s) as y from t", {"t": table})
    native.to_arrow()
    assert "pyarrow ms" not in native.profile()
    assert all(
        counters["arrow_calls"] == 0 for pipeline in native.stats()["pipelines"] for counters in pipeline["operators"]
    )


def test_in_expressions_of_python() -> None:
    plan = (
        qcore.PlanBuilder()
        .values(pa.table({"s": ["a1", "b22", None]}))
        .project({"x": call("regexp_extract", col("s"), lit("[0-9]+"))})
        .build()
    )
    assert qcore.Session().execute(plan).to_arrow().column("x").to_pylist() == ["1", "22", None]


def test_the_page_of_functions_is_current() -> None:
    written = runpy.run_path(str(DOCS / "write_functions.py"))["page"]()
    assert (DOCS / "FUNCTIONS.md").read_text() == written, "run python docs/write_functions.py"
    rows = [line.split(" | ") for line in written.splitlines() if line.startswith("| `")]
    assert all(cell.strip(" |") for row in rows for cell in row), "a function does not say what it takes and gives"


@pytest.mark.parametrize(
    "expression",
    ["substring(s, a, n)", "substring(s, a)", "left(s, a)", "right(s, a)", "repeat(s, a)",
     "list_slice([1, 2, 3], a, n)", "list_extract([1, 2, 3], a)"],
)  # fmt: skip
def test_places_and_counts_of_any_size(expression: str, duck: duckdb.DuckDBPyConnection) -> None:
    """Positions before the first and after the last character, and counts of zero or below."""
    rows = [(s, a, n) for s in ("", "x", "abc", "naïve") for a in range(-7, 8) for n in (-5, -2, -1, 0, 1, 2, 9, 2**31)]
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate("san")})
    duck.register("t", table)
    session = qcore.Session(threads=1, dialect="duckdb")
    session.register("t", table)
    query = f"select s, a, n, {expression} as x from t"
    if "2, 3], a" in expression:
        query += " where n < 10"
    assert_same_rows(session.sql(query).to_arrow(), duck.sql(query))


def test_a_date_and_a_time_of_day(duck: duckdb.DuckDBPyConnection) -> None:
    """A date plus a time, for times of every unit."""
    days, clock = [datetime.date(2024, 2, 29), None], [datetime.time(23, 59, 58, 123000), datetime.time(1)]
    table = pa.table({
        "day": days, "us": pa.array(clock, pa.time64("us")), "ms": pa.array(clock, pa.time32("ms")),
        "ns": pa.array(clock, pa.time64("ns")),
    })  # fmt: skip
    duck.register("t", table.drop_columns(["ns"]))
    session = qcore.Session(threads=1)
    session.register("t", table)
    expected = duck.sql("select day + us as x from t")
    for column in ("us", "ms", "ns"):
        assert_same_rows(session.sql(f"select day + {column} as x from t").to_arrow(), expected)
        assert_same_rows(session.sql(f"select {column} + day as x from t").to_arrow(), expected)
