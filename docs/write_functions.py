"""Writes docs/FUNCTIONS.md from the functions there are: python docs/write_functions.py."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from qcore.functions.catalogue import LIST_LAMBDAS, scalar_functions
from qcore.functions.nested import ARROW_CALLS
from qcore.functions.signatures import type_word
from qcore.substrait.dialect_functions import ANY, DIALECT_FUNCTIONS, NUMBER, STAND_FOR_SYNTAX
from qcore.substrait.functions import other_names

PAGE = Path(__file__).with_name("FUNCTIONS.md")
INTRODUCTION = """\
# Scalar functions

Written by `docs/write_functions.py`; a test checks that it is current.

`call("name", …)` and SQL know the functions below. *Native* ones are loops over vectors that stay in the first-level
caches. The others are computed by pyarrow.compute, or by Python once for each distinct value or, of nested values, each
row, over whole batches under Python's lock: right, and slower the more a query leans on them. A lambda's body is an
expression as others are, computed for the elements of all lists of a batch at once. `explain(analyze=True)`
and `stats()` count their rows and time (`arrow_rows`, `arrow_wall_nanos`), so that a hot one is noticed.

A null argument makes the result null, but for `coalesce`, `concat_ws`, `greatest`, `least`, `is_null` and their kin.
Regular expressions are RE2's: no references back, no looking around. [SQL.md](SQL.md) says where engines differ.

| function | takes | gives | computed |
|---|---|---|---|
"""
OTHER_NAMES = """
## Other names in SQL

`extract(part from x)`, `date_part('part', x)` and `part(x)` are the functions of dates above. The planner's own names:

| name | is |
|---|---|
"""
DIALECT = """
Functions of DuckDB, PostgreSQL and Spark:

| function | takes | gives |
|---|---|---|
"""


def page() -> str:
    """The page's text."""
    lines = [
        f"| `{name}` | {function.takes} | {function.gives} | {computed(name)} |"
        for name, function in sorted(scalar_functions().items())
    ]
    names = [f"| `{name}` | `{own}` |" for name, own in sorted(other_names().items())]
    dialect = [
        f"| `{name}` | {', '.join(map(word, known.arguments))} | {word(known.result)} |"
        for (name, _), known in sorted(DIALECT_FUNCTIONS.items())
        if name not in STAND_FOR_SYNTAX
    ]
    return "\n".join(
        [INTRODUCTION + "\n".join(lines), OTHER_NAMES + "\n".join(names), DIALECT + "\n".join(dialect), ""]
    )


def computed(name: str) -> str:
    """By what a function is computed."""
    return "pyarrow" if name in ARROW_CALLS else "as the lambda's body" if name in LIST_LAMBDAS else "native"


def word(type_: pa.DataType) -> str:
    """A type as users call it."""
    return "any" if type_ == ANY else "number" if type_ == NUMBER else type_word(type_)


if __name__ == "__main__":
    PAGE.write_text(page())
