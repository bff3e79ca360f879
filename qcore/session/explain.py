"""EXPLAIN: a plan as text, a tree of nodes with estimated rows, and with measured rows and times after a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from qcore.connectors.files import FileTable
from qcore.expression.tree import Column, Expr
from qcore.lowering.lowered import LoweredPlan
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateStep,
    CallbackSink,
    Filter,
    HashJoin,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PartitionedOutput,
    PlanNode,
    Project,
    RecursiveUnion,
    Scan,
    SharedRead,
    SortKey,
    TableWrite,
    TopN,
    Unnest,
    UserOperator,
    UserSink,
    UserSource,
    Values,
    Window,
    WorkingTable,
)
from qcore.protocol_bridges import operator_name
from qcore.record import record
from qcore.session.profile import operator_wall_nanos

# Longer lists and expressions are cut, so that the whole plan stays readable.
DETAIL_WIDTH_MAX = 100

Estimates = Callable[[PlanNode], float]


def pipelines_of(lowered: LoweredPlan) -> dict[str, list[int]]:
    """Return the numbers of the pipelines of each node's operators by node id, numbered as a task does."""
    found: dict[str, list[int]] = {}
    for number, pipeline in enumerate(lowered.pipelines):
        for node_id in dict.fromkeys(pipeline.node_ids):
            found.setdefault(node_id, []).append(number)
    return found


