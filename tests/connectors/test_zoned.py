"""Tables whose timestamps are shown in a session's time zone; the values do not change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from reading import read_table

from qcore.connectors.arrow import ArrowTable
from qcore.connectors.view import ViewTable
from qcore.connectors.zoned import ZonedTable, table_in_zone, zone_of
from qcore.expression.tree import col

ROWS = pa.table(
    {
        "utc": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
        "local": pa.array([1, 2, 3], pa.timestamp("us")),
        "n": [1, 2, 3],
    }
)
PARIS = pa.timestamp("us", "Europe/Paris")


class Waiting(ArrowTable):
    splits_wait = True
    time_zone = "Asia/Tokyo"


def test_instants_get_the_zone_and_keep_their_values() -> None:
    table = table_in_zone(ArrowTable(ROWS), "Europe/Paris")
    assert table.schema.types == [PARIS, pa.timestamp("us"), pa.int64()]
    rows = read_table(table)
    assert rows["utc"].cast(pa.int64()).equals(ROWS["utc"].cast(pa.int64()))
    assert rows.schema.field("utc").type == PARIS
    assert rows.select(["local", "n"]).equals(ROWS.select(["local", "n"]))
    assert table.statistics().row_count == 3


def test_tables_without_other_zones_stay_themselves() -> None:
    table = ArrowTable(ROWS)
    assert table_in_zone(table, "UTC") is table
    zoned = table_in_zone(table, "Europe/Paris")
    assert table_in_zone(zoned, "Europe/Paris") is zoned
    assert isinstance(zoned, ZonedTable)
    assert not zoned.splits_wait
    (split,) = table.splits(("n",), None, 1)
    assert type(zoned.open(split, ("n",), None, 10)) is type(table.open(split, ("n",), None, 10))


def test_a_stream_that_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise OSError("broken")

        def close(self) -> None:
            closed.append(1)

    table = ArrowTable(ROWS)
    monkeypatch.setattr(table, "open", lambda *_: Broken())
    zoned = table_in_zone(table, "Europe/Paris")
    with pytest.raises(OSError, match="broken"):
        zoned.open(next(iter(table.splits(("utc",), None, 1))), ("utc",), None, 10)
    assert closed == [1]


def test_attributes_of_the_table_are_passed_on() -> None:
    waiting = Waiting(ROWS)
    zoned = table_in_zone(waiting, "Europe/Paris")
    assert isinstance(zoned, ZonedTable)
    assert zoned.splits_wait
    assert zone_of(waiting) == "Asia/Tokyo"
    view = ViewTable(waiting.schema, waiting, tuple(waiting.schema.names), col("n") > 1)
    assert zone_of(view) == "Asia/Tokyo"
    inside = table_in_zone(view, "Europe/Paris")
    assert isinstance(inside, ViewTable)
    assert (inside.schema.types[0], inside.table.schema.types[0]) == (PARIS, PARIS)
    assert zone_of(ArrowTable(ROWS)) is None
