"""What DataFusion says of a query it cannot plan, in the words of who wrote the query."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from qcore.errors import PlanError
from qcore.frontends.planner.remarks import NO_PARAMETERS, NO_SETS_OF_DAYS, remark, sql_types
from qcore.frontends.planner.syntax_errors import syntax_fault
from qcore.frontends.text.chains import TOO_DEEP
from qcore.functions.aggregates import is_aggregate
from qcore.functions.calls import unknown_function
from qcore.plan.schema import unknown
from qcore.plan.window_calls import is_window_function

_PREFIXES = re.compile(
    r"^(?:DataFusion error: |Error during planning: |Schema error: |SQL error: |Invalid or Unsupported Configuration: |"
    r"This feature is not implemented: |External error: |Execution error: |Internal error: |ParserError\(|"
    r"TokenizerError\()+"
)
_NO_TABLE = re.compile(r"table '(?:datafusion\.public\.)?([^']+)' not found")
_NO_FIELD = re.compile(r"No field named ([^\s]+?)\.(?:\s|$)")
# Keys of sets that the planner, as it converts them, looks for above the groups by the names that they had before.
_SETS_AS_FIELD = re.compile(r"No field named .*Valid fields are .*\"(?:ROLLUP|CUBE|GROUPING SETS) \(", re.DOTALL)
_VALID = re.compile(r"Valid fields are (.+?)\.$", re.MULTILINE)
_STRING_OR_COMMENT = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
# Checked by the planner before it is refused, with errors that mislead.
_CHANGING = re.compile(r"\s*(insert|update|delete|merge|truncate)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$\d")
_OWN_NAME = re.compile(r"\$|(?:^|\.)__")
_NOT_SUBSTRAIT = re.compile(r'NotImplemented\("(.*)', re.DOTALL)
_STATEMENT = re.compile(r"(?:DDL|DML|Statement) not supported: ([\w ]+)")
_AMBIGUOUS = re.compile(r"Ambiguous reference to unqualified field \"?([^\s\"]+)")
_NO_FUNCTION = re.compile(r"Invalid function '([^']+)'")
_NO_OPERATOR = re.compile(r"Cannot coerce arithmetic expression (.+?) to valid types")
_NO_SIGNATURE = re.compile(r"Function '(\w+)' (?:failed to match any signature|requires|expects)")
_REQUIRES = re.compile(r"requires (\w+)")
_RECEIVED = re.compile(r"but received .+? \(DataType: (\w+(?:\([^()]*\))?)\)\.")
_TIME = re.compile(r"Date|Time")
# What stands for means of times.
_MEANS = {
    name: f"{shown} takes numbers: make_timestamp(cast({written} as bigint)) is that of the timestamps x, and "
    "quantile_disc(x, 0.5) the one of them, or of dates and times, in the middle"
    for name, shown, written in (
        ("avg", "avg()", "avg(epoch_us(x))"), ("median", "median()", "median(epoch_us(x))"),
        ("percentile_cont", "quantile_cont()", "quantile_cont(epoch_us(x), 0.5)"),
    )
}  # fmt: skip
_COUNTS = re.compile(r"expects (\d+) arguments but received (\d+)")
_PLAN_TYPE = re.compile(r"Unsupported plan type: (\w+)")


def plan_error(error: Exception, tables: Mapping[str, pa.Schema], planned: str = "") -> PlanError:
    """What the planner's error about a text means to who wrote the query, over tables of these schemas."""
    text = str(error)
    if "RecursionLimitExceeded" in text:
        return PlanError(TOO_DEEP)
    if "Aggregate ORDER BY is not implemented for window functions" in text:
        return PlanError(
            "an ORDER BY among the arguments of lag, lead and ranks is not supported; write it in OVER (…)"
        )
    if "Invalid window frame: frame offsets" in text:
        return PlanError(
            "a frame's distances are constants: whole numbers for ROWS and GROUPS, numbers or intervals for RANGE; one "
            "that each row has of its own takes a join with the rows around it, by row_number()"
        )
    fault = syntax_fault(cleaned(text), planned) if planned else None
    if fault is not None:
        return fault
    missing = _NO_TABLE.search(text)
    if missing:
        return unknown("table", missing.group(1), tables, "the query")
    if _SETS_AS_FIELD.search(text):
        return PlanError(NO_SETS_OF_DAYS)
    missing = None if "__grouping_id" in text else _NO_FIELD.search(text)
    if missing:
        return _unknown_column(missing.group(1).replace('"', ""), text, tables)
    ambiguous = _AMBIGUOUS.search(text)
    if ambiguous:
        holders = [table for table, schema in tables.items() if ambiguous.group(1) in schema.names]
        hint = f", as in {holders[0]}.{ambiguous.group(1)}" if holders else ""
        return PlanError(f"column {ambiguous.group(1)!r} is in more than one table of the query; say in which{hint}")
    call = _of_a_call(text)
    if call is not None:
        return call
    statement = _STATEMENT.search(text)
    if statement:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", statement.group(1).replace("Memory", "")).upper()
        return no_statement(words)
    unsupported = _NOT_SUBSTRAIT.match(text)
    if unsupported:
        return PlanError(_unsupported(unsupported.group(1)))
    said = remark(cleaned(text))
    return PlanError(f"the query cannot be planned: {cleaned(text)}" if said is None else said)


