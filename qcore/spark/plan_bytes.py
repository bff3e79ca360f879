"""Plans as bytes, for the tasks that run them in other processes."""

from __future__ import annotations

import json
import pickle
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from qcore.config import VERSION
from qcore.connectors.arrow import ArrowTable, StreamTable
from qcore.errors import PlanError
from qcore.expression.recursion import bounded_depth
from qcore.plan import nodes as p
from qcore.record import record

MAGIC = b"qcorePLN"
FORMAT = 1
# The format, the lengths of the header and of the plan, and the plan's checksum.
_FRAME = struct.Struct("<IIQI")

# Nodes that run in this process only, with the reason.
STAYS: dict[type[p.PlanNode], str] = {
    p.UserOperator: "an operator written in Python (also random() and uuid()) runs in this process only",
    p.UserSource: "a source written in Python is read in this process only",
    p.UserSink: "a sink written in Python is called in this process only",
    p.CallbackSink: "a callback is called in this process only",
    p.TableWrite: "files are written by this process only",
}
# Tables that this process alone can read, with the reason.
HELD = {ArrowTable: "its rows are in the memory of this process", StreamTable: "it is a stream of this process"}


@record(frozen=True)
class PlanHeader:
    """The versions and settings of the process that wrote a plan's bytes.

    Attributes
    ----------
    qcore, pyarrow, python : str
        Versions of the process that made the bytes.
    dialect : str or None
        The dialect that the query was planned in.
    time_zone : str or None
        The time zone of its session.
    """

    qcore: str
    pyarrow: str
    python: str
    dialect: str | None = None
    time_zone: str | None = None

    @staticmethod
    def of_process(dialect: str | None = None, time_zone: str | None = None) -> PlanHeader:
        """Return the header of plans that this process makes."""
        return PlanHeader(VERSION, pa.__version__, ".".join(map(str, sys.version_info[:3])), dialect, time_zone)


def plan_to_bytes(plan: p.PlanNode, dialect: str | None = None, time_zone: str | None = None) -> bytes:
    """Return a plan as bytes, with a header and a checksum.

    Raises
    ------
    PlanError
        A node or a table belongs to this process, or cannot be pickled. The message names it and the remedy.
    """
    for node in plan.walk():
        refuse(node, STAYS)
        _check_table(node)
    with bounded_depth():
        try:
            body = pickle.dumps(plan, protocol=5)
        except RecursionError:
            raise
        except Exception as error:
            raise _culprit(plan, error) from error
    header = json.dumps(asdict(PlanHeader.of_process(dialect, time_zone))).encode()
    return MAGIC + _FRAME.pack(FORMAT, len(header), len(body), zlib.crc32(body)) + header + body


def refuse(node: p.PlanNode, reasons: Mapping[type[p.PlanNode], str]) -> None:
    """Raise PlanError if a node is of a kind that has a reason not to run in Spark's tasks."""
    for kind, reason in reasons.items():
        if isinstance(node, kind):
            raise PlanError(
                f"{type(node).__name__} (node {node.id}) cannot run in Spark's tasks: {reason}; run the query without "
                "on="
            )


def _check_table(node: p.PlanNode) -> None:
    if isinstance(node, p.Scan):
        for held, reason in HELD.items():
            if isinstance(node.source, held):
                raise PlanError(
                    f"the table {node.table!r} (Scan, node {node.id}) cannot be sent to Spark's tasks: {reason}; write "
                    "it to files first, or run the query without on="
                )


def _culprit(plan: p.PlanNode, error: Exception) -> PlanError:
    """The error that names the first part of a plan that cannot be pickled."""
    for node in plan.walk():
        for name, value in _own_parts(node):
            try:
                pickle.dumps(value, protocol=5)
            except Exception as cause:
                what = f"the table {node.table!r}" if isinstance(node, p.Scan) and name == "source" else name
                kind = type(value).__qualname__
                return PlanError(
                    f"{type(node).__name__} (node {node.id}) cannot be sent to Spark's tasks: {what}, a {kind}, cannot "
                    f"be pickled ({cause}); run the query without on="
                )
    return PlanError(f"the plan cannot be sent to Spark's tasks: it cannot be pickled ({error})")


def _own_parts(node: p.PlanNode) -> Iterator[tuple[str, Any]]:
    inputs = {id(child) for child in node.children}
    for item in fields(node):
        value = getattr(node, item.name)
        if id(value) not in inputs and value is not node.children:
            yield item.name, value


def header_of(data: bytes) -> PlanHeader:
    """Return the header of a plan's bytes, without the check of versions.

    Raises
    ------
    PlanError
        The bytes are no plan, damaged, or in another format.
    """
    return _read(data)[0]


def plan_from_bytes(data: bytes) -> p.PlanNode:
    """Return the plan that plan_to_bytes() wrote. The bytes must be trusted, because unpickling can run any code.

    Raises
    ------
    PlanError
        The bytes are no plan, damaged, in another format or of another version, or name what this process lacks.
    """
    header, body = _read(data)
    here = PlanHeader.of_process()
    for name, made, held in (
        ("qcore", header.qcore, here.qcore),
        ("pyarrow", _series(header.pyarrow), _series(here.pyarrow)),
        ("Python", _series(header.python, 2), _series(here.python, 2)),
    ):
        if made != held:
            raise PlanError(
                f"the plan was made by {name} {made}, but this process has {name} {held}: install the same version here"
            )
    with bounded_depth():
        try:
            plan = pickle.loads(body)
        except RecursionError:
            raise
        except Exception as error:
            raise PlanError(
                f"the plan cannot be read in this process: {type(error).__name__}: {error}; modules that it names must "
                "be installed here too"
            ) from error
    if not isinstance(plan, p.PlanNode):
        raise PlanError(f"the bytes hold a {type(plan).__name__}, not a plan")
    return plan


def _series(version: str, n_parts: int = 1) -> str:
    return ".".join(version.split(".")[:n_parts])


def _read(data: bytes) -> tuple[PlanHeader, bytes]:
    start = len(MAGIC) + _FRAME.size
    if len(data) < start or data[: len(MAGIC)] != MAGIC:
        raise PlanError("the bytes are not a plan of qcore")
    format, n_header, n_body, checksum = _FRAME.unpack_from(data, len(MAGIC))
    if format != FORMAT:
        raise PlanError(f"the plan is in format {format}, and this version of qcore ({VERSION}) reads format {FORMAT}")
    body = data[start + n_header :]
    if len(body) != n_body or zlib.crc32(body) != checksum:
        raise PlanError(
            f"the bytes of the plan are damaged: {len(body)} bytes behind the header, {n_body} were written"
        )
    try:
        return PlanHeader(**json.loads(data[start : start + n_header])), body
    except (ValueError, TypeError) as error:
        raise PlanError(f"the header of the plan is damaged: {error}") from error
