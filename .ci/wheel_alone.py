"""The wheel without extras: what it holds, what it needs, and a plan. With sqlglot beside it: SQL needs no more.

Run as: python wheel_alone.py WHEEL
"""

import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions, requires
from pathlib import PurePosixPath

ALLOWED_ENDINGS = {".so", ".py", ".pyi", ".pxd", ".typed"}
PACKAGES = {"qcore", "qcore_ext"}
ALLOWED_DISTRIBUTIONS = {"qcore", "numpy", "pyarrow", "pip", "setuptools"}
# What the sql extra is, and the compiled part of it.
SQL_DISTRIBUTIONS = {"sqlglot", "sqlglotc"}


def check_contents(path: str) -> None:
    """One abi3 wheel: no sources, no libarrow."""
    assert "-cp311-abi3-" in path, path
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert "qcore/py.typed" in names
        for name in names:
            file = PurePosixPath(name)
            if not file.parts[0].endswith(".dist-info"):
                assert file.parts[0] in PACKAGES, f"{name} does not belong into the wheel"
                assert (file.suffix or file.name) in ALLOWED_ENDINGS, f"{name} does not belong into the wheel"
            if file.suffix == ".so":
                assert name.endswith(".abi3.so"), name
                assert b"libarrow" not in wheel.read(name), f"{name} links libarrow"


def run_query() -> None:
    """Filter, aggregate and order a small table, from memory and from Parquet."""
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    import qcore
    from qcore import PlanBuilder, col, lit

    prices = pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("3.00"), None], pa.decimal128(15, 2))
    table = pa.table({"k": ["a", "b", "a", None], "x": [1, 2, 3, 4], "price": prices})
    pq.write_table(table, "small.parquet")
    for source in (PlanBuilder().values(table), PlanBuilder().scan("t", source="small.parquet")):
        plan = (
            source.filter(col("x") < lit(4))
            .aggregate(keys=["k"], aggs={"total": ("sum", "x"), "price": ("sum", "price")})
            .order_by(["k"])
            .build()
        )
        answer = qcore.Session(threads=2).execute(plan).to_arrow()
        assert answer.to_pylist() == [
            {"k": "a", "total": 4, "price": Decimal("4.50")},
            {"k": "b", "total": 2, "price": Decimal("2.25")},
        ], answer


def run_sql() -> None:
    """A query by text, and what says which extra a Substrait plan needs."""
    import qcore

    text = "select k, sum(x) as s from 'small.parquet' where x < 4 and k like '_' group by k order by k"
    assert qcore.sql(text).to_arrow().to_pylist() == [{"k": "a", "s": 4}, {"k": "b", "s": 2}]
    refused(lambda: qcore.Session().substrait(b""), "pip install 'qcore[substrait]'")
    asked = [line for line in requires("qcore") or () if "extra == 'sql'" in line.replace('"', "'")]
    assert len(asked) == 1 and asked[0].startswith("sqlglot"), asked


def refused(ask: Callable[[], object], message: str) -> None:
    """A PlanError with this message."""
    import qcore

    said = ""
    try:
        ask()
    except qcore.PlanError as error:
        said = str(error)
    assert message in said, said


if __name__ == "__main__":
    installed = {(found.metadata["Name"] or "").lower() for found in distributions()}
    more = installed - ALLOWED_DISTRIBUTIONS
    assert more <= SQL_DISTRIBUTIONS, f"more than the wheel asks for: {more - SQL_DISTRIBUTIONS}"
    check_contents(sys.argv[1])
    run_query()
    if more:
        run_sql()
    else:
        import qcore

        refused(lambda: qcore.sql("select 1"), "pip install 'qcore[sql]'")
    import numpy
    import pyarrow

    versions = f"pyarrow {pyarrow.__version__}, numpy {numpy.__version__}"
    print(f"Python {sys.version.split()[0]}, {versions}: the wheel {'and sqlglot' if more else 'alone'} runs a query")
