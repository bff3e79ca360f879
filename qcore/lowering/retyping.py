"""Compiling an expression again for columns of wider types than its plan declares.

Some rows were computed with the narrower types, so the wider types must give equal results for them (same_results).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Expr
from qcore.lowering.same_results import changed_types, check_results, describe_changes
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.process import ProcessLock

#: A schema of rows that a run has computed, the same for pyarrow, and the Program for it.
Met = tuple[Schema, pa.Schema, Any]


class Programs:
    """Programs of the same expressions, by the schema of their input. They are kept with a lowered plan: its runs and
    their drivers share them.

    Parameters
    ----------
    compile : callable
        From a pyarrow.Schema to a Program of `expressions`.
    expressions : sequence of Expr
        The expressions to check for a change of meaning.
    declared : pyarrow.Schema
        The input's schema in the plan.
    """

    def __init__(self, compile: Callable[[pa.Schema], Any], expressions: Sequence[Expr], declared: pa.Schema) -> None:
        self._compile = compile
        self._expressions = expressions
        self._declared = declared
        self._programs: dict[pa.Schema, Any] = {}
        #: The schemas that were checked against the declared one, which is all that the first schema of a run needs.
        self._first: list[Met] = []
        self._lock = ProcessLock()

    def of_run(self) -> Callable[[Any], Any]:
        """A function from an engine schema to a Program, for one run. It raises SchemaChangeError if the run has
        computed rows of another schema, for which the expressions mean something else.
        """
        # Engine schemas are compared, because every driver asks, and holds the GIL that the others wait for: making a
        # pyarrow.Schema takes ten times as long.
        met: list[Met] = []

        def program_for(schema: Schema) -> Any:
            found = _find(met, schema)
            if found is None:
                with self._lock:
                    # Another driver may have met the schema meanwhile, or one that it must be checked against.
                    found = _find(met, schema)
                    if found is None:
                        found = self._meet(met, schema)
                        met.append(found)
            return found[2]

        return program_for

    def _meet(self, met: Sequence[Met], schema: Schema) -> Met:
        """Check a schema against those of which the run has computed rows, and make its Program."""
        known = None if met else _find(self._first, schema)
        if known is not None:
            return known
        arrow_schema = pa.schema(schema)
        for other in [self._declared, *(arrow for _, arrow, _ in met)]:
            # A column declared null may have had rows of several types, and another driver wider ones already.
            for narrow, wide in _widenings(other, arrow_schema):
                check_results(self._expressions, narrow, wide)
        made = (schema, arrow_schema, self._program_for(arrow_schema))
        if not met:
            self._first.append(made)
        return made

    def _program_for(self, schema: pa.Schema) -> Any:
        program = self._programs.get(schema)
        if program is None:
            try:
                program = self._compile(schema)
            except PlanError as error:
                changed = changed_types(self._declared, schema)
                if not changed:
                    raise
                raise SchemaChangeError(f"{describe_changes(changed)}: {error}") from error
            program = self._programs.setdefault(schema, program)
        return program


def _find(met: Sequence[Met], schema: Schema) -> Met | None:
    for known in met:
        if known[0] == schema:
            return known
    return None


def _widenings(met: pa.Schema, given: pa.Schema) -> list[tuple[pa.Schema, pa.Schema]]:
    """Both schemas with the schema that holds the rows of both."""
    try:
        common = pa.schema(widen_schemas(Schema(met), Schema(given)))
    except SchemaChangeError:
        return [(met, given)]  # types in conflict: the check names them
    return [(met, common), (given, common)]