def explain_plan(
    plan: PlanNode,
    estimates: Estimates | None = None,
    stats: Mapping[str, Any] | None = None,
    pipelines: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """Render a plan as an aligned tree, one line a node.

    Parameters
    ----------
    plan : PlanNode
        The root of the plan.
    estimates : callable, optional
        Returns the estimated number of a node's output rows, as qcore.optimizer.Estimator(…).rows does.
    stats : mapping, optional
        The value of Task.stats() for this plan. Adds each node's output rows and its times, summed over all drivers.
    pipelines : mapping, optional
        The value of pipelines_of() for this plan; used without `stats`.

    Returns
    -------
    str
        Columns: plan, id, estimated rows, with `stats` rows, ms and blocked ms, then pipelines. A column pyarrow ms
        shows the time of functions that pyarrow computes, if there are any. The last column tells what the node's
        operators chose and why: the index of a join, what found groups, the part of Parquet files that was read.
    """
    labels: list[str] = []
    nodes: list[PlanNode] = []
    _draw(plan, "", "", labels, nodes)
    columns: list[tuple[str, list[str], bool]] = [
        ("plan", labels, False),
        ("id", [node.id for node in nodes], True),
    ]
    if estimates is not None:
        columns.append(("estimated rows", [f"{round(estimates(node)):,}" for node in nodes], True))
    if stats is not None:
        measured = _measure(stats)
        found = [measured.get(node.id, _Measured()) for node in nodes]
        columns.append(("rows", [f"{one.rows:,}" if one.ran else "" for one in found], True))
        columns.append(("ms", [f"{one.wall_nanos / 1e6:,.2f}" if one.ran else "" for one in found], True))
        columns.append(("blocked ms", [f"{one.blocked_nanos / 1e6:,.2f}" if one.ran else "" for one in found], True))
        if any(one.arrow_nanos for one in found):
            arrow = [f"{one.arrow_nanos / 1e6:,.2f}" if one.arrow_nanos else "" for one in found]
            columns.append(("pyarrow ms", arrow, True))
        if any(one.masked_rows for one in found):
            masked = [f"{one.masked_rows:,}" if one.masked_rows else "" for one in found]
            columns.append(("rows under a mask", masked, True))
        columns.append(("pipelines", [", ".join(map(str, one.pipelines)) for one in found], False))
        choices = [_choices(node, one) for node, one in zip(nodes, found, strict=True)]
        if any(choices):
            columns.append(("how", choices, False))
    elif pipelines is not None:
        columns.append(("pipelines", [", ".join(map(str, pipelines.get(node.id, ()))) for node in nodes], False))
    return _table(columns)


@record
class _Measured:
    """Counters of the operators of one node, added up."""

    rows: int = 0
    wall_nanos: int = 0
    blocked_nanos: int = 0
    arrow_nanos: int = 0
    masked_rows: int = 0
    join: dict[str, Any] = field(default_factory=dict)
    key_filter: Counter[str] = field(default_factory=Counter)
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    extent: dict[str, int] = field(default_factory=dict)
    pipelines: list[int] = field(default_factory=list)
    ran: bool = False


def _measure(stats: Mapping[str, Any]) -> dict[str, _Measured]:
    """Counters by node id. A node's rows are the output rows of its last operator."""
    result: dict[str, _Measured] = {}
    for number, pipeline in enumerate(stats.get("pipelines", ())):
        for counters in pipeline["operators"]:
            one = result.setdefault(str(counters["node_id"]), _Measured())
            one.ran = True
            one.wall_nanos += operator_wall_nanos(counters)
            one.arrow_nanos += int(counters.get("arrow_wall_nanos", 0))
            one.masked_rows += int(counters.get("masked_rows", 0))
            one.blocked_nanos += sum(counters.get("blocked_wall_nanos", {}).values())
            one.rows = int(counters["output_rows"])
            one.join = counters.get("join", one.join)
            one.key_filter.update(counters.get("key_filter", {}))
            one.extent = counters.get("extent", one.extent)
            if "groups" in counters:
                one.groups[str(number)] = counters["groups"]
            if number not in one.pipelines:
                one.pipelines.append(number)
    return result


def _choices(node: PlanNode, measured: _Measured) -> str:
    """Return what the operators of a node chose, with the reasons and the figures that show whether it was right."""
    if isinstance(node, Scan) and measured.extent:
        return _extent_text(node, measured.extent)
    if measured.join:
        return _join_text(measured.join) + _key_filter_text(measured.key_filter)
    # The steps of an aggregation are operators of different pipelines.
    steps = "; then ".join(filter(None, map(_groups_text, measured.groups.values())))
    return f"groups: {steps}" if steps else ""


def _extent_text(node: Scan, extent: Mapping[str, int]) -> str:
    n_groups, n_bytes = node.source.parquet_extent(node.columns) if isinstance(node.source, FileTable) else (0, 0)
    read, read_bytes = extent["row_groups"], extent["bytes"]
    text = f"{read:,} of {n_groups:,} row groups, {_megabytes(read_bytes)} of {_megabytes(n_bytes)} MB"
    if n_groups < read:  # the application added splits of other files
        text = f"{read:,} row groups, {_megabytes(read_bytes)} MB"
    dropped = []
    if extent["row_groups_left_out"]:
        dropped.append(f"left out {extent['rows_left_out']:,} rows when splits were opened")
    if extent.get("rows_cut"):
        dropped.append(f"dropped {extent['rows_cut']:,} rows before other columns were read")
    if extent.get("pages_skipped"):
        dropped.append(f"skipped {extent['pages_skipped']:,} pages")
    return f"{text}; keys of joins and the filter {', '.join(dropped)}" if dropped else text


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f}"


def _join_text(join: Mapping[str, Any]) -> str:
    text = f"{join['index']}; {join['matched']:,} of {join['looked_up']:,} rows matched"
    if join["hashed"]:
        text += f"; {join['hashed']:,} were looked up by a perfect hash of the keys"
    if join["filtered"]:
        text += f"; {join['filtered']:,} were first asked of a filter of bits"
    return text


def _key_filter_text(key_filter: Mapping[str, int]) -> str:
    if not key_filter.get("looked_up"):
        return ""
    dropped = key_filter["looked_up"] - key_filter["matched"]
    return f"; its keys dropped {dropped:,} of {key_filter['looked_up']:,} rows below other joins"


