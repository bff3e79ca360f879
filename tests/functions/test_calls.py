"""Calls by the names of functions and operators in each dialect, against DuckDB. SPEC Q1, Q3."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from qcore.expression.bound import Bound
from qcore.functions.calls import bind_call, find, is_function, is_moment, is_volatile, names
from qcore.functions.casts import bind_case, bind_cast, bind_in
from qcore.functions.dialect import DIALECTS, Dialect
from qcore.functions.lambdas import bind_comprehension, bind_lambda
from qcore.functions.tables.lists import all_of, any_of
from qcore.functions.typed import constant as c
from qcore.lowering.compile import compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account

ROW = pa.record_batch([pa.array([True])], names=["row"])
DAY, STAMP = c(dt.date(2024, 1, 31)), c(dt.datetime(2024, 1, 31, 10, 30))
HUGE = c(Decimal(12345678901234567890123), pa.decimal128(38, 0))


def span(months: int = 0, days: int = 0, seconds: float = 0) -> Bound:
    return c(pa.MonthDayNano([months, days, round(seconds * 1e9)]), pa.month_day_nano_interval())


def ints(*values: int | None) -> Bound:
    return c(list(values), pa.list_(pa.int64()))


def struct(**values: int) -> Bound:
    return c(values, pa.struct([(name, pa.int64()) for name in values]))


def value_of(bound: Bound) -> Any:
    """The value that the engine computes. It has the type that was bound."""
    program = compile_projection([("x", bound.expr)], ROW.schema)
    column = pa.record_batch(Evaluator(program, Account()).project_batch(ROW)).column(0)
    assert column.type == bound.type or pa.types.is_null(bound.type)
    return column[0].as_py()


def bound(name: str, *arguments: Any, dialect: str = "qcore") -> Bound:
    given = [argument if isinstance(argument, Bound) else c(argument) for argument in arguments]
    return bind_call(name, given, Dialect.find(dialect))


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


def answer(oracle: duckdb.DuckDBPyConnection, query: str) -> Any:
    return oracle.execute(query).fetchall()[0][0]


def comparable(value: Any) -> Any:
    """Numbers without their types, intervals as DuckDB returns them, maps as dicts."""
    if isinstance(value, pa.MonthDayNano):
        return dt.timedelta(days=value[0] * 30 + value[1], microseconds=value[2] // 1000)
    if isinstance(value, list) and value and all(isinstance(part, tuple) for part in value):
        return dict(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    return round(float(value), 9) if isinstance(value, (Decimal, float)) else value


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("7 + 2", ("+", 7, 2)),
    ("7 // 2", ("//", 7, 2)),
    ("-7 // 2", ("//", -7, 2)),
    ("7.5 // 2", ("//", c(Decimal("7.5")), 2)),
    ("12345678901234567890123::hugeint // 4", ("//", HUGE, 4)),
    ("-12345678901234567890123::hugeint // 4", ("//", bound("-", HUGE), 4)),
    ("7 % -2", ("%", 7, -2)),
    ("-5", ("-", 5)),
    ("+5", ("+", 5)),
    ("~5", ("~", 5)),
    ("5 & 3", ("&", 5, 3)),
    ("5 | 3", ("|", 5, 3)),
    ("5 << 3", ("<<", 5, 3)),
    ("2 ** 3", ("**", 2, 3)),
    ("2 ^ 3", ("^", 2, 3)),
    ("date '2024-01-31' + 1", ("+", DAY, 1)),
    ("(date '2024-01-31' + interval 1 month)::date", ("+", DAY, span(1))),
    ("date '2024-01-31' + interval 1 hour", ("+", DAY, span(0, 0, 3600))),
    ("date '2024-01-31' - date '2024-01-01'", ("-", DAY, c(dt.date(2024, 1, 1)))),
    ("date '2024-01-31' + time '10:00:01'", ("+", DAY, c(dt.time(10, 0, 1)))),
    ("(timestamp '2024-01-31 10:30' - timestamp '2024-01-01') / 2",
     ("/", bound("-", STAMP, c(dt.datetime(2024, 1, 1))), 2)),
    ("(timestamp '2024-01-31 10:30' - timestamp '2024-01-01') > interval 30 days",
     (">", bound("-", STAMP, c(dt.datetime(2024, 1, 1))), span(0, 30))),
    ("interval 1 day * 1.5", ("*", span(0, 1), c(Decimal("1.5")))),
    ("interval 3 days / 2", ("/", span(0, 3), 2)),
    ("'a' || 1", ("||", "a", 1)),
    ("'a' || null", ("||", "a", None)),
    ("'a'::blob || 'b'::blob", ("||", b"a", b"b")),
    ("[1, 2] || [3]", ("||", ints(1, 2), ints(3))),
    ("list_append([1, 2], 3)", ("||", ints(1, 2), 3)),
    ("list_prepend(1, [2])", ("||", 1, ints(2))),
    ("concat('a', null, 1)", ("concat", "a", None, 1)),
    ("concat(null)", ("concat", None)),
    ("concat([1], [2])", ("concat", ints(1), ints(2))),
    ("1 is distinct from null", ("is_distinct_from", 1, None)),
    ("5 between 1 and 7", ("between", 5, 1, 7)),
    ("'abc' like 'a%'", ("like", "abc", "a%")),
    ("'a%c' like 'a!%c' escape '!'", ("like", "a%c", "a!%c", "!")),
    ("'abc' not ilike 'A%'", ("not_ilike", "abc", "A%")),
    ("'abc' glob 'a[!x]?'", ("glob", "abc", "a[!x]?")),
    ("'abc' glob 'a[b-d]'", ("glob", "abc", "a[b-d]")),
    ("'a*c' glob 'a\\*c'", ("glob", "a*c", "a\\*c")),
    ("log(100)", ("log", 100)),
    ("log(2, 8)", ("log", 2, 8)),
    ("ifnull(date '2024-01-31', null)", ("ifnull", DAY, None)),
    ("ifnull(null, 3)", ("ifnull", None, 3)),
    ("if(true, 1, 2.5)", ("if", True, 1, c(Decimal("2.5")))),
    ("constant_or_null(1, null)", ("constant_or_null", 1, None)),
    ("typeof(now())", ("typeof", c(dt.datetime.now(dt.UTC)))),
    ("typeof(date '2024-01-31')", ("typeof", DAY)),
    ("greatest_common_divisor(12, 18)", ("greatest_common_divisor", 12, 18)),
    ("isinf('inf'::double)", ("isinf", math.inf)),
    ("pi()", ("pi",)),
    ("ucase('a')", ("ucase", "a")),
    ("LEN('abc')", ("LEN", "abc")),
    ("len([1, 2])", ("len", ints(1, 2))),
    ("strlen('größe')", ("strlen", "größe")),
    ("unicode('')", ("unicode", "")),
    ("base64('abc'::blob)", ("base64", b"abc")),
    ("encode('ö')", ("encode", "ö")),
    ("decode('a'::blob)", ("decode", b"a")),
    ("array_extract('abc', -1)", ("array_extract", "abc", -1)),
    ("'abcdef'[2:3]", ("[:]", "abcdef", 2, 3)),
    ("[1, 2, 3][2]", ("[]", ints(1, 2, 3), 2)),
    ("[1, 2, 3, 4, 5][1:5:2]", ("[:]", ints(1, 2, 3, 4, 5), 1, 5, 2)),
    ("{'a': 1, 'b': 2}['b']", ("[]", struct(a=1, b=2), "b")),
    ("struct_extract(row(7, 8), 2)", ("struct_extract", bound("row", 7, 8), 2)),
    ("map {1: 'a'}[1]", ("[]", c([(1, "a")], pa.map_(pa.int64(), pa.string())), 1)),
    ("extract('dow' from date '2024-01-31')", ("extract", "dow", DAY)),
    ("date_part('epoch', interval '2 years')", ("date_part", "epoch", span(24))),
    ("epoch(interval '25 months 3 days')", ("epoch", span(25, 3))),
    ("epoch(interval '-25 months')", ("epoch", span(-25))),
    ("epoch_ms(timestamp '2024-01-31 10:30')", ("epoch_ms", STAMP)),
    ("date_trunc('month', date '2024-01-31')", ("date_trunc", "month", DAY)),
    ("'xabcx' ~ 'b'", ("~", "xabcx", "b")),
    ("dayofmonth(date '2024-01-31')", ("dayofmonth", DAY)),
    ("yearweek(date '2024-01-31')", ("yearweek", DAY)),
    ("julian(date '2024-01-31')", ("julian", DAY)),
    ("monthname(date '2024-01-31')", ("monthname", DAY)),
    ("date_diff('month', date '2024-01-31', date '2025-01-01')", ("date_diff", "month", DAY, c(dt.date(2025, 1, 1)))),
    ("date_sub('month', date '2024-01-31', date '2025-01-01')", ("date_sub", "month", DAY, c(dt.date(2025, 1, 1)))),
    ("date_add(date '2024-01-31', interval 1 hour)", ("date_add", DAY, span(0, 0, 3600))),
    ("time_bucket(interval 7 days, date '2024-01-31')", ("time_bucket", span(0, 7), DAY)),
    ("time_bucket(interval 1 month, timestamp '2024-01-31 10:30')", ("time_bucket", span(1), STAMP)),
    ("strftime('%Y', date '2024-01-31')", ("strftime", "%Y", DAY)),
    ("strftime(date '2024-01-31', '%Y')", ("strftime", DAY, "%Y")),
    ("to_days(3)", ("to_days", 3)),
    ("make_timestamp(2024, 1, 31, 10, 30, 1.5)", ("make_timestamp", 2024, 1, 31, 10, 30, 1.5)),
    ("make_timestamp(5)", ("make_timestamp", 5)),
    ("make_timestamptz(2024, 1, 31, 10, 30, 1.5, 'Europe/Paris')",
     ("make_timestamptz", 2024, 1, 31, 10, 30, 1.5, "Europe/Paris")),
    ("age(timestamp '2024-01-31 10:30', date '2024-01-31')", ("age", STAMP, DAY)),
    ("list_contains([1, 2], 2)", ("list_contains", ints(1, 2), 2)),
    ("list_sort([3, null, 1], 'desc', 'nulls first')", ("list_sort", ints(3, None, 1), "desc", "nulls first")),
    ("list_reverse_sort([3, 4, 1])", ("list_reverse_sort", ints(3, 4, 1))),
    ("list_select([1, 2, 3], [3, 1])", ("list_select", ints(1, 2, 3), ints(3, 1))),
    ("list_where([1, 2], [true, false])", ("list_where", ints(1, 2), c([True, False], pa.list_(pa.bool_())))),
    ("list_aggregate([1, 3], 'mean')", ("list_aggregate", ints(1, 3), "mean")),
    ("list_bool_and([true, null, false])", ("list_bool_and", c([True, None, False], pa.list_(pa.bool_())))),
    ("list_bool_or([true, null, false])", ("list_bool_or", c([True, None, False], pa.list_(pa.bool_())))),
    ("list_bool_or([]::bool[])", ("list_bool_or", c([], pa.list_(pa.bool_())))),
    ("array_push_front([1], 0)", ("array_push_front", ints(1), 0)),
    ("array_pop_back([1, 2])", ("array_pop_back", ints(1, 2))),
    ("list_last([1, 2])", ("list_last", ints(1, 2))),
    ("struct_insert({'a': 1}, b := 2)", ("struct_insert", struct(a=1), "b", 2)),
    ("struct_update({'a': 1, 'b': 2}, a := 'x')", ("struct_update", struct(a=1, b=2), "a", "x")),
    ("map_from_entries([{'k': 1, 'v': 2}])",
     ("map_from_entries", c([{"k": 1, "v": 2}], pa.list_(pa.struct([("k", pa.int64()), ("v", pa.int64())]))))),
    ("map([1, 2], [3, 4])", ("map", ints(1, 2), ints(3, 4))),
    ("map_contains(map {1: 2}, 1)", ("map_contains", c([(1, 2)], pa.map_(pa.int64(), pa.int64())), 1)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "written"), CALLS, ids=[text for text, _ in CALLS])
def test_calls_give_what_duckdb_gives(text: str, written: tuple[Any, ...], oracle: duckdb.DuckDBPyConnection) -> None:
    assert comparable(value_of(bound(*written))) == comparable(answer(oracle, f"select {text}"))


SPARK: list[tuple[tuple[Any, ...], Any]] = [
    (("/", 7, 2), 3.5),
    (("^", 7, 2), 5),
    (("log", math.e), 1.0),
    (("concat", "a", None), None),
    (("pmod", -7, 3), 2),
    (("locate", "b", "abcb", 3), 4),
    (("locate", "b", "abcb"), 2),
    (("strpos", "abc", "b"), 2),
    (("regexp_replace", "abcb", "(b)", "$1x"), "abxcbx"),
    (("regexp_extract", "abc", "a(b)"), "b"),
    (("trunc", DAY, "MM"), dt.date(2024, 1, 1)),
    (("trunc", -2.7), -2.0),
    (("next_day", DAY, "MO"), dt.date(2024, 2, 5)),
    (("date_add", DAY, 1), dt.date(2024, 2, 1)),
    (("months_between", "2024-02-29", "2024-01-15"), 1.4516129),
    (("unix_timestamp", "2024-01-01"), 1704067200),
    (("from_unixtime", 0), "1970-01-01 00:00:00"),
    (("date_format", STAMP, "yyyy-MM"), "2024-01"),
    (("weekday", DAY), 2),
    (("dayofweek", DAY), 4),
    (("slice", ints(1, 2, 3), 2, 2), [2, 3]),
    (("slice", ints(1, 2, 3), -2, 2), [2, 3]),
    (("sequence", 3, 1), [3, 2, 1]),
    (("sort_array", ints(1, None, 2), False), [2, 1, None]),
    (("element_at", ints(1, 2), 2), 2),
    (("array_position", ints(1, 2), 3), 0),
    (("int", 2.7), 2),
    (("ln", 0), None),
]


@pytest.mark.parametrize(("written", "expected"), SPARK, ids=[str(written[0]) for written, _ in SPARK])
def test_calls_in_spark(written: tuple[Any, ...], expected: Any) -> None:
    assert value_of(bound(*written, dialect="spark")) == expected


def test_the_type_of_a_date_plus_an_interval() -> None:
    """A date plus a constant of whole days is a date. Plus any other interval it is a timestamp."""
    date, stamp = pa.date32(), pa.timestamp("us")
    assert bound("+", DAY, span(1)).type == date
    assert bound("+", DAY, bound("*", span(0, 1), 3)).type == date
    assert bound("-", DAY, bound("+", span(0, 1), span(1))).type == date
    assert bound("+", DAY, bound("*", span(0, 1), 1.5)).type == stamp
    assert bound("+", DAY, bound("/", span(0, 1), 2)).type == stamp
    assert bound("+", DAY, span(0, 0, 1)).type == stamp


def test_integers_beside_uint64() -> None:
    unsigned, signed = c(7, pa.uint64()), bind_cast(c(-2), pa.int64())
    assert bound("+", unsigned, 1).type == pa.uint64()
    assert value_of(bound("*", unsigned, bound("-", 2))) == -14
    assert pa.types.is_decimal(bound("+", unsigned, signed).type)


def test_every_dialect_builds_each_of_its_names() -> None:
    for dialect in DIALECTS.values():
        for name in names(dialect.syntax):
            assert is_function(name, dialect)
            assert is_moment(name) or is_volatile(name) or find(name, dialect.syntax) is not None, name


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("uper", ["a"], "unknown function 'uper' in the query; did you mean 'upper' or 'power'"),
        ("upper", [5], "upper.*it takes text"),
        ("ucase", [], "upper takes 1 argument"),
        ("if", [True, 1], "if takes 3 arguments, not 2"),
        ("extract", ["fortnight", DAY], "unknown part 'fortnight'"),
        ("||", [b"a", "b"], r"\|\| of binary and string is not defined"),
        ("epoch_ms", [5], r"epoch_ms takes a date or a timestamp; use make_timestamp_ms\(x\)"),
        ("struct_insert", [struct(a=1), "A", 2], "has a field 'A' already"),
        ("map", [5, 6], "map takes lists"),
        ("glob", ["a", bound("upper", "a")], "text literal as its pattern"),
    ],
)
def test_calls_that_are_refused(name: str, arguments: list[Any], message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        bound(name, *arguments)


def test_casts() -> None:
    spark = Dialect.find("spark")
    assert value_of(bind_cast(c(2.7), pa.int64())) == 3
    assert value_of(bind_cast(c(2.7), pa.int64(), spark)) == 2
    assert value_of(bind_cast(c("x"), pa.int64(), or_null=True)) is None
    assert value_of(bind_cast(c(None), pa.date32())) is None
    paris = bind_cast(c("2024-01-01 00:00"), pa.timestamp("us", "Europe/Paris"))
    assert bind_cast(paris, pa.timestamp("us", "UTC")).type == paris.type
    for value, to, message in (
        (c(5), pa.timestamp("us"), "an integer cannot be cast to a time"),
        (STAMP, pa.int64(), "a timestamp cannot be cast to an integer"),
        (ints(1), pa.int64(), r"there is no cast from BIGINT\[\] to BIGINT"),
    ):
        with pytest.raises(qcore.PlanError, match=message):
            bind_cast(value, to)


def test_case_and_in() -> None:
    assert value_of(bind_case([(c(False), c(1))], c(Decimal("2.5")))) == Decimal("2.5")
    assert bind_case([(c(False), c(None))], c(None)).type == pa.null()
    with pytest.raises(qcore.PlanError, match="the values of CASE have the types BIGINT, BOOLEAN"):
        bind_case([(c(False), c(1))], c(True))
    assert value_of(bind_in(c(2), [c(1), c(2)])) is True
    assert value_of(bind_in(c(3), [c(1), c(None)])) is None
    assert value_of(bind_in(DAY, [c("2024-01-31")])) is True
    assert value_of(bind_in(span(1), [span(0, 1), span(0, 30)])) is True


@pytest.mark.parametrize(
    ("operator", "symbol"),
    [
        ("equal", "="),
        ("not_equal", "<>"),
        ("less", "<"),
        ("less_equal", "<="),
        ("greater", ">"),
        ("greater_equal", ">="),
    ],
)
@pytest.mark.parametrize("values", ["[1, 2, 3, null]", "[4, 4]", "[null]", "[]::int[]", "[5, 1]"])
def test_comparisons_with_any_and_all_of_a_list(
    operator: str, symbol: str, values: str, oracle: duckdb.DuckDBPyConnection
) -> None:
    """They give the same as ANY and ALL of the rows of a subquery."""
    held = answer(oracle, f"select {values}")
    for quantifier, build in (("any", any_of), ("all", all_of)):
        query = f"select 4 {symbol} {quantifier} (select unnest({values}::int[]))"
        assert value_of(build(operator, c(4), ints(*held))) == answer(oracle, query), query


def test_lambdas() -> None:
    fresh = iter(f"$e{number}" for number in range(100))

    def new() -> str:
        return next(fresh)

    lists = ints(1, 2, 3)
    assert value_of(bind_lambda("apply", lists, 1, lambda v: bound("+", v[0], 1), new)) == [2, 3, 4]
    assert value_of(bind_lambda("list_transform", lists, 2, lambda v: bound("*", *v), new)) == [1, 4, 9]
    assert value_of(bind_lambda("filter", lists, 2, lambda v: bound(">", v[1], 1), new)) == [2, 3]
    assert value_of(bind_lambda("list_reduce", lists, 2, lambda v: bound("+", *v), new)) == 6
    assert value_of(bind_lambda("list_reduce", lists, 2, lambda v: bound("+", *v), new, c(0.5))) == 6.5
    found = bind_comprehension(lists, 2, lambda v: bound(">", v[1], 1), lambda v: bound("*", *v), new)
    assert value_of(found) == [4, 9]
    with pytest.raises(qcore.PlanError, match="it takes a list, not int64"):
        bind_lambda("apply", c(1), 1, lambda v: v[0], new)
    with pytest.raises(qcore.PlanError, match="takes a lambda of two parameters"):
        bind_lambda("list_reduce", lists, 3, lambda v: v[0], new)
