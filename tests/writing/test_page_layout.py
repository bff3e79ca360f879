"""The layout of pages: always narrow types; dictionaries and LZ4 if a sample shows that they pay (SPEC S2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.writing.page_layout import PageLayout

N = 8192


def layout_of(**columns: pa.Array) -> PageLayout:
    return PageLayout.of_sample(pa.record_batch(columns))


def texts(n_distinct: int, n_bytes: int, n_rows: int = N) -> pa.Array:
    """Texts as views, which compress badly."""
    return pa.array([f"{n % n_distinct * 2654435761 % 2**24:0{n_bytes}x}" for n in range(n_rows)], pa.string_view())


def scatter_numbers(n_rows: int = N) -> pa.Array:
    return pa.array([n * 6364136223846793005 % 2**63 for n in range(n_rows)], pa.int64())


def test_narrow_types() -> None:
    schema = layout_of(
        d=pa.array([1] * N, pa.decimal128(18, 2)),
        e=pa.array([1] * N, pa.decimal128(19, 2)),
        s=texts(N, 8),
        b=texts(N, 8).cast(pa.binary_view()),
        i=scatter_numbers(),
    ).schema
    assert schema.types == [pa.decimal64(18, 2), pa.decimal128(19, 2), pa.string(), pa.binary(), pa.int64()]


@pytest.mark.parametrize(
    ("n_distinct", "n_bytes", "n_rows", "pays"),
    [(5, 12, N, True), (500, 20, N, True), (5, 7, N, False), (1000, 20, N, False), (5, 20, 900, False)],
)
def test_dictionaries_of_few_long_values(n_distinct: int, n_bytes: int, n_rows: int, pays: bool) -> None:
    (type_,) = layout_of(s=texts(n_distinct, n_bytes, n_rows)).schema.types
    assert type_ == (pa.dictionary(pa.int16(), pa.string()) if pays else pa.string())


def test_columns_of_nulls_have_no_dictionary() -> None:
    assert layout_of(s=pa.nulls(N, pa.string())).schema.types == [pa.string()]


def test_compression_of_what_compresses_well() -> None:
    assert layout_of(a=pa.array([7] * N)).is_compressed
    assert not layout_of(a=scatter_numbers()).is_compressed
    assert not layout_of(a=pa.array([7] * 900)).is_compressed, "too few rows to tell"
    layout = layout_of(a=pa.array([7] * N))
    page = layout.page(pa.record_batch({"a": pa.array([7] * N)}))
    assert len(page) < N
    assert pa.ipc.open_stream(page).read_all()["a"].to_pylist() == [7] * N


def test_a_page_unlike_the_sample_has_its_values() -> None:
    """Values of later pages may differ from those of the sample. They are written without loss."""
    layout = layout_of(s=texts(5, 20), a=pa.array([7] * N))
    rows = pa.record_batch({"s": texts(N, 20), "a": scatter_numbers()})
    read = pa.ipc.open_stream(layout.page(rows)).read_all()
    assert read.to_pylist() == rows.to_pylist()


def test_slow_storage_makes_more_pay() -> None:
    """At 125 MB/s to write and read, a byte costs 16 ns. Numbers of few digits are then compressed."""
    rows = pa.record_batch({"a": pa.array([n * 7919 % 100_000 for n in range(N)]), "s": texts(5, 6)})
    assert not PageLayout.of_sample(rows).is_compressed
    slow = PageLayout.of_sample(rows, 16.0)
    assert slow.is_compressed
    assert slow.schema.types == [pa.int64(), pa.dictionary(pa.int16(), pa.string())]
    assert not PageLayout.of_sample(pa.record_batch({"a": scatter_numbers()}), 16.0).is_compressed


def test_nulls_and_slices() -> None:
    decimals = pa.array([None if n % 3 == 0 else n for n in range(N)], pa.decimal128(12, 0))
    words = pa.array([None if n % 5 == 0 else f"a long enough word {n % 7}" for n in range(N)], pa.string_view())
    rows = pa.record_batch({"d": decimals, "s": words})
    layout = PageLayout.of_sample(rows)
    assert pa.types.is_dictionary(layout.schema.field("s").type)
    for part in (rows, rows.slice(1), rows.slice(13, 2051), rows.slice(5, 0)):
        read = pa.ipc.open_stream(layout.page(part)).read_all()
        assert read.to_pylist() == part.to_pylist()
