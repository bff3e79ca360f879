"""Sinks of PlanBuilder: the nodes of callback(), write_parquet() and partitioned_output()."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.plan.nodes import CallbackSink, PartitionedOutput, PlanNode, TableWrite, UserSink
from qcore.plan.schema import check_column, unknown
from qcore.writing.file_sets import local_path, resolve_target
from qcore.writing.table_write import WRITTEN, check_options

#: The step of PlanBuilder that makes each kind of sink.
STEP_OF = {CallbackSink: "callback", UserSink: "sink", PartitionedOutput: "partitioned_output"}
OUTPUT_KINDS = ("partitioned", "broadcast", "arbitrary")
PARTITIONS_MAX = 4096
BUFFER_BYTES = 1 << 25


def callback_node(id: str, child: PlanNode, function: Any) -> CallbackSink:
    """The node of callback()."""
    if not callable(function):
        raise PlanError(f"callback() takes a function, not a {type(function).__name__}")
    return CallbackSink(id, child.schema, child, function)


def table_write_node(
    id: str, child: PlanNode, path: Any, single: bool | None, compression: str, row_group_rows: int
) -> TableWrite:
    """The node of write_parquet()."""
    where = "write_parquet()"
    check_options(compression, row_group_rows, where)
    target = local_path(path, where)
    single = target.endswith(".parquet") if single is None else single
    if single:
        resolve_target(target, where)
    return TableWrite(id, WRITTEN, child, target, single, compression, row_group_rows)


def partitioned_output_node(
    id: str,
    child: PlanNode,
    keys: Sequence[str] | str,
    partitions: int,
    kind: str,
    path: Any,
    buffer_bytes: int,
) -> PartitionedOutput:
    """The node of partitioned_output()."""
    where = "partitioned_output()"
    keys = (keys,) if isinstance(keys, str) else tuple(keys)
    if kind not in OUTPUT_KINDS:
        raise unknown("kind", kind, OUTPUT_KINDS, where)
    for name, value, most in (("partitions", partitions, PARTITIONS_MAX), ("buffer_bytes", buffer_bytes, None)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most and value > most):
            bound = f"1 to {most:,}" if most else "1 or more"
            raise PlanError(f"{where}: {name} must be {bound}, not {value!r}")
    if keys and kind != "partitioned":
        raise PlanError(f"{where} of kind {kind} takes no keys")
    if kind == "partitioned" and partitions > 1 and not keys:
        raise PlanError(f"{where} into {partitions} partitions needs keys; without any, use kind='arbitrary'")
    for key in keys:
        check_column(key, child.schema, where)
        if pa.types.is_nested(child.schema.field(key).type):
            raise PlanError(f"{where}: column {key!r} is {child.schema.field(key).type}, which cannot be hashed")
    if path is not None:
        if kind != "partitioned":
            raise PlanError(f"{where}: files are written by partition; leave kind={kind!r} out")
        path = local_path(path, where)
    return PartitionedOutput(id, child.schema, child, kind, keys, partitions, buffer_bytes, path)
