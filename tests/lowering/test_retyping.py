"""Programs of expressions over columns whose types change (SPEC D6)."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from qcore import col
from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Expr, Literal, call
from qcore.lowering.compile import compile_projection
from qcore.lowering.retyping import Programs
from qcore_ext.data.schema import Schema

DECLARED = pa.schema([("a", pa.float32())])
WIDER = pa.schema([("a", pa.float64())])


def programs(expr: Expr, declared: pa.Schema) -> tuple[Programs, list[pa.Schema]]:
    """The programs of an expression, and the list of the schemas that they were compiled for."""
    compiled: list[pa.Schema] = []

    def compile(schema: pa.Schema) -> object:
        compiled.append(schema)
        return compile_projection([("x", expr)], schema)

    return Programs(compile, [expr], declared), compiled


def test_one_program_for_all_runs() -> None:
    made, compiled = programs(col("a").is_null(), DECLARED)
    one, other = made.of_run(), made.of_run()
    assert one(Schema(DECLARED)) is one(Schema(DECLARED)) is other(Schema(DECLARED))
    assert one(Schema(WIDER)) is not other(Schema(DECLARED))
    assert compiled == [DECLARED, WIDER]


def test_rows_of_another_run_do_not_matter() -> None:
    """The column is declared null. One run has floats and the next integers, but no run has both."""
    nothing = pa.schema([("a", pa.null())])
    floats, integers = pa.schema([("a", pa.float32())]), pa.schema([("a", pa.int64())])
    made, compiled = programs(col("a") + col("a"), nothing)
    one, other = made.of_run(), made.of_run()
    one(Schema(floats)), other(Schema(integers))
    for run, schema in ((one, integers), (other, floats)):
        with pytest.raises(SchemaChangeError, match="column 'a' changed"):
            run(Schema(schema))
    assert compiled == [floats, integers]


def test_schemas_of_earlier_runs_are_still_checked_against_each_other() -> None:
    """The first schema of a run may be one of an earlier run. The next one is compared with it."""
    nothing = pa.schema([("a", pa.null())])
    floats, integers = pa.schema([("a", pa.float32())]), pa.schema([("a", pa.int64())])
    made, compiled = programs(col("a") + col("a"), nothing)
    for first in (floats, integers):
        made.of_run()(Schema(first))
    for first, next_ in ((floats, integers), (integers, floats)):
        run = made.of_run()
        assert run(Schema(first)) is run(Schema(first))
        with pytest.raises(SchemaChangeError, match="column 'a' changed"):
            run(Schema(next_))
    assert compiled == [floats, integers]


def test_drivers_that_meet_other_schemas_at_once() -> None:
    """The second of the two schemas is an error, in either order."""
    nothing = pa.schema([("a", pa.null())])
    schemas = [Schema(pa.schema([("a", type_)])) for type_ in (pa.float32(), pa.int64())]
    made, _ = programs(col("a") + col("a"), nothing)
    for _ in range(200):
        run, start = made.of_run(), threading.Barrier(2)
        refused: list[Exception] = []

        def meet(schema: Schema) -> None:
            start.wait()  # noqa: B023 - the threads end before the next round
            try:
                run(schema)  # noqa: B023
            except SchemaChangeError as error:
                refused.append(error)  # noqa: B023

        threads = [threading.Thread(target=meet, args=(schema,)) for schema in schemas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 1


def test_a_change_of_meaning_is_refused_in_every_run() -> None:
    made, compiled = programs(col("a") + col("a"), DECLARED)
    for _ in range(2):
        with pytest.raises(SchemaChangeError, match="column 'a' changed from float to double"):
            made.of_run()(Schema(WIDER))
    assert not compiled


def test_expressions_that_cannot_be_compiled() -> None:
    text = pa.schema([("a", pa.string())])
    made, _ = programs(~col("a"), text)
    with pytest.raises(PlanError) as unchanged:
        made.of_run()(Schema(text))
    assert not isinstance(unchanged.value, SchemaChangeError)
    made, _ = programs(col("a").is_null() & col("a"), pa.schema([("a", pa.null())]))
    with pytest.raises(SchemaChangeError, match="column 'a' changed from null to string: "):
        made.of_run()(Schema(text))


def test_values_are_not_cast_to_null() -> None:
    """A plan that casts to null names a type without values: a column that gets values is in conflict with it."""
    null = pa.schema([("a", pa.null())])
    made, _ = programs(col("a").cast(pa.null()), null)
    run = made.of_run()
    run(Schema(null))
    with pytest.raises(SchemaChangeError, match=r"'a' changed from null to decimal128.* cannot cast .* to null"):
        run(Schema(pa.schema([("a", pa.decimal128(20, 0))])))


def test_wider_rows_that_another_driver_met_first() -> None:
    """The column is declared null. The second type is narrower than the first, or neither holds the other."""
    nothing = pa.schema([("a", pa.null())])
    for first, then in ((pa.int64(), pa.int32()), (pa.decimal128(24, 4), pa.int32()), (pa.int8(), pa.uint8())):
        made, compiled = programs(call("coalesce", col("a"), Literal(0, pa.int32())), nothing)
        run = made.of_run()
        schemas = [pa.schema([("a", type_)]) for type_ in (first, then)]
        for schema in schemas:
            run(Schema(schema))
        assert compiled == schemas
