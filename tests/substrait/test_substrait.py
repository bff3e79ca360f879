"""Reading Substrait (SPEC Q1, B3): plans written by hand in the style of other producers, and bad plans."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from substrait.algebra_pb2 import Expression
from substrait.plan_pb2 import Plan

import qcore
from qcore.errors import PlanError
from qcore.plan import nodes as p
from qcore.substrait.literals import read_literal
from qcore.substrait.plan import read_substrait

T = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("s", pa.string())])


def field(position: int) -> dict[str, Any]:
    return {"selection": {"direct_reference": {"struct_field": {"field": position}}, "root_reference": {}}}


def number(value: int) -> dict[str, Any]:
    return {"literal": {"i64": value}}


def function(anchor: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"scalar_function": {"function_reference": anchor, "arguments": [{"value": a} for a in arguments]}}


def read(**more: Any) -> dict[str, Any]:
    types = [{"i64": {}}, {"i32": {}}, {"string": {}}]
    schema = {"names": ["a", "b", "s"], "struct": {"types": types}}
    return {"read": {"base_schema": schema, "named_table": {"names": ["t"]}, **more}}


def message(rel: dict[str, Any], names: list[str], functions: tuple[str, ...] = ()) -> Plan:
    extensions = [
        {"extension_function": {"function_anchor": anchor, "name": name}} for anchor, name in enumerate(functions)
    ]
    return Plan(extensions=extensions, relations=[{"root": {"input": rel, "names": names}}])


def plan_of(rel: dict[str, Any], names: list[str], functions: tuple[str, ...] = ()) -> p.PlanNode:
    return read_substrait(message(rel, names, functions).SerializeToString(), {"t": T}).plan


def test_signatures_are_dropped_and_types_inferred() -> None:
    """Producers that follow the standard write names like `add:i64_i64`. Output types may be missing."""
    rel = {"project": {"input": read(), "expressions": [function(0, field(0), field(1))]}}
    plan = plan_of(
        {"project": {**rel["project"], "common": {"emit": {"output_mapping": [3]}}}}, ["x"], ("add:i64_i64",)
    )
    assert isinstance(plan, p.Project)
    assert plan.schema == pa.schema([("x", pa.int64())])
    assert repr(plan.expressions[0]) == "(a + b)"


def test_uuids_are_text() -> None:
    """DataFusion, which makes such plans, has no other type for them."""
    rel = {"project": {"input": read(), "expressions": [function(0)]}}
    assert plan_of(rel, ["a", "b", "s", "u"], ("uuid",)).schema.field("u").type == pa.string()
    cast = {"cast": {"type": {"uuid": {}}, "input": field(2)}}
    with pytest.raises(PlanError, match="the Substrait type uuid cannot be read"):
        plan_of({"project": {"input": read(), "expressions": [cast]}}, [])


def test_projection_without_emit_keeps_the_input() -> None:
    plan = plan_of({"project": {"input": read(), "expressions": [field(1)]}}, ["a", "b", "s", "c"])
    assert plan.schema.names == ["a", "b", "s", "c"]
    assert [repr(expr) for expr in plan.expressions] == ["a", "b", "s", "b"]  # type: ignore[attr-defined]


def test_emit_reorders_and_repeats() -> None:
    rel = {
        "filter": {
            "common": {"emit": {"output_mapping": [2, 0, 0]}},
            "input": read(),
            "condition": function(0, field(0), number(1)),
        }
    }
    result = read_substrait(message(rel, ["s", "a", "a"], ("gt:any_any",)).SerializeToString(), {"t": T})
    assert result.output_names == ["s", "a", "a"]
    assert len(set(result.plan.schema.names)) == 3
    assert result.plan.schema.types == [pa.string(), pa.int64(), pa.int64()]


def test_self_join_tells_columns_apart() -> None:
    join = {"left": read(), "right": read(), "type": "JOIN_TYPE_INNER", "expression": function(0, field(0), field(3))}
    plan = plan_of({"join": join}, [f"c{i}" for i in range(6)], ("equal",))
    (joined,) = [node for node in plan.walk() if isinstance(node, p.HashJoin)]
    assert len(set(joined.schema.names)) == 6
    assert plan.schema.names == [f"c{i}" for i in range(6)]


def test_join_keys_of_different_types() -> None:
    join = {"left": read(), "right": read(), "type": "JOIN_TYPE_LEFT", "expression": function(0, field(0), field(4))}
    plan = plan_of({"join": join}, [f"c{i}" for i in range(6)], ("equal",))
    (joined,) = [node for node in plan.walk() if isinstance(node, p.HashJoin)]
    assert joined.left.schema.field(joined.left_keys[0]).type == joined.right.schema.field(joined.right_keys[0]).type
    assert len(plan.schema) == 6


def test_read_projection_and_filter() -> None:
    rel = read(
        filter=function(0, field(1), number(5)),
        projection={"select": {"struct_items": [{"field": 2}, {"field": 0}]}},
    )
    plan = plan_of(rel, ["x", "y"], ("lt",))
    assert plan.schema == pa.schema([("x", pa.string()), ("y", pa.int64())])
    (filter_node,) = [node for node in plan.walk() if isinstance(node, p.Filter)]
    assert repr(filter_node.predicate) == "(b < 5)"


def test_tables_columns_are_matched_by_name() -> None:
    """The plan lists a table's columns in another order than the table."""
    other = pa.schema([("s", pa.string()), ("b", pa.int16()), ("a", pa.int32())])
    plan = read_substrait(message(read(), ["a", "b", "s"]).SerializeToString(), {"t": other}).plan
    assert plan.schema.types == [pa.int32(), pa.int16(), pa.string()]
    missing = pa.schema([("a", pa.int64()), ("bb", pa.int32()), ("s", pa.string())])
    with pytest.raises(PlanError, match="unknown column 'b' in table 't'; did you mean 'bb'"):
        read_substrait(message(read(), ["a", "b", "s"]).SerializeToString(), {"t": missing})


