"""The part of the SQL planner that plans correlated subqueries by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import plain
from qcore.frontends.planner.contexts import QueryTables
from qcore.frontends.planner.types import planner_type, sql_name
from qcore.frontends.text.arithmetic import with_known_arithmetic
from qcore.frontends.text.array_subqueries import with_arrays_aggregated
from qcore.frontends.text.chains import with_short_chains
from qcore.frontends.text.clauses import with_select_lists
from qcore.frontends.text.correlated import Cutting, Described
from qcore.frontends.text.functions import with_known_functions
from qcore.frontends.text.instants import with_instants
from qcore.frontends.text.lambdas import with_known_lambdas
from qcore.frontends.text.named_windows import without_base_windows
from qcore.frontends.text.operators import with_known_operators
from qcore.frontends.text.parts import Recursion, cut_recursion
from qcore.frontends.text.samples import without_samples
from qcore.frontends.text.spark import with_shared_words
from qcore.frontends.text.subqueries import with_rows_as_exists
from qcore.frontends.text.synonyms import with_known_words
from qcore.frontends.text.tokens import SET_OPERATORS, SqlText
from qcore.frontends.text.unnest import with_elements_as_queries
from qcore.functions.dialect import Dialect
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import DependentJoin, PlanNode
from qcore.plan.result import PlanResult
from qcore.plan.schema import join_schema
from qcore.substrait.cut_subqueries import CutSubqueries
from qcore.substrait.expressions import FRONTEND_PREFIX


def with_known_syntax(query: str, dialect: Dialect) -> str:
    """The text with lambdas, and words and signs of other dialects, written as the planner's parser knows them."""
    if dialect.syntax == "spark":
        query = with_shared_words(query)
    if dialect.timestamp == "instant":
        query = with_instants(query)
    return with_short_chains(
        with_known_arithmetic(
            without_base_windows(with_known_words(with_known_lambdas(without_samples(query)))), dialect
        )
    )


def with_known_clauses(text: str) -> str:
    """The text with functions, operators and clauses that the planner has no syntax for written in what it has."""
    return with_known_operators(with_arrays_aggregated(with_select_lists(with_known_functions(text))))


class CutPlanner:
    """The part of _Planner that Cutting asks: subqueries become functions and tables of the query's own."""

    #: Subqueries cut out of the text; None where DataFusion is to decorrelate them.
    cut: CutSubqueries | None = None
    #: Whether those are among them that DataFusion need not decorrelate.
    cuts_every = False
    #: Whether what they read of outer columns is cast to its type: the planner may take it for another where it stands.
    casts_arguments = False
    #: Whether there were any.
    was_cut = False

    if TYPE_CHECKING:
        tables: QueryTables
        parts: dict[str, Callable[[NodeIds, ColumnNames], PlanNode]]
        count: int

        def message(self, text: str) -> Any: ...
        def _read(self, message: Any, naming: tuple[NodeIds, ColumnNames]) -> PlanResult: ...
        def _resolved(self, text: str) -> tuple[Any, Any]: ...
        def _with_aliases(self, text: str) -> str: ...
        def _add_recursion(self, part: Recursion) -> None: ...
        def _add_table(self, name: str, columns: Sequence[str], types: Sequence[pa.DataType]) -> None: ...

    def _cut(self, text: str) -> str:
        """The text without correlated subqueries, where they are to be cut out."""
        if self.cut is None:
            return text
        text = with_elements_as_queries(with_rows_as_exists(with_known_clauses(text)))
        # A recursive table reads nothing of the queries around it, and the planner resolves none.
        while (found := cut_recursion(text, self.count)) is not None:
            self.count += 1
            text, part = found
            self._add_recursion(part)
        cutting = Cutting(self, self.cuts_every)
        text = cutting.cut(self._with_aliases(text))
        self.was_cut = self.was_cut or cutting.needed
        return text

    def described(self, text: str) -> Described | None:
        try:
            context, frame = self._resolved(text)
        except PlanError:
            return None
        schema = frame.schema()

        def type_() -> pa.DataType:
            found = schema.types[0]
            # The columns of EXCEPT and INTERSECT are its left side's to the planner.
            if not SET_OPERATORS.isdisjoint(SqlText.read(text).words):
                with suppress(PlanError):
                    return self._read(self.message(text), (NodeIds(), ColumnNames())).plan.schema.types[0]
            if pa.types.is_floating(found):
                # What its optimizer would make a decimal, of a constant beside floats.
                return found
            with suppress(Exception):
                # What operands are converted to the optimizer is the first to know.
                return context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()).schema().types[0]
            return found

        return schema.names[0], type_

    def add_outer(self, type_: pa.DataType) -> str:
        assert self.cut is not None
        name = f"{FRONTEND_PREFIX}outer{len(self.cut.outer_types)}"
        self.tables.functions[name] = (), planner_type(plain(type_))
        self.cut.outer_types[name] = plain(type_)
        return name

    def argument(self, text: str, type_: pa.DataType) -> str:
        name = sql_name(plain(type_)) if self.casts_arguments else None
        return text if name is None else f"CAST({text} AS {name})"

    def add_subquery(self, text: str, outer: Sequence[str], types: Sequence[pa.DataType]) -> str:
        assert self.cut is not None
        message = self.message(text)
        read = self._read(message, (NodeIds(), ColumnNames())).plan
        if len(read.schema) != 1:
            raise PlanError(f"a scalar subquery must give one column, not {len(read.schema)}")
        name = f"{FRONTEND_PREFIX}subquery{len(self.cut.scalars)}"
        takes = tuple(planner_type(plain(type_)) for type_ in types)
        self.tables.functions[name] = takes, planner_type(plain(read.schema.types[0]))
        self.cut.scalars[name] = outer, lambda ids, names: self._read(message, (ids, names)).plan
        return name

    def add_lateral(self, text: str, outer: Sequence[str], values: str, columns: Sequence[str]) -> str:
        rows, beside = self.message(text), self.message(values)
        table = f"$part{self.count}"
        self.count += 1

        def make(ids: NodeIds, names: ColumnNames) -> PlanNode:
            left = self._read(beside, (ids, names)).plan
            right = self._read(rows, (ids, names)).plan
            arguments = tuple(zip(outer, left.schema.names, strict=True))
            schema = join_schema("inner", left.schema, right.schema)
            return DependentJoin(ids.new(), schema, left, right, arguments, "inner")

        self.parts[table] = make
        read = [self._read(part, (NodeIds(), ColumnNames())) for part in (beside, rows)]
        given = [*columns, *read[1].output_names[len(columns) :]]
        self._add_table(table, [*outer, *given], make(NodeIds(), ColumnNames()).schema.types)
        return table
