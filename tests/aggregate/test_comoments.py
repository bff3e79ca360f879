"""Moments of pairs by group: covariance, correlation and regression, against exact fractions. SPEC Q2."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check

from random_tables import SIZES, random_table


def over_pairs(result: Callable[..., Any], least: int = 1) -> Callable[[list[Any]], Any]:
    """Call `result` with count, means and sums of products. Null if fewer than `least` pairs are without a null."""

    def oracle(pairs: list[Any]) -> Any:
        whole = [(Fraction(y), Fraction(x)) for y, x in pairs if y is not None and x is not None]
        n = len(whole)
        if n < least:
            return None
        mean_y, mean_x = (sum(values) / n for values in zip(*whole, strict=True))
        yy, xx, xy = (
            sum(((a[i] - (mean_y, mean_x)[i]) * (a[j] - (mean_y, mean_x)[j]) for a in whole), Fraction())
            for i, j in ((0, 0), (1, 1), (0, 1))
        )
        value = result(n, mean_y, mean_x, yy, xx, xy)
        return value if value is None or isinstance(value, int) else float(value)

    return oracle


def correlation(n: int, my: Fraction, mx: Fraction, yy: Fraction, xx: Fraction, xy: Fraction) -> float:
    return math.nan if xx * yy == 0 else float(xy) / math.sqrt(float(xx)) / math.sqrt(float(yy))


ORACLES = {
    "covar_pop": over_pairs(lambda n, my, mx, yy, xx, xy: xy / n),
    "covar_samp": over_pairs(lambda n, my, mx, yy, xx, xy: xy / (n - 1), 2),
    "corr": over_pairs(correlation),
    "regr_avgx": over_pairs(lambda n, my, mx, yy, xx, xy: mx),
    "regr_avgy": over_pairs(lambda n, my, mx, yy, xx, xy: my),
    "regr_sxx": over_pairs(lambda n, my, mx, yy, xx, xy: xx),
    "regr_syy": over_pairs(lambda n, my, mx, yy, xx, xy: yy),
    "regr_sxy": over_pairs(lambda n, my, mx, yy, xx, xy: xy),
    "regr_slope": over_pairs(lambda n, my, mx, yy, xx, xy: xy / xx if xx else math.nan),
    "regr_intercept": over_pairs(lambda n, my, mx, yy, xx, xy: my - xy / xx * mx if xx else None),
    "regr_r2": over_pairs(lambda n, my, mx, yy, xx, xy: None if not xx else xy * xy / xx / yy if yy else Fraction(1)),
    "regr_count": over_pairs(lambda n, *rest: n, 0),
}


def calls(y: int) -> list[Call]:
    types = {"regr_count": pa.int64()}
    return [
        Call(name, (y, y + 1), types.get(name, pa.float64()), oracle if name != "regr_count" else count_pairs, at)
        for name, oracle in ORACLES.items()
        for at in (-1, y + 2)
    ]


def count_pairs(pairs: list[Any]) -> int:
    return sum(y is not None and x is not None for y, x in pairs)


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n_groups", [0, 60])
def test_q2_all_results(n_rows: int, n_groups: int) -> None:
    types = {"k": pa.int16(), "y": pa.float64(), "x": pa.float64(), "p": pa.bool_()}
    table = random_table(8, n_rows, types, null_share=0.2, n_distinct={"k": max(n_groups, 1)})
    check(table if n_groups else table.drop(["k"]), int(n_groups > 0), calls(int(n_groups > 0)))


def test_q2_one_pair_a_level_line_an_upright_line_and_none() -> None:
    k = [0, 1, 1, 1, 2, 2, 2, 3, 3, 4]
    y = [7.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 5.0, 6.0, None]
    x = [3.0, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 1.0, 2.0, 1.0]
    check(pa.table({"k": k, "y": y, "x": x, "p": [True] * 10}), 1, calls(1))


def test_q2_large_means_do_not_cancel_and_rounding_stays_within_one() -> None:
    rows = np.arange(3000)
    table = pa.table({
        "k": rows % 4, "y": 1e5 + rows % 7, "x": -1e5 + (rows % 7) * 3 + rows % 2, "p": rows % 3 > 0
    })  # fmt: skip
    check(table, 1, calls(1))
    line = pa.table({"y": rows * 0.1, "x": rows * 0.3, "p": [True] * 3000})
    check(line, 0, [call for call in calls(0) if call.function == "corr"])
