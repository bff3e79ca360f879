"""Functions over Arrow arrays get only the rows that are needed."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from qcore import Session
from qcore.functions.arrow import scalar as arrow_functions

N = 6000
TABLE = pa.table({"s": [f"word {i}" for i in range(N)], "i": list(range(N)), "l": [[i, i + 1] for i in range(N)]})


@pytest.mark.parametrize(
    "where", ["i < 104", "i >= 8 and i < 112", "i % 60 = 0", "i < 3000", "i % 2 = 0", "i % 3 <> 1"]
)
@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("max(length(initcap(s))), count(*)", None),
        ("i, initcap(s) as v", "Word {}"),
        ("i, upper(initcap(s)) || md5(s)[1:0] as v", "WORD {}"),
        ("i, [initcap(s)] as v", ["Word {}"]),
        ("i, max(initcap(s)) as v", "Word {}"),
    ],
)
def test_rows_that_a_filter_drops_are_not_computed(
    select: str, expected: object, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function may take a second a row. If it ran for the whole batch, a selective filter would not save time."""
    given = 0
    usual = arrow_functions.BoundCall.__call__

    def counting(self: arrow_functions.BoundCall, batch: object) -> pa.RecordBatch:
        nonlocal given
        given += len(batch) if self.name == "initcap" else 0  # type: ignore[arg-type]
        return usual(self, batch)

    monkeypatch.setattr(arrow_functions.BoundCall, "__call__", counting)
    more = " group by i" if "i, max" in select else ""
    rows = Session(threads=1).sql(f"select {select} from t where {where}{more}", {"t": TABLE}).to_arrow()
    kept = Session(threads=1).sql(f"select i from t where {where}", {"t": TABLE}).to_arrow()["i"].to_pylist()
    assert given == len(kept)
    if expected is not None:
        wanted = {i: [f"Word {i}"] if isinstance(expected, list) else expected.format(i) for i in kept}
        assert dict(zip(rows["i"].to_pylist(), rows["v"].to_pylist(), strict=True)) == wanted


def test_v7_a_piece_is_as_long_as_the_time_of_the_last_one_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of 1 ms a row gets at most 20 rows in 20 ms, also behind a piece that is the rest of some arguments."""
    pieces: list[int] = []

    def slow(self: arrow_functions.BoundCall, batch: pa.RecordBatch) -> pa.RecordBatch:
        pieces.append(batch.num_rows)
        time.sleep(batch.num_rows / 1000)
        return pa.record_batch([pa.array([self.name == "regexp_count"] * batch.num_rows).cast(pa.int64())], ["value"])

    monkeypatch.setattr(arrow_functions.BoundCall, "__call__", slow)
    # 45 rows are converted at a time: 1, 4, 16, about 20, and a rest of a few.
    table = pa.table({"s": ["ab " * 31_000] * 150})
    got = Session(threads=1).sql("select count(*) from t where regexp_count(s, 'b') = 1", {"t": table}).to_arrow()
    assert got.column(0).to_pylist() == [150]
    assert sum(pieces) == 150
    assert max(pieces) <= 20
