"""TABLESAMPLE and USING SAMPLE.

A percentage of the rows is a filter on a random number for each row. For a number of rows, and for the exact percentage
of RESERVOIR, the rows are ordered by a random number, and the first ones are returned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Literal, call, col
from qcore.plan.computed_limits import limit_by_rows
from qcore.plan.nodes import Filter, Limit, OrderBy, PlanNode, SortKey, Values
from qcore.plan.random_column import RANDOM
from qcore.sql.binder import Binder
from qcore.sql.random_columns import RandomValue
from qcore.sql.reading import take
from qcore.sql.scope import Rows

_ROWWISE = ("BERNOULLI", "SYSTEM")
_METHODS = (*_ROWWISE, "RESERVOIR")
_USAGE = "a sample is n, n ROWS, n % or n PERCENT, with BERNOULLI, SYSTEM or RESERVOIR around it"


def sample_rows(binder: Binder, rows: Rows, sample: Any) -> Rows:
    """The rows that a TableSample node draws."""
    number, is_share, method = _read(binder, sample)
    ids, names = binder.ids, binder.names
    random = RandomValue(names.new(f"${RANDOM}"), RANDOM)
    node = random.add_to(rows.node, ids)
    if is_share and method in _ROWWISE:
        is_drawn = call("less", col(random.name), Literal(number / 100, pa.float64()))
        return replace(rows, node=Filter(ids.new(), node.schema, node, is_drawn))
    node = OrderBy(ids.new(), node.schema, node, (SortKey(random.name),))
    if is_share:
        return replace(rows, node=_first_share(binder, node, number))
    return replace(rows, node=Limit(ids.new(), node.schema, node, int(number)))


def _first_share(binder: Binder, node: PlanNode, share: float) -> PlanNode:
    """The first rows of an ordered node: this percentage of them."""
    ids, names = binder.ids, binder.names
    data = pa.table({names.new("share"): [share], names.new("offset"): pa.nulls(1, pa.int64())})
    return limit_by_rows(ids, names, node, Values(ids.new(), data.schema, data), is_share=True)


def _read(binder: Binder, node: Any) -> tuple[float, bool, str]:
    """The number or the percentage of rows, whether it is a percentage, and the method."""
    method, percent, size, seed, first, total, field = take(
        node, "method", "percent", "size", "seed", "bucket_numerator", "bucket_denominator", "bucket_field"
    )
    name = "" if method is None else str(method.name).upper()
    if seed is not None:
        raise PlanError(
            f"a repeatable sample, {_around(binder, seed)}, is not supported, because rows have no fixed order; to use "
            "a sample again, keep it: CREATE TABLE s AS SELECT … USING SAMPLE …"
        )
    if first is not None or total is not None or field is not None:
        raise PlanError(f"{_USAGE}; not {_around(binder, first)}")
    written = percent if percent is not None else size
    if written is None:
        raise PlanError(f"{_USAGE}; the size is missing")
    if name and name not in _METHODS:
        raise PlanError(f"{_USAGE}; not {name}")
    counts_rows = percent is None and _is_followed_by_rows(binder, written)
    # BERNOULLI (10) is 10 %, as in the standard.
    is_share = percent is not None or (name in _ROWWISE and not counts_rows)
    if type(written).__name__ != "Literal" or written.is_string or not (is_share or str(written.this).isdigit()):
        raise PlanError(f"{_USAGE}; not {_around(binder, written)}")
    number = float(written.this) if is_share else int(written.this)
    if is_share and number > 100:
        raise PlanError(f"a sample of {written.this} %: a percentage is from 0 % to 100 %")
    if name in _ROWWISE and not is_share:
        raise PlanError(f"{name} draws a percentage of the rows, as in {name} (10 %); RESERVOIR draws a number of them")
    return number, is_share, name or ("SYSTEM" if is_share else "RESERVOIR")


def _place(binder: Binder, node: Any) -> int | None:
    """The number of the token that a node begins with."""
    starts = [part.meta["start"] for part in node.walk() if part.meta.get("start") is not None]
    if not starts:
        return None
    return next((n for n, token in enumerate(binder.source.tokens) if token.start == min(starts)), None)


def _is_followed_by_rows(binder: Binder, node: Any) -> bool:
    tokens, at = binder.source.tokens, _place(binder, node)
    return at is not None and at + 1 < len(tokens) and tokens[at + 1].text.upper() in ("ROW", "ROWS")


def _around(binder: Binder, node: Any) -> str:
    """The text of the brackets around a node, and REPEATABLE before them; without brackets the node's text."""
    tokens, at = binder.source.tokens, None if node is None else _place(binder, node)
    if at is None:
        return str(node)
    begin = end = at
    while begin > 0 and tokens[begin].text != "(" and tokens[begin].text.upper() not in ("TABLESAMPLE", "SAMPLE"):
        begin -= 1
    if tokens[begin].text != "(":
        return binder.source.text[tokens[at].start : tokens[at].end + 1]
    while end + 1 < len(tokens) and tokens[end].text != ")":
        end += 1
    begin -= tokens[begin - 1].text.upper() == "REPEATABLE"
    return binder.source.text[tokens[begin].start : tokens[end].end + 1]
