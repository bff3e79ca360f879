"""What the row filters of scans did in a query."""

from __future__ import annotations

from collections import Counter
from typing import Any


def scan_figures(result: Any) -> Counter[str]:
    """The figures of all scans of a result, added up: 'rows_cut', 'pages_skipped', 'row_groups' and others."""
    total: Counter[str] = Counter()
    for pipeline in result.stats()["pipelines"]:
        for one in pipeline["operators"]:
            total.update(one.get("extent", {}))
    return total
