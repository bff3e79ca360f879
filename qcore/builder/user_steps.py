"""Steps of a plan that run operators written in Python. SPEC H3."""

from __future__ import annotations

from typing import Any, Self

import pyarrow as pa

from qcore.builder.plan_steps import PlanSteps
from qcore.connectors.base import check_policy
from qcore.errors import PlanError
from qcore.plan.nodes import UserOperator, UserSource
from qcore.plan.schema import check_unique, without_metadata
from qcore.protocols import BatchIterator, Operator, SinkOperator, SourceOperator, StatelessOperator


class UserSteps(PlanSteps):
    """The part of PlanBuilder for operators written in Python."""

    def source(
        self,
        factory: Any,
        schema: pa.Schema | None = None,
        partitions: int | None = None,
        id: str | None = None,
        on_schema_change: str = "error",
    ) -> Self:
        """Rows of an operator written in Python (SPEC H3).

        Parameters
        ----------
        factory : SourceOperator, or callable
            A polled source; or a class or function that makes an Operator or a BatchIterator for each driver.
        schema : pyarrow.Schema, optional
            The output's; by default what output_schema(None) of the operator says.
        partitions : int, optional
            Drivers it runs in; by default a SourceOperator's own `partitions` (None: one a thread), else 1.
        on_schema_change : {'error', 'evolve'}
            Of a batch of another schema than declared. 'error': a SchemaChangeError. 'evolve': narrower types are
            widened and missing columns are null, by name; wider types and new columns are passed on, and every operator
            carries them or refuses them with a SchemaChangeError. What a Result gives is of the declared schema;
            Task.iterator() tells of new ones.
        """
        check_policy(on_schema_change)
        self._expect_no_input("source")
        factory = user_factory(factory, SourceOperator, "source()")
        if partitions is None:
            partitions = factory.partitions if isinstance(factory, SourceOperator) else 1
        if schema is None:
            schema = _promised_schema(factory, None, "source()")
        if not isinstance(schema, pa.Schema):
            raise PlanError("source() needs schema=…, or an output_schema() that gives it: it must be known up front")
        check_unique(schema.names, "source()")
        own = without_metadata(schema)
        return self._continued(UserSource(id or self._new_id(), own, factory, partitions, on_schema_change))

    def operator(self, factory: Any, id: str | None = None) -> Self:
        """An operator written in Python: a StatelessOperator, or a class or function that makes an Operator or a
        BatchIterator for each driver. One more may be made here to ask its output_schema; it never runs.
        """
        node = self._input("operator")
        factory = user_factory(factory, StatelessOperator, "operator()")
        schema = _promised_schema(factory, node.schema, "operator()")
        if not isinstance(schema, pa.Schema):
            raise PlanError(f"operator(): output_schema() gave a {type(schema).__name__}, not a pyarrow.Schema")
        check_unique(schema.names, "operator()")
        return self._continued(UserOperator(id or self._new_id(), without_metadata(schema), node, factory))


def user_factory(factory: Any, shared: type, where: str) -> Any:
    """What makes the operators of a step: an object of class `shared`, which serves all drivers, or a callable."""
    if isinstance(factory, type) and issubclass(factory, shared):
        return factory()
    polled = (SinkOperator, SourceOperator, StatelessOperator)
    if isinstance(factory, polled) or (isinstance(factory, type) and issubclass(factory, polled)):
        if isinstance(factory, shared):
            return factory
        name = factory.__name__ if isinstance(factory, type) else type(factory).__name__
        raise PlanError(f"{where} takes a {shared.__name__}, an Operator or a BatchIterator; {name} is none")
    if isinstance(factory, (Operator, BatchIterator)):
        name = type(factory).__name__
        raise PlanError(f"{where}: an instance of {name} serves one driver only; give the class, or a function")
    if not callable(factory):
        raise PlanError(f"{where} takes an operator's class, not a {type(factory).__name__}")
    return factory


def _promised_schema(factory: Any, given: pa.Schema | None, where: str) -> Any:
    if isinstance(factory, type) and getattr(factory, "output_schema", None) is Operator.output_schema:
        return given
    operator = factory if isinstance(factory, (SourceOperator, StatelessOperator)) else factory()
    if not hasattr(operator, "output_schema"):
        raise PlanError(f"{where}: the factory gave a {type(operator).__name__}, not an Operator or a BatchIterator")
    return operator.output_schema(given)
