"""Translation of Substrait's function calls to expressions, by the names of qcore.functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qcore.expression.bound import Bound
from qcore.expression.tree import Literal
from qcore.functions.calls import bind_call
from qcore.functions.dialect import QCORE
from qcore.functions.typed import derive
from qcore.substrait.standard_functions import Choices, standard_call

# Quotients of integers are integers.
_DIALECT = replace(QCORE, division="integer")
# Names of functions that qcore.functions has under other names.
_NAMES = {
    "lt": "less", "lte": "less_equal", "gt": "greater", "gte": "greater_equal", "modulus": "modulo",
    "regex_match": "~", "regex_imatch": "~*", "regex_not_match": "!~", "regex_not_imatch": "!~*",
}  # fmt: skip


def bind_function(name: str, arguments: Sequence[Bound], is_standard: bool, choices: Choices) -> Bound:
    """The call of a scalar function. With `is_standard` the name has the meaning of Substrait's standard extensions.

    Raises
    ------
    PlanError
        The function is unknown, or takes another number of arguments, or other types.
    """
    if is_standard:
        made = standard_call(name, tuple(argument.expr for argument in arguments), choices)
        if made is not None:
            return derive(made, arguments)
    if name in ("like", "ilike"):
        # DataFusion's producer always writes the escape character, which may be null.
        arguments = [part for part in arguments if not (isinstance(part.expr, Literal) and part.expr.value is None)]
    if name == "logb":
        # The base is the second argument, in SQL the first.
        name, arguments = "log", arguments[::-1]
    return bind_call(_NAMES.get(name, name), arguments, _DIALECT)
