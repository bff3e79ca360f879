"""Writes docs/FUNCTIONS.md from the registered functions: python docs/write_functions.py."""

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

`docs/write_functions.py` writes this page, and a test checks that it is current.

SQL and `call("name", …)` know these functions. The last column shows how each is computed:

| computed | how |
|---|---|
| native | by a loop over vectors that stay in the first-level caches |
| pyarrow | by pyarrow.compute or Python, over whole batches, under Python's lock |
| lambda | as any expression, at once for the elements of all lists of a batch |

pyarrow functions are slower than native ones. Python computes a value once for each distinct argument, or once a row
if the argument is nested. One value is one call: a call of pyarrow, Python or a native kernel over a single text of
many megabytes cannot be stopped before it returns. `explain(analyze=True)` and `stats()` show their rows and time
(`arrow_rows`, `arrow_wall_nanos`).

A null argument makes the result null. Exceptions are `coalesce`, `concat_ws`, `greatest`, `least`, `is_null` and
similar functions. Regular expressions are RE2's, without back-references and look-around. [SQL.md](SQL.md) lists
differences between engines.

| function | arguments | result | computed |
|---|---|---|---|
"""
OTHER_NAMES = """
## Other names in SQL

`extract(part from x)`, `date_part('part', x)` and `part(x)` call the date functions above. SQL also has these names:

| name | function |
|---|---|
"""
DIALECT = """
These functions of DuckDB, PostgreSQL and Spark are also available:

| function | arguments | result |
|---|---|---|
"""


def page() -> str:
    """The text of the page."""
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
    """How a function is computed: a word of the introduction's table."""
    return "pyarrow" if name in ARROW_CALLS else "lambda" if name in LIST_LAMBDAS else "native"


def word(type_: pa.DataType) -> str:
    """The name of a type in the tables."""
    return "any" if type_ == ANY else "number" if type_ == NUMBER else type_word(type_)


if __name__ == "__main__":
    PAGE.write_text(page())
