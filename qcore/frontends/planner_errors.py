"""What DataFusion says of a query it cannot plan, in the words of who wrote the query. Floor P2."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from qcore.language.schema import unknown
from qcore_ext.ground.status import PlanError

_PREFIXES = re.compile(
    r"^(?:DataFusion error: |Error during planning: |Schema error: |SQL error: |Invalid or Unsupported Configuration: |"
    r"This feature is not implemented: |External error: |Execution error: |Internal error: |ParserError\(|"
    r"TokenizerError\()+"
)
_NO_TABLE = re.compile(r"table '(?:datafusion\.public\.)?([^']+)' not found")
_NO_FIELD = re.compile(r"No field named ([^\s]+?)\.(?:\s|$)")
_NOT_SUBSTRAIT = re.compile(r'NotImplemented\("(.*)', re.DOTALL)
_STATEMENT = re.compile(r"(?:DDL|DML|Statement) not supported: ([\w ]+)")
_PLAN_TYPE = re.compile(r"Unsupported plan type: (\w+)")


def plan_error(error: Exception, tables: Mapping[str, pa.Schema]) -> PlanError:
    """What the planner's error means to who wrote the query, over tables of these schemas."""
    text = str(error)
    missing = _NO_TABLE.search(text)
    if missing:
        return unknown("table", missing.group(1), tables, "the query")
    missing = _NO_FIELD.search(text)
    if missing:
        name = missing.group(1).replace('"', "").rpartition(".")[2]
        columns = dict.fromkeys(column for schema in tables.values() for column in schema.names)
        if name in columns:
            return PlanError(f"column {missing.group(1)!r} cannot be used at that place in the query")
        return unknown("column", name, columns, "the query")
    statement = _STATEMENT.search(text)
    if statement:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", statement.group(1).replace("Memory", "")).upper()
        return PlanError(
            f"{words} is not supported: qcore runs queries. COPY (…) TO 'file.parquet' writes one, Session.register() "
            "makes a table of a file, of Arrow data or of a result"
        )
    unsupported = _NOT_SUBSTRAIT.match(text)
    if unsupported:
        return PlanError(_unsupported(unsupported.group(1)))
    return PlanError(f"the query cannot be planned: {cleaned(text)}")


def _unsupported(text: str) -> str:
    if "using" in text:
        return "JOIN … USING and NATURAL JOIN are not supported at that place in the query; write the condition with ON"
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
