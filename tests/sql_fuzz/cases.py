"""Cases by number. A seed and a number always give the same tables, query and ways to run it."""

from __future__ import annotations

import random
from pathlib import Path

from sql_fuzz.queries import Ordered, Queries, Shape
from sql_fuzz.recursion import recursive
from sql_fuzz.run import Difference, Tables, Way, difference, expected_rows, random_way
from sql_fuzz.shapes import SHAPES
from sql_fuzz.shrink import Case, Failing, fault, shrunk
from sql_fuzz.tables import random_tables

# Several queries use the same tables, because making tables takes longer than a query.
CASES_PER_TABLES = 40


class Fuzzer:
    """Runs the cases of one seed."""

    def __init__(self, seed: int, n_ways: int, folder: Path, shapes: dict[Shape, float] = SHAPES) -> None:
        self.seed = seed
        self.n_ways = n_ways
        self.shapes = shapes
        self.folder = folder
        # Queries that both engines answered, those of them with rows, and runs of qcore.
        self.n_compared = 0
        self.n_with_rows = 0
        self.n_runs = 0
        self._tables: Tables | None = None
        self._tables_number = -1

    def tables(self, number: int) -> Tables:
        """The tables of a case."""
        group = number // CASES_PER_TABLES
        if self._tables is None or group != self._tables_number:
            self.close()
            made = random_tables(random.Random(f"tables {self.seed}:{group}"))
            self._tables, self._tables_number = Tables(made, self.folder, capitals=group % 4 == 3), group
        return self._tables

    def close(self) -> None:
        """Free the tables."""
        if self._tables is not None:
            self._tables.close()
            self._tables = None

    def query(self, number: int) -> Ordered:
        """The query of a case."""
        rng = random.Random(f"query {self.seed}:{number}")
        return Queries(rng, self.tables(number).tables, recursive, self.shapes).statement()

    def ways(self, number: int) -> list[Way]:
        """The plain way to run the case, and some random ones."""
        rng = random.Random(f"ways {self.seed}:{number}")
        return [Way(), *(random_way(rng) for _ in range(self.n_ways - 1))]

    def case(self, number: int) -> Difference | None:
        """Run a case. Returns the differences."""
        tables, query = self.tables(number), self.query(number)
        expected = expected_rows(tables, query)
        if expected is None:
            return None
        found = difference(tables, query, self.ways(number), expected)
        self.n_compared += 1
        self.n_with_rows += expected.num_rows > 0
        self.n_runs += self.n_ways
        return found

    def explain_case(self, number: int, found: Difference, failing: Failing = fault) -> str:
        """The report of a failing case, with its query reduced."""
        case = Case(tuple(self.tables(number).tables), self.query(number), found.way or Way())
        case = shrunk(case, found, failing)
        again = f"python -m sql_fuzz --case {self.seed}:{number}"
        return f"\n=== {found.kind}\n{found.text}\n--- again: {again}\n{case.text()}\n==="

    def summary(self, n_cases: int, seconds: float) -> str:
        """The counts in one line."""
        return (
            f"{n_cases} queries, {self.n_compared} compared ({self.n_with_rows} with rows, {self.n_runs} runs), "
            f"{seconds:.0f} s"
        )
