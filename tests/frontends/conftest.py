"""Fixtures of the tests of SQL."""

from __future__ import annotations

import duckdb
import pytest

import qcore


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> tuple[qcore.Session, duckdb.DuckDBPyConnection]:
    """The module's TABLES in a session of two threads, and in DuckDB."""
    session, database = qcore.Session(threads=2), duckdb.connect()
    for name, table in request.module.TABLES.items():
        database.register(name, table)
        session.register(name, table)
    return session, database
