"""Random Arrow tables, determined by their seed, with values that are difficult for engines.

Null rows have random bits instead of zeros, so that a kernel that reads them is found. Strings are empty, inline (up to
12 bytes) and long, with common prefixes. Numbers include the ends of their range on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

# Around the vector width (2,048 rows): none, one, just below, exact, just above.
SIZES = (0, 1, 2047, 2048, 2049)

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
FLOATS = (pa.float32(), pa.float64())
DECIMALS = (
    pa.decimal128(5, 2),
    pa.decimal128(15, 2),
    pa.decimal128(18, 0),
    pa.decimal128(20, 4),
    pa.decimal128(38, 10),
)
TEMPORALS = (
    pa.date32(),
    pa.time32("ms"),
    pa.time64("us"),
    pa.timestamp("s"),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
)
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary())
# Types that every operator must support as keys and as other columns.
KEY_TYPES = (pa.bool_(), *INTEGERS, *FLOATS, *DECIMALS, *TEMPORALS, *TEXTS, pa.uuid())
# Types that every operator must pass on.
NESTED_TYPES = (
    pa.list_(pa.int32()),
    pa.struct([("a", pa.int64()), ("b", pa.string())]),
    pa.map_(pa.string(), pa.int32()),
)
ENCODED_TYPES = (pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64()))
ALL_TYPES = (*KEY_TYPES, pa.month_day_nano_interval(), pa.null(), *ENCODED_TYPES, *NESTED_TYPES)

# Bounds that DuckDB also supports: years 1700 to 2200.
_DATE_DAYS = (-98_600, 84_000)
_UNIT_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_WORDS = (
    "",
    "a",
    "b",
    "ab",
    "abc",
    "ship",
    "shipment",
    "MAIL",
    "twelve bytes",
    "thirteen byte",
    "naïve",
    "漢字",
    "%_\\",
)


def random_table(
    seed: int,
    n_rows: int,
    types: Mapping[str, pa.DataType] | Sequence[pa.DataType],
    null_share: float | Mapping[str, float] = 0.1,
    n_distinct: int | Mapping[str, int] | None = None,
    extremes: bool = False,
    offset: int = 0,
    chunk_rows: int | None = None,
) -> pa.Table:
    """A table of random rows, the same for the same arguments.

    Parameters
    ----------
    types
        Type by column name; of a plain sequence, columns are called c0, c1, ….
    null_share
        Share of null rows, of all columns or by name.
    n_distinct
        Draw from so many distinct values (about), of all columns or by name. None: whatever falls.
    extremes
        Mix in the ends of each type's range; for floats also NaN, infinities and -0.0.
    offset
        The arrays start at this row of their buffers, so that bitmaps start inside a byte.
    chunk_rows
        Rows of a chunk; None: one chunk.
    """
    if not isinstance(types, Mapping):
        types = {f"c{position}": type for position, type in enumerate(types)}
    arrays = []
    for position, (name, type) in enumerate(types.items()):
        rng = np.random.default_rng([seed, position])
        share = null_share.get(name, 0.1) if isinstance(null_share, Mapping) else null_share
        distinct = n_distinct.get(name) if isinstance(n_distinct, Mapping) else n_distinct
        array = random_array(rng, n_rows + offset, type, share, distinct, extremes)
        arrays.append(array.slice(offset))
    schema = pa.schema(list(types.items()))
    table = pa.Table.from_arrays(arrays, schema=schema)
    if chunk_rows is None:
        return table
    batches = [batch for start in range(0, n_rows, chunk_rows) for batch in table.slice(start, chunk_rows).to_batches()]
    return pa.Table.from_batches(batches, schema=schema)


def random_array(
    rng: np.random.Generator,
    n_rows: int,
    type: pa.DataType,
    null_share: float = 0.1,
    n_distinct: int | None = None,
    extremes: bool = False,
) -> pa.Array:
    """One random array. The parameters are those of random_table()."""
    if pa.types.is_null(type):
        return pa.nulls(n_rows)
    if type in (pa.string_view(), pa.binary_view()):
        # pyarrow cannot take or mask views.
        plain = pa.string() if type == pa.string_view() else pa.binary()
        return random_array(rng, n_rows, plain, null_share, n_distinct, extremes).cast(type)
    if n_distinct is not None and not pa.types.is_dictionary(type):
        pool = random_array(rng, n_distinct, type, 0.0, None, extremes)
        return _mask(pool.take(pa.array(rng.integers(0, max(1, n_distinct), n_rows))), rng, null_share)
    values = _values(rng, n_rows, type, n_distinct, extremes)
    return _mask(values, rng, null_share)


def _values(
    rng: np.random.Generator, n_rows: int, type: pa.DataType, n_distinct: int | None, extremes: bool
) -> pa.Array:
    """Random values without nulls."""
    if pa.types.is_boolean(type):
        return pa.array(rng.random(n_rows) < 0.5)
    if pa.types.is_integer(type):
        return _integers(rng, n_rows, type, extremes)
    if pa.types.is_floating(type):
        return _floats(rng, n_rows, type, extremes)
    if pa.types.is_decimal(type):
        return _decimals(rng, n_rows, type, extremes)
    if pa.types.is_interval(type):
        parts = zip(
            rng.integers(-500, 500, n_rows).tolist(),
            rng.integers(-500, 500, n_rows).tolist(),
            (rng.integers(-(10**9), 10**9, n_rows) * 1000).tolist(),
            strict=True,
        )
        return pa.array([pa.MonthDayNano(part) for part in parts], type)
    if pa.types.is_temporal(type):
        return _temporals(rng, n_rows, type)
    if pa.types.is_dictionary(type):
        # An int8 index leaves room for 127 values.
        pool = random_array(rng, min(n_distinct or 50, 100), type.value_type, 0.0, None, extremes)
        indices = pa.array(rng.integers(0, len(pool), n_rows), type.index_type)
        return pa.DictionaryArray.from_arrays(indices, pool)
    if pa.types.is_nested(type):
        return _make_nested(rng, n_rows, type)
    if type == pa.uuid():
        # Half of them share their first 12 bytes.
        raw = rng.integers(0, 256, (n_rows, 16), dtype=np.uint8)
        raw[rng.random(n_rows) < 0.5, :12] = 7
        return pa.Array.from_buffers(type, n_rows, [None, pa.py_buffer(raw.tobytes())])
    return _texts(rng, n_rows, type)


def _integers(rng: np.random.Generator, n_rows: int, type: pa.DataType, extremes: bool) -> pa.Array:
    info = np.iinfo(type.to_pandas_dtype())
    # Half of the values are small. The others are as large as sums of a few thousand values allow.
    bound = min(int(info.max), 1 << 40)
    low = max(int(info.min), -bound)
    values = rng.integers(low, bound, n_rows, dtype=info.dtype, endpoint=True)
    small = rng.integers(max(low, -20), 20, n_rows, dtype=info.dtype)
    values = np.where(rng.random(n_rows) < 0.5, small, values).astype(info.dtype)
    if extremes:
        ends = np.array([info.min, info.max], dtype=info.dtype)
        values = np.where(rng.random(n_rows) < 0.05, rng.choice(ends, n_rows), values).astype(info.dtype)
    return pa.array(values, type)


def _floats(rng: np.random.Generator, n_rows: int, type: pa.DataType, extremes: bool) -> pa.Array:
    dtype = type.to_pandas_dtype()
    # Eighths: sums of some thousand of them are exact in any order.
    values = (rng.integers(-80_000, 80_000, n_rows) / 8).astype(dtype)
    if extremes:
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, np.finfo(dtype).max], dtype=dtype)
        values = np.where(rng.random(n_rows) < 0.1, rng.choice(odd, n_rows), values).astype(dtype)
    return pa.array(values, type, from_pandas=False)


def _decimals(rng: np.random.Generator, n_rows: int, type: pa.DataType, extremes: bool) -> pa.Array:
    limit = 10**type.precision - 1
    # Mostly amounts of money. Some are as large as the type and sums of them allow.
    narrow = min(limit, 10**9)
    wide = max(narrow, limit // 10**6) if type.precision > 18 else narrow
    narrow_values = rng.integers(-narrow, narrow, n_rows, endpoint=True)
    shares = rng.random(n_rows)
    unscaled = [
        int(share * 5 * wide) if share < 0.2 else int(value)
        for share, value in zip(shares.tolist(), narrow_values.tolist(), strict=True)
    ]
    if extremes:
        ends = rng.random(n_rows)
        unscaled = [
            limit if end < 0.03 else -limit if end < 0.06 else value
            for end, value in zip(ends.tolist(), unscaled, strict=True)
        ]
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in unscaled)
    return pa.Array.from_buffers(type, n_rows, [None, pa.py_buffer(raw)])


def _temporals(rng: np.random.Generator, n_rows: int, type: pa.DataType) -> pa.Array:
    if pa.types.is_date32(type):
        return pa.array(rng.integers(*_DATE_DAYS, n_rows, dtype=np.int32)).cast(type)
    if pa.types.is_date64(type):
        return pa.array(rng.integers(*_DATE_DAYS, n_rows, dtype=np.int64) * 86_400_000).cast(type)
    per_second = _UNIT_PER_SECOND[type.unit]
    if pa.types.is_time(type):
        width = np.int32 if type.bit_width == 32 else np.int64
        return pa.array(rng.integers(0, 86_400 * per_second, n_rows).astype(width)).cast(type)
    seconds = _DATE_DAYS[1] * 86_400
    # Nanoseconds reach 292 years about 1970.
    bound = min(seconds, 9_000_000_000) * per_second
    return pa.array(rng.integers(-bound, bound, n_rows)).cast(type)


def _texts(rng: np.random.Generator, n_rows: int, type: pa.DataType) -> pa.Array:
    words = rng.integers(0, len(_WORDS), (n_rows, 2))
    kinds = rng.integers(0, 4, n_rows)
    numbers = rng.integers(0, 10_000, n_rows)
    texts = []
    for row in range(n_rows):
        text = _WORDS[words[row, 0]]
        if kinds[row] >= 2:
            text += _WORDS[words[row, 1]] + str(numbers[row])
        if kinds[row] == 3:
            # Long strings share their prefix and differ in the rest.
            text = "the same thirty-two byte prefix: " + text
        texts.append(text)
    if pa.types.is_fixed_size_binary(type):
        width = type.byte_width
        return pa.array([text.encode().ljust(width, b"\0")[:width] for text in texts], type)
    if type in (pa.binary(), pa.large_binary()):
        return pa.array(
            [text.encode() + bytes([number % 256]) for text, number in zip(texts, numbers, strict=True)], type
        )
    return pa.array(texts, type)


def _make_nested(rng: np.random.Generator, n_rows: int, type: pa.DataType) -> pa.Array:
    """Lists and maps of up to three entries; a tenth of the values inside are null."""
    if pa.types.is_struct(type):
        fields = [type.field(i) for i in range(type.num_fields)]
        children = [random_array(rng, n_rows, field.type, 0.1) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n_rows))]).astype(np.int32)
    n_entries = int(offsets[-1])
    if pa.types.is_map(type):
        # The keys of a map differ, because they include the position.
        keys = pa.array(
            [f"k{i}" for i in np.arange(n_entries) - np.repeat(offsets[:-1], np.diff(offsets))], pa.string()
        )
        items = random_array(rng, n_entries, type.item_type, 0.1)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type)
    return pa.ListArray.from_arrays(pa.array(offsets), random_array(rng, n_entries, type.value_type, 0.1), type)


def _mask(array: pa.Array, rng: np.random.Generator, null_share: float) -> pa.Array:
    """Make rows null. The values below do not change."""
    n_rows = len(array)
    if null_share <= 0 or n_rows == 0:
        return array
    valid = rng.random(n_rows) >= null_share
    if pa.types.is_nested(array.type):
        return pa.array(
            [value if keep else None for value, keep in zip(array.to_pylist(), valid, strict=True)], array.type
        )
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    if pa.types.is_dictionary(array.type):
        indices = pa.Array.from_buffers(array.type.index_type, n_rows, [bitmap, *array.indices.buffers()[1:]])
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    assert array.offset == 0
    return pa.Array.from_buffers(array.type, n_rows, [bitmap, *array.buffers()[1:]])


def plain(table: pa.Table) -> pa.Table:
    """The table without dictionary encoding, as the engine returns it."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
