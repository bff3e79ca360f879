"""Writes docs/FUNCTIONS.md from the registered functions: python docs/write_functions.py."""

from __future__ import annotations

from pathlib import Path

from qcore.functions.calls import SHARED
from qcore.functions.catalogue import LIST_LAMBDAS, scalar_functions
from qcore.functions.entries import Table
from qcore.functions.nested import ARROW_CALLS
from qcore.functions.operators import SIGNS
from qcore.functions.tables.spark import SPARK

PAGE = Path(__file__).with_name("FUNCTIONS.md")
INTRODUCTION = """\
# Scalar functions

`docs/write_functions.py` writes this page, and a test checks that it is current.

These functions are available in SQL and as `call("name", …)`. The last column shows how each is computed:

| computed | how |
|---|---|
| native | by a loop over vectors that stay in the first-level caches |
| pyarrow | by pyarrow.compute or Python, over whole batches, under Python's lock |
| lambda | like any expression, in one pass over the elements of all lists of a batch |

pyarrow functions are slower than native ones. A function written in Python is called once for each distinct argument,
or once for each row if the argument is nested. `explain(analyze=True)` and `stats()` show the rows and the time of
pyarrow functions (`arrow_rows`, `arrow_wall_nanos`). A query cannot be stopped during the computation of one value. A
function of a single text of many megabytes therefore runs to its end.

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
MORE = """
SQL also has these functions, which are computed by expressions over those above. If a name is in both tables, SQL
accepts the arguments in this table:

| function | arguments | result |
|---|---|---|
"""
OF_SPARK = """
## Spark

With `syntax="spark"` these names have Spark's meaning. If the second and third columns show a name, the function is an
alias of that one.

| function | arguments | result |
|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    lines = [
        f"| `{name}` | {function.takes} | {function.gives} | {computed(name)} |"
        for name, function in sorted(scalar_functions().items())
    ]
    parts = [
        INTRODUCTION + "\n".join(lines),
        OTHER_NAMES + "\n".join(other_names(SHARED)),
        MORE + "\n".join(functions(SHARED)),
        OF_SPARK + "\n".join(sorted([*functions(SPARK), *other_names(SPARK, 2)])),
    ]
    return "\n".join([*parts, ""])


def other_names(table: Table, n_cells: int = 1) -> list[str]:
    """Rows of the names of a table that are aliases of other names."""
    names = {name: own for name, own in table.items() if isinstance(own, str) and name not in SIGNS}
    return [f"| `{name}` |{f' `{own}` |' * n_cells}" for name, own in sorted(names.items())]


def functions(table: Table) -> list[str]:
    """Rows of the functions of a table."""
    return [
        f"| `{name}` | {found.takes or 'none'} | {found.gives} |"
        for name, found in sorted(table.items())
        if not isinstance(found, str) and name not in SIGNS
    ]


def computed(name: str) -> str:
    """How a function is computed: a word of the introduction's table."""
    return "pyarrow" if name in ARROW_CALLS else "lambda" if name in LIST_LAMBDAS else "native"


if __name__ == "__main__":
    PAGE.write_text(page())
