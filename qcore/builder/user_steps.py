"""Operators written in Python as steps of PlanBuilder: the nodes of source(), operator() and sink()."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.connectors.base import check_policy
from qcore.errors import PlanError
from qcore.plan.nodes import PlanNode, UserOperator, UserSink, UserSource
from qcore.plan.schema import check_unique, without_metadata
from qcore.protocols import BatchIterator, Operator, SinkOperator, SourceOperator, StatelessOperator


def user_source_node(
    id: str, factory: Any, schema: pa.Schema | None, partitions: int | None, on_schema_change: str
) -> UserSource:
    """The node of source()."""
    check_policy(on_schema_change)
    factory = _check_factory(factory, SourceOperator, "source()")
    if partitions is None:
        partitions = factory.partitions if isinstance(factory, SourceOperator) else 1
    if schema is None:
        schema = _ask_output_schema(factory, None, "source()")
    if not isinstance(schema, pa.Schema):
        raise PlanError("source() needs schema=…, or an operator whose output_schema(None) returns the schema")
    check_unique(schema.names, "source()")
    return UserSource(id, without_metadata(schema), factory, partitions, on_schema_change)


def user_operator_node(id: str, child: PlanNode, factory: Any) -> UserOperator:
    """The node of operator()."""
    factory = _check_factory(factory, StatelessOperator, "operator()")
    schema = _ask_output_schema(factory, child.schema, "operator()")
    if not isinstance(schema, pa.Schema):
        raise PlanError(f"operator(): output_schema() returned a {type(schema).__name__}, not a pyarrow.Schema")
    check_unique(schema.names, "operator()")
    return UserOperator(id, without_metadata(schema), child, factory)


def user_sink_node(id: str, child: PlanNode, factory: Any) -> UserSink:
    """The node of sink()."""
    return UserSink(id, child.schema, child, _check_factory(factory, SinkOperator, "sink()"))


def _check_factory(factory: Any, shared: type, where: str) -> Any:
    """An object of class `shared`, which serves all drivers, or a callable that makes an operator for each driver.
    PlanError for anything else.
    """
    if isinstance(factory, type) and issubclass(factory, shared):
        return factory()
    polled = (SinkOperator, SourceOperator, StatelessOperator)
    if isinstance(factory, polled) or (isinstance(factory, type) and issubclass(factory, polled)):
        if isinstance(factory, shared):
            return factory
        name = factory.__name__ if isinstance(factory, type) else type(factory).__name__
        raise PlanError(f"{where} takes a {shared.__name__}, an Operator or a BatchIterator, not a {name}")
    if isinstance(factory, (Operator, BatchIterator)):
        name = type(factory).__name__
        raise PlanError(f"{where}: an instance of {name} serves one driver only; give the class, or a function")
    if not callable(factory):
        raise PlanError(f"{where} takes an operator's class, not a {type(factory).__name__}")
    return factory


def _ask_output_schema(factory: Any, given: pa.Schema | None, where: str) -> Any:
    if isinstance(factory, type) and getattr(factory, "output_schema", None) is Operator.output_schema:
        return given
    operator = factory if isinstance(factory, (SourceOperator, StatelessOperator)) else factory()
    if not hasattr(operator, "output_schema"):
        raise PlanError(
            f"{where}: the factory returned a {type(operator).__name__}, not an Operator or a BatchIterator"
        )
    return operator.output_schema(given)
