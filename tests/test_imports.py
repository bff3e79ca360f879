"""The modules that a process imports: large packages only if they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore

LARGE = (
    "pandas",
    "polars",
    "duckdb",
    "datafusion",
    "sqlglot",
    "google.protobuf",
    "pyspark",
    "asyncio",
    "pyarrow.dataset",
)
FIRST_QUERY = """
import qcore
session = qcore.Session(threads=1)
session.register("t", PATH)
text = "select k, sum(x * 1.5) as s from t where d >= date '2024-01-01' and x in (1, 2) and k like 'a%' group by k"
rows = sum(batch.num_rows for batch in session.sql(text))
assert rows == 1, rows
"""


def list_imported(program: str, *packages: str) -> list[str]:
    """Those of the packages that a process has imported after running a program."""
    report = f"\nimport sys\nprint([name for name in {packages!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program + report], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: list[str] = eval(run.stdout.splitlines()[-1])
    return found


def test_importing_qcore() -> None:
    assert list_imported("import qcore", *LARGE, "pyarrow", "numpy") == []


def test_the_public_names() -> None:
    """They need pyarrow, and no package that some queries do not need."""
    names = "; ".join(f"qcore.{name}" for name in qcore.__all__)
    assert list_imported(f"import qcore; {names}", *LARGE, "pyarrow") == ["pyarrow"]


@pytest.mark.parametrize("arguments", [["--help"], ["sql", "--help"], ["--version"], []])
def test_the_help(arguments: list[str]) -> None:
    program = f"from qcore.cli import main; main({arguments!r})"
    assert list_imported(program, *LARGE, "pyarrow", "numpy") == []


def test_the_first_query(tmp_path: Path) -> None:
    """It imports the parser.

    It imports pandas only if the program uses it; pa.scalar() and pa.array() would always do so.
    """
    path = tmp_path / "t.parquet"
    day = pa.array(["2024-02-29"] * 3).cast(pa.date32())
    pq.write_table(pa.table({"k": ["a", "a", "b"], "x": [1, 2, 3], "d": day}), path)
    program = FIRST_QUERY.replace("PATH", repr(str(path)))
    assert list_imported(program, *LARGE, "qcore.substrait.plan") == ["sqlglot"]


def test_a_query_imports_only_modules_that_it_uses() -> None:
    """A query over an Arrow table.

    It loads no other part of pyarrow, no file formats, joins or windows, and no PlanBuilder.
    """
    others = (
        "pyarrow.compute", "pyarrow.fs", "pyarrow.parquet", "pyarrow.csv", "hashlib", "concurrent.futures.thread",
        "qcore.builder.plan_builder", "qcore.writing.partition_files", "qcore_ext.join.table",
        "qcore_ext.window.window", "qcore_ext.sort.shared_sort", "qcore_ext.basic.python_operator",
        "qcore_ext.exchange.output_buffer",
    )  # fmt: skip
    make = """
import pyarrow as pa, qcore
column = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(bytes(24))])
rows = pa.Table.from_arrays([column], names=["a"])
"""
    query = "assert qcore.sql('select a, sum(a + 1) as s from t where a < 4 group by a', {'t': rows}).to_arrow()\n"
    assert list_imported(make + query, *others, *LARGE) == ["sqlglot"]
    used = ("qcore_ext.join.table", "qcore_ext.window.window")
    query = "qcore.sql('select row_number() over (order by a) as n from t join t u using (a)', {'t': rows}).to_arrow()"
    assert list_imported(make + query, *used) == [*used]


@pytest.mark.parametrize(
    "first", ["", "import qcore.sql.bind", "from qcore.session import session", "qcore.Session", "import qcore.sql"]
)
def test_sql_is_the_function(first: str) -> None:
    """The package qcore.sql does not replace the function, in any order of imports."""
    program = f"import qcore\n{first}\nassert qcore.sql('select 1 as x').to_arrow().num_rows == 1\n"
    program += (
        "from qcore.sql.bind import plan_query\nassert callable(qcore.sql)\nfrom qcore import sql\nsql('select 2')"
    )
    assert list_imported(program, "pandas") == []


def test_names() -> None:
    assert set(qcore.__all__) <= set(dir(qcore))
    assert all(getattr(qcore, name) is not None for name in qcore.__all__)
    with pytest.raises(AttributeError, match="module 'qcore' has no attribute 'Sesion'"):
        _ = qcore.Sesion  # type: ignore[attr-defined]
