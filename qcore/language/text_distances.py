"""How far texts are apart, by letters: edits, and what they have in common. Floor P1."""

from __future__ import annotations

import operator

from qcore.language.arrow_functions import ArrowFunction, by_value
from qcore.language.data_types import FLOAT64, INT64, STRING
from qcore.language.signatures import fixed

_PREFIX_MAX = 4
_PREFIX_WEIGHT = 0.1
# Below this two texts have too little in common for a common beginning to count.
_ALIKE = 0.7


def _levenshtein(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (letter != other))
    return row[-1]


def _damerau_levenshtein(a: str, b: str) -> int:
    """Edits where two letters side by side may change places, and others come between them afterwards."""
    far = len(a) + len(b)
    # Row and column 0 stand before the texts: costs[i + 1][j + 1] is of i letters of the one and j of the other.
    costs = [[far] * (len(b) + 2) for _ in range(len(a) + 2)]
    for i in range(len(a) + 1):
        costs[i + 1][1] = i
    for j in range(len(b) + 1):
        costs[1][j + 1] = j
    row_of: dict[str, int] = {}
    for i, letter in enumerate(a, 1):
        column = 0
        for j, other in enumerate(b, 1):
            row, before = row_of.get(other, 0), column
            if letter == other:
                column = j
            costs[i + 1][j + 1] = min(
                costs[i][j] + (letter != other),
                costs[i + 1][j] + 1,
                costs[i][j + 1] + 1,
                costs[row][before] + (i - row - 1) + 1 + (j - before - 1),
            )
        row_of[letter] = i
    return costs[-1][-1]


def _hamming(a: str, b: str) -> int:
    if len(a) != len(b):
        raise ValueError(f"hamming() takes texts of one length, not of {len(a)} and {len(b)} letters")
    return sum(map(operator.ne, a, b))


def _jaccard(a: str, b: str) -> float:
    if not a or not b:
        raise ValueError("jaccard() takes texts that are not empty")
    return len(set(a) & set(b)) / len(set(a) | set(b))


def _jaro(a: str, b: str, least: float = 0.0) -> float:
    """The share of letters that both have near one place, less what of them is in another order; 0 below `least`."""
    if not a or not b:
        return 0.0
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    taken = [False] * len(b)
    met = []
    for i, letter in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == letter:
                taken[j] = True
                met.append(letter)
                break
    if not met:
        return 0.0
    others = [letter for letter, is_taken in zip(b, taken, strict=True) if is_taken]
    moved = sum(map(operator.ne, met, others)) // 2
    n = len(met)
    alike = (n / len(a) + n / len(b) + (n - moved) / n) / 3
    return alike if alike >= least else 0.0


def _jaro_winkler(a: str, b: str, least: float = 0.0) -> float:
    """The same, and more where the texts are alike and begin alike."""
    alike = _jaro(a, b)
    if alike > _ALIKE:
        together = zip(a[:_PREFIX_MAX], b[:_PREFIX_MAX], strict=False)
        prefix = next((n for n, (x, y) in enumerate(together) if x != y), min(len(a), len(b), _PREFIX_MAX))
        alike += prefix * _PREFIX_WEIGHT * (1 - alike)
    return alike if alike >= least else 0.0


_ALIKE_TEXTS = fixed(FLOAT64, STRING, STRING, FLOAT64, optional=1)
TEXT_DISTANCES: dict[str, ArrowFunction] = {
    "levenshtein": ArrowFunction(fixed(INT64, STRING, STRING), by_value(_levenshtein, INT64)),
    "damerau_levenshtein": ArrowFunction(fixed(INT64, STRING, STRING), by_value(_damerau_levenshtein, INT64)),
    "hamming": ArrowFunction(fixed(INT64, STRING, STRING), by_value(_hamming, INT64)),
    "jaccard": ArrowFunction(fixed(FLOAT64, STRING, STRING), by_value(_jaccard, FLOAT64)),
    "jaro_similarity": ArrowFunction(_ALIKE_TEXTS, by_value(_jaro, FLOAT64)),
    "jaro_winkler_similarity": ArrowFunction(_ALIKE_TEXTS, by_value(_jaro_winkler, FLOAT64)),
}
