"""Reading a whole Substrait plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, Timeout
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.dependent_joins import replace_dependent_joins
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.result import PlanResult
from qcore.plan.set_operations import cast_columns
from qcore.substrait.cut_subqueries import CutSubqueries
from qcore.substrait.messages import messages_within
from qcore.substrait.relations import Parts, RelationReader
from qcore.substrait.types import OWN_TYPES, name_struct_fields, top_level_names
from qcore_ext.ground.process import ProcessLock

_depth_lock = ProcessLock()


def read_substrait(plan_bytes: bytes, schemas: Mapping[str, pa.Schema] | None = None) -> PlanResult:
    """Read a serialised Substrait plan.

    Parameters
    ----------
    plan_bytes : bytes
        A Plan message.
    schemas : mapping of str to pyarrow.Schema, optional
        The known tables. By default the plan's own schemas are used.

    Raises
    ------
    PlanError
        The bytes are not a plan, the `sql` extra is not installed, or the engine lacks what the plan needs.
    """
    message = parse_plan(plan_bytes)
    try:
        return read_plan_message(message, schemas)
    except (PlanError, Timeout):
        raise
    except RecursionError:
        raise PlanError("the Substrait plan is nested too deeply") from None
    except Exception as error:
        # The message's types allow invalid values, such as a time out of range or a decimal of 200 digits.
        raise PlanError(f"the Substrait plan is broken: {type(error).__name__}: {error}") from None


def parse_plan(plan_bytes: bytes, any_depth: bool = False) -> Any:
    """The Plan message of serialised bytes. `any_depth` lifts protobuf's limit of 100 nested messages, which a sum of
    30 terms reaches. It is only for bytes from a trusted source.
    """
    try:
        from substrait.plan_pb2 import Plan
    except ImportError:
        raise PlanError("Substrait plans need the substrait package: pip install 'qcore[sql]'") from None
    message = Plan()
    try:
        with _unlimited_depth() if any_depth else nullcontext():
            message.ParseFromString(plan_bytes)
    except Exception as error:
        raise PlanError(f"the bytes are no Substrait plan: {error}") from None
    _replace_own_types(message)
    return message


@contextmanager
def _unlimited_depth() -> Iterator[None]:
    """In this context protobuf reads messages of any depth, in all threads: the limit is one of the process."""
    try:
        from google._upb import _message
    except ImportError:  # Protobuf in pure Python is only limited by the stack.
        yield
        return
    with _depth_lock:
        _message.SetAllowOversizeProtos(True)
        try:
            yield
        finally:
            _message.SetAllowOversizeProtos(False)


def read_plan_message(
    message: Any,
    schemas: Mapping[str, pa.Schema] | None = None,
    parts: Parts | None = None,
    naming: tuple[NodeIds, ColumnNames] | None = None,
    dialect: Dialect = QCORE,
    rename: Callable[[list[str]], list[str]] = list,
    asked: Collection[pa.DataType] | None = None,
    cut: CutSubqueries | None = None,
) -> PlanResult:
    """Read a Plan message. `parts`, `naming` and `cut` are those of RelationReader, `dialect` and `asked` those of
    ExpressionReader. With `naming` the plan becomes a part of another plan, and its columns keep their new names.
    `rename` changes the names of the root's columns.
    """
    roots = [part for part in message.relations if part.WhichOneof("rel_type") == "root"]
    if len(roots) != 1 and len(message.relations) != 1:
        raise PlanError(f"the Substrait plan has {len(roots)} root relations; 1 can be run")
    functions = {}
    for extension in message.extensions:
        if extension.WhichOneof("mapping_type") == "extension_function":
            function = extension.extension_function
            functions[function.function_anchor] = function.name.partition(":")[0]
    by_datafusion = message.version.producer == "datafusion"
    reader = RelationReader(functions, schemas, by_datafusion, parts, naming, dialect, asked, cut)
    reader.subtrees = [part.rel if part.WhichOneof("rel_type") == "rel" else None for part in message.relations]
    relation = roots[0] if roots else message.relations[0]
    if relation.WhichOneof("rel_type") == "rel":
        root = reader.exact(reader.read(relation.rel))
        return PlanResult(root, list(root.schema.names), reader.files)
    read = reader.exact(reader.read(relation.root.input))
    names = list(relation.root.names)
    if len(names) != len(read.schema):
        types = name_struct_fields(names, read.schema.types)
        names = top_level_names(names, read.schema.types)
        read = cast_columns(reader.ids, read, types)
    names = rename(names)
    if cut is not None and naming is None:
        read = replace_dependent_joins(read, reader.ids, reader.names)
    return PlanResult(read if naming else reader.rename(read, names), names, reader.files)


def _replace_own_types(message: Any) -> None:
    """Give the known ones of the types that the plan declares the numbers that read_type() knows."""
    declared = [part.extension_type for part in message.extensions if part.HasField("extension_type")]
    numbers = {part.type_anchor: OWN_TYPES[part.name][0] for part in declared if part.name in OWN_TYPES}
    if not declared:
        return
    for type_ in list(messages_within(message, "Type")):
        if type_.WhichOneof("kind") == "user_defined":
            type_.user_defined.type_reference = numbers.get(type_.user_defined.type_reference, 0)
