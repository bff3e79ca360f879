"""Texts and names of Spark's SQL in standard quotes. SPEC Q1, S1."""

from __future__ import annotations

import pytest

import qcore
from qcore.errors import PlanError
from qcore.sql.spark_texts import with_standard_texts


@pytest.mark.parametrize(
    ("written", "standard"),
    [
        ('select "a"', "select 'a'"),
        ('select `a b`, `c``d`, `e"f`', 'select "a b", "c`d", "e""f"'),
        (r"'it\'s' \'", r"'it''s' \'"),
        ("'it''s'", "'it''s'"),
        ('"say ""no"""', "'say \"no\"'"),
        (r"'a\tb\nc\\d'", "'a\tb\nc\\d'"),
        (r"'\u0041\U0001F600\101\q'", "'A\U0001f600Aq'"),
        (r"'10\% \_'", r"'10\% \_'"),
        (r"r'a\tb' R" + r'"\d+"', r"'a\tb' '\d+'"),
        ("1 -- it's\n + 2 /* 'x */", "1 -- it's\n + 2 /* 'x */"),
        ("rr'x'", "rr'x'"),
    ],
)
def test_texts_and_names(written: str, standard: str) -> None:
    assert with_standard_texts(written) == standard


@pytest.mark.parametrize("code", [r"\U00110000", r"\ud800"])
def test_an_escape_that_is_no_character(code: str) -> None:
    with pytest.raises(PlanError, match="is not a character"):
        with_standard_texts(f"'{code}'")


def test_values() -> None:
    text = r"""select "it's" as `a b`, 'x\ty' as t, r'\d' as r"""
    assert qcore.sql(text, {}, dialect="spark").to_arrow().to_pylist() == [{"a b": "it's", "t": "x\ty", "r": r"\d"}]