# What found or kept groups, in the order of the counters of HashAggregation, with the reason.
_GROUPS = {
    "array": "by an array over the range of keys",
    "table": "by a hash table",
    "radix": "by hash tables of 256 parts, as there are many",
    "passed": "rows passed on, as few had equal keys",
    "runs": "as runs of equal keys, as rows come in their order",
    "whole": "whole before the exchange",
}


def _groups_text(groups: Mapping[str, int]) -> str:
    text = ", ".join(f"{groups[kind]:,} {text}" for kind, text in _GROUPS.items() if groups[kind])
    if groups["numbered"]:
        text += f"; {groups['numbered']:,} by numbers of their texts"
    # The exchange has partitioned these rows: the hash tables did not partition them again.
    return f"{text}; {groups['paged']:,} rows came in pages of one part" if groups["paged"] else text


def _draw(node: PlanNode, first: str, rest: str, labels: list[str], nodes: list[PlanNode]) -> None:
    text = describe(node)
    labels.append(first + text)
    nodes.append(node)
    children = node.children
    for i, child in enumerate(children):
        last = i == len(children) - 1
        _draw(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), labels, nodes)


def _table(columns: Sequence[tuple[str, list[str], bool]]) -> str:
    widths = [max(len(header), *map(len, cells)) for header, cells, _ in columns]
    lines = []
    for row in range(-1, len(columns[0][1])):
        cells = [header if row < 0 else values[row] for header, values, _ in columns]
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, (_, _, right) in zip(cells, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def describe(node: PlanNode) -> str:
    """Return a node's class and its details on one line, without its inputs."""
    details = _DETAILS.get(type(node))
    text = type(node).__name__ if details is None else f"{_title(node)} {_cut(details(node))}"
    return text.rstrip()


def _title(node: PlanNode) -> str:
    if isinstance(node, (HashJoin, NestedLoopJoin)):
        return f"{type(node).__name__} {node.kind.replace('_', ' ')}"
    return type(node).__name__


def _cut(text: str) -> str:
    return text if len(text) <= DETAIL_WIDTH_MAX else text[: DETAIL_WIDTH_MAX - 1] + "…"


def _scan(node: Scan) -> str:
    text = f"{node.table} [{', '.join(node.columns)}]"
    # Parquet columns that the engine does not decode itself.
    slow = node.source.columns_of_pyarrow(node.columns) if isinstance(node.source, FileTable) else []
    text += f" by pyarrow [{', '.join(slow)}]" if slow else ""
    return text if node.filter is None else f"{text} prune by {_bare(node.filter)}"


def _bare(expr: object) -> str:
    """Return an expression as text without its outermost parentheses."""
    text = repr(expr)
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _closes_last(text) else text


def _closes_last(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _project(node: Project) -> str:
    return _name_expressions(zip(node.schema.names, node.expressions, strict=True))


def _name_expressions(expressions: Iterable[tuple[str, Expr]]) -> str:
    """Return `name = expression` for each expression; only the name if the expression is the column of that name."""
    return ", ".join(
        name if isinstance(expr, Column) and expr.name == name else f"{name} = {_bare(expr)}"
        for name, expr in expressions
    )


def _call(call: AggregateCall) -> str:
    arguments = ", ".join(map(_bare, call.values)) or ("*" if call.function == "count" else "")
    if call.order:
        arguments += f" order by {', '.join(map(_bare, call.order_keys))}"
    distinct = "distinct " if call.distinct else ""
    where = f" filter {_bare(call.filter)}" if call.filter is not None else ""
    return f"{call.name} = {call.function}({distinct}{arguments}){where}"


def _aggregate(node: Aggregate) -> str:
    keys = _name_expressions(node.keys)
    calls = ", ".join(map(_call, node.aggregates))
    by = f"by [{keys}] " if node.keys else ""
    sets = f" sets {node.grouping_sets}" if node.grouping_sets is not None else ""
    first = " rows partitioned first" if node.partition_keys else " rows in order" if node.ordered_by else ""
    if 0 < len(node.partition_keys) < len(node.keys):
        first += f" by [{', '.join(node.keys[at][0] for at in node.partition_keys)}]"
    return f"{by}{calls}{sets}{first}"


def _aggregate_step(node: AggregateStep) -> str:
    return f"{node.step} {_aggregate(node.aggregate)}"


def _window(node: Window) -> str:
    calls = ", ".join(f"{call.name} = {call.function}({call.argument or ''})" for call in node.calls)
    by = f" partition by [{', '.join(node.partition_by)}]" if node.partition_by else ""
    order = f" order by {_keys(node.order_by)}" if node.order_by else ""
    return f"{calls}{by}{order}"


def _join(node: HashJoin | NestedLoopJoin) -> str:
    parts = []
    if isinstance(node, HashJoin):
        parts += [f"{a} = {b}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    if node.condition is not None:
        parts.append(_bare(node.condition))
    side = " build left" if node.build == "left" else ""
    return f"{' and '.join(parts)}{side}"


def _keys(keys: Sequence[SortKey]) -> str:
    return ", ".join(
        key.column + (" desc" if key.descending else "") + (" nulls first" if key.nulls_first else "") for key in keys
    )


def _top_n(node: TopN) -> str:
    return f"{_rows(node.count, node.offset)} by {_keys(node.keys)}"


def _rows(count: int | None, offset: int) -> str:
    skipped = f" after {offset:,}" if offset else ""
    return f"{'all' if count is None else f'{count:,}'}{skipped}"


def _partition(node: LocalPartition) -> str:
    keys = f" by [{', '.join(node.keys)}]" if node.keys else ""
    return f"{node.kind.replace('_', ' ')}{keys}"


def _unnest(node: Unnest) -> str:
    lists = ", ".join(column if column == name else f"{name} = {column}" for column, name in node.lists)
    number = f" with ordinality {node.ordinality}" if node.ordinality is not None else ""
    return f"{'outer ' if node.outer else ''}[{lists}]{number}"


def _output(node: PartitionedOutput) -> str:
    keys = f" by [{', '.join(node.keys)}]" if node.keys else ""
    return f"{node.kind} into {node.partitions}{keys}" + (_path(node) if node.path else "")


def _path(node: PartitionedOutput) -> str:
    return f" {'pages of' if node.single_file else 'files in'} {node.path}"


def _user(node: UserSource | UserOperator | UserSink) -> str:
    """Return the operator's class and the text of its explain(), if that can be called without an instance."""
    explain = None if isinstance(node.factory, type) else getattr(node.factory, "explain", None)
    return operator_name(node.factory) + (f" {explain()}" if explain is not None else "")


_DETAILS: dict[type[PlanNode], Callable[[Any], str]] = {
    Scan: _scan,
    Values: lambda node: f"{node.data.num_rows:,} rows [{', '.join(node.schema.names)}]",
    Filter: lambda node: _bare(node.predicate),
    Project: _project,
    Aggregate: _aggregate,
    AggregateStep: _aggregate_step,
    HashJoin: _join,
    NestedLoopJoin: _join,
    Window: _window,
    OrderBy: lambda node: f"by {_keys(node.keys)}",
    TopN: _top_n,
    Limit: lambda node: _rows(node.count, node.offset),
    LocalPartition: _partition,
    SharedRead: lambda node: f"of {node.of} [{', '.join(node.columns)}]",
    RecursiveUnion: lambda node: f"{node.key}{' distinct' if node.distinct else ''}",
    WorkingTable: lambda node: node.key,
    Unnest: _unnest,
    TableWrite: lambda node: f"{'file' if node.single else 'files in'} {node.path}",
    PartitionedOutput: _output,
    CallbackSink: lambda node: getattr(node.callback, "__name__", type(node.callback).__name__),
    UserSource: _user,
    UserOperator: _user,
    UserSink: _user,
}
