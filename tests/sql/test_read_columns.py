"""Tables are scanned with the columns that a text names: these columns, and the rows of queries over them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore.functions.dialect import QCORE
from qcore.plan.nodes import Scan
from qcore.sql import bind
from qcore.sql.bind import plan_query
from qcore.sql.parse import tokens_of
from qcore.sql.read_columns import ALL, read_columns

T = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [1.5, 2.5, 3.5], "d e": [7, 8, 9]})
U = pa.table({"a": [2, 3, 4], "f": [True, False, True], "g": ["p", "q", "r"]})
SCHEMAS = {"t": T.schema, "u": U.schema}


def scan_columns(text: str, views: dict[str, str] | None = None) -> list[tuple[str, ...]]:
    """The columns of each scan in the plan of a query."""
    plan = plan_query(text, SCHEMAS, QCORE, views).plan
    return sorted(node.columns for node in plan.walk() if isinstance(node, Scan))


T_ALL, U_ALL = ("a", "b", "c", "d e"), ("a", "f", "g")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select a from t", [("a", "d e")]),
        ("select A from t where \"B\" = 'x'", [("a", "b", "d e")]),
        ("select count(*) from u", [("a",)]),
        ("select count ( * ), f from u group by f", [("f",)]),
        ("select u.a * 2, f from u, (select g from u)", [("a", "f", "g")] * 2),
        ("select * from u", [U_ALL]),
        ("select distinct * from u", [U_ALL]),
        ("select distinct on (a) * from u", [U_ALL]),
        ("select all * from u", [U_ALL]),
        ("select u.* from u", [U_ALL]),
        ("select f, * from u", [U_ALL]),
        ("select * exclude (f) from u", [U_ALL]),
        ("select * like 'f%' from u", [U_ALL]),
        ("select columns('f') from u", [U_ALL]),
        ("select u from u", [U_ALL]),
        ("select f from (select u as r from u) s, u", [U_ALL] * 2),
        ("from u", [U_ALL]),
        ("table u", [U_ALL]),
        ("from u select f", [("f",)]),
        ("select * from (select f from u)", [("f",)]),
        ("with v as (select f, g from u) select * from v", [("f", "g")]),
        ("select f from u where exists (select * from t where t.a = u.a)", [("a", "f"), T_ALL]),
        ("select f from u where a in (select a from t)", [("a", "d e"), ("a", "f")]),
        ("select x from u as u(x)", [U_ALL]),
        ("select x from (select f from u) as u(x)", [("f",)]),
        ("select b from t natural join u", [T_ALL, U_ALL]),
        ("select f from t join u using (a)", [("a", "d e"), ("a", "f")]),
        ("select f from u order by all", [("f",)]),
        ("select a from t union all by name select f from u", [("a", "d e"), ("a", "f")]),
        ("select '*', f from u", [("f",)]),
        ('select f as "*" from u', [("f",)]),
        ("select (select max(u.f) from t) from u", [("d e",), ("f",)]),
    ],
)
def test_columns_of_scans(text: str, columns: list[tuple[str, ...]]) -> None:
    assert scan_columns(text) == sorted(columns)


def test_a_view_has_words_of_its_own() -> None:
    views = {"v": "select f, a from u", "w": "select * from u"}
    assert scan_columns("select f from v", views) == [("a", "f")]
    assert scan_columns("select f from w", views) == [U_ALL]
    assert scan_columns("select * from v", views) == [("a", "f")]
    assert scan_columns("select v from v", views) == [U_ALL]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select ff from u", "did you mean 'f'"),
        ("select u.gg from u", "did you mean 'g'"),
        ("select f, e from u join t on t.a = u.a", "unknown column 'e'"),
        ("select h from u", "there are a, f, g"),
        ("select a from t, u", "in more than one table"),
    ],
)
def test_errors_know_all_columns(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        plan_query(text, SCHEMAS)


@pytest.mark.parametrize(
    "text",
    [
        "select f from u",
        "select u, f from u",
        "select x.u.g from (select u from u) x",
        "select count(u) from u where f",
        "select s.* from (select u as s from u)",
        "select s.g from (select u as s, f from u) where f",
        "select max(u.f) over (order by u) from u",
        "select distinct on (f) * from u order by f, a",
        "select * replace (a + 1 as a) from u",
        "select t.a, u.* from t left join u on t.a = u.a order by t.a",
        "select count(distinct u) from u",
        "select (select u from u where a = 2) as r",
        "select f, count(*) over () from u where a > (select min(a) from t)",
        "select a from u except select a from t",
        "select * from u except select * from u where f",
        "select * from t where exists (select * from u where u.a = t.a intersect select * from u)",
        "select list(u) from u",
        "select a, b, c from (select t.* from t) where a > 1",
        "select f from (select * from u) s where s.a > 2",
        'select "d e" from t',
    ],
)
def test_answers_are_those_over_all_columns(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> Any:
        result = qcore.sql(text, {"t": T, "u": U}, threads=1)
        return sorted(map(repr, result.to_arrow().to_pylist())), result.schema.names

    found = answer()
    planned = bind._plan_text

    def over_all(*arguments: Any, may_narrow: bool) -> Any:
        return planned(*arguments, may_narrow=False)

    monkeypatch.setattr(bind, "_plan_text", over_all)
    assert answer() == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select a * b, (a) * 2, 2 * c, 'x' * 1, l[1] * 2 from t", False),
        ("select count(*) from t", False),
        ("select * from t", True),
        ("select DISTINCT * from t", True),
        ("select a, * from t", None),
        ("select t.* from t", None),
        ("select f(*) from t", None),
        ("select columns(a) from t", None),
        ("* from t", None),
        ("pivot t on a", None),
    ],
)
def test_words_of_a_text(text: str, expected: bool | None) -> None:
    """Whether a select list may begin with a star. None: the text may read every column."""
    found = read_columns(tokens_of(text, QCORE))
    assert (found is ALL) == (expected is None)
    assert found.has_star == bool(expected)
    assert found.select(["A"]) or not found.select(["zzz"])
