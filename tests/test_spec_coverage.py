"""The page that lists the tests of each specification row."""

from __future__ import annotations

import re

import spec_coverage
from spec_coverage import PAGE, ROWS, coverage, ids_of


def test_ids_are_read_from_names_and_docstrings() -> None:
    assert ids_of("test_v14_and_d3_rows", "") == {"V14", "D3"}
    assert ids_of("test_x", "SPEC V1, G2: of H3; V4–V6 and D1-D2.") == {"V1", "G2", "H3", "V4", "V5", "V6", "D1", "D2"}
    assert ids_of("test_visits_v", "Q99, V0, TPC-H Q1x, v2") == set()


def test_the_page_names_every_row_and_no_test_that_is_not() -> None:
    """Written by `make coverage`; a test newer than the page may still be missing there."""
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\*\*([A-Z]\d+)\*\*", text, re.MULTILINE) == list(ROWS)
    known = {(file, test) for file, test, _ in spec_coverage.tests()}
    for file, names in re.findall(r"^- `(.*)`: (.*)$", text, re.MULTILINE):
        for name in names.split(", "):
            assert (file, name) in known, f"{file} has no {name}: run make coverage"


def test_every_claimed_row_has_a_test() -> None:
    """All rows of V, G, D and H."""
    without = spec_coverage.missing(coverage())
    assert not without, f"no test names {', '.join(without)} in its name or docstring"
