"""Queries in which DataFusion would push a filter where it must not go. Floor P2.

It pushes a condition through an aggregate when the group keys have all columns of the condition, so one without columns
always: `select count(*) from t having (select max(a) from t) > 5` then counts no rows and gives 0, where it should give
no row. That matters to aggregates that give a row for no rows: those without keys, and sets of keys with an empty one.
Most conditions without columns only become so while the planner simplifies.
"""

from __future__ import annotations

import re

_ONE_ROW = re.compile(r"Aggregate: groupBy=\[\[(?:\]|ROLLUP|CUBE|GROUPING SETS)")
_CONDITION = re.compile(r"Filter: |\w+ Join: ")


def filters_one_row_aggregate(written: str) -> bool:
    """Whether a condition stands above an aggregate that gives a row for no rows, within the query or one subquery.

    `written` is the plan before optimization, as DataFusion shows it: a line a node, inputs indented below it.
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
