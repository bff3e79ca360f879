"""Keys with equal hashes match only if their values are equal. The test computes the collisions. SPEC Q2."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hash_model import WORD, as_int64, colliding_bytes, colliding_pair, hash_row, hash_text, mix
from joins import hash_join

# Two values of each width and comparison.
VALUES: dict[pa.DataType, tuple[Any, Any]] = {
    pa.int8(): (-3, 4),
    pa.int16(): (-300, 400),
    pa.int32(): (-70_000, 80_000),
    pa.int64(): (-(2**60), 2**61),
    pa.bool_(): (True, False),
    pa.date32(): (datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)),
    pa.decimal128(38, 2): (Decimal("123456789012345678901234567.89"), Decimal("-0.01")),
    pa.float32(): (float("nan"), -2.5),
    pa.float64(): (float("nan"), 1e300),
    pa.string(): ("short", "a string that is longer than a view"),
    pa.binary(): (b"\0" * 13, b"seventeen bytes.."),
}


def matches(build: pa.Table, probe: pa.Table) -> list[tuple[int, int]]:
    names = build.column_names
    numbered = [
        rows.append_column(name, pa.array(range(len(rows)), pa.int64())) for rows, name in ((build, "b"), (probe, "p"))
    ]
    batches = hash_join(numbered[1], numbered[0], "inner", names, names)
    return sorted(
        (p, b) for batch in batches for p, b in zip(batch["p"].to_pylist(), batch["b"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_each_type_beside_keys_that_collide(type_: pa.DataType, position: int) -> None:
    """Two of three keys differ but have one hash.

    The third key is equal, so the comparison must find the difference.
    """
    pairs = [(1, 2), colliding_pair(1, 2, 77)]
    if position == 2:
        assert hash_row(pairs[0]) == hash_row(pairs[1])
    build, probe = [], []
    for value in VALUES[type_]:
        build.append((*pairs[0], value))
        probe += [(*pairs[0], value), (*pairs[1], value)]

    def table(rows: list[Any]) -> pa.Table:
        columns = [pa.array([row[at] for row in rows], type) for at, type in enumerate((pa.int64(), pa.int64(), type_))]
        # A key of 38 digits is never a code.
        columns.append(pa.array([Decimal(10) ** 30] * len(rows), pa.decimal128(38, 0)))
        order = [0, 1, 2, 3] if position == 2 else [2, 3, 0, 1]
        return pa.table([columns[at] for at in order], names=list("wxyz"))

    assert matches(table(build), table(probe)) == [(0, 0), (2, 1)]


@pytest.mark.parametrize("n_rows", [1, 2, 700])
def test_strings_of_one_hash(n_rows: int) -> None:
    """Pairs of 16-byte strings with one hash. Each string has a group, found in any order of insertion."""
    values = [b"%016d" % (n_rows + number) for number in range(n_rows)]
    others = [colliding_bytes(value, b"zzzzzz%02d" % (number % 100)) for number, value in enumerate(values)]
    assert all(hash_text(value) == hash_text(other) for value, other in zip(values, others, strict=True))
    probe = pa.table({"k": pa.array([*others, *values, None], pa.binary())})
    half = pa.table({"k": pa.array([*values, None], pa.binary())})
    assert matches(half, probe) == [(n_rows + number, number) for number in range(n_rows)]
    both = pa.table({"k": pa.array([*values, *others, *values], pa.binary())})
    expected = [(number, n_rows + number) for number in range(n_rows)]
    expected += [(n_rows + number, at) for number in range(n_rows) for at in (number, 2 * n_rows + number)]
    assert matches(both, probe) == sorted(expected)


def test_decimals_of_one_hash() -> None:
    """The comparison reads both words of 128-bit values."""
    low, high, found = 5, 1, []
    for other in range(6, 2000):
        turned = as_int64(high + 31 * (mix(low) - mix(other)) & WORD)
        value = (turned << 64) + other
        if abs(value) < 10**38 and not -(2**63) <= value < 2**63:
            found.append(value)
    assert len(found) > 100
    first = (high << 64) + low
    build, probe = ([Decimal(value) for value in values] for values in ([first, *found[::2]], [first, *found]))
    tables = [pa.table({"k": pa.array(values, pa.decimal128(38, 0))}) for values in (build, probe)]
    expected = [(probe.index(value), number) for number, value in enumerate(build)]
    assert matches(*tables) == sorted(expected)


@pytest.mark.parametrize("n_bytes", [13, 16, 17, 24, 25, 40])
def test_long_strings_compare_to_their_last_byte(n_bytes: int) -> None:
    rng = np.random.default_rng(n_bytes)
    value = rng.bytes(n_bytes)
    changed = [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in range(n_bytes)]
    build = pa.table({"k": pa.array([value, *changed], pa.binary())})
    probe = pa.table({"k": pa.array([*reversed(changed), value, value + b"\0"], pa.binary())})
    expected = [(n_bytes - 1 - at, at + 1) for at in range(n_bytes)] + [(n_bytes, 0)]
    assert matches(build, probe) == sorted(expected)
