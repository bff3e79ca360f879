"""Distances of texts, compared with the usual recursive definitions in plain Python."""

from __future__ import annotations

import random

import pytest

from qcore_ext.compute.text_distance import damerau_levenshtein, jaro, levenshtein


def edits(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (letter != other))
    return row[-1]


def swapped_edits(a: str, b: str) -> int:
    costs = {(-1, -1): len(a) + len(b)}
    for i in range(len(a) + 1):
        costs[i, -1], costs[i, 0] = len(a) + len(b), i
    for j in range(len(b) + 1):
        costs[-1, j], costs[0, j] = len(a) + len(b), j
    row_of: dict[str, int] = {}
    for i, letter in enumerate(a, 1):
        column = 0
        for j, other in enumerate(b, 1):
            row, before = row_of.get(other, 0), column
            column = j if letter == other else column
            costs[i, j] = min(
                costs[i - 1, j - 1] + (letter != other),
                costs[i, j - 1] + 1,
                costs[i - 1, j] + 1,
                costs[row - 1, before - 1] + (i - row - 1) + 1 + (j - before - 1),
            )
        row_of[letter] = i
    return costs[len(a), len(b)]


def test_distances_are_those_of_the_textbook() -> None:
    source = random.Random(3)
    letters = "abcé漢\U0001f600\U00010000"
    for _ in range(400):
        a, b = ("".join(source.choices(letters[: source.randint(1, 7)], k=source.randint(0, 12))) for _ in range(2))
        assert levenshtein(a, b) == edits(a, b), (a, b)
        assert damerau_levenshtein(a, b) == swapped_edits(a, b), (a, b)
        assert jaro(a, a) == (1.0 if a else 0.0)
    assert jaro("martha", "marhta") == pytest.approx(17 / 18)
    assert jaro("dixon", "dicksonx") == pytest.approx(23 / 30)
    assert jaro("abc", "xyz") == 0.0