def _unknown_column(name: str, text: str, tables: Mapping[str, pa.Schema]) -> PlanError:
    """What is wrong with a name, of which the planner says what could stand in its place."""
    valid = _VALID.search(text)
    # The names that are put in for parts of the query are nobody's.
    fields = [field for field in (valid.group(1).split(", ") if valid else []) if not _OWN_NAME.search(field)]
    if not fields:
        known = {column for schema in tables.values() for column in schema.names}
        if valid is None and name.rpartition(".")[2] in known:
            return PlanError(f"column {name!r} cannot be used at that place in the query; no table is named before it")
        return unknown("column", name.rpartition(".")[2], known, "the query")
    table, _, column = name.rpartition(".")
    names = {field.rpartition(".")[2].strip('"'): field for field in fields}
    if not table or column not in names:
        if any(name in schema.names for schema in tables.values()):
            shown = ", ".join(sorted(names)[:20])
            return PlanError(f"column {name!r} cannot be used at that place in the query; there are {shown}")
        exact = [field for short, field in names.items() if short != column and short.lower() == column.lower()]
        if exact:
            return PlanError(
                f"unknown column {column!r} in the query; {exact[0]} is written in quotes, with its capitals"
            )
        return unknown("column", column, names, "the query")
    others = dict.fromkeys(field.rpartition(".")[0] for field in fields if "." in field)
    return PlanError(
        f"unknown column {name!r} in the query: there is no table {table!r} at that place; did you mean "
        f"{names[column]!r}?"
        if len(others) == 1
        else f"unknown column {name!r} in the query: there is no table {table!r} at that place, but {', '.join(others)}"
    )


def refuse_misread(text: str) -> None:
    """PlanError for a statement that the planner checks before it refuses it, and for parameters."""
    bare = _STRING_OR_COMMENT.sub(" ", text)
    changing = _CHANGING.match(bare)
    if changing:
        raise no_statement(changing.group(1).upper())
    if _PARAMETER.search(bare):
        raise PlanError(NO_PARAMETERS)


def no_statement(words: str) -> PlanError:
    """That a statement of this kind does not run."""
    return PlanError(
        f"{words} is not supported: qcore runs queries. CREATE OR REPLACE TABLE name AS SELECT … makes a table anew of "
        "the rows that stay, changed or not, COPY (…) TO 'file.parquet' writes a query's rows, and Session.register() "
        "makes a table of a file, of Arrow data or of a result"
    )


def _of_a_call(text: str) -> PlanError | None:
    """What is wrong with a function's name or arguments, or with an operator's."""
    invalid = _NO_FUNCTION.search(text)
    if invalid:
        name = invalid.group(1)
        if is_window_function(name) and not is_aggregate(name):
            return PlanError(f"{name} is a window function; write {name}(…) OVER (…)")
        return unknown_function(name)
    operator = _NO_OPERATOR.search(text)
    if operator:
        return PlanError(
            f"{sql_types(operator.group(1))} is not defined; cast one side to a type that goes with the other"
        )
    wrong = _NO_SIGNATURE.search(text)
    if wrong is None:
        return None
    wanted = dict.fromkeys(_REQUIRES.findall(text))
    given = dict.fromkeys(_RECEIVED.findall(text))
    counts = _COUNTS.search(text)
    if not wanted and counts:
        return PlanError(f"{wrong.group(1)}() takes {counts.group(1)} arguments, not {counts.group(2)}")
    if not wanted or not given:
        return None
    if wrong.group(1) in _MEANS and any(_TIME.match(name) for name in given):
        return PlanError(_MEANS[wrong.group(1)])
    takes, not_these = (sql_types(" or ".join(names)) for names in (wanted, given))
    return PlanError(f"{wrong.group(1)}() takes {takes}, not {not_these}; cast the argument")


def _unsupported(text: str) -> str:
    if "using" in text:
        return "JOIN … USING and NATURAL JOIN are not supported at that place in the query; write the condition with ON"
    if "OuterReferenceColumn" in text:
        return "a correlated subquery at that place is not supported yet; use a join"
    if "Unsupported plan type: <subquery>" in text:
        return "a LATERAL subquery at that place is not supported yet; use a join, or row_number() with QUALIFY"
    plan_type = _PLAN_TYPE.search(text)
    if plan_type and plan_type.group(1) == "Unnest":
        return "UNNEST in SQL is not supported yet; PlanBuilder.unnest() does it"
    construct = plan_type.group(1).upper() if plan_type else text.strip("\"')").replace('\\"', '"')
    return f"{construct[:200]} is not supported yet"


def cleaned(text: str) -> str:
    """DataFusion's message without its wrapping: the last cause of those it lists."""
    text = text.strip().removeprefix("Exception: ").rpartition("\ncaused by\n")[2]
    short = _PREFIXES.sub("", text)
    if short != text and short.endswith('")'):
        short = short[:-2]
    first, _, rest = short.strip('"').replace("\\n", "\n").partition("\n")
    hint = next((line for line in rest.splitlines() if line.startswith("Did you mean")), "")
    first = first.replace('\\"', '"')
    return f"{first} {hint}".strip()
