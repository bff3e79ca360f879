"""Aggregates by their names in dialects, as expressions over the engine's aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Protocol

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, call
from qcore.expression.types import FLOAT64, INT64, STRING, is_list_of_any_layout, is_temporal, plain
from qcore.functions.aggregates import aggregate_functions, aggregate_type, is_aggregate
from qcore.functions.calls import bind_call, unknown_function
from qcore.functions.casts import bind_cast
from qcore.functions.dialect import QCORE, Dialect
from qcore.functions.typed import cast, constant, derive_expr, engine_call, is_null, literal_value
from qcore.record import record

#: A key of the ORDER BY inside an aggregate call: value, descending, nulls first.
Order = tuple[Bound, bool, bool]
_STAMP = pa.timestamp("us")
# Ticks of a time as numbers of which the sum does not overflow.
_TICKS = pa.decimal128(20, 0)


class AddAggregate(Protocol):
    """Registers one call of an aggregate of the engine, and returns its output column."""

    def __call__(
        self,
        function: str,
        arguments: Sequence[Bound],
        distinct: bool,
        filter: Bound | None,
        order: Sequence[Order],
    ) -> Bound:
        """The column of the call."""


@record(frozen=True)
class _WrittenCall:
    """A call as it was written, from which builders make expressions."""

    name: str
    arguments: tuple[Bound, ...]
    distinct: bool
    filter: Bound | None
    order: tuple[Order, ...]
    add: AddAggregate
    dialect: Dialect

    def call(self, function: str, *arguments: Bound, order: Sequence[Order] | None = None) -> Bound:
        """A call of an aggregate of the engine over the same rows. PlanError unless the types fit."""
        try:
            aggregate_type(function, [argument.type for argument in arguments])
        except PlanError as error:
            if arguments and is_temporal(plain(arguments[0].type)) and "takes numbers" in str(error):
                raise self._of_times() from None
            raise PlanError(str(error).replace(function, self.name, 1)) from None
        return self.add(function, arguments, self.distinct, self.filter, self.order if order is None else order)

    def _of_times(self) -> PlanError:
        """The error for dates and times, with the expression to use instead."""
        more = "; quantile_disc(x, 0.5) takes dates and times" if self.name in ("median", "quantile_cont") else ""
        return PlanError(
            f"{self.name}() takes numbers; for timestamps write "
            f"make_timestamp(cast({self.name}(epoch_us(x)) as bigint)){more}"
        )

    def where(self, *conditions: Bound) -> _WrittenCall:
        """The same call over only the rows for which these conditions are true."""
        given = [*conditions] if self.filter is None else [self.filter, *conditions]
        return replace(self, filter=given[0] if len(given) == 1 else bind_call("and", given))

    def values(self) -> Bound:
        """The list of all values."""
        return self.call("array_agg", self.arguments[0])


_Build = Callable[[_WrittenCall], Bound]


def _plain(function: str) -> _Build:
    return lambda of: of.call(function, *of.arguments)


def _sum(of: _WrittenCall) -> Bound:
    (value,) = of.arguments
    return of.call("sum", cast(value, INT64) if pa.types.is_boolean(value.type) else value)


def _average(of: _WrittenCall) -> Bound:
    """The mean. For dates, timestamps and times of day it is a time in microseconds, or nanoseconds if they are.

    As in DuckDB it is the nearest such time. A half is rounded down, and the mean of times before 1970 towards 1970.
    """
    (value,) = of.arguments
    given = plain(value.type)
    type_ = _fine(given)
    if type_ != given:
        value = cast(value, type_)
    if not (pa.types.is_timestamp(type_) or pa.types.is_time(type_) or pa.types.is_duration(type_)):
        return of.call("avg", cast(value, INT64) if pa.types.is_boolean(type_) else value)
    total, count = of.call("sum", cast(cast(value, INT64), _TICKS)), of.call("count", value)
    n = cast(engine_call("nullif", count, constant(0)), _TICKS)
    whole = engine_call("integer_quotient", total, n)
    rest = engine_call("subtract", total, engine_call("multiply", cast(whole, _TICKS), n))
    is_past_half = engine_call("greater", engine_call("add", rest, rest), n)
    return cast(engine_call("add", cast(whole, INT64), cast(is_past_half, INT64)), type_)


def _fine(type_: pa.DataType) -> pa.DataType:
    """The type of the mean of dates and times; other types as they are."""
    if pa.types.is_date(type_):
        return _STAMP
    if pa.types.is_timestamp(type_) and type_.unit in ("s", "ms"):
        return pa.timestamp("us", type_.tz)
    return pa.time64("us") if pa.types.is_time32(type_) else type_


def _count_if(of: _WrittenCall) -> Bound:
    (condition,) = of.arguments
    truth = condition if pa.types.is_boolean(condition.type) else bind_cast(condition, pa.bool_(), of.dialect)
    if of.distinct:
        raise PlanError(f"{of.name}(DISTINCT …) is not supported")
    if of.dialect.syntax == "spark":
        return replace(of.where(truth), arguments=()).call("count")
    # A sum, as in DuckDB: null if no condition is known.
    return of.call("sum", cast(truth, INT64))


def _count_distinct(of: _WrittenCall) -> Bound:
    return replace(of, distinct=True).call("count", *of.arguments)


def _of_list(function: str, empty: Bound | None = None) -> _Build:
    """An aggregate that is a function of the list of all values."""

    def build(of: _WrittenCall) -> Bound:
        if is_null(of.arguments[0]):
            return constant(None)
        made = bind_call(function, [of.values()], of.dialect)
        return made if empty is None else engine_call("coalesce", made, empty)

    return build


def _exact_sum(of: _WrittenCall) -> Bound:
    """The sum of floats, rounded only once at the end."""
    (value,) = of.arguments
    return engine_call("list_fsum", replace(of, arguments=(cast(value, FLOAT64),)).values())


def _exact_average(of: _WrittenCall) -> Bound:
    total, count = _exact_sum(of), of.call("count", of.arguments[0])
    return engine_call("divide", total, cast(count, FLOAT64))


def _geometric_mean(of: _WrittenCall) -> Bound:
    logarithm = bind_call("ln", of.arguments, of.dialect)
    return engine_call("exp", of.call("avg", logarithm))


def _standard_error(of: _WrittenCall) -> Bound:
    deviation, count = of.call("stddev_pop", *of.arguments), of.call("count", *of.arguments)
    return derive_expr(lambda a, n: call("divide", a, Call("sqrt", (n,))), deviation, count)


def _are_known(*values: Bound) -> list[Bound]:
    return [engine_call("is_not_null", value) for value in values]


def _extreme_of(descending: bool) -> _Build:
    """arg_max(value, key[, n]): the value of the row with the largest key.

    Rows with a null value or key are ignored.
    """

    def build(of: _WrittenCall) -> Bound:
        value, key, *count = of.arguments
        rows, order = of.where(*_are_known(value, key)), [(key, descending, False)]
        return rows.call("first", value, order=order) if not count else _first_of(rows, value, order, count[0])

    return build


def _extreme(function: str, descending: bool) -> _Build:
    """max(x), or max(x, n): the n largest values."""

    def build(of: _WrittenCall) -> Bound:
        value, *count = of.arguments
        if not count:
            return of.call(function, value)
        return _first_of(of.where(*_are_known(value)), value, [(value, descending, False)], count[0])

    return build


def _first_of(of: _WrittenCall, value: Bound, order: Sequence[Order], count: Bound) -> Bound:
    n = literal_value(count)
    if not isinstance(n, int) or n < 1:
        raise PlanError(f"{of.name}: the number of values is a positive integer constant")
    return engine_call("list_slice", of.call("array_agg", value, order=order), constant(1), count)


def _quantile(function: str) -> _Build:
    """A quantile. For a list of fractions the result is a list of quantiles, or null if there is no value."""

    def build(of: _WrittenCall) -> Bound:
        value, *rest = of.arguments
        if function == "median":
            return of.call("median", value)
        if not rest:
            raise PlanError(f"{of.name} takes a value and a fraction")
        if not is_list_of_any_layout(plain(rest[0].type)):
            return of.call(function, value, rest[0])
        fractions = rest[0].expr
        if isinstance(fractions, Call) and fractions.function == "list_value":
            wanted = [Bound(part, FLOAT64) for part in fractions.arguments]
        else:
            wanted = [constant(part) for part in literal_value(rest[0]) or ()]
        if not wanted:
            raise PlanError(f"{of.name} takes a list of at least one fraction")
        each = [of.call(function, value, _fraction(fraction)) for fraction in wanted]
        found = engine_call("greater", of.call("count", value), constant(0))
        return derive_expr(lambda test, made: Case(((test, made),)), found, engine_call("list_value", *each))

    return build


def _fraction(value: Bound) -> Bound:
    number = literal_value(value)
    return constant(float(number)) if isinstance(number, (Decimal, int)) else value


def _string_agg(of: _WrittenCall) -> Bound:
    value, *between = of.arguments
    text = value if pa.types.is_string(plain(value.type)) else cast(value, STRING)
    return of.call("string_agg", text, *(between or (constant(","),)))


def _collect_values(distinct: bool) -> _Build:
    """Spark's collect_list: without nulls, and an empty list for no rows."""

    def build(of: _WrittenCall) -> Bound:
        (value,) = of.arguments
        rows = replace(of.where(*_are_known(value)), distinct=of.distinct or distinct)
        return engine_call("coalesce", rows.call("array_agg", value), constant([], pa.list_(value.type)))

    return build


