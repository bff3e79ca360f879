"""TPC-H tables as Parquet, generated once by tpchgen-cli and kept in data/ (ignored by git)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def tpch_folder(scale: float) -> Path:
    """The folder holding the tables at this scale; made on first use. QCORE_DATA moves it."""
    base = Path(os.environ.get("QCORE_DATA", ROOT / "data"))
    folder = base / f"tpch-sf{scale:g}"
    if all((folder / f"{table}.parquet").exists() for table in TABLES):
        return folder
    tool = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if tool is None:
        sys.exit("tpchgen-cli is missing: pip install tpchgen-cli")
    print(f"generating TPC-H at scale {scale:g} …", flush=True)
    # Files are written to a temporary folder first, so that a stopped run leaves no folder that looks complete.
    partial = base / f"tpch-sf{scale:g}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        subprocess.run(
            [tool, "parquet", "-s", f"{scale:g}", "--output-dir", str(partial)], check=True, capture_output=True
        )
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def table_paths(scale: float) -> dict[str, str]:
    """Path of each table's file by name."""
    folder = tpch_folder(scale)
    return {table: str(folder / f"{table}.parquet") for table in TABLES}


def query_text(number: int) -> str:
    """The SQL of a TPC-H query."""
    return (ROOT / "bench" / "tpch" / "queries" / f"q{number:02}.sql").read_text()
