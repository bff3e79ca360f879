"""Reading a whole Substrait plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, Timeout
from qcore.plan.dependent_joins import replace_dependent_joins
from qcore.plan.nodes import PlanNode
from qcore.plan.projections import rename_result
from qcore.plan.result import PlanResult
from qcore.plan.set_operations import cast_columns
from qcore.substrait.messages import messages_within
from qcore.substrait.relations import RelationReader
from qcore.substrait.scope import ReadRelation
from qcore.substrait.types import OWN_TYPES, name_struct_fields, top_level_names


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
        The bytes are not a plan, the `substrait` extra is not installed, or the engine lacks what the plan needs.
    """
    message = _parse_plan(plan_bytes)
    try:
        return _read_message(message, schemas)
    except (PlanError, Timeout):
        raise
    except RecursionError:
        raise PlanError("the Substrait plan is nested too deeply") from None
    except Exception as error:
        # The message's types allow invalid values, such as a time out of range or a decimal of 200 digits.
        raise PlanError(f"the Substrait plan is broken: {type(error).__name__}: {error}") from None


def _parse_plan(plan_bytes: bytes) -> Any:
    """The Plan message of serialised bytes."""
    try:
        from substrait.plan_pb2 import Plan
    except ImportError:
        raise PlanError("Substrait plans need the package substrait-protobuf: pip install 'qcore[substrait]'") from None
    message = Plan()
    try:
        message.ParseFromString(plan_bytes)
    except Exception as error:
        raise PlanError(f"the bytes are not a Substrait plan, or nested more than 100 levels deep: {error}") from None
    _replace_own_types(message)
    return message


def _read_message(message: Any, schemas: Mapping[str, pa.Schema] | None) -> PlanResult:
    roots = [part for part in message.relations if part.WhichOneof("rel_type") == "root"]
    if len(roots) != 1 and len(message.relations) != 1:
        raise PlanError(f"the Substrait plan has {len(roots)} root relations; 1 can be run")
    functions = {}
    for extension in message.extensions:
        if extension.WhichOneof("mapping_type") == "extension_function":
            function = extension.extension_function
            functions[function.function_anchor] = function.name.partition(":")[0]
    by_datafusion = message.version.producer == "datafusion"
    reader = RelationReader(functions, schemas, by_datafusion)
    reader.subtrees = [part.rel if part.WhichOneof("rel_type") == "rel" else None for part in message.relations]
    relation = roots[0] if roots else message.relations[0]
    if relation.WhichOneof("rel_type") == "rel":
        root = _without_dependent_joins(reader, reader.read(relation.rel))
        return PlanResult(root, list(root.schema.names), reader.files)
    read = _without_dependent_joins(reader, reader.read(relation.root.input))
    names = list(relation.root.names)
    if len(names) != len(read.schema):
        types = name_struct_fields(names, read.schema.types)
        names = top_level_names(names, read.schema.types)
        read = cast_columns(reader.ids, read, types)
    return PlanResult(rename_result(reader.ids, read, names), names, reader.files)


def _without_dependent_joins(reader: RelationReader, relation: ReadRelation) -> PlanNode:
    return replace_dependent_joins(reader.exact(relation), reader.ids, reader.names)


def _replace_own_types(message: Any) -> None:
    """Renumber the plan's declared types that are known, to the numbers that read_type() uses."""
    declared = [part.extension_type for part in message.extensions if part.HasField("extension_type")]
    numbers = {part.type_anchor: OWN_TYPES[part.name][0] for part in declared if part.name in OWN_TYPES}
    if not declared:
        return
    for type_ in list(messages_within(message, "Type")):
        if type_.WhichOneof("kind") == "user_defined":
            type_.user_defined.type_reference = numbers.get(type_.user_defined.type_reference, 0)