# The engine's names of aggregates with several names.
_SAME = {
    "stddev": "stddev_samp", "std_dev": "stddev_samp", "var": "var_samp", "variance": "var_samp",
    "var_sample": "var_samp", "var_population": "var_pop", "covar": "covar_samp", "every": "bool_and",
    "first_value": "first", "last_value": "last", "arbitrary": "first", "list": "array_agg", "mean": "avg",
    "average": "avg", "approx_median": "median", "percentile_cont": "quantile_cont", "quantile": "quantile_disc",
    "approx_percentile_cont": "quantile_cont", "approx_quantile": "quantile_cont", "percentile_disc": "quantile_disc",
    "listagg": "string_agg", "group_concat": "string_agg",
}  # fmt: skip
_BUILDERS: dict[str, _Build] = {
    "sum": _sum,
    "avg": _average,
    **dict.fromkeys(("count_if", "countif"), _count_if),
    **dict.fromkeys(("approx_count_distinct", "approx_distinct"), _count_distinct),
    "product": _of_list("list_product"),
    "skewness": _of_list("list_skewness"),
    "kurtosis": _of_list("list_kurtosis"),
    "kurtosis_pop": _of_list("list_kurtosis_pop"),
    "mad": _of_list("list_mad"),
    "entropy": _of_list("list_entropy", constant(0.0)),
    "histogram": _of_list("list_histogram"),
    **dict.fromkeys(("fsum", "sumkahan", "kahan_sum"), _exact_sum),
    "favg": _exact_average,
    **dict.fromkeys(("geomean", "geometric_mean"), _geometric_mean),
    "sem": _standard_error,
    **dict.fromkeys(("arg_max", "argmax", "max_by"), _extreme_of(True)),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), _extreme_of(False)),
    "max": _extreme("max", True),
    "min": _extreme("min", False),
    **{name: _quantile(name) for name in ("median", "quantile_cont", "quantile_disc")},
    "string_agg": _string_agg,
}  # fmt: skip
_SPARK: dict[str, _Build] = {
    "collect_list": _collect_values(False),
    "collect_set": _collect_values(True),
    "percentile": _quantile("quantile_cont"),
    "any": _plain("bool_or"),
    "some": _plain("bool_or"),
}
_SHARED: dict[str, _Build] = {"collect_list": _plain("array_agg")}
# Aggregates whose value is in the ORDER BY of WITHIN GROUP.
_OF_ORDER = frozenset({"mode", "quantile_cont", "quantile_disc"})


