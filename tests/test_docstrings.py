"""The examples in docstrings of public modules run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "qcore",
    "qcore.access",
    "qcore.config",
    "qcore.connectors.alignment",
    "qcore.connectors.base",
    "qcore.connectors.parquet.pruning",
    "qcore.connectors.sources",
    "qcore.progress",
    "qcore.protocols",
    "qcore.session.polled_query",
    "qcore.session.result",
    "qcore.session.session",
    "qcore.session.task",
    "qcore.session.task_iterator",
    "qcore.spark",
    "qcore.text_table",
    "qcore.writing.partition_files",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
