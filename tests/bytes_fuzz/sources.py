"""What is mutated: a file of each format, plans, and C streams; and the queries that read it."""

from __future__ import annotations

import datetime
import decimal
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as pq
from c_arrays import part_of

import qcore
from bytes_fuzz.producers import mutated_producer
from qcore.connectors.base import TableStatistics
from qcore_ext.data.schema import Schema

N_ROWS = 3000
GROUP_ROWS = 1000

FILES = {
    "parquet": "x.parquet", "parquet_v2": "x.parquet", "parquet_plain": "x.parquet", "ipc_file": "x.arrow",
    "ipc_stream": "x.arrows", "csv": "x.csv", "orc": "x.orc",
}
#: Read by pyarrow, by hand, and given as a reader or a table; a plan; trees of C structs.
OTHERS = ("ipc_reader", "ipc_table", "substrait", "c_stream", "c_native")
KINDS = (*FILES, *OTHERS)

QUERIES = (
    "select count(*) c, sum(i) a, min(s) b, max(s) d, sum(d) e, max(t) f, count(j) g from t",
    "select c, b, count(*) n, sum(f) x, max(length(s)) y from t group by c, b order by c, b",
    "select s, i, l, st from t where i > 2900 or j = 7 order by s, i limit 50",
    "select count(*) n from t a join t b on a.s = b.s where a.d < 20",
    "select i, unnest(l) u from t where i between 100 and 140",
    "select upper(s) u, substring(s, 3, 5) v, s like '%77%' w, c || s x from t order by u, i limit 20",
)
#: Of streams that are read once; of CSV, which has no lists.
WITHOUT_JOIN = tuple(query for query in QUERIES if "join" not in query)
WITHOUT_LISTS = tuple(query for query in QUERIES if "unnest" not in query and " st " not in query)


def table(n_rows: int = N_ROWS) -> pa.Table:
    """Columns of most kinds of layout."""
    random = np.random.default_rng(5)
    numbers = range(n_rows)
    start = datetime.datetime(2020, 1, 1)
    return pa.table({
        "i": pa.array(numbers, pa.int64()),
        "j": pa.array([None if x % 11 == 0 else x % 50 for x in numbers], pa.int32()),
        "s": pa.array([None if x % 13 == 0 else f"text number {x % 700} of some length" for x in numbers]),
        "c": pa.array([f"c{x % 5}" for x in numbers]).dictionary_encode(),
        "d": pa.array([decimal.Decimal(x) / 100 for x in numbers], pa.decimal128(9, 2)),
        "f": pa.array(random.random(n_rows)),
        "t": pa.array([start + datetime.timedelta(hours=x) for x in numbers]),
        "b": pa.array([x % 3 == 0 for x in numbers]),
        "l": pa.array([None if x % 7 == 0 else [x, x + 1][: x % 3] for x in numbers], pa.list_(pa.int64())),
        "st": pa.array([{"p": x, "q": str(x)} for x in numbers]),
    })


