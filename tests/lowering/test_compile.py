"""Programs of expressions: shared parts, folded constants, plain columns. tests/compute tests the kernels."""

from __future__ import annotations

import pyarrow as pa
from expression_table import evaluate, make_table

from qcore.expression.tree import Cast, call, col, lit
from qcore.lowering.compile import compile_projection, constant_value

TABLE = make_table(2500)


def test_common_parts_are_computed_once():
    program = compile_projection([("x", col("p") * (1 - col("d"))), ("y", col("p") * (1 - col("d")) + 1)], TABLE.schema)
    assert program.description.count("multiply") == 1
    assert program.description.count("load") == 2


def test_constants_are_folded():
    program = compile_projection([("x", lit(2) * 3 + 1), ("y", lit("1995-01-01").cast(pa.date32()) + 31)], TABLE.schema)
    assert "add" not in program.description
    assert evaluate(TABLE.slice(0, 2), lit(2) * 3 + 1).column(0).to_pylist() == [7, 7]


def test_a_date_in_a_text_is_the_kernels() -> None:
    texts = ["1994-01-01", "2024-02-29", "0001-01-01", "9999-12-31"]
    wrong = ["2023-02-29", "1994-1-1", "1994-01-01 ", "19940101", "1994-W01-1", "\u0661994-01-01", ""]
    rows = pa.record_batch({"t": texts + wrong})
    kernel = evaluate(rows, Cast(col("t"), pa.date32(), safe=False)).column(0).to_pylist()
    for text, expected in zip(texts + wrong, kernel, strict=True):
        folded = constant_value(lit(text).cast(pa.date32()), pa.date32())
        assert (None if folded is None else folded.value) == expected, text
    assert None not in kernel[: len(texts)]
    # Python has no such date.
    assert constant_value(lit("0000-01-01").cast(pa.date32()), pa.date32()) is None


def test_plain_columns_pass_through():
    batch = make_table(10)
    names = [name for name in batch.schema.names if name != "g"]  # NaN differs from itself
    assert evaluate(batch, *map(col, names)).columns == batch.select(names).columns


def test_large_strings_and_dictionaries_keep_their_meaning():
    batch = pa.record_batch(
        {
            "a": pa.array(["x", None, "a long string indeed"], pa.large_string()),
            "v": pa.array(["x", None, "a long string indeed"], pa.string_view()),
            "e": pa.array(["x", None, "a long string indeed"]).dictionary_encode(),
        }
    )
    for name in batch.schema.names:
        assert evaluate(batch, col(name) == "a long string indeed").column(0).to_pylist() == [False, None, True]
        assert evaluate(batch, call("concat", col(name), lit("!"))).column(0).to_pylist() == [
            "x!", None, "a long string indeed!",
        ]  # fmt: skip


def test_v7_constants_that_may_take_long_are_left_to_the_drivers() -> None:
    """V7: planning computes only constants that take milliseconds, because only a driver can be stopped."""
    number = pa.int64()
    near = constant_value(call("levenshtein", lit("a" * 900), lit("b" * 900)), number)
    assert near is not None and near.value == 900
    assert constant_value(call("levenshtein", lit("a" * 9000), lit("b" * 9000)), number) is None
    short = constant_value(call("repeat", lit("ab"), lit(3)), pa.string())
    assert short is not None and short.value == "ababab"
    assert constant_value(call("repeat", lit("ab"), lit(10**7)), pa.string()) is None
    # Only numbers that are lengths of the result count.
    large = constant_value(lit(10**12) + lit(10**12), number)
    assert large is not None and large.value == 2 * 10**12
