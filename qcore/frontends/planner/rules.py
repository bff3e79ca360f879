"""Rules of DataFusion's optimizer that a query must be planned without, lest its answer be wrong."""

from __future__ import annotations

import re
from functools import lru_cache

from qcore.frontends.text.limits import CUT_LIMITS
from qcore.plan.window_calls import is_window_function
from qcore.substrait.functions import STAND_IN, is_known_aggregate, is_known_scalar

_ONE_ROW = re.compile(r"Aggregate: groupBy=\[\[(?:\]|ROLLUP|CUBE|GROUPING SETS)")
_CONDITION = re.compile(r"Filter: |\w+ Join: ")
_TEXT = re.compile(r'Utf8(?:View)?\("(?:[^"\\]|\\.)*"\)')
_SORT_BY_SEVERAL = re.compile(r"Sort: [^\n]*, ")
# A column by its own name, and where a condition holds it equal to another one or computes with it.
_COLUMN = r"(?:(?:\"[^\"]+\"|[\w$]+)\.)+(\"[^\"]+\"|[\w$]+)"
_EQUAL = re.compile(rf"{_COLUMN} = {_COLUMN}(?! [-+*/%])|{_COLUMN} (?:NOT )?IN \(<subquery>\)")
_ONE_COLUMN = re.compile(_COLUMN)
# Of two sides, where only equality with a computed value is asked: not what is stated of one side.
_EQUAL_COMPUTED = re.compile(rf"{_COLUMN} = {_COLUMN} [-+*] \w+\(\d+\)|{_COLUMN} [-+*] \w+\(\d+\) = {_COLUMN}")
# What may fail of some values and not of others: arithmetic, and functions that overflow or convert.
_COMPUTES = re.compile(r" [-+*/%] |\(- |\b(?:abs|power|pow|exp|factorial|sqrt|ln|log\w*|CAST)\(")
_RENAMED = re.compile(rf"{_COLUMN} AS (\"[^\"]+\"|[\w$]+)")
_OUTER_COLUMN = re.compile(r"outer_ref\(([^()]*)\)")
_CUT_LIMIT = f"fetch={str(CUT_LIMITS)[:10]}"
_LAMBDA = re.compile(r"\b(?:array|list)_(?:transform|filter)\(")
SHARE = "common_sub_expression_eliminate"
SIMPLIFY = "simplify_expressions"
_SHARED_UINT64 = re.compile(r"AS Decimal128\(20, 0\)\) AS __common_expr")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
# Not of what stands for a subquery or a column of a query around it, whose names begin with a $.
_CALL = re.compile(r"(?<![\w$])([a-z_]\w*)\(")
# These make lists and structs of their arguments, or are no functions.
_MAKERS = frozenset(
    {"make_array", "struct", "named_struct", "map", "range", "generate_series", "unnest", "grouping", "outer_ref"}
)
# What the rule that simplifies gets wrong.
_SIMPLIFIED_WRONGLY = re.compile(r"\bCAST\(|<subquery>|IN \(\[|TableScan: ")
_KEYS = re.compile(r"groupBy=\[\[(.*?)\]\]")


def rules_to_leave_out(written: str) -> tuple[str, ...]:
    """Names of rules that would go wrong over this query.

    `written` is the plan before optimization, as DataFusion shows it: a line a node, inputs indented below it.
    """
    rules = []
    if _filters_one_row_aggregate(written):
        rules.append("push_down_filter")
    if "push_down_filter" not in rules and _may_fail_on_another_side(written):
        rules.append("push_down_filter")
    if _CUT_LIMIT in written:
        # What stands for the LIMIT would become another number, or a limit of parts of the rows too.
        rules.append("push_down_limit")
    bare = _TEXT.sub("", written)
    if "IS NOT DISTINCT FROM" in bare and " Join:" in bare:
        # The one makes it a key of a join whose nulls are equal, to which other rules then add the keys of =; the other
        # puts such a join under a cross join anew, by =.
        rules += ["extract_equijoin_predicate", "eliminate_cross_join"]
    if written.count(f'"{STAND_IN} ') > 1:
        # It computes what marks an aggregate apart from it where two are marked the same.
        rules.append(SHARE)
    if _LAMBDA.search(bare):
        # What lambdas compute is shared among them by the engine, or not at all.
        rules.append(SHARE)
    n_groupings = bare.count("Aggregate:") + bare.count("Distinct:")
    if n_groupings > 1 and _SORT_BY_SEVERAL.search(bare) and " Join:" in bare and not repeats_a_key(bare):
        # It drops what to order groups by when a key before it decides it, and takes a key that is unique on one side
        # of a join for one that does. Repeated keys of groups have to be dropped, though.
        rules.append("eliminate_duplicated_expr")
    return tuple(rules)


