"""Every Substrait relation in plans written by hand, against DuckDB, and messages with damaged bytes (SPEC Q1, B3)."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from substrait.plan_pb2 import Plan

import qcore
from oracle import assert_same_rows
from sweeps import every

T = pa.table({
    "a": pa.array([1, 1, 2, None, 4, 5, 5], pa.int64()),
    "b": pa.array([10, 11, 12, 13, None, 15, 16], pa.int64()),
    "s": ["x", "y", "x", None, "z", "x", "y"],
})  # fmt: skip
U = pa.table({"k": pa.array([1, 2, None, 5, 9], pa.int64()), "v": pa.array([100, 200, 300, 400, 500], pa.int64())})
FUNCTIONS = ("equal:any_any", "gt:any_any", "sum:i64", "count:any", "and:bool", "row_number:", "is_not_null:any")
EQUAL, GREATER, SUM, COUNT, AND, ROW_NUMBER, NOT_NULL = range(7)


def field(position: int) -> dict[str, Any]:
    return {"selection": {"direct_reference": {"struct_field": {"field": position}}, "root_reference": {}}}


def number(value: int) -> dict[str, Any]:
    return {"literal": {"i64": value}}


def function(anchor: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"scalar_function": {"function_reference": anchor, "arguments": [{"value": a} for a in arguments]}}


def scan(name: str, columns: tuple[str, ...]) -> dict[str, Any]:
    types = [{"string": {}} if column == "s" else {"i64": {}} for column in columns]
    return {"read": {"base_schema": {"names": columns, "struct": {"types": types}}, "named_table": {"names": [name]}}}


T_REL, U_REL = scan("t", ("a", "b", "s")), scan("u", ("k", "v"))


def reference(position: int) -> dict[str, Any]:
    return field(position)["selection"]


def key(left: int, right: int, comparison: int = 1) -> dict[str, Any]:
    return {"left": reference(left), "right": reference(right), "comparison": {"simple": comparison}}


def measure(anchor: int, *arguments: int) -> dict[str, Any]:
    return {"measure": {"function_reference": anchor, "arguments": [{"value": field(a)} for a in arguments]}}


def sort(position: int, direction: int = 2) -> dict[str, Any]:
    return {"expr": field(position), "direction": direction}


def plan(rel: dict[str, Any], n_columns: int, subtrees: tuple[dict[str, Any], ...] = ()) -> bytes:
    extensions = [
        {"extension_function": {"function_anchor": anchor, "name": name, "extension_urn_reference": 1}}
        for anchor, name in enumerate(FUNCTIONS)
    ]
    relations = [{"rel": subtree} for subtree in subtrees]
    relations.append({"root": {"input": rel, "names": [f"c{i}" for i in range(n_columns)]}})
    urns = [{"extension_urn_anchor": 1, "urn": "extension:io.substrait:functions_comparison"}]
    return bytes(Plan(extension_urns=urns, extensions=extensions, relations=relations).SerializeToString())


BOTH = {"left": T_REL, "right": U_REL}
ON = function(EQUAL, field(0), field(3))
WINDOW = {
    "function_reference": SUM, "arguments": [{"value": field(1)}], "phase": 3,
    "lower_bound": {"unbounded": {}}, "upper_bound": {"current_row": {}}, "bounds_type": 1,
}  # fmt: skip
ROW = {"function_reference": ROW_NUMBER, "phase": 3, "lower_bound": {"unbounded": {}}, "upper_bound": {"unbounded": {}}}
A_ONLY = {"project": {"common": {"emit": {"output_mapping": [3]}}, "input": T_REL, "expressions": [field(0)]}}
K_ONLY = {"project": {"common": {"emit": {"output_mapping": [2]}}, "input": U_REL, "expressions": [field(0)]}}


def outer(position: int, steps_out: int = 1) -> dict[str, Any]:
    return {"selection": {"direct_reference": {"struct_field": {"field": position}},
                          "outer_reference": {"steps_out": steps_out}}}  # fmt: skip


def exists(query: dict[str, Any]) -> dict[str, Any]:
    return {"subquery": {"set_predicate": {"predicate_op": 1, "tuples": query}}}


FIRST = {"reference": {"subtree_ordinal": 0}}
IN_U = {"subquery": {"in_predicate": {"needles": [field(0)], "haystack": K_ONLY}}}

# Relation, its number of columns, and the same in SQL.
RELATIONS: dict[str, tuple[dict[str, Any], int, str]] = {
    "join and filter after it": (
        {"join": {**BOTH, "expression": ON, "type": 3, "post_join_filter": function(NOT_NULL, field(4))}}, 5,
        "select * from t left join u on a = k where v is not null",
    ),
    "right mark": (
        {"join": {**BOTH, "expression": ON, "type": 12}}, 3, "select k, v, exists (from t where a = k) from u",
    ),
    "cross": ({"cross": BOTH}, 5, "select * from t, u"),
    "hash inner": ({"hash_join": {**BOTH, "keys": [key(0, 0)], "type": 1}}, 5, "select * from t join u on a = k"),
    "hash outer": ({"hash_join": {**BOTH, "keys": [key(0, 0)], "type": 2}}, 5, "select * from t full join u on a = k"),
    "hash right semi": (
        {"hash_join": {**BOTH, "keys": [key(0, 0)], "type": 6}}, 2, "select * from u where k in (select a from t)",
    ),
    "hash left anti, nulls equal": (
        {"hash_join": {**BOTH, "keys": [key(0, 0, 2)], "type": 7}}, 3,
        "select * from t where not exists (from u where a is not distinct from k)",
    ),
    "merge with residual": (
        {"merge_join": {**BOTH, "keys": [key(0, 0)], "type": 3,
                        "residual_expression": function(GREATER, field(1), number(10))}}, 5,
        "select * from t left join u on a = k and b > 10",
    ),
    "nested loop": (
        {"nested_loop_join": {**BOTH, "type": 3, "expression": function(GREATER, field(0), field(3))}}, 5,
        "select * from t left join u on a > k",
    ),
    "exchange by fields": (
        {"exchange": {"input": T_REL, "scatter_by_fields": {"fields": [reference(2)]}, "partition_count": 3}}, 3,
        "select * from t",
    ),
    "exchange in turn": ({"exchange": {"input": T_REL, "round_robin": {}, "partition_count": 3}}, 3, "select * from t"),
    "window": (
        {"window": {"input": T_REL, "partition_expressions": [field(2)], "sorts": [sort(1)],
                    "window_functions": [WINDOW, ROW]}}, 5,
        "select *, sum(b) over (w rows unbounded preceding), row_number() over w from t "
        "window w as (partition by s order by b)",
    ),
    "windows within expressions": (
        {"project": {"common": {"emit": {"output_mapping": [0, 3, 4]}}, "input": T_REL, "expressions": [
            function(GREATER, {"window_function": {**WINDOW, "partitions": [field(2)], "sorts": [sort(1)]}},
                     number(20)),
            {"if_then": {"ifs": [{"if": function(NOT_NULL, field(0)), "then": {"window_function": {
                **ROW, "sorts": [sort(1)]}}}], "else": number(-1)}}]}}, 3,
        "select a, sum(b) over (partition by s order by b rows unbounded preceding) > 20, "
        "case when a is not null then row_number() over (order by b) else -1 end from t",
    ),
    "top n": (
        {"top_n": {"input": T_REL, "sorts": [sort(0, 4), sort(1)], "offset": number(1), "count": number(3)}}, 3,
        "select * from t order by a desc nulls last, b limit 3 offset 1",
    ),
    "all rows": ({"fetch": {"input": T_REL, "offset_expr": number(5), "count_expr": number(-1)}}, 3,
                 "select * from t offset 5"),
    "grouping sets": (
        {"aggregate": {"input": T_REL, "grouping_expressions": [field(0), field(2)], "measures": [measure(SUM, 1)],
                       "groupings": [{"expression_references": [0, 1]}, {"expression_references": [1]}, {}]}}, 4,
        "select a, s, sum(b), case grouping(a, s) when 0 then 0 when 2 then 1 else 2 end from t "
        "group by grouping sets ((a, s), (s), ())",
    ),
    "minus all": ({"set": {"inputs": [A_ONLY, K_ONLY], "op": 7}}, 1, "select a from t except all select k from u"),
    "minus": ({"set": {"inputs": [A_ONLY, K_ONLY], "op": 1}}, 1, "select a from t except select k from u"),
    "minus those in all": (
        {"set": {"inputs": [A_ONLY, K_ONLY, A_ONLY], "op": 2}}, 1,
        "select a from t except (select k from u intersect select a from t)",
    ),
    "intersect any": (
        {"set": {"inputs": [A_ONLY, K_ONLY, K_ONLY], "op": 3}}, 1, "select a from t intersect select k from u",
    ),
    "intersect": ({"set": {"inputs": [A_ONLY, K_ONLY], "op": 4}}, 1, "select a from t intersect select k from u"),
    "intersect all": (
        {"set": {"inputs": [A_ONLY, A_ONLY, K_ONLY], "op": 8}}, 1,
        "select a from t intersect all select a from t intersect all select k from u",
    ),
    "references": ({"cross": {"left": FIRST, "right": FIRST}}, 2, "select x.a, y.a from t x, t y"),
    "in as a value": (
        {"project": {"common": {"emit": {"output_mapping": [0, 3]}}, "input": T_REL, "expressions": [IN_U]}}, 2,
        "select a, a in (select k from u) from t",
    ),
    "exists as a value": (
        {"project": {"common": {"emit": {"output_mapping": [3]}}, "input": T_REL, "expressions": [
            {"subquery": {"set_predicate": {"predicate_op": 1, "tuples": U_REL}}}]}}, 1,
        "select exists (from u) from t",
    ),
    "a correlated value": (
        {"project": {"common": {"emit": {"output_mapping": [0, 3]}}, "input": T_REL, "expressions": [
            {"subquery": {"scalar": {"input": {"aggregate": {
                "input": {"filter": {"input": U_REL, "condition": function(EQUAL, field(0), outer(0))}},
                "groupings": [{}], "measures": [measure(SUM, 1)]}}}}}]}}, 2,
        "select a, (select sum(v) from u where k = a) from t",
    ),
    "exists, correlated": (
        {"filter": {"input": T_REL, "condition": exists({"filter": {"input": U_REL, "condition": function(
            AND, function(EQUAL, field(0), outer(0)), function(GREATER, field(1), outer(1)))}})}}, 3,
        "select * from t where exists (from u where k = a and v > b)",
    ),
    "two queries out": (
        {"filter": {"input": T_REL, "condition": exists({"filter": {"input": U_REL, "condition": exists(
            {"filter": {"input": U_REL, "condition": function(
                AND, function(EQUAL, field(0), outer(0, 2)), function(EQUAL, field(1), outer(1)))}})}})}}, 3,
        "select * from t where exists (from u where exists (from u w where w.k = a and w.v = u.v))",
    ),
    "several needles": (
        {"project": {"common": {"emit": {"output_mapping": [0, 3]}}, "input": T_REL, "expressions": [
            {"subquery": {"in_predicate": {"needles": [field(0), number(200)], "haystack": U_REL}}}]}}, 2,
        "select a, (a, 200) in (select k, v from u) from t",
    ),
    "any": (
        {"project": {"common": {"emit": {"output_mapping": [0, 3]}}, "input": T_REL, "expressions": [
            {"subquery": {"set_comparison": {"reduction_op": 1, "comparison_op": 4, "left": field(0),
                                             "right": K_ONLY}}}]}}, 2,
        "select a, a > any (select k from u) from t",
    ),
    "all": (
        {"filter": {"input": T_REL, "condition": {"subquery": {"set_comparison": {
            "reduction_op": 2, "comparison_op": 5, "left": field(0),
            "right": {"filter": {"input": K_ONLY, "condition": function(NOT_NULL, field(0))}}}}}}}, 3,
        "select * from t where a <= all (select k from u where k is not null)",
    ),
    "a subquery in a left join's condition": (
        {"join": {**BOTH, "type": 3, "expression": function(AND, ON, function(GREATER, field(4), {
            "subquery": {"scalar": {"input": {"aggregate": {
                "input": {"filter": {"input": U_REL, "condition": function(EQUAL, field(0), outer(3))}},
                "groupings": [{}], "measures": [measure(COUNT, 0)]}}}}}))}}, 5,
        "select * from t left join u on a = k and v > (select count(k) from u w where w.k = u.k)",
    ),
    "a subquery in an inner join's condition": (
        {"join": {**BOTH, "type": 1, "expression": function(AND, ON, exists(
            {"filter": {"input": U_REL, "condition": function(
                AND, function(EQUAL, field(0), outer(3)), function(GREATER, field(1), outer(1)))}}))}}, 5,
        "select * from t join u on a = k and exists (from u w where w.k = u.k and w.v > b)",
    ),
    "rows in a list": (
        {"filter": {"input": T_REL, "condition": {"multi_or_list": {
            "value": [field(0), field(1)],
            "options": [{"fields": [number(1), number(11)]}, {"fields": [number(5), number(16)]}]}}}}, 3,
        "select * from t where (a = 1 and b = 11) or (a = 5 and b = 16)",
    ),
}  # fmt: skip


@pytest.fixture
def session() -> qcore.Session:
    session = qcore.Session(threads=2)
    session.register("t", T)
    session.register("u", U)
    return session


@pytest.mark.parametrize("name", RELATIONS)
def test_relations(name: str, session: qcore.Session, duck: duckdb.DuckDBPyConnection) -> None:
    rel, n_columns, query = RELATIONS[name]
    duck.register("t", T)
    duck.register("u", U)
    encoded = plan(rel, n_columns, (A_ONLY,))
    assert_same_rows(session.substrait(encoded).to_arrow(), duck.sql(query), ordered=name == "top n")


@pytest.mark.parametrize(
    ("rel", "message"),
    [
        ({"filter": {"input": {"expand": {"input": T_REL}}, "condition": ON}}, r"expand .*at filter > expand\)"),
        ({"cross": {"left": T_REL, "right": {"extension_leaf": {}}}}, r"leaf .*\(at cross > extension_leaf\)"),
        ({"exchange": {"input": T_REL, "broadcast": {}}}, r"broadcast .*\(at exchange\)"),
        ({"reference": {"subtree_ordinal": 7}}, r"relation 7 is referred to.*\(at reference\)"),
        ({"hash_join": {**BOTH, "keys": [key(0, 0, 3)], "type": 1}}, r"not simply equal.*\(at hash_join\)"),
        ({"filter": {"input": T_REL, "condition": function(77, field(0))}}, r"anchor 77 .*\(at filter\)"),
        ({"sort": {"input": T_REL, "common": {"emit": {"output_mapping": [9]}}, "sorts": [sort(0)]}},
         r"columns \[9\] are emitted of 3"),
    ],
)  # fmt: skip
def test_refused(rel: dict[str, Any], message: str, session: qcore.Session) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        session.substrait(plan(rel, 3))


def test_a_relation_that_refers_to_itself(session: qcore.Session) -> None:
    with pytest.raises(qcore.PlanError, match="refers to itself"):
        session.substrait(plan({"reference": {"subtree_ordinal": 0}}, 3, ({"reference": {"subtree_ordinal": 0}},)))


def mutate_bytes(encoded: bytes, rng: random.Random) -> bytes:
    """Change, remove or repeat a few of the bytes, or cut the end off."""
    data = bytearray(encoded)
    # Most of these bytes can still be parsed, so that the reader of plans is tested too.
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(data))
        kind = rng.choice([0, 0, 1, 1, 1, 1, 2, 3, 4])
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 3:
            data[at:at] = data[at : at + rng.randint(1, 8)]
        else:
            del data[max(at, 8) :]
        if not data:
            return b""
    return bytes(data)


@pytest.mark.parametrize("seed", every(4, range(4)))
def test_broken_bytes(seed: int, session: qcore.Session) -> None:
    """A damaged plan raises PlanError, or it runs and may raise another QcoreError."""
    rng = random.Random(seed)
    plans = [plan(rel, n_columns, (A_ONLY,)) for rel, n_columns, _ in RELATIONS.values()]
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(2_000):
        encoded = mutate_bytes(rng.choice(plans), rng)
        try:
            session.substrait(encoded).to_arrow()
            outcomes["ran"] += 1
        except qcore.QcoreError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100


def test_relations_that_refer_to_one_another(session: qcore.Session) -> None:
    """P4: each of 14 subtrees has the one before it twice. Above a number of copies they are read once."""
    subtrees: list[dict[str, Any]] = [A_ONLY]
    for number in range(1, 14):
        before = {"reference": {"subtree_ordinal": number - 1}}
        subtrees.append({"set": {"inputs": [before, before], "op": 6}})
    found = session.substrait(plan({"reference": {"subtree_ordinal": 13}}, 1, tuple(subtrees))).to_arrow()
    assert found.num_rows == T.num_rows << 13
    assert found.column(0).null_count == T.column("a").null_count << 13
