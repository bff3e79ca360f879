"""DuckDB's answer to a query, and whether another answer is right too: ties in any order, and limits that cut ties."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oracle import assert_rows_among, assert_same_rows, comparable_rows

if TYPE_CHECKING:
    import duckdb


@dataclass
class Answer:
    """DuckDB's answer to a query.

    `keys` are the positions of the leading ORDER BY keys that are output columns; `is_cut` says that it has a LIMIT.
    """

    connection: duckdb.DuckDBPyConnection
    rows: pa.Table
    keys: list[int]
    is_cut: bool
    uncut_text: str

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, text: str) -> Answer:
        """Run a query in DuckDB."""
        rows = connection.sql(text).to_arrow_table()
        parsed = json.loads(_one(connection, "select json_serialize_sql(?::varchar)", text))
        if parsed["error"]:
            raise ValueError(f"DuckDB cannot parse the query: {parsed['error_message']}")
        node = parsed["statements"][0]["node"]
        uncut = [part for part in node["modifiers"] if part["type"] != "LIMIT_MODIFIER"]
        is_cut = len(uncut) < len(node["modifiers"])
        keys = [
            _position(order["expression"], node.get("select_list", []), rows.column_names)
            for part in uncut
            if part["type"] == "ORDER_MODIFIER"
            for order in part["orders"]
        ]
        n_known = keys.index(None) if None in keys else len(keys)
        node["modifiers"] = uncut
        uncut_text = _one(connection, "select json_deserialize_sql(?::json)", json.dumps(parsed))
        return cls(connection, rows, [key for key in keys[:n_known] if key is not None], is_cut, uncut_text)

    @cached_property
    def uncut(self) -> pa.Table:
        """The answer without the limit."""
        return self.connection.sql(self.uncut_text).to_arrow_table()


def assert_answers(actual: Any, answer: Answer, rel_tol: float = 1e-9) -> None:
    """Fail unless `actual` is an answer to the query.

    The values ordered by must be the same row by row, and the rows the same as a multiset. Where a limit cut a group
    of rows that are equal in what they are ordered by, any of that group's rows will do, as many as DuckDB gave.
    """
    expected = answer.rows
    if answer.keys:
        assert_same_rows(
            actual.select(answer.keys), expected.select(answer.keys), ordered=True, rel_tol=rel_tol, abs_tol=0.0
        )
    if not answer.is_cut:
        assert_same_rows(actual, expected, rel_tol=rel_tol, abs_tol=0.0)
        return
    # The rows before the last group must be equal. The order of the keys was checked above.
    n_whole = _start_of_last_group(expected, answer.keys)
    assert actual.num_rows == expected.num_rows, f"{actual.num_rows} rows, expected {expected.num_rows}"
    assert_same_rows(actual.slice(0, n_whole), expected.slice(0, n_whole), rel_tol=rel_tol, abs_tol=0.0)
    assert_rows_among(actual.slice(n_whole), answer.uncut, rel_tol=rel_tol)


def _start_of_last_group(table: pa.Table, keys: Sequence[int]) -> int:
    """The position of the first of the last rows that are equal in all `keys`."""
    if not keys or not table.num_rows:
        return 0
    rows = comparable_rows(table.select(list(keys)))
    start = len(rows) - 1
    while start and rows[start - 1] == rows[-1]:
        start -= 1
    return start


def _one(connection: duckdb.DuckDBPyConnection, text: str, argument: str) -> str:
    ((value,),) = connection.execute(text, [argument]).fetchall()
    return str(value)


def _position(key: dict[str, Any], selected: Sequence[dict[str, Any]], names: Sequence[str]) -> int | None:
    """The position of the output column that an ORDER BY key is, or None."""
    if key["class"] == "CONSTANT":
        # Spelled `value` by DuckDB 1, `literal` by DuckDB 2.
        number = key["value"]["value"] if "value" in key else key["literal"]["text"]
        return int(number) - 1
    if key["class"] == "COLUMN_REF" and list(names).count(key["column_names"][-1]) == 1:
        return list(names).index(key["column_names"][-1])
    same = [i for i, expression in enumerate(selected) if _bare(expression) == _bare(key)]
    return same[0] if len(same) == 1 and len(selected) == len(names) else None


def _bare(expression: Any) -> Any:
    """An expression without its alias and its position in the text."""
    if isinstance(expression, dict):
        left_out = ("alias", "query_location", "query_location_length")
        return {name: _bare(value) for name, value in expression.items() if name not in left_out}
    return [_bare(value) for value in expression] if isinstance(expression, list) else expression
