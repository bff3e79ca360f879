"""Spark's daemon of Python workers with the engine imported: spark.python.daemon.module=qcore.spark.daemon.

Workers are forked from the daemon. So a worker starts with the engine in memory, and its first task does not import it.
"""

from __future__ import annotations

import qcore.spark.stage_task  # noqa: F401 - imported for the workers
from qcore.garbage import exempt_modules


def main() -> None:
    """Run Spark's daemon."""
    from pyspark.daemon import manager

    # A search that writes to the objects' headers would also copy the pages that workers share.
    exempt_modules()
    manager()


if __name__ == "__main__":
    main()