def is_aggregate_name(name: str, dialect: Dialect = QCORE) -> bool:
    """Whether the dialect has an aggregate of this name."""
    return _find(name.lower(), dialect) is not None


def aggregate_names(dialect: Dialect = QCORE) -> frozenset[str]:
    """The names of aggregates that a dialect has."""
    return frozenset({*_SAME, *_BUILDERS, *_own(dialect), *aggregate_functions()})


def _own(dialect: Dialect) -> dict[str, _Build]:
    return _SPARK if dialect.syntax == "spark" else _SHARED


def engine_aggregate(name: str) -> str:
    """The engine's name of an aggregate with another name; other names are returned unchanged."""
    return _SAME.get(name, name)


def _find(name: str, dialect: Dialect) -> _Build | None:
    own = engine_aggregate(name)
    found = _own(dialect).get(name) or _BUILDERS.get(own)
    return _plain(own) if found is None and is_aggregate(own) else found


def bind_aggregate(
    name: str,
    arguments: Sequence[Bound],
    *,
    distinct: bool = False,
    filter: Bound | None = None,
    order: Sequence[Order] = (),
    within_group: bool = False,
    add: AddAggregate,
    dialect: Dialect = QCORE,
) -> Bound:
    """The aggregate as an expression over columns of calls that `add` registers.

    Raises
    ------
    PlanError
        The aggregate is unknown, or takes another number of arguments, or other types.
    """
    build = _find(name.lower(), dialect)
    if build is None:
        raise unknown_function(name, dialect, sorted(aggregate_names(dialect)))
    given = tuple(arguments)
    if within_group:
        own = engine_aggregate(name.lower())
        if own in _OF_ORDER:
            if len(order) != 1:
                raise PlanError(f"{name} WITHIN GROUP takes one expression to order by")
            given = (order[0][0], *given)
        elif own not in ("string_agg", "array_agg"):
            raise PlanError(f"{name} takes no WITHIN GROUP; write its arguments in brackets")
    try:
        return build(_WrittenCall(name.lower(), given, distinct, filter, tuple(order), add, dialect))
    except ValueError:
        n = len(given)
        raise PlanError(f"{name} does not take {n} argument{'s' if n != 1 else ''}") from None
