"""What DataFusion knows of tables: a context each, kept for the next query over them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.frontends.planner.errors import cleaned
from qcore.frontends.planner.types import planner_schema
from qcore.functions.dialect import QCORE
from qcore.substrait.dialect_functions import DIALECT_FUNCTIONS, planner_name
from qcore_ext.ground.process import ProcessLock

SETTINGS = {
    # 0.06 is a decimal, as the standard says, not a float.
    "datafusion.sql_parser.parse_float_as_decimal": "true",
    # TIMESTAMPTZ is a timestamp with a time zone; without this it is one without.
    "datafusion.execution.time_zone": "UTC",
    # Levels of brackets, CASE and subqueries; a level takes 20 KB of stack at most.
    "datafusion.sql_parser.recursion_limit": "200",
}
# Rules that push fields of structs to scans, of which Substrait keeps nothing.
USELESS_RULES = ("extract_leaf_expressions", "push_down_leaf_projections")
# A context of eight tables takes 4 ms to make.
CONTEXTS_MAX = 16

_contexts: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_contexts_lock = ProcessLock()


class QueryTables(dict[str, pa.Schema]):
    """The tables a query may name, by their schemas, and `functions` of its own: what each takes and gives, by name."""

    def __init__(self, tables: Mapping[str, pa.Schema] = {}) -> None:
        super().__init__(tables)
        self.functions: dict[str, tuple[tuple[pa.DataType, ...], pa.DataType]] = {}


class _KnownTables:
    """Names and schemas of tables as a key, hashed by what is seen at once: to hash the fields of 24 tables takes
    longer than to parse a query over them.
    """

    def __init__(self, tables: Mapping[str, pa.Schema]) -> None:
        self.tables = [(name, tables[name]) for name in sorted(tables)]

    def __hash__(self) -> int:
        return hash(tuple((name, len(schema)) for name, schema in self.tables))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _KnownTables) or len(self.tables) != len(other.tables):
            return False
        pairs = zip(self.tables, other.tables, strict=True)
        return all(a == b and (one is two or one.equals(two, check_metadata=True)) for (a, one), (b, two) in pairs)


def context_of(
    tables: Mapping[str, pa.Schema],
    lower: bool = True,
    without: tuple[str, ...] = (),
    extended: bool = False,
    null_order: str = QCORE.null_order,
    lambdas: bool = False,
) -> Any:
    """A DataFusion context that knows empty tables of these schemas; kept for the next query over them.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Schema
        Names and schemas.
    lower : bool
        Whether names without quotes are made lower case.
    without : tuple of str
        Rules that its optimizer leaves out.
    extended : bool
        Whether it is to know the functions of other engines.
    null_order : str
        Dialect.null_order.
    lambdas : bool
        Whether its parser is to know lambdas, which others of its dialects take for operators.
    """
    if extended:
        # The rule would compute an argument's conversion, which is to be taken out again, apart from the call.
        without = (*without, "common_sub_expression_eliminate")
    functions = dict(tables.functions) if isinstance(tables, QueryTables) else {}
    key = (lower, without, extended, null_order, lambdas, _KnownTables(tables), tuple(functions.items()))
    with _contexts_lock:
        context = _contexts.get(key)
        if context is not None:
            _contexts.move_to_end(key)
            return context
    context = _new_context(tables, lower, extended, null_order, lambdas)
    for name, (takes, gives) in functions.items():
        context.register_udf(import_datafusion().udf(_refuse, list(takes), gives, "stable", name))
    for rule in (*USELESS_RULES, *without):
        context.remove_optimizer_rule(rule)
    with _contexts_lock:
        _contexts[key] = context
        while len(_contexts) > CONTEXTS_MAX:
            _contexts.popitem(last=False)
    return context


def import_datafusion() -> Any:
    """The datafusion module. PlanError says how to get it."""
    try:
        import datafusion
    except ImportError:
        raise PlanError("SQL text needs the datafusion package: pip install 'qcore[sql]'") from None
    return datafusion


def _new_context(tables: Mapping[str, pa.Schema], lower: bool, extended: bool, null_order: str, lambdas: bool) -> Any:
    datafusion = import_datafusion()
    config = datafusion.SessionConfig()
    for name, value in {**SETTINGS, "datafusion.sql_parser.default_null_ordering": null_order}.items():
        config = config.set(name, value)
    config = config.set("datafusion.sql_parser.enable_ident_normalization", str(lower).lower())
    if lambdas:
        config = config.set("datafusion.sql_parser.dialect", "duckdb")
    context = datafusion.SessionContext(config)
    if extended:
        _register_functions(context)
    for name, schema in tables.items():
        repeated = sorted({column for column in schema.names if schema.names.count(column) > 1})
        if repeated:
            raise PlanError(f"table {name!r} has more than one column {repeated[0]!r}; SQL cannot tell them apart")
        schema = planner_schema(schema)
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        try:
            context.register_record_batches(_quoted(name), [[empty]])
        except Exception as error:
            raise PlanError(f"table {name!r} cannot be used in SQL: {cleaned(str(error))}") from None
    return context


def _register_functions(context: Any) -> None:
    """Functions of other engines: the planner checks their calls and leaves them to the engine.

    It tries to compute calls of constants, and keeps them when that fails, as it does here.
    """
    datafusion = import_datafusion()
    for (name, n_arguments), known in DIALECT_FUNCTIONS.items():
        planned = planner_name(name, n_arguments)
        context.register_udf(datafusion.udf(_refuse, list(known.arguments), known.result, "immutable", planned))


def _refuse(*arguments: Any) -> Any:
    raise PlanError("not for the planner")


def _quoted(name: str) -> str:
    """The name as registered: kept as it is, upper case and dots too."""
    return '"' + name.replace('"', '""') + '"'


def read_only() -> Any:
    """Options of DataFusion's that let a text only read: a CREATE or COPY would be carried out while planning."""
    options = import_datafusion().SQLOptions()
    return options.with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
