"""The inputs that are mutated: small files of each format, plans, and C streams. Each has a function that reads it.

Every kind has variants: compression, encodings, layouts of Arrow. A mutation's number selects the variant and the plan
that runs over it.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as pq
from c_arrays import part_of

import qcore
from bytes_fuzz.producers import mutated_producer
from bytes_fuzz.questions import question
from qcore.connectors.arrow import StreamTable
from qcore.connectors.base import TableStatistics
from qcore.connectors.files import FileTable
from qcore.connectors.sources import table_from
from qcore_ext.data.schema import Schema

# Few, so that a mutation takes a few milliseconds; two row groups or batches.
N_ROWS = 36
GROUP_ROWS = 20

FILES = {"parquet": "parquet", "ipc_file": "arrow", "ipc_stream": "arrows", "csv": "csv", "orc": "orc"}
#: Read by pyarrow, by hand, and given as a reader or a table; plans; trees of C structs.
OTHERS = ("ipc_reader", "ipc_table", "substrait", "c_stream", "c_native")
KINDS = (*FILES, *OTHERS)
STRUCTS = ("c_stream", "c_native")

N_LAYOUTS = 4
PLANS = (
    "select upper(s) u, i + 1 k, f * 2 g from t where i > 3 and (s like 'text%' or s is null) order by i desc limit 7",
    "select a.s, count(*) n, sum(a.f + 1) x, max(b.i) m from t a join t b on a.i = b.j group by a.s order by n desc, s",
    "select i, case when j > 2 then 'a' else s end c, sum(f) over (partition by j order by i) w from t",
    "select j, count(distinct s) n, min(i) m from t where j in (1, 2, 3) group by j having count(*) > 0",
)


def columns() -> dict[str, pa.Array]:
    """Arrow types by name, each with and without nulls."""
    n = range(N_ROWS)
    start = datetime.datetime(2020, 1, 1)
    texts = [None if x % 13 == 0 else f"text number {x % 7} of some length"[: x % 30] for x in n]
    cents = [None if x % 9 == 0 else decimal.Decimal(x - 9) / 100 for x in n]
    pairs = [{"p": x, "q": [str(x)] * (x % 3)} for x in n]
    words = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    return {
        "i": pa.array(n, pa.int64()),
        "j": pa.array([None if x % 11 == 0 else x % 5 for x in n], pa.int32()),
        "s": pa.array(texts),
        "c": pa.array([f"c{x % 3}" for x in n]).dictionary_encode(),
        "d": pa.array(cents, pa.decimal128(9, 2)),
        "f": pa.array([x / 3 for x in n]),
        "t": pa.array([start + datetime.timedelta(hours=x) for x in n]),
        "b": pa.array([x % 3 == 0 for x in n]),
        "l": pa.array([None if x % 7 == 0 else [x, None][: x % 3] for x in n], pa.list_(pa.int64())),
        "st": pa.array([None if x["p"] == 5 else x for x in pairs]),
        "m": pa.array([[("k", x)] * (x % 2) for x in n], pa.map_(pa.string(), pa.int32())),
        "day": pa.array([start.date()] * N_ROWS),
        "z": pa.array([None if text is None else text.encode() for text in texts]),
        "u": pa.array(texts, pa.large_string()),
        "v": pa.array(texts, pa.string_view()),
        "zv": pa.array([b"z" * x for x in n], pa.binary_view()),
        "d32": pa.array(cents, pa.decimal32(5, 2)),
        "d64": pa.array(cents, pa.decimal64(15, 2)),
        "x3": pa.array([b"abc"] * N_ROWS, pa.binary(3)),
        "tz": pa.array([start] * N_ROWS, pa.timestamp("ms", "UTC")),
        "du": pa.array([x * 1000 for x in n], pa.duration("us")),
        "w": pa.array([[f"w{x % 3}"] * (x % 3) for x in n], words),
        "ll": pa.array([[[x], None, []][: x % 4] for x in n], pa.large_list(pa.list_(pa.int16()))),
        "lv": pa.array([[str(x)] * (x % 3) for x in n], pa.list_view(pa.string())),
        "fl": pa.array([[x, x] for x in n], pa.list_(pa.int16(), 2)),
        "r": pa.RunEndEncodedArray.from_arrays(pa.array([10, N_ROWS], pa.int32()), pa.array(["a", "b"])),
        "n": pa.nulls(N_ROWS),
    }


# Each layout has some columns of all kinds, since sorting by all of them takes a while.
LAYOUTS = (
    ("i", "j", "s", "c", "d", "f", "t", "b", "l", "st"),
    ("i", "u", "v", "zv", "w", "m", "d32", "tz", "fl"),
    ("j", "v", "ll", "lv", "z", "d64", "r", "n", "x3", "c"),
    ("s", "i", "du", "day", "m", "st", "w", "u", "d"),
)
PARQUET_LAYOUTS = (*LAYOUTS[:2], ("j", "v", "ll", "z", "d64", "n", "x3", "c"), LAYOUTS[3])
PLAIN = ("i", "j", "s", "d", "f", "t", "b", "day")
NESTED = (*PLAIN, "l", "st", "m", "z")


def table(names: tuple[str, ...]) -> pa.Table:
    """Some of the columns."""
    held = columns()
    return pa.table({name: held[name] for name in names})


def _parquet() -> list[bytes]:
    options: list[dict[str, Any]] = [
        {},
        {"data_page_version": "2.0", "compression": "zstd", "use_dictionary": ["c"]},
        {"compression": "none", "use_dictionary": False, "write_page_index": True},
        {"compression": "none", "data_page_size": 64, "write_batch_size": 8},
    ]
    return [
        _write_bytes(functools.partial(pq.write_table, table(names), row_group_size=GROUP_ROWS, **more))
        for names, more in zip(PARQUET_LAYOUTS, options, strict=True)
    ]


def _ipc(make: Callable[..., Any]) -> list[bytes]:
    made = []
    for names in LAYOUTS:
        for compression in (None, "lz4"):
            rows = table(names)

            def write(out: io.BytesIO, rows: pa.Table = rows, compression: str | None = compression) -> None:
                with make(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                    writer.write_table(rows, GROUP_ROWS)

            made.append(_write_bytes(write))
    return made


def _csv() -> list[bytes]:
    quoted = pacsv.WriteOptions(quoting_style="all_valid")
    rows = table(PLAIN)
    return [
        _write_bytes(lambda out: pacsv.write_csv(rows, out)),
        _write_bytes(lambda out: pacsv.write_csv(rows.select(["s", "i", "d", "t"]), out, quoted)),
    ]


def _orc() -> list[bytes]:
    return [
        _write_bytes(functools.partial(paorc.write_table, table(names), compression=kind))
        for kind, names in (("uncompressed", NESTED), ("zlib", NESTED), ("uncompressed", PLAIN))
    ]


def _write_bytes(write: Callable[[io.BytesIO], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def _plans() -> list[bytes]:
    """Plans in the form of another planner."""
    from datafusion import SessionContext, substrait

    context = SessionContext()
    context.from_arrow(plan_rows(), "t")
    return [bytes(substrait.Serde.serialize_bytes(text, context)) for text in PLANS]


@functools.cache
def plan_rows() -> pa.Table:
    """The table that the plans read."""
    return table(("i", "j", "s", "f"))


@functools.cache
def variants(kind: str) -> list[bytes]:
    """The unchanged bytes of each variant of a kind. C structs have no bytes: b"" for each layout."""
    if kind == "parquet":
        return _parquet()
    if kind == "ipc_file":
        return _ipc(pa.ipc.new_file)
    if kind.startswith("ipc"):
        return _ipc(pa.ipc.new_stream)
    if kind in STRUCTS:
        return [b""] * N_LAYOUTS
    return {"csv": _csv, "orc": _orc, "substrait": _plans}[kind]()


@functools.cache
def _batch(variant: int) -> pa.RecordBatch:
    return table(LAYOUTS[variant]).combine_chunks().to_batches()[0]


@functools.cache
def _part(variant: int, names: tuple[str, ...]) -> Any:
    return part_of(_batch(variant).select(names))


class Native:
    """A connector whose only split is a producer. The engine imports it without pyarrow."""

    def __init__(self, variant: int, number: int) -> None:
        # Run-end encoded columns are not used as keys. Registered streams decode them.
        held = _batch(variant).schema
        self.schema = pa.schema(Schema(pa.schema([field for field in held if field.name != "r"])))
        self._variant = variant
        self._number = number

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> list[qcore.Split]:
        return [qcore.Split()]

    def open(self, split: Any, columns: tuple[str, ...], filter: Any, batch_rows: int) -> Any:
        return mutated_producer(_part(self._variant, columns).copy(), self._number)


def ask(session: qcore.Session, kind: str, number: int, given: bytes | None, folder: Path) -> pa.Table:
    """The answer of the plan `number` over the bytes `given`, which are read as their kind is read.

    C structs have no bytes: the number selects their mutation, and None means the unchanged structs.
    """
    n_variants = len(variants(kind))
    variant, asked = number % n_variants, number // n_variants
    if kind == "substrait":
        assert given is not None
        return session.substrait(given).to_arrow()
    if kind in STRUCTS:
        source = _struct_source(kind, variant, -1 if given is None else number)
    elif kind in FILES:
        # Each mutation has its own file name: the cache of footers compares name, size and time.
        path = folder / f"{number}.{FILES[kind]}"
        try:
            path.write_bytes(given or b"")
            return session.execute(question(asked, FileTable(str(path)))).to_arrow()
        finally:
            path.unlink(missing_ok=True)
    else:
        assert given is not None
        reader = _by_pyarrow(lambda: pa.ipc.open_stream(given))
        source = table_from(reader if kind == "ipc_reader" else _by_pyarrow(reader.read_all))
    return session.execute(question(asked, source)).to_arrow()


def _struct_source(kind: str, variant: int, number: int) -> Any:
    if kind == "c_native":
        return Native(variant, number)
    return StreamTable(mutated_producer(_part(variant, LAYOUTS[variant]).copy(), number))


def _by_pyarrow(read: Callable[[], Any]) -> Any:
    """The result of `read`. If pyarrow refuses the bytes, qcore never sees them: a PlanError stands for that."""
    try:
        return read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise qcore.PlanError(f"pyarrow refuses it: {error}") from error
