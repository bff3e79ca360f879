"""A local Spark session for the demo."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def spark_session(cores: int) -> Iterator[tuple[Any, str]]:
    """Yield the session and an empty text, or None and the reason why there is none."""
    if shutil.which("java") is None:
        yield None, "Java is missing (apt-get install openjdk-17-jre-headless)"
        return
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        yield None, "pyspark is missing (pip install 'qcore[spark]')"
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's Python workers use this environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("qcore demo")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield session, ""
    finally:
        session.stop()
