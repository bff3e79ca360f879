"""Python's garbage collection pauses while modules are imported."""

import contextlib
import gc
import os
import subprocess
import sys
import threading

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


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("first", ["this", "the other"])
def test_a_context_of_another_thread_does_not_end_it(first, fails):
    """Of two threads whose contexts overlap, each nested, the one that leaves last ends the pause."""
    entered, leaves, left = threading.Event(), threading.Event(), threading.Event()

    def use_context():
        with contextlib.suppress(ZeroDivisionError), pause_garbage_collection(), pause_garbage_collection():
            entered.set()
            leaves.wait(60)
            if fails:
                raise ZeroDivisionError
        left.set()

    other = threading.Thread(target=use_context)
    if first == "this":
        with pause_garbage_collection():
            other.start()
            assert entered.wait(60)
        assert not gc.isenabled()
        leaves.set()
    else:
        with pause_garbage_collection(), pause_garbage_collection():
            other.start()
            assert entered.wait(60)
            leaves.set()
            assert left.wait(60)
            assert not gc.isenabled()
    other.join(60)
    assert gc.isenabled()


def test_many_threads():
    def use_contexts():
        for _ in range(300):
            with pause_garbage_collection():
                with pause_garbage_collection():
                    found.append(gc.isenabled())
                found.append(gc.isenabled())

    found = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=use_contexts) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not any(found) and len(found) == 8 * 300 * 2
    assert gc.isenabled() and garbage._pauses.n == 0


@pytest.mark.parametrize("held", [False, True], ids=["free lock", "held lock"])
def test_a_forked_child_does_not_keep_the_pause(held):
    """Nor does it wait for a thread of its parent: neither in the context that it was forked in nor in a new one."""
    pid = os.getpid()
    status = None
    try:
        with pause_garbage_collection():
            if held:
                garbage._pauses.lock.acquire()
            child = os.fork()
            if child:
                if held:
                    garbage._pauses.lock.release()
                _, status = os.waitpid(child, 0)
            else:
                was_on = gc.isenabled()
        if not child:
            with pause_garbage_collection():
                is_off = not gc.isenabled()
            os._exit(0 if was_on and is_off and gc.isenabled() else 1)
    finally:
        if os.getpid() != pid:
            os._exit(2)
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled() and garbage._pauses.n == 0


@pytest.mark.parametrize("use", ["qcore.Session", "qcore.sql('select 1').to_arrow()"])
def test_imports_collect_nothing(use):
    """Otherwise all generations are searched when a quarter more objects live than at the last search."""
    program = (
        "import gc, qcore; found = []; gc.callbacks.append(lambda phase, info: found.append(info['generation']));"
        f"{use}; print(found.count(2), gc.isenabled())"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert answer.split() == ["0", "True"]


def test_exempt_modules_are_searched_once():
    """Spark's workers call it after each task. Tasks import modules when they need them."""
    program = """if True:
        import gc, os
        from qcore.garbage import exempt_modules

        class Ring:
            def __init__(self):
                self.own = self

        dead = Ring()
        del dead
        exempt_modules()
        frozen = gc.get_freeze_count()
        kept, again = Ring(), exempt_modules()
        print(any(isinstance(found, Ring) for found in gc.get_objects()), frozen > 0, gc.get_freeze_count() == frozen)
        del kept
        print(gc.collect() > 0)
        import colorsys
        exempt_modules()
        print(gc.get_freeze_count() > frozen)
    """
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert answer.split() == ["True"] * 5
