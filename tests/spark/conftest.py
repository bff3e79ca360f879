"""TPC-DS for tests of Spark: tables and queries by DuckDB's generator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="session")
def tpcds_at(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Any]:
    """A function that returns TPC-DS at a scale: `tables`, paths by name, and `queries`, texts by name."""
    known: dict[float, Any] = {}

    def tpcds(scale: float) -> Any:
        if scale not in known:
            with pytest.MonkeyPatch.context() as patch:
                if "QCORE_DATA" not in os.environ:
                    patch.setenv("QCORE_DATA", str(tmp_path_factory.mktemp("suites")))
                patch.syspath_prepend(str(BENCH / "tpc"))
                try:
                    import suites

                    known[scale] = suites.tpcds(scale)
                except subprocess.CalledProcessError as error:
                    told = error.stderr.decode()[-300:]
                    pytest.skip(f"TPC-DS data needs packages that cannot be installed here: {told}")
                finally:
                    sys.modules.pop("suites", None)
        return known[scale]

    return tpcds
