"""The wheel without extras: what it holds, what it needs, and one query. Run as: python wheel_alone.py WHEEL."""

import sys
import zipfile
from importlib.metadata import distributions
from pathlib import PurePosixPath

ALLOWED_ENDINGS = {".so", ".py", ".pyi", ".pxd", ".typed"}
ALLOWED_DISTRIBUTIONS = {"qcore", "numpy", "pyarrow", "pip", "setuptools"}


def check_contents(path: str) -> None:
    """One abi3 wheel: no sources, no libarrow."""
    assert "-cp311-abi3-" in path, path
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert "qcore/py.typed" in names
        for name in names:
            file = PurePosixPath(name)
            if not file.parts[0].endswith(".dist-info"):
                assert (file.suffix or file.name) in ALLOWED_ENDINGS, f"{name} does not belong into the wheel"
            if file.suffix == ".so":
                assert name.endswith(".abi3.so"), name
                assert b"libarrow" not in wheel.read(name), f"{name} links libarrow"


def run_query() -> None:
    """Filter, aggregate and order a small table."""
    import pyarrow as pa

    import qcore
    from qcore import PlanBuilder, col, lit

    table = pa.table({"k": ["a", "b", "a", None], "x": [1, 2, 3, 4]})
    plan = (
        PlanBuilder()
        .values(table)
        .filter(col("x") < lit(4))
        .aggregate(keys=["k"], aggs={"total": ("sum", "x")})
        .order_by(["k"])
        .build()
    )
    answer = qcore.Session(threads=2).execute(plan).to_arrow()
    assert answer.to_pylist() == [{"k": "a", "total": 4}, {"k": "b", "total": 2}], answer


if __name__ == "__main__":
    installed = {(found.metadata["Name"] or "").lower() for found in distributions()}
    assert installed <= ALLOWED_DISTRIBUTIONS, f"more than the wheel asks for: {installed - ALLOWED_DISTRIBUTIONS}"
    check_contents(sys.argv[1])
    run_query()
    print(f"Python {sys.version.split()[0]}: the wheel alone runs a query")