def layouts(n_rows: int = 64) -> pa.RecordBatch:
    """The same names and values in the layouts that C streams may have besides."""
    rows = table(n_rows)
    rows = rows.set_column(2, "s", rows["s"].cast(pa.large_string()).cast(pa.string_view()))
    rows = rows.set_column(8, "l", rows["l"].cast(pa.large_list(pa.int64())))
    words = pa.array([[f"w{x % 3}"] * (x % 3) for x in range(n_rows)], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    more = {
        "u": rows["s"].cast(pa.string()).cast(pa.large_string()).combine_chunks(),
        "m": pa.array([[("k", x)] * (x % 2) for x in range(n_rows)], pa.map_(pa.string(), pa.int32())),
        "w": words,
        "fx": pa.array([[x, x] for x in range(n_rows)], pa.list_(pa.int16(), 2)),
        "h": pa.array([str(x) for x in range(n_rows)]),
    }
    for name, values in more.items():
        rows = rows.append_column(name, values)
    return rows.combine_chunks().to_batches()[0]


LAYOUT_QUERIES = (
    "select * from t",
    "select s, u, h, count(*) n from t group by s, u, h order by n, s limit 5",
    "select c, max(s) m, min(u) k from t group by c order by c",
    "select i, unnest(l) x, unnest(w) y from t",
    "select upper(s) a, substring(u, 3, 5) b, h like '%7%' d from t order by a, b, d limit 20",
)


def made(kind: str) -> bytes:
    """The sound bytes of a kind; none of kinds that are C structs."""
    rows = table()
    out = io.BytesIO()
    if kind.startswith("parquet"):
        options: dict[str, Any] = {"row_group_size": GROUP_ROWS, "data_page_size": 4096}
        if kind == "parquet_v2":
            options |= {"data_page_version": "2.0", "compression": "zstd", "use_dictionary": ["c"]}
        elif kind == "parquet_plain":
            options |= {"compression": "none", "use_dictionary": False}
        pq.write_table(rows, out, **options)
    elif kind.startswith("ipc"):
        writer = (pa.ipc.new_file if kind == "ipc_file" else pa.ipc.new_stream)(out, rows.schema)
        with writer:
            writer.write_table(rows, GROUP_ROWS)
    elif kind == "csv":
        plain = rows.drop_columns(["l", "st"])
        pacsv.write_csv(plain.set_column(3, "c", plain["c"].cast(pa.string())).slice(0, 600), out)
    elif kind == "orc":
        paorc.write_table(rows.set_column(3, "c", rows["c"].cast(pa.string())), out)
    elif kind == "substrait":
        return substrait_plan()
    return out.getvalue()


def substrait_plan() -> bytes:
    """A plan with a filter, a join, an aggregation, a sort and a limit, as another planner would send it."""
    from datafusion import SessionContext, substrait

    context = SessionContext()
    context.from_arrow(table(50).select(["i", "j", "s", "f"]), "t")
    text = (
        "select a.s, count(*) n, sum(a.f + 1) x from t a join t b on a.i = b.j "
        "where a.i > 3 and (a.s like 'text%' or a.s is null) group by a.s order by n desc, a.s limit 7"
    )
    return bytes(substrait.Serde.serialize_bytes(text, context))


class Native:
    """A connector whose one split is a producer itself, which the engine takes over without pyarrow."""

    def __init__(self, number: int) -> None:
        self.schema = pa.schema(Schema(layouts().schema))
        self._number = number

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> list[qcore.Split]:
        return [qcore.Split()]

    def open(self, split: Any, columns: tuple[str, ...], filter: Any, batch_rows: int) -> Any:
        return mutated_producer(part_of(layouts().select(columns)), self._number)


def ask(kind: str, given: bytes | int, folder: Path) -> list[pa.Table]:
    """Read the bytes (of C structs: the mutation's number, -1 for none) by all ways of the kind."""
    session = qcore.Session(threads=2, timeout=20, memory_limit=1 << 30)
    if kind == "substrait":
        assert isinstance(given, bytes)
        session.register("t", table(50).select(["i", "j", "s", "f"]))
        return [session.substrait(given).to_arrow()]
    if kind in ("c_stream", "c_native"):
        assert isinstance(given, int)
        return _ask_structs(session, kind, given)
    assert isinstance(given, bytes)
    path = folder / FILES.get(kind, "x.arrows")
    if kind in FILES:
        path.write_bytes(given)
    found = []
    for query in WITHOUT_JOIN if kind == "ipc_reader" else WITHOUT_LISTS if kind == "csv" else QUERIES:
        if kind == "ipc_reader":
            session.register("t", read_stream(given))
        elif kind == "ipc_table":
            session.register("t", whole(read_stream(given)))
        else:
            session.register("t", str(path))
        found.append(session.sql(query).to_arrow())
    return found


def read_stream(given: bytes) -> pa.RecordBatchReader:
    """A stream of bytes in memory; what pyarrow refuses itself is an error of the application's own."""
    try:
        return pa.ipc.open_stream(given)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise qcore.PlanError(f"pyarrow refuses it: {error}") from error


def whole(reader: pa.RecordBatchReader) -> pa.Table:
    """All batches of a stream."""
    try:
        return reader.read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise qcore.PlanError(f"pyarrow refuses it: {error}") from error


def _ask_structs(session: qcore.Session, kind: str, number: int) -> list[pa.Table]:
    sound = layouts()
    found = []
    for query in LAYOUT_QUERIES:
        session.register("t", Native(number) if kind == "c_native" else mutated_producer(part_of(sound), number))
        found.append(session.sql(query).to_arrow())
    return found