def needs_planner(written: str) -> bool:
    """Whether the query reads no table and calls functions that the engine has not, which the planner can compute.

    All others are planned without the rule that simplifies expressions, which knows other types and values than the
    engine: it moves a cast that rounds, or may fail, to the constant beside it (cast(d as int) = 2 becomes d = 2.00),
    takes a scalar subquery for never null where its column is, has 1.0 / 3 as 0.33333, lets integers overflow silently,
    knows no dialect, and takes lists of IN for what they have in common as written, nulls among them too. What it would
    save, qcore's optimizer saves.
    """
    if _SIMPLIFIED_WRONGLY.search(written):
        return False
    called = set(_CALL.findall(_QUOTED.sub('""', written))) - _MAKERS
    return not all(_is_aggregate(name) or is_known_scalar(name) for name in called)


@lru_cache(maxsize=512)
def _is_aggregate(name: str) -> bool:
    return is_known_aggregate(name) or is_window_function(name)


def shares_uint64(shown: str) -> bool:
    """Whether the optimized plan computes what it makes of uint64 beside signed integers apart from where that is read:
    there it cannot be told from a decimal of the query's.
    """
    return _SHARED_UINT64.search(shown) is not None


def _may_fail_on_another_side(written: str) -> bool:
    """Whether a condition computes with a column that a join holds equal to another one.

    The rule states what is asked of a key of a join of the other side's key too, where it would be computed of rows
    that meet none: `1 >= a.id + 1` fails on the largest b.id, which no a.id need be.
    """
    if " Join:" not in written and "Subquery:" not in written:
        return False
    lines = [_OUTER_COLUMN.sub(r"\1", _TEXT.sub("", line.lstrip())) for line in written.splitlines()]
    conditions = [line for line in lines if _CONDITION.match(line)]
    asked = [part for line in conditions for part in _EQUAL_COMPUTED.sub("", line).split(" AND ")]
    computed = {name for part in asked if _COMPUTES.search(part) for name in _ONE_COLUMN.findall(part)}
    if not computed:
        return False
    renamed = [names for line in lines if line.startswith("Projection: ") for names in _RENAMED.findall(line)]
    while more := {one for names in renamed for one in names if computed & set(names)} - computed:
        computed |= more
    return any(name in computed for line in conditions for pair in _EQUAL.findall(line) for name in pair)


def repeats_a_key(written: str) -> bool:
    """Whether groups have a key twice, which is one column to DataFusion and two in its messages."""
    keys = [found.split(", ") for found in _KEYS.findall(written)]
    return any(len(set(group)) < len(group) for group in keys)


def _filters_one_row_aggregate(written: str) -> bool:
    """Whether a condition stands above an aggregate that gives a row for no rows, within the query or one subquery.

    The rule that pushes filters takes a condition through an aggregate when the group keys have all columns of it, so
    one without columns always: `select count(*) from t having (select max(a) from t) > 5` then counts no rows and gives
    0, where it should give no row. That matters to aggregates without keys, and to sets of keys with an empty one. Most
    conditions without columns only become so while the planner simplifies.
    """
    # (indentation, whether it is a condition; None where a subquery begins)
    above: list[tuple[int, bool | None]] = []
    for line in written.splitlines():
        node = line.lstrip()
        indent = len(line) - len(node)
        while above and above[-1][0] >= indent:
            above.pop()
        if _ONE_ROW.match(node):
            for _, condition in reversed(above):
                if condition is None:
                    break
                if condition:
                    return True
        above.append((indent, None if node.startswith("Subquery:") else _CONDITION.match(node) is not None))
    return False
