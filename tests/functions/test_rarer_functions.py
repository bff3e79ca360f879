"""Less common functions of texts, paths, numbers, lists and maps, against DuckDB. SPEC Q1, Q3."""

from __future__ import annotations

import functools
import uuid

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

T = pa.table({
    "i": pa.array([1, 2, 3, 4, None, 600, 70_000], pa.int64()),
    "f": [1.5, 2.25, None, -3.0, 0.0, 7.5, 1e10],
    "s": ["abc", "Hello World", "", "martha", None, "x,y,z", "  pad "],
    "o": ["acb", "hallo world", "a", "marhta", "b", "x,z", "x pad"],
    "p": ["/a/b/c.txt", "a/b", "", "/", None, "a//b.tar.gz", ".x"],
    "u": ["a b/c?~*-_.", "%41%42", "%", "a+b%zz%20", None, "%4", "ü"],
    "l": pa.array([[1, 2, 2], [], None, [None, 4], [5, 1, 3], [None], [3, 1, 2]], pa.list_(pa.int64())),
    "b": pa.array([[True], [], None, [None, False], [True, False, True], [None], [False, True, True]]),
})  # fmt: skip

QUERIES = """
levenshtein(s, o), editdist3(s, o), damerau_levenshtein(s, o), damerau_levenshtein('a cat', o), levenshtein(s, '')
jaro_similarity(s, o), jaro_winkler_similarity(s, o), jaro_similarity(s, o, 0.9)
jaro_winkler_similarity(s, 'abd', 0.95)
jaccard(o, 'martha'), mismatches(s, reverse(s)), hamming(s, upper(s))
url_encode(u), url_decode(u), regexp_escape(o), regexp_escape('a.b*c d/_-')
parse_path(p), parse_filename(p), parse_filename(p, true), parse_filename(p, false), parse_dirname(p), parse_dirpath(p)
parse_path('a\\b/c', 'both_slash'), parse_filename('a\\b.c', true, 'backslash'), parse_dirname(p, 'forward_slash')
parse_filename('a\\b', 'backslash'), parse_dirpath('a\\b\\c', 'backslash'), parse_path(p, 'system')
regexp_extract_all(o, '[a-z]+'), regexp_extract_all(o, '([a-z])([a-z])', 2), regexp_extract_all(s, 'H.', 0, 'i')
to_base(i, 2), to_base(i, 36), to_base(i, 16, 10), format_bytes(i * i), formatReadableSize(-i), format_bytes(0)
formatReadableDecimalSize(i * i), format_bytes(9223372036854775807), to_centuries(1) = to_years(100), to_millennia(2)
even(f), even(-0.1), signbit(f), signbit(-0.0::double)
nextafter(f, 9e0), fmod(f, 2), fmod(f, -2), fdiv(i, 7), fdiv(f, 0)
gamma(2.5), gamma(-1.5), gamma(i), gamma(0.0), lgamma(f + 0.25), lgamma(0), lgamma(100.5)
greatest_common_divisor(i, 18), least_common_multiple(i, 6), add(i, 1), subtract(i, 1), multiply(i, 2)
encode(o), decode(encode(o)), encode(null) is null, constant_or_null(7, i), md5(s), sha1(s), sha256(s)
list_intersect(l, [2, 1, null]), list_intersect([3, 2, 1], [1, 2, 3]), list_intersect(l, null)
list_intersect(['b'], [o])
list_unique(l), list_unique([1, 1, null, i]), array_unique(l), list_count(l), list_any_value(l)
list_first(l), list_last(l), list_first([o]), list_last([l])
list_grade_up(l), list_grade_up(l, 'DESC'), list_grade_up([o, 'm', null], 'DESC', 'NULLS FIRST')
array_grade_up([o, 'm'])
list_where([1, 2, 3], [true, i is null, false]), list_select([1, 2, i], [3, 1, 9]), list_select([o], [1])
array_select(l, [2])
list_resize(l, 2), list_resize(l, i % 5, 0), list_resize([o], 3, s), list_resize(null, 1), list_resize([i], null)
strip_accents(o), strip_accents('ÀÉßøłñ'), nfc_normalize('é'), nfc_normalize(s)
julian(date '1969-01-01' + i::int), julian(timestamp '2020-01-01 12:00:00'), era(date '2020-01-01')
array_pop_back(l), array_pop_front(l), array_push_back(l, i), array_push_front(l, i), array_push_back(null, 1)
list_zip(l, b)[1] is null, list_zip(null, [i])[1] is null, len(list_zip(l, [1, 2]))
list_distance([1, i], [2, 3]), list_inner_product([1, f], [2, 3]), list_dot_product([f], [2]), list_distance(null, [1])
list_negative_inner_product([1, i], [2, 3.5]), list_negative_dot_product([i], [2]), list_distance([]::int[], []::int[])
list_cosine_similarity([1, i], [2, 3]), list_cosine_distance([1, i], [2, 3]), list_cosine_similarity([0], [1])
list_cosine_similarity([]::int[], []::int[]), list_cosine_similarity([1], [-1])
list_inner_product([]::int[], []::int[])
list_var_pop(l), list_var_samp(l), list_sem(l), list_string_agg([s, o])
list_aggregate(l, 'sum'), list_aggr(l, 'avg'), array_aggregate(l, 'max'), list_aggregate([s, o], 'string_agg', '|')
list_aggregate(l, 'count'), list_aggregate(l, 'first'), list_aggregate(l, 'stddev_samp')
map_entries(map {o: i}), map_contains(map {o: i}, 'b'), map_contains_value(map {'a': i}, 2)
map_extract_value(map {o: i}, 'b')
"""


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.register("given", T)
    made.execute("create table t as from given")
    return made


