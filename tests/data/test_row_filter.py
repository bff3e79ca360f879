"""When a row filter is asked, tested with the reader of Parquet files (SPEC P1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from parquet.reading_natively import read_natively

from qcore_testing.units import GivenRows

GROUP_ROWS = 5000


class Groups:
    """Leaves all rows of some row groups, and of the others the first one each time that it is asked.

    `asked_in` has the row groups in which it must be asked, in order: if it stays on, for 4,096 rows and for the rest.
    """

    def __init__(self, all_of: set[int], asked_in: list[int]) -> None:
        self.all_of = all_of
        self.asked = 0
        self.asked_in = asked_in

    def choose(self, n_rows: int) -> np.ndarray:
        group = self.asked_in[self.asked]
        self.asked += 1
        return np.arange(n_rows if group in self.all_of else 1, dtype=np.uint32)


def read_groups(path: Path, n_groups: int, all_of: set[int], asked_in: list[int], rows: int = GROUP_ROWS) -> list[int]:
    """Read a file and return how many rows of each row group were left."""
    table = pa.table({"a": np.repeat(np.arange(n_groups), rows), "b": np.arange(n_groups * rows)})
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    groups = Groups(all_of, asked_in)
    found = read_natively(path, rows, filters=[GivenRows([0], groups.choose)])
    assert groups.asked == len(asked_in)
    counts = np.bincount(found["a"].to_numpy(), minlength=n_groups).tolist()
    first = [0, 4096]
    chosen = [range(n) if n > 2 else first[:n] for n in counts]
    assert found["b"].to_pylist() == [group * rows + row for group, of in enumerate(chosen) for row in of]
    return counts


def test_a_filter_that_leaves_all_rows_is_asked_ever_more_rarely(tmp_path: Path) -> None:
    counts = read_groups(tmp_path / "t.parquet", 20, set(range(20)), [0, 2, 6, 14])
    assert counts == [GROUP_ROWS] * 20


def test_a_filter_that_drops_rows_stays_on_and_is_tried_again_soon(tmp_path: Path) -> None:
    asked_in = [0, 2, 6, 6, 7, 7, 8, 10, 14]
    counts = read_groups(tmp_path / "t.parquet", 20, set(range(20)) - {6, 7}, asked_in)
    assert counts == [2 if group in (6, 7) else GROUP_ROWS for group in range(20)]


def test_a_few_rows_do_not_tell(tmp_path: Path) -> None:
    assert read_groups(tmp_path / "t.parquet", 8, set(range(8)), list(range(8)), rows=1000) == [1000] * 8


def test_filters_are_asked_one_after_the_other_for_the_rows_that_are_left(tmp_path: Path) -> None:
    table = pa.table({"a": range(1000), "b": range(1000), "c": [str(i) if i % 3 else None for i in range(1000)]})
    pq.write_table(table, tmp_path / "t.parquet")
    given: list[int] = []

    def every(step: int, n_rows: int) -> np.ndarray:
        given.append(n_rows)
        return np.arange(0, n_rows, step, dtype=np.uint32)

    filters = [GivenRows([1], lambda n: every(2, n)), GivenRows([0, 1], lambda n: every(5, n))]
    found = read_natively(tmp_path / "t.parquet", 400, filters=filters)
    assert given == [400, 200, 400, 200, 200, 100]
    assert found.equals(table.take(list(range(0, 1000, 10))))


def test_no_row_is_left(tmp_path: Path) -> None:
    """Columns of other filters are not read: the next one is not asked."""
    pq.write_table(pa.table({"a": range(1000), "b": range(1000)}), tmp_path / "t.parquet")
    asked: list[int] = []

    def none(n_rows: int) -> np.ndarray:
        return np.arange(1 if asked else 0, dtype=np.uint32)

    def note(n_rows: int) -> np.ndarray:
        asked.append(n_rows)
        return np.arange(1, dtype=np.uint32)

    assert (
        read_natively(tmp_path / "t.parquet", 400, filters=[GivenRows([1], none), GivenRows([0], note)]).num_rows == 0
    )
    assert not asked
