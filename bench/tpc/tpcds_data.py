"""TPC-DS tables as Parquet and the texts of its queries, kept in data/ (ignored by git).

DuckDB's tpcds extension makes both. It is a package for one version of DuckDB, so it gets an environment of its own
below build/, whatever version the oracle has.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tpch_data import ROOT

VERSION = "1.5.5"
ENVIRONMENT = ROOT / "build" / f"tpcds-{VERSION}"

GENERATE = """
import importlib.util, pathlib, sys
import duckdb

scale, folder = float(sys.argv[1]), pathlib.Path(sys.argv[2])
package = pathlib.Path(importlib.util.find_spec("duckdb_extension_tpcds").origin).parent
(extension,) = package.rglob("tpcds.duckdb_extension")
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute(f"load '{extension}'")
connection.execute(f"call dsdgen(sf={scale})")
for (table,) in connection.sql("select table_name from duckdb_tables()").fetchall():
    connection.execute(f"copy {table} to '{folder / table}.parquet' (format parquet)")
for number, text in connection.sql("from tpcds_queries()").fetchall():
    (folder / f"q{number:02}.sql").write_text(text)
"""


def tpcds_folder(scale: float) -> Path:
    """The folder holding the tables (<name>.parquet) and queries (q01.sql …); made on first use. QCORE_DATA moves it.

    Raises subprocess.CalledProcessError where the generator's packages cannot be installed.
    """
    base = Path(os.environ.get("QCORE_DATA", ROOT / "data"))
    folder = base / f"tpcds-sf{scale:g}"
    ENVIRONMENT.parent.mkdir(parents=True, exist_ok=True)
    # Several test processes may call this at the same time.
    with open(ENVIRONMENT.parent / f"{ENVIRONMENT.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        python = generator()
        print(f"generating TPC-DS at scale {scale:g} …", flush=True)
        partial = base / f"tpcds-sf{scale:g}.{os.getpid()}.partial"
        partial.mkdir(parents=True)
        try:
            command = [str(python), "-c", GENERATE, f"{scale:g}", str(partial)]
            subprocess.run(command, check=True, capture_output=True, env=bare_environment())
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def generator() -> Path:
    """The Python of the environment that has the generator; made on first use."""
    python = ENVIRONMENT / "bin" / "python"
    if (ENVIRONMENT / ".made").exists():
        return python
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True)
    packages = [f"duckdb=={VERSION}", f"duckdb-extension-tpcds=={VERSION}"]
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    subprocess.run(command, check=True, capture_output=True, env=bare_environment())
    (ENVIRONMENT / ".made").touch()
    return python


def bare_environment() -> dict[str, str]:
    """The environment without this process's module paths: the generator must import its own DuckDB."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