def answer(text: str) -> pa.Table:
    return qcore.sql(text, {"t": T}, dialect="duckdb").to_arrow()


@pytest.mark.parametrize("text", [line for line in QUERIES.split("\n") if line])
def test_as_duckdb(text: str) -> None:
    where = (
        " where i is not null and length(s) > 0" if "mismatches" in text or "[1, i]" in text or "[i]" in text else ""
    )
    where = where.replace("i is not null", "i is not null and f is not null") if "[1, f]" in text else where
    text = f"select {text} from t{where}"
    right = connection().sql(text).to_arrow_table()
    assert_same_rows(answer(text).rename_columns(right.column_names), right, rel_tol=1e-12)


def test_subscripts_as_rows() -> None:
    text = "select i, generate_subscripts(l, 1) as n from t where l is not null"
    assert_same_rows(answer(text), connection().sql(text).to_arrow_table())


def test_letters_not_bytes() -> None:
    """Q1: distances count characters, as in PostgreSQL. DuckDB counts bytes."""
    text = "select levenshtein('naïve', 'naive') a, hamming('é', 'e') b, damerau_levenshtein('ïa', 'aï') c"
    assert answer(text).to_pylist() == [{"a": 1, "b": 1, "c": 1}]


def test_a_group_without_a_match() -> None:
    """Q1: the result is an empty text, as for regexp_extract. DuckDB returns null."""
    assert answer("select regexp_extract_all('abca', 'a(b)?', 1) a").to_pylist() == [{"a": ["b", ""]}]


def test_uuids() -> None:
    """Q1: each row has another value, which is the same in all columns that refer to it."""
    made = answer("select a, a as b, gen_random_uuid() as c from (select uuid() as a from range(3000))").to_pydict()
    assert made["a"] == made["b"]
    assert len({*made["a"], *made["c"]}) == 6000
    assert {(value.version, value.variant) for value in made["a"]} == {(4, uuid.RFC_4122)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select to_base(-1, 2)", "a number from 0"),
        ("select to_base(1, 37)", "a radix from 2 to 36"),
        ("select jaccard('', 'a')", "not empty"),
        ("select url_decode('%ff')", "not UTF-8"),
        ("select parse_path('a', 'colon')", "unknown separator 'colon'"),
        ("select parse_filename('a', map([1], [2]))", "parse_filename.* takes text"),
        ("select parse_filename('a', 1)", "parse_filename.* takes text"),
        ("select parse_filename('a', true, [1])", "parse_filename.* takes text"),
        ("select regexp_extract_all('a', 'a*')", "matches the empty text"),
        ("select regexp_extract_all('a', 'a', 1)", "there is no group 1"),
        ("select list_distance([1], [2, 3])", "the same length, not 1 and 2"),
        ("select list_distance([1, null], [2, 3])", "a list has a null"),
        ("select list_distance(['a'], ['b'])", "two lists of numbers"),
        ("select array_cross_product([1], [2])", "list must have 3 numbers"),
        ("select list_aggregate([1], 'nosuch')", "unknown function 'list_nosuch'"),
        ("select list_resize([1], -1)", "cannot have -1 elements"),
        ("select list_aggregate([1])", "the name of an aggregate"),
    ],
)
def test_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(qcore.QcoreError, match=message):
        answer(text)


def test_cross_product() -> None:
    """Q3: of columns, some of whose rows are null."""
    text = (
        "select array_cross_product(case when i > 1 then [i, 0, 1] end, [2.0, 3, 4]) as a from t where i < 4 order by i"
    )
    assert answer(text).to_pydict()["a"] == [None, [-3.0, -6.0, 6.0], [-3.0, -10.0, 9.0]]
