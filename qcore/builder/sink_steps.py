"""Steps that give rows away: to functions, operators in Python, other tasks, files. SPEC V11, V12, Q2, H3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import pyarrow as pa

from qcore.builder.plan_steps import PlanSteps
from qcore.builder.user_steps import user_factory
from qcore.errors import PlanError
from qcore.plan.nodes import CallbackSink, PartitionedOutput, TableWrite, UserSink
from qcore.plan.schema import check_column, unknown
from qcore.protocols import SinkOperator
from qcore.writing.file_sets import local_path, replaced_file
from qcore.writing.table_write import ROW_GROUP_ROWS, WRITTEN, check_options

#: The step of PlanBuilder that makes each kind of sink.
STEP_OF = {CallbackSink: "callback", UserSink: "sink", PartitionedOutput: "partitioned_output"}
OUTPUT_KINDS = ("partitioned", "broadcast", "arbitrary")
PARTITIONS_MAX = 4096
BUFFER_BYTES = 1 << 25


class SinkSteps(PlanSteps):
    """The part of PlanBuilder for sinks."""

    def callback(self, function: Callable[[pa.RecordBatch], Any], id: str | None = None) -> Self:
        """End the plan in a function that gets each batch; it may return qcore.Blocked(reason, future) (SPEC V12)."""
        node = self._input("callback")
        if not callable(function):
            raise PlanError(f"callback() takes a function, not a {type(function).__name__}")
        return self._continued(CallbackSink(id or self._new_id(), node.schema, node, function))

    def sink(self, factory: Any, id: str | None = None) -> Self:
        """End the plan in an operator written in Python: a SinkOperator, or a class or function that makes an Operator
        for each driver.
        """
        node = self._input("sink")
        factory = user_factory(factory, SinkOperator, "sink()")
        return self._continued(UserSink(id or self._new_id(), node.schema, node, factory))

    def write_parquet(
        self,
        path: Any,
        single: bool | None = None,
        compression: str = "snappy",
        row_group_rows: int = ROW_GROUP_ROWS,
        id: str | None = None,
    ) -> Self:
        """Write the rows to Parquet; the plan's rows are then the files: path, rows, bytes (SPEC Q2).

        Nothing appears under `path` before all is written, and nothing at all when the query fails.

        Parameters
        ----------
        path : str or Path
            A file, which is replaced if it is there, its mode kept; behind a symbolic link, which stays. A FIFO, a
            device or a socket is refused. Or a folder that is not there yet, for a file a driver.
        single : bool, optional
            One file, in the order of the rows; by default when `path` ends in .parquet.
        compression : str
            none, snappy, gzip, brotli, lz4 or zstd.
        row_group_rows : int
            Rows of a row group.
        """
        node = self._input("write_parquet")
        where = "write_parquet()"
        check_options(compression, row_group_rows, where)
        target = local_path(path, where)
        single = target.endswith(".parquet") if single is None else single
        if single:
            replaced_file(target, where)
        made = TableWrite(id or self._new_id(), WRITTEN, node, target, single, compression, row_group_rows)
        return self._continued(made)

    def partitioned_output(
        self,
        keys: Sequence[str] | str = (),
        partitions: int = 1,
        kind: str = "partitioned",
        path: Any = None,
        buffer_bytes: int = BUFFER_BYTES,
        id: str | None = None,
    ) -> Self:
        """End the plan in pages for other tasks (SPEC V11).

        A qcore.Task runs it, and task.output_buffers() gives the pages to their consumers; or they are written to
        files, for qcore.PartitionManifest to find. Which partition a row is in depends on its keys' values alone, and
        is the same in every process, on every machine and in every run: integers of any width are equal by value, so
        are floats of either width, strings of every layout, and decimals of one scale; -0.0 equals 0.0, a NaN any
        other, a null another null.

        Parameters
        ----------
        keys : list of str
            Columns to hash, for kind "partitioned" with more than one partition.
        partitions : int
            1 to 4,096; one consumer each.
        kind : str
            "partitioned"; "broadcast": every consumer gets all rows; "arbitrary": a page is for whichever asks first.
        path : str or Path, optional
            A folder, not there yet, for an Arrow IPC file a partition and a manifest. It appears when all is written.
        buffer_bytes : int
            The task waits while pages of as many bytes are not acknowledged.
        """
        node = self._input("partitioned_output")
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
            check_column(key, node.schema, where)
            if pa.types.is_nested(node.schema.field(key).type):
                raise PlanError(f"{where}: column {key!r} is {node.schema.field(key).type}, which cannot be hashed")
        if path is not None:
            if kind != "partitioned":
                raise PlanError(f"{where}: files are written by partition; leave kind={kind!r} out")
            path = local_path(path, where)
        made = PartitionedOutput(id or self._new_id(), node.schema, node, kind, keys, partitions, buffer_bytes, path)
        return self._continued(made)
