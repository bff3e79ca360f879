"""Distances and similarities of texts, by letters."""

from __future__ import annotations

import operator

from qcore.expression.types import FLOAT64, INT64, STRING
from qcore.functions.arrow.scalar import ArrowFunction, by_value
from qcore.functions.signatures import take_types
from qcore_ext.compute.arrow_call import look
from qcore_ext.compute.text_distance import damerau_levenshtein, jaro, levenshtein

# The number of letters that Python's built-in loops process in one call.
_PIECE = 1 << 18

_PREFIX_MAX = 4
_PREFIX_WEIGHT = 0.1
# The Jaro similarity above which a common prefix raises the Jaro-Winkler similarity.
_ALIKE = 0.7


def _hamming(a: str, b: str) -> int:
    if len(a) != len(b):
        raise ValueError(f"hamming() takes texts of equal length, not {len(a)} and {len(b)} letters")
    apart = 0
    for start in range(0, len(a), _PIECE):
        look()
        apart += sum(map(operator.ne, a[start : start + _PIECE], b[start : start + _PIECE]))
    return apart


def _letters(text: str) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(text), _PIECE):
        look()
        found.update(text[start : start + _PIECE])
    return found


def _jaccard(a: str, b: str) -> float:
    if not a or not b:
        raise ValueError("jaccard() takes texts that are not empty")
    one, other = _letters(a), _letters(b)
    return len(one & other) / len(one | other)


def _jaro(a: str, b: str, least: float = 0.0) -> float:
    """The Jaro similarity: the share of letters that match at nearby positions, reduced by those in another order. The
    result is 0 below `least`.
    """
    alike = float(jaro(a, b))
    return alike if alike >= least else 0.0


def _jaro_winkler(a: str, b: str, least: float = 0.0) -> float:
    """The Jaro-Winkler similarity: the Jaro similarity, raised for a common prefix if the texts are similar."""
    alike = _jaro(a, b)
    if alike > _ALIKE:
        together = zip(a[:_PREFIX_MAX], b[:_PREFIX_MAX], strict=False)
        prefix = next((n for n, (x, y) in enumerate(together) if x != y), min(len(a), len(b), _PREFIX_MAX))
        alike += prefix * _PREFIX_WEIGHT * (1 - alike)
    return alike if alike >= least else 0.0


_ALIKE_TEXTS = take_types(FLOAT64, STRING, STRING, FLOAT64, optional=1)
TEXT_DISTANCES: dict[str, ArrowFunction] = {
    "levenshtein": ArrowFunction(take_types(INT64, STRING, STRING), by_value(levenshtein, INT64)),
    "damerau_levenshtein": ArrowFunction(take_types(INT64, STRING, STRING), by_value(damerau_levenshtein, INT64)),
    "hamming": ArrowFunction(take_types(INT64, STRING, STRING), by_value(_hamming, INT64)),
    "jaccard": ArrowFunction(take_types(FLOAT64, STRING, STRING), by_value(_jaccard, FLOAT64)),
    "jaro_similarity": ArrowFunction(_ALIKE_TEXTS, by_value(_jaro, FLOAT64)),
    "jaro_winkler_similarity": ArrowFunction(_ALIKE_TEXTS, by_value(_jaro_winkler, FLOAT64)),
}
