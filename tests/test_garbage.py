"""Python's garbage collection pauses while modules are imported."""

import gc
import os
import subprocess
import sys

import pytest

from qcore import garbage
from qcore.garbage import pause_garbage_collection


@pytest.fixture(autouse=True)
def collection():
    yield
    gc.enable()


def test_it_is_off_in_the_context_and_on_behind_it():
    seen = []
    with pytest.raises(ZeroDivisionError), pause_garbage_collection():
        seen.append(gc.isenabled()) or 1 / 0
    assert seen == [False]
    assert gc.isenabled()


def test_it_stays_off_where_the_application_turned_it_off():
    gc.disable()
    with pause_garbage_collection():
        pass
    assert not gc.isenabled()


def test_a_context_inside_another_does_not_end_it():
    with pause_garbage_collection():
        with pause_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_forked_child_does_not_keep_the_pause():
    with pause_garbage_collection():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not garbage._is_paused


@pytest.mark.parametrize("use", ["qcore.Session", "qcore.sql('select 1').to_arrow()"])
def test_imports_collect_nothing(use):
    """Otherwise all generations are searched when a quarter more objects live than at the last search."""
    program = (
        "import gc, qcore; found = []; gc.callbacks.append(lambda phase, info: found.append(info['generation']));"
        f"{use}; print(found.count(2), gc.isenabled())"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert answer.split() == ["0", "True"]