def test_plans_own_schema_holds_without_tables() -> None:
    assert read_substrait(message(read(), ["a", "b", "s"]).SerializeToString()).plan.schema == T


def test_local_files() -> None:
    rel = read()
    del rel["read"]["named_table"]
    rel["read"]["local_files"] = {
        "items": [{"uri_file": "file:///x/a.parquet", "parquet": {}}, {"uri_file": "/x/b.parquet"}]
    }
    result = read_substrait(message(rel, ["a", "b", "s"]).SerializeToString())
    assert isinstance(result.plan, p.Scan)
    assert result.files == {result.plan.table: ["/x/a.parquet", "/x/b.parquet"]}


def test_fetch_in_the_old_form() -> None:
    """Producers before 2024 write offset and count as plain numbers. The current message lacks these fields."""
    fetch = Plan(relations=[{"root": {"input": {"fetch": {"input": read()}}, "names": ["a", "b", "s"]}}])
    body = fetch.relations[0].root.input.fetch
    body.MergeFromString(bytes([3 << 3, 2, 4 << 3, 7]))
    plan = read_substrait(fetch.SerializeToString(), {"t": T}).plan
    assert isinstance(plan, p.Limit)
    assert (plan.offset, plan.count) == (2, 7)


def test_groupings_in_the_old_form() -> None:
    """The keys are inside the grouping. Without them the aggregate would have no keys."""
    rel = {"aggregate": {"input": read(), "groupings": [{}], "measures": []}}
    old = message(rel, ["b"])
    key = Expression(**field(1)).SerializeToString()
    old.relations[0].root.input.aggregate.groupings[0].MergeFromString(bytes([1 << 3 | 2, len(key)]) + key)
    plan = read_substrait(old.SerializeToString(), {"t": T}).plan
    assert isinstance(plan, p.Aggregate)
    assert [name for name, _ in plan.keys] == ["b"]


def test_virtual_table_in_the_old_form() -> None:
    schema = {"names": ["x"], "struct": {"types": [{"i64": {}}]}}
    old = message({"read": {"base_schema": schema, "virtual_table": {}}}, ["x"])
    row = Expression.Literal.Struct(fields=[{"i64": 7}]).SerializeToString()
    old.relations[0].root.input.read.virtual_table.MergeFromString(bytes([1 << 3 | 2, len(row)]) + row)
    plan = read_substrait(old.SerializeToString()).plan
    assert isinstance(plan, p.Values)
    assert plan.data.to_pylist() == [{"x": 7}]


def test_sort_by_an_expression_is_computed_and_dropped() -> None:
    sort = {
        "input": read(),
        "sorts": [{"expr": function(0, field(0), field(1)), "direction": "SORT_DIRECTION_DESC_NULLS_FIRST"}],
    }
    plan = plan_of({"sort": sort}, ["a", "b", "s"], ("subtract",))
    (order,) = [node for node in plan.walk() if isinstance(node, p.OrderBy)]
    assert (order.keys[0].descending, order.keys[0].nulls_first) == (True, True)
    assert plan.schema.names == ["a", "b", "s"]


def test_switch_if_then_and_cast() -> None:
    switch = {
        "switch_expression": {
            "match": field(0),
            "ifs": [{"if": {"i64": 1}, "then": {"literal": {"string": "one"}}}],
            "else": {"literal": {"string": "more"}},
        }
    }
    cast = {"cast": {"type": {"fp64": {}}, "input": field(1), "failure_behavior": "FAILURE_BEHAVIOR_RETURN_NULL"}}
    rel = {"project": {"common": {"emit": {"output_mapping": [3, 4]}}, "input": read(), "expressions": [switch, cast]}}
    plan = plan_of(rel, ["x", "y"])
    assert plan.schema == pa.schema([("x", pa.string()), ("y", pa.float64())])
    assert "when (a = 1) then 'one' else 'more'" in repr(plan.expressions[0])  # type: ignore[attr-defined]
    assert plan.expressions[1].safe is False  # type: ignore[attr-defined]


