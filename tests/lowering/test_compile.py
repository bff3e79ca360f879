"""Compiled expressions against DuckDB: every function over types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from expression_table import SIZES, array, check, day, evaluate, make_table

from qcore.expression.tree import Case, Cast, In, call, col, lit
from qcore.lowering.compile import compile_projection

D = decimal.Decimal

interval = pa.month_day_nano_interval()

ARITHMETIC = [
    (col("p") * (1 - col("d")), "p * (1 - d)"),
    (col("p") * (1 - col("d")) * (1 + col("d")), "p::decimal(12,2) * (1 - d)::decimal(5,2) * (1 + d)::decimal(5,2)"),
    (col("p") + col("q"), "p + q"),
    (col("q") - col("p"), "q - p"),
    (col("w") + col("p"), "w + p"),
    (col("w") - col("w"), "w - w"),
    (col("p") / col("d"), "case when d = 0 then p::double / 0 else p::double / d end"),
    (col("w") * 3, "w * 3"),
    (-col("w"), "-w"),
    (call("abs", col("w")), "abs(w)"),
    (call("abs", col("q")), "abs(q)"),
    (call("modulo", col("p"), lit(D("7.5"))), "p % 7.5"),
    (col("p") * col("f"), "p::double * f"),
    (col("i64") + 1, "i64 + 1"),
    (col("i64") * col("j64"), "i64 * j64"),
    (col("i32") + col("i16"), "i32 + i16"),
    (col("i8") + col("i16"), "i8 + i16"),
    (col("i16") - col("i16"), "i16 - i16"),
    (col("i64") / col("j64"), "i64 // j64"),
    (call("modulo", col("i64"), col("j64")), "i64 % j64"),
    (-col("i32"), "-i32"),
    (call("abs", col("i64")), "abs(i64)"),
    (call("sign", col("i64")), "sign(i64)"),
    (col("u32") + col("i32"), "u32::bigint + i32"),
    (col("f") + col("g"), "f + g"),
    (col("f") * 2.5, "f * 2.5::double"),
    (col("f32") + col("f32"), "f32 + f32"),
    (1.0 / col("g"), "1.0::double / g"),
    (call("round", col("p")), "round(p)"),
    (call("round", col("p"), lit(1)), "round(p, 1)"),
    (call("round", col("f")), "round(f)"),
    (call("round", col("f"), lit(2)), "round(f, 2)"),
    (call("round", col("i32")), "round(i32)"),
    (call("round", col("i64"), lit(-3)), "round(i64, -3)"),
    (call("round", col("i8"), lit(1)), "round(i8, 1)"),
    (call("floor", col("w")), "floor(w)"),
    (call("floor", col("i16")), "floor(i16)"),
    (call("ceil", col("i32")), "ceil(i32)"),
    (call("sign", col("i8")), "sign(i8)"),
    (call("sign", col("f")), "sign(f)"),
    (call("sign", col("p")), "sign(p)"),
    (-col("f32"), "-f32"),
    (call("abs", col("i8")), "abs(i8)"),
    (call("modulo", col("f"), lit(0.75)), "f % 0.75::double"),
    (col("i8") / col("j64"), "i8 // j64"),
    (call("modulo", col("i16"), lit(7, pa.int16())), "i16 % 7"),
    (call("ceil", col("w")), "ceil(w)"),
    (call("floor", col("f")), "floor(f)"),
    (call("sqrt", call("abs", col("f"))), "sqrt(abs(f))"),
    (call("exp", col("f")), "exp(f)"),
    (call("ln", call("abs", col("i64")) + 1), "ln(abs(i64) + 1)"),
    (call("power", col("f32"), lit(2)), "power(f32, 2)"),
]

COMPARISONS = [
    *[
        (call(name, col(a), col(b)), f"{a} {symbol} {b}")
        for name, symbol in [
            ("equal", "="),
            ("not_equal", "<>"),
            ("less", "<"),
            ("less_equal", "<="),
            ("greater", ">"),
            ("greater_equal", ">="),
        ]
        for a, b in [
            ("i64", "j64"),
            ("i32", "i16"),
            ("f", "g"),
            ("g", "g"),
            ("f32", "f"),
            ("p", "w"),
            ("q", "i32"),
            ("t", "u"),
            ("s", "r"),
            ("b", "c"),
            ("i8", "u32"),
            ("t", "ts"),
        ]
    ],
    (col("t") <= "1998-09-02", "t <= date '1998-09-02'"),
    (lit("1995-06-17") < col("t"), "date '1995-06-17' < t"),
    (col("t").between(day("1994-01-01"), day("1994-12-31")), "t between date '1994-01-01' and date '1994-12-31'"),
    (col("d").between(D("0.05"), D("0.07")), "d between 0.05 and 0.07"),
    (col("p") < 24000, "p < 24000"),
    (col("i32") > 10, "i32 > 10"),
    (col("i32") > 5_000_000_000, "i32 > 5000000000"),
    (col("i8") == D("7.5"), "i8 = 7.5"),
    (col("w") > D("123.456789"), "w > 123.456789"),
    (col("s") == "MAIL", "s = 'MAIL'"),
    (col("s") == "the special packages requests nag", "s = 'the special packages requests nag'"),
    (col("s") != "thirteen bytes", "s <> 'thirteen bytes'"),
    (col("s") < "MAIL", "s < 'MAIL'"),
    (call("is_distinct_from", col("i64"), col("j64")), "i64 is distinct from j64"),
    (call("is_not_distinct_from", col("s"), col("r")), "s is not distinct from r"),
    (call("is_distinct_from", col("s"), lit(None, pa.string())), "s is distinct from null"),
    (In(col("s"), (lit("MAIL"), lit("AIR REG"), lit("thirteen bytes"))), "s in ('MAIL', 'AIR REG', 'thirteen bytes')"),
    (In(col("s"), (lit("MAIL"), lit(None, pa.string()))), "s in ('MAIL', null)"),
    (col("j64").isin([1, 5, 7]), "j64 in (1, 5, 7)"),
    (col("j64").isin(list(range(0, 100, 3))), f"j64 in ({', '.join(map(str, range(0, 100, 3)))})"),
    (col("i32").isin([3]), "i32 in (3)"),
    (col("i32").isin([3, 2**40]), "i32 in (3, 1099511627776)"),
    (col("q").isin([D("3"), D("4.5"), D("-7")]), "q in (3, 4.5, -7)"),
    (col("d").isin([D("0.05"), D("0.07")]), "d in (0.05, 0.07)"),
    (col("f32").isin([0.25, 1.5]), "f32 in (0.25, 1.5)"),
    (In(col("t"), (lit("1995-03-15"), day("1995-03-16"))), "t in (date '1995-03-15', date '1995-03-16')"),
    (In(col("i64"), (col("j64"), lit(3))), "i64 in (j64, 3)"),
]

LOGIC = [
    (col("b") & col("c"), "b and c"),
    (col("b") | col("c"), "b or c"),
    (~col("b"), "not b"),
    ((col("b") & col("c")) | ~(col("b") | col("c")), "(b and c) or not (b or c)"),
    (col("b") & lit(None, pa.bool_()), "b and null"),
    (col("b") | lit(None, pa.bool_()), "b or null"),
    (col("b") & col("c") & (col("i64") > 0), "b and c and i64 > 0"),
    (col("b").is_null(), "b is null"),
    (col("s").is_not_null(), "s is not null"),
    (call("is_true", col("b")), "b is true"),
    (call("is_not_true", col("b")), "b is not true"),
    (call("is_false", col("b")), "b is false"),
    (call("is_not_false", col("b")), "b is not false"),
    (col("b") & True, "b and true"),
]

CONDITIONAL = [
    (Case(((col("i64") > 0, col("p")),), lit(0)), "case when i64 > 0 then p else 0 end"),
    (Case(((col("i64") > 0, col("p")),)), "case when i64 > 0 then p end"),
    (
        Case(((col("i64") < 0, col("w")), (col("b"), col("p"))), col("q")),
        "case when i64 < 0 then w when b then p else q end",
    ),
    (
        Case(((col("s") == "MAIL", lit("mail")), (col("s").like("%special%"), col("r"))), col("s")),
        "case when s = 'MAIL' then 'mail' when s like '%special%' then r else s end",
    ),
    (Case(((col("j64") != 0, col("i64") / col("j64")),), lit(0)), "case when j64 <> 0 then i64 // j64 else 0 end"),
    (
        Case(((col("i16") != 0, col("i64") / col("i16")),), lit(None, pa.int64())),
        "case when i16 <> 0 then i64 // i16 end",
    ),
    ((col("i16") != 0) & (col("i64") / col("i16") > 3), "i16 <> 0 and i64 // nullif(i16, 0) > 3"),
    ((col("i16") == 0) | (col("i64") / col("i16") > 3), "i16 = 0 or i64 // nullif(i16, 0) > 3"),
    (call("coalesce", col("i64"), col("j64"), lit(0)), "coalesce(i64, j64, 0)"),
    (call("coalesce", col("s"), col("r")), "coalesce(s, r)"),
    (call("coalesce", col("p"), col("w")), "coalesce(p, w)"),
    (call("nullif", col("s"), lit("MAIL")), "nullif(s, 'MAIL')"),
    (call("nullif", col("j64"), lit(7)), "nullif(j64, 7)"),
    (col("i64") / call("nullif", col("i16"), lit(0)), "i64 // nullif(i16, 0)"),
    (call("greatest", col("i64"), col("j64"), col("i32")), "greatest(i64, j64, i32)"),
    (call("least", col("p"), col("w")), "least(p, w)"),
    (call("least", col("s"), col("r")), "least(s, r)"),
    (Case(((lit(True), lit(1)),), lit(2)), "case when true then 1 else 2 end"),
    (Case(((col("b"), lit(None, pa.null())),), col("t")), "case when b then null else t end"),
    (Case(((col("b"), lit(None, pa.null())),)), "case when b then null end"),
    (lit(None, pa.null()) == lit(None, pa.null()), "null = null"),
    (col("i64") == lit(None, pa.null()), "i64 = null"),
    (call("is_distinct_from", lit(None, pa.null()), lit(None, pa.null())), "null is distinct from null"),
    (call("coalesce", lit(None, pa.null()), col("s"), lit("x")), "coalesce(null, s, 'x')"),
]

TEXT = [
    *[
        (call(name, col("s"), lit(pattern)), f"s {symbol} '{pattern}'")
        for name, symbol in [("like", "like"), ("not_like", "not like"), ("ilike", "ilike"), ("not_ilike", "not ilike")]
        for pattern in [
            "",
            "%",
            "MAIL",
            "PROMO%",
            "%COPPER",
            "%special%",
            "%special%requests%",
            "%requests",
            "_",
            "A_R%",
            "_clair%",
            "%größe",
            "%gr__e",
            "thirteen_bytes",
            "the%nag",
            "%a%a%",
            "日本_テキスト",
            "%score\\%",
            "x%x",
            "é%e",
            "%É%",
        ]
    ],
    (call("like", col("s"), col("r")), "s like r"),
    (call("like", col("s"), call("concat", lit("%"), col("r"), lit("%"))), "s like '%' || r || '%'"),
    (call("ilike", col("s"), call("upper", col("r"))), "s ilike upper(r)"),
    (call("starts_with", col("s"), lit("the")), "starts_with(s, 'the')"),
    (call("starts_with", col("s"), col("r")), "starts_with(s, r)"),
    (call("ends_with", col("s"), lit("nag")), "ends_with(s, 'nag')"),
    (call("contains", col("s"), lit("pack")), "contains(s, 'pack')"),
    (call("contains", col("s"), col("r")), "contains(s, r)"),
    (call("substring", col("s"), lit(1), lit(2)), "substring(s, 1, 2)"),
    (call("substring", col("s"), lit(3)), "substring(s, 3)"),
    (call("substring", col("s"), lit(2), lit(20)), "substring(s, 2, 20)"),
    (call("substring", col("s"), lit(0), lit(3)), "substring(s, 0, 3)"),
    (call("substring", col("s"), lit(-3), lit(2)), "substring(s, -3, 2)"),
    (call("substring", col("s"), col("j64"), col("j64")), "substring(s, j64, j64)"),
    (call("left", col("s"), lit(3)), "left(s, 3)"),
    (call("left", col("s"), lit(-3)), "left(s, -3)"),
    (call("right", col("s"), lit(4)), "right(s, 4)"),
    (call("right", col("s"), lit(-4)), "right(s, -4)"),
    (call("length", col("s")), "length(s)"),
    (call("upper", call("replace", col("s"), lit("ß"), lit(""))), "upper(replace(s, 'ß', ''))"),
    (call("lower", col("s")), "lower(s)"),
    (call("trim", col("s")), "trim(s)"),
    (call("ltrim", col("s")), "ltrim(s)"),
    (call("rtrim", col("s")), "rtrim(s)"),
    (call("trim", col("s"), lit("xé日")), "trim(s, 'xé日')"),
    (call("concat", col("s"), lit("-"), col("r")), "s || '-' || r"),
    (call("concat", col("s"), col("i64")), "s || i64::varchar"),
    (call("replace", col("s"), lit("e"), lit("EE")), "replace(s, 'e', 'EE')"),
    (call("replace", col("s"), lit("special "), lit("")), "replace(s, 'special ', '')"),
    (call("position", col("s"), lit("e")), "strpos(s, 'e')"),
    (call("position", col("s"), lit("größe")), "strpos(s, 'größe')"),
]

TEMPORAL = [
    *[
        (call(part, col("t")), f"{sql}(t)::bigint")
        for part, sql in [
            ("year", "year"),
            ("quarter", "quarter"),
            ("month", "month"),
            ("week", "week"),
            ("day", "day"),
            ("day_of_week", "dayofweek"),
            ("day_of_year", "dayofyear"),
        ]
    ],
    *[(call(part, col("ts")), f"{part}(ts)::bigint") for part in ("year", "month", "day", "hour", "minute", "second")],
    (call("extract", lit("YEAR"), col("t")), "year(t)"),
    *[
        (call("date_trunc", lit(unit), col(c)), f"date_trunc('{unit}', {c})")
        for unit in ("year", "quarter", "month", "week", "day")
        for c in ("t", "ts")
    ],
    (call("date_trunc", lit("hour"), col("ts")), "date_trunc('hour', ts)"),
    (call("date_trunc", lit("minute"), col("ts")), "date_trunc('minute', ts)"),
    (col("t") + 90, "t + 90"),
    (col("t") - col("i64") / 1000, "t - (i64 // 1000)::int"),
    (col("t") - col("u"), "t - u"),
    (col("t") + lit((3, 0, 0), interval), "t + interval 3 month"),
    (col("t") - lit((1, 5, 0), interval), "t - interval 1 month - interval 5 day"),
    (lit("1994-01-31").cast(pa.date32()) + lit((1, 0, 0), interval), "date '1994-01-31' + interval 1 month"),
    (col("ts") + lit((1, 1, 3_600_000_000_000), interval), "ts + interval 1 month + interval 1 day + interval 1 hour"),
    (col("t") < day("1995-01-01") + lit((12, 0, 0), interval), "t < date '1995-01-01' + interval 1 year"),
]

CASTS = [
    (Cast(col("i32"), pa.int64()), "i32::bigint"),
    (Cast(col("j64"), pa.int8()), "j64::tinyint"),
    (Cast(col("i64"), pa.float64()), "i64::double"),
    (Cast(col("p"), pa.float64()), "p::double"),
    (Cast(col("w"), pa.float64()), "w::double"),
    (Cast(col("f"), pa.float32()), "f::float"),
    (Cast(col("f") * 100, pa.int32()), "(f * 100)::int"),
    (Cast(col("p"), pa.int64()), "p::bigint"),
    (Cast(col("w"), pa.int64()), "w::bigint"),
    (Cast(col("i64"), pa.decimal128(12, 2)), "i64::decimal(12, 2)"),
    (Cast(col("u32"), pa.decimal128(30, 5)), "u32::decimal(30, 5)"),
    (Cast(col("w"), pa.decimal128(30, 2)), "w::decimal(30, 2)"),
    (Cast(col("p"), pa.decimal128(20, 1)), "p::decimal(20, 1)"),
    (Cast(col("p"), pa.decimal128(38, 10)), "p::decimal(38, 10)"),
    (Cast(col("f"), pa.decimal128(18, 3)), "f::decimal(18, 3)"),
    (Cast(col("b"), pa.int32()), "b::int"),
    (Cast(col("i64"), pa.bool_()), "i64::bool"),
    (Cast(col("t"), pa.timestamp("us")), "t::timestamp"),
    (Cast(col("ts"), pa.date32()), "ts::date"),
    (Cast(col("ts"), pa.time64("us")), "ts::time"),
    (Cast(col("i64"), pa.string()), "i64::varchar"),
    (Cast(col("p"), pa.string()), "p::varchar"),
    (Cast(col("w"), pa.string()), "w::varchar"),
    (Cast(col("d"), pa.string()), "d::varchar"),
    (Cast(col("f"), pa.string()), "f::varchar"),
    (Cast(col("f32"), pa.string()), "f32::varchar"),
    (Cast(col("g"), pa.string()), "g::varchar"),
    (Cast(col("b"), pa.string()), "b::varchar"),
    (Cast(col("t"), pa.string()), "t::varchar"),
    (Cast(col("ts"), pa.string()), "ts::varchar"),
    *[
        (Cast(Cast(col(name), pa.string()), type_), name)
        for name, type_ in [
            ("i64", pa.int64()),
            ("i8", pa.int8()),
            ("p", pa.decimal128(15, 2)),
            ("w", pa.decimal128(30, 4)),
            ("f", pa.float64()),
            ("f32", pa.float32()),
            ("b", pa.bool_()),
            ("t", pa.date32()),
            ("ts", pa.timestamp("us")),
        ]
    ],
    (Cast(col("s"), pa.int64(), safe=False), "try_cast(s as bigint)"),
    (Cast(col("s"), pa.date32(), safe=False), "try_cast(s as date)"),
    (Cast(col("s"), pa.float64(), safe=False), "try_cast(s as double)"),
    (Cast(col("i32"), pa.int8(), safe=False), "try_cast(i32 as tinyint)"),
    (Cast(lit("12.345"), pa.decimal128(10, 2)), "'12.345'::decimal(10, 2)"),
    (Cast(lit("1e3"), pa.float64()), "'1e3'::double"),
]

GROUPS = {
    "arithmetic": ARITHMETIC,
    "comparison": COMPARISONS,
    "logic": LOGIC,
    "conditional": CONDITIONAL,
    "text": TEXT,
    "temporal": TEMPORAL,
    "cast": CASTS,
}
CASES = [pytest.param(*pair, id=f"{group}-{pair[1]}") for group, pairs in GROUPS.items() for pair in pairs]
TABLE = make_table(2500)


@pytest.mark.parametrize(("expr", "sql"), CASES)
def test_answers_equal_duckdb(expr, sql):
    check(TABLE, expr, sql)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nulls", [False, True])
def test_vector_sizes(n, nulls):
    """Every size around the vector's, with and without nulls: one expression of each group."""
    batch = make_table(n, nulls)
    for pairs in GROUPS.values():
        for expr, sql in pairs[:3]:
            check(batch, expr, sql)


def test_common_parts_are_computed_once():
    program = compile_projection([("x", col("p") * (1 - col("d"))), ("y", col("p") * (1 - col("d")) + 1)], TABLE.schema)
    assert program.description.count("multiply") == 1
    assert program.description.count("load") == 2


def test_constants_are_folded():
    program = compile_projection([("x", lit(2) * 3 + 1), ("y", lit("1995-01-01").cast(pa.date32()) + 31)], TABLE.schema)
    assert "add" not in program.description
    assert evaluate(TABLE.slice(0, 2), lit(2) * 3 + 1).column(0).to_pylist() == [7, 7]


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


def test_decimals_widen_when_a_vector_needs_it():
    """The first vectors of an output fit 64 bits, a later one does not: the column is widened, nothing is lost."""
    small = [D("1.10")] * 5000
    large = [*small[:-1], D("9999999999.99")]
    for values in (small, large):
        batch = array(values, pa.decimal128(15, 2))
        product = col("a") * col("a") * col("a")
        with decimal.localcontext(prec=60):
            assert evaluate(batch, product).column(0).to_pylist() == [v * v * v for v in values]
