"""Functions of Substrait's standard extensions, as plans of others than DataFusion name them (SPEC Q1, B3): with their
words and options, and nulls as the standard has them. What they mean is written beside them as DuckDB's SQL.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from substrait.plan_pb2 import Plan

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

T = pa.table({
    "i": pa.array([1, -7, None, 6], pa.int64()),
    "j": pa.array([2, None, 3, 4], pa.int64()),
    "s": ["abcab", "x", None, "a.b.a"],
    "p": [True, False, None, True],
    "q": [True, None, False, False],
    "ts": [datetime.datetime(2024, 2, 29, 23, 59, 58, 123456), datetime.datetime(1999, 12, 31), None,
           datetime.datetime(2023, 1, 1, 0, 0, 1)],
    "f": [0.5, math.nan, None, 2.0],
    "l": [[0.5, math.nan], [math.nan], [1.0], None],
    "r": [{"a": 1, "b": {"c": "x"}}, None, {"a": 3, "b": None}, {"a": None, "b": {"c": "y"}}],
    "m": pa.array([[("k", 1)], [], None, [("z", 9), ("k", 4)]], pa.map_(pa.string(), pa.int64())),
})  # fmt: skip
TYPES: dict[str, dict[str, Any]] = {
    "i": {"i64": {}}, "j": {"i64": {}}, "s": {"string": {}}, "p": {"bool": {}}, "q": {"bool": {}},
    "ts": {"precision_timestamp": {"precision": 6}}, "f": {"fp64": {}}, "l": {"list": {"type": {"fp64": {}}}},
    "r": {"struct": {"types": [{"i64": {}}, {"struct": {"types": [{"string": {}}]}}]}},
    "m": {"map": {"key": {"string": {}}, "value": {"i64": {}}}},
}  # fmt: skip


def field(name: str, **child: Any) -> dict[str, Any]:
    reference: dict[str, Any] = {"field": list(TYPES).index(name)}
    if child:
        reference["child"] = child
    return {"selection": {"direct_reference": {"struct_field": reference}, "root_reference": {}}}


def write_argument(value: Any) -> dict[str, Any]:
    """A column by its name after $, an enum value after :, or a constant."""
    if isinstance(value, dict):
        return {"value": value}
    if isinstance(value, str) and value[0] == "$":
        return {"value": field(value[1:])}
    if isinstance(value, str) and value[0] == ":":
        return {"enum": value[1:]}
    return {"value": {"literal": {"i64" if isinstance(value, int) else "string": value}}}


def plan_of(expression: dict[str, Any], name: str, aggregate: bool = False) -> bytes:
    names = [*TYPES]
    names[names.index("r") : names.index("r") + 1] = ["r", "a", "b", "c"]
    scan = {"read": {"base_schema": {"names": names, "struct": {"types": list(TYPES.values())}},
                     "named_table": {"names": ["t"]}}}  # fmt: skip
    extension = {"extension_function": {"function_anchor": 0, "name": name, "extension_urn_reference": 1}}
    rel: dict[str, Any] = {"project": {"input": scan, "expressions": [expression],
                                       "common": {"emit": {"output_mapping": [len(TYPES)]}}}}  # fmt: skip
    if aggregate:
        rel = {"aggregate": {"input": scan, "groupings": [{}], "measures": [{"measure": expression}]}}
    urns = [{"extension_urn_anchor": 1, "urn": "extension:io.substrait:functions_string"}]
    made = Plan(extension_urns=urns, extensions=[extension], relations=[{"root": {"input": rel, "names": ["x"]}}])
    return bytes(made.SerializeToString())


def make_call(*arguments: Any, **options: str) -> dict[str, Any]:
    made = [{"name": option, "preference": preferences.split()} for option, preferences in options.items()]
    return {"function_reference": 0, "arguments": [write_argument(argument) for argument in arguments], "options": made}


def run(encoded: bytes) -> pa.Table:
    session = qcore.Session(threads=1)
    session.register("t", T)
    return session.substrait(encoded).to_arrow()


UTC = ("$ts", "Europe/Berlin")
LOCAL = "(ts at time zone 'UTC' at time zone 'Europe/Berlin')"
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("xor:bool_bool", make_call("$p", "$q"), "p <> q"),
    ("and_not:bool_bool", make_call("$p", "$q"), "p and not q"),
    ("bitwise_not:i64", make_call("$i"), "~i"),
    ("shift_right:i64_i64", make_call("$j", 1), "j >> 1"),
    ("least:any", make_call("$i", "$j"), "case when i is not null and j is not null then least(i, j) end"),
    ("greatest:any", make_call("$i", "$j"), "case when i is not null and j is not null then greatest(i, j) end"),
    ("least_skip_null:any", make_call("$i", "$j"), "least(i, j)"),
    ("greatest_skip_null:any", make_call("$i", "$j"), "greatest(i, j)"),
    ("divide:i64_i64", make_call("$i", "$j", overflow="ERROR"), "i // j"),
    ("index_in:any_list", make_call("$f", "$l"), "list_position(l, f) - 1"),
    ("concat:str", make_call("$s", "-", "$s", null_handling="ACCEPT_NULLS"), "s || '-' || s"),
    ("concat:str", make_call("$s", "-"), "concat(s, '-')"),
    ("like:str_str", make_call("$s", "A%", case_sensitivity="CASE_INSENSITIVE"), "s ilike 'A%'"),
    ("replace_slice:str_i64_i64_str", make_call("$s", 2, 2, "--"), "left(s, 1) || '--' || substring(s, 4)"),
    ("regexp_match_substring:str_str", make_call("$s", "[bx].?"), "nullif(regexp_extract(s, '[bx].?'), '')"),
    ("regexp_match_substring:str_str", make_call("$s", "a(.)", 1, 1, 1), "nullif(regexp_extract(s, 'a(.)', 1), '')"),
    ("count_substring:str_str", make_call("$s", "."), "len(s) - len(replace(s, '.', ''))"),
    ("regexp_count_substring:str_str", make_call("$s", "[ab]"), "len(regexp_extract_all(s, '[ab]'))"),
    ("extract:req_ts", make_call(":MILLISECOND", "$ts"), "millisecond(ts) % 1000"),
    ("extract:req_ts", make_call(":MICROSECOND", "$ts"), "microsecond(ts) % 1000"),
    ("extract:req_ts", make_call(":SUBSECOND", "$ts"), "microsecond(ts) % 1000000"),
    ("extract:req_ts", make_call(":UNIX_TIME", "$ts"), "epoch(ts)::bigint"),
    ("extract:req_req_ts", make_call(":MONTH", ":ZERO", "$ts"), "month(ts) - 1"),
    ("extract:req_req_ts", make_call(":SUNDAY_DAY_OF_WEEK", ":ONE", "$ts"), "dayofweek(ts) + 1"),
    ("extract:req_req_ts", make_call(":MONDAY_DAY_OF_WEEK", ":ZERO", "$ts"), "isodow(ts) - 1"),
    ("extract:req_req_ts", make_call(":ISO_WEEK", ":ONE", "$ts"), "week(ts)"),
    ("extract_boolean:req_ts", make_call(":IS_LEAP_YEAR", "$ts"), "day(last_day(make_date(year(ts), 2, 1))) = 29"),
    ("assume_timezone:ts_str", make_call(*UTC), "ts at time zone 'Europe/Berlin'"),
    ("strptime_date:str_str", make_call("2024-02-03", "%Y-%m-%d"), "date '2024-02-03'"),
    ("strptime_timestamp:str_str_str", make_call("03.02.2024 10", "%d.%m.%Y %H", "Europe/Berlin"),
     "timestamp '2024-02-03 10:00:00' at time zone 'Europe/Berlin'"),
    ("round_temporal:ts", make_call("$ts", ":FLOOR", ":HOUR", 6, {"literal": {"precision_timestamp": {
        "precision": 6, "value": 0}}}), "time_bucket(interval '6 hours', ts, timestamp '1970-01-01')"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "call", "meaning"), CALLS, ids=[f"{name} {i}" for i, (name, _, _) in enumerate(CALLS)]
)
def test_scalar_functions(name: str, call: dict[str, Any], meaning: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    duck.execute("set timezone = 'UTC'")
    assert_same_rows(run(plan_of({"scalar_function": call}, name)), duck.sql(f"select {meaning} as x from t"))


AGGREGATES = [
    ("variance:fp64", make_call("$i", distribution="POPULATION"), "var_pop(i)"),
    ("variance:fp64", make_call("$i"), "var_samp(i)"),
    ("std_dev:req_fp64", make_call(":POPULATION", "$i"), "stddev_pop(i)"),
    ("std_dev:req_fp64", make_call(":SAMPLE", "$i"), "stddev_samp(i)"),
    ("median:req_i64", make_call(":EXACT", "$i"), "median(i)"),
    ("approx_count_distinct:any", make_call("$p"), "count(distinct p)"),
    ("sum:i64", make_call("$i", overflow="SATURATE ERROR"), "sum(i)"),
]


@pytest.mark.parametrize(("name", "call", "meaning"), AGGREGATES, ids=[meaning for _, _, meaning in AGGREGATES])
def test_aggregate_functions(name: str, call: dict[str, Any], meaning: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    found = run(plan_of({**call, "phase": 3}, name, aggregate=True))
    assert_same_rows(found, duck.sql(f"select {meaning} as x from t"))


NESTED = {
    "a field of a struct": (field("r", struct_field={"field": 0}), "r.a"),
    "a field of a struct in a struct": (field("r", struct_field={"field": 1, "child": {"struct_field": {}}}), "r.b.c"),
    "an element": (field("l", list_element={"offset": 1}), "l[2]"),
    "a value of a map": (field("m", map_key={"map_key": {"string": "k"}}), "m['k']"),
    "a part of an expression": (
        {"selection": {"expression": {"nested": {"list": {"values": [field("i"), field("j")]}}},
                       "direct_reference": {"list_element": {"offset": 1}}}}, "j",
    ),
    "a struct put together": ({"nested": {"struct": {"fields": [field("i"), field("s")]}}}, "row(i, s)"),
    "a map put together": (
        {"nested": {"map": {"key_values": [{"key": {"literal": {"string": "x"}}, "value": field("i")}]}}},
        "map {'x': i}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_parts_of_nested_values(name: str, duck: duckdb.DuckDBPyConnection) -> None:
    expression, meaning = NESTED[name]
    duck.register("t", T)
    found, expected = run(plan_of(expression, "none")), duck.sql(f"select {meaning} as x from t").to_arrow_table()
    if "struct put" in name:
        # The engines name the fields differently.
        values = [[tuple(row.values()) for row in table.column(0).to_pylist()] for table in (found, expected)]
        assert values[0] == values[1]
        return
    assert_same_rows(found, expected)


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        (
            "add:i64_i64",
            make_call("$i", 1, overflow="SILENT SATURATE"),
            "add: overflow SILENT or SATURATE.*it is ERROR",
        ),
        (
            "round:fp64",
            make_call("$f", 1, rounding="CEILING"),
            "rounding CEILING is asked for; it is TIE_AWAY_FROM_ZERO",
        ),
        ("upper:str", make_call("$s", char_set="ASCII_ONLY"), "ASCII_ONLY"),
        ("equal:any", make_call("$i", "$j", colour="RED"), "no such option"),
        ("extract:req_ts", make_call(":US_WEEK", "$ts"), "US_WEEK is not supported; there are YEAR"),
        ("extract:req", make_call(":YEAR"), "extract with 1 arguments"),
        ("between:any", make_call("$i", "$j"), "between takes 3 arguments, not 2"),
        ("index_in:any", make_call("$f"), "index_in with 1 arguments"),
        ("regexp_match_substring:str_str", make_call("$s", "b", 2, 1), "only position 1"),
    ],
)
def test_features_that_the_engine_lacks(name: str, call: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=rf"{message}.*\(at project\)"):
        run(plan_of({"scalar_function": call}, name))


def test_a_part_that_is_not_there() -> None:
    with pytest.raises(PlanError, match=r"field 7 is referred to within r.*\(at project\)"):
        run(plan_of(field("r", struct_field={"field": 7}), "none"))
    with pytest.raises(PlanError, match=r"\(at project\)"):
        run(plan_of(field("i", list_element={"offset": 0}), "none"))