def test_union_distinct_and_union_all() -> None:
    both = {"set": {"inputs": [read(), read()], "op": "SET_OP_UNION_DISTINCT"}}
    plan = plan_of(both, ["a", "b", "s"])
    assert isinstance(plan, (p.Aggregate, p.Project))
    assert any(isinstance(node, p.UnionAll) for node in plan.walk())


LITERALS = [
    ({"boolean": True}, True, pa.bool_()),
    ({"i8": -3}, -3, pa.int8()),
    ({"i32": 7}, 7, pa.int32()),
    ({"i64": -1, "type_variation_reference": 1}, 2**64 - 1, pa.uint64()),
    ({"fp32": 0.5}, 0.5, pa.float32()),
    ({"fp64": -2.25}, -2.25, pa.float64()),
    ({"string": "x"}, "x", pa.string()),
    ({"var_char": {"value": "y", "length": 3}}, "y", pa.string()),
    ({"binary": b"\x00"}, b"\x00", pa.binary()),
    ({"date": 10471}, datetime.date(1998, 9, 2), pa.date32()),
    (
        {"precision_timestamp": {"precision": 6, "value": 1_000_001}},
        datetime.datetime(1970, 1, 1, 0, 0, 1, 1),
        pa.timestamp("us"),
    ),
    ({"precision_time": {"precision": 3, "value": 1500}}, datetime.time(0, 0, 1, 500_000), pa.time32("ms")),
    ({"decimal": {"value": (-310).to_bytes(16, "little", signed=True), "precision": 15, "scale": 2}}, Decimal("-3.10"),
     pa.decimal128(3, 2)),
    ({"decimal": {"value": b"\x01" + bytes(15), "precision": 1, "scale": -3}}, Decimal(1000), pa.decimal128(4, 0)),
    ({"interval_year_to_month": {"years": 1, "months": 2}}, pa.MonthDayNano([14, 0, 0]), pa.month_day_nano_interval()),
    (
        {"interval_day_to_second": {"days": 2, "seconds": 3, "precision": 6, "subseconds": 5}},
        pa.MonthDayNano([0, 2, 3_000_005_000]),
        pa.month_day_nano_interval(),
    ),
    ({"null": {"i32": {}}}, None, pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize(("literal", "value", "type_"), LITERALS, ids=lambda part: str(part)[:40])
def test_literals(literal: dict[str, Any], value: Any, type_: pa.DataType) -> None:
    made = read_literal(Expression.Literal(**literal))
    assert (made.value, made.type) == (value, type_)
    pa.scalar(made.value, made.type)


def break_rel(rel: dict[str, Any], functions: tuple[str, ...] = ()) -> bytes:
    return message(rel, ["a", "b", "s"], functions).SerializeToString()


ERRORS = {
    "no plan": (b"\xff\xff\xff", "are not a Substrait plan"),
    "no root": (b"", "has 0 root relations"),
    "relation": (break_rel({"write": {}}), "relation write is not supported"),
    "empty relation": (break_rel({}), "relation without a kind"),
    "function": (
        break_rel({"filter": {"input": read(), "condition": function(0, field(0))}}, ("frobnicate:i64",)),
        "frobnicate",
    ),
    "anchor": (
        break_rel({"filter": {"input": read(), "condition": function(9, field(0))}}),
        "anchor 9 is not declared",
    ),
    "field": (
        break_rel({"filter": {"input": read(), "condition": function(0, field(7), field(0))}}, ("gt",)),
        "field 7",
    ),
    "condition type": (break_rel({"filter": {"input": read(), "condition": field(2)}}), "not boolean"),
    "types": (
        break_rel(
            {"filter": {"input": read(), "condition": function(0, field(0), {"literal": {"boolean": True}})}}, ("gt",)
        ),
        "nothing in common|not defined",
    ),
    "set": (
        break_rel({"set": {"inputs": [read()], "op": "SET_OP_MINUS_PRIMARY"}}),
        "needs two inputs or more, not 1",
    ),
    "join": (
        break_rel({"join": {"left": read(), "right": read(), "type": "JOIN_TYPE_LEFT_SINGLE"}}),
        "left single joins",
    ),
    "table": (
        break_rel({"read": {**read()["read"], "named_table": {"names": ["tt"]}}}),
        "unknown table 'tt'.*did you mean 't'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_plans(case: str) -> None:
    encoded, text = ERRORS[case]
    with pytest.raises(PlanError, match=text):
        read_substrait(encoded, {"t": T})


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from qcore.sql import parse

    monkeypatch.setitem(sys.modules, "substrait.plan_pb2", None)
    with pytest.raises(PlanError, match=r"substrait-protobuf: pip install 'qcore\[substrait\]'"):
        read_substrait(b"", {})
    monkeypatch.setitem(sys.modules, "sqlglot.dialects.duckdb", None)
    parse._sqlglot_dialect.cache_clear()
    with pytest.raises(PlanError, match=r"SQL needs the package sqlglot .*pip install 'qcore\[sql\]'"):
        qcore.sql("select 1")
