"""The build makes the files whose inputs changed, such as a source, a setting or the product itself, and no others.

The tests build a small tree with the real `setup.py`: `pair.pxd` declares a struct, `reader.pyx` reads it, `caller.pyx`
reads it through `reader.pxd`, `scaled.pyx` includes a C header, and `alone.pyx` names no other file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("Cython", reason="the build needs Cython")
SETUP = Path(__file__).resolve().parents[1] / "setup.py"
MODULES = {"reader", "caller", "scaled", "alone"}
TREE = {
    "qcore_ext/__init__.py": "",
    "qcore_ext/ground/__init__.py": "",
    "qcore_ext/ground/native/scale.h": "#define SCALE 3\n",
    "qcore_ext/ground/scale.pxd": 'cdef extern from "native/scale.h" nogil:\n    int SCALE\n',
    "qcore_ext/ground/pair.pxd": "# Two numbers.\ncdef struct Pair:\n    int first\n    int second\n",
    "qcore_ext/room/__init__.py": "",
    "qcore_ext/room/reader.pxd": (
        "from qcore_ext.ground.pair cimport Pair\n\ncdef int size_of(Pair* pair) except -1 nogil\n"
    ),
    "qcore_ext/room/reader.pyx": (
        "from qcore_ext.ground.pair cimport (\n    Pair,\n)\n\n"
        "cdef int size_of(Pair* pair) except -1 nogil:\n    return sizeof(pair[0])\n"
    ),
    "qcore_ext/room/caller.pyx": (
        "from qcore_ext.room cimport (\n    reader,\n)\n\n"
        "def size():\n    cdef reader.Pair pair\n    return reader.size_of(&pair)\n"
    ),
    "qcore_ext/room/scaled.pyx": "from qcore_ext.ground.scale cimport SCALE\n\ndef scale():\n    return SCALE\n",
    "qcore_ext/room/alone.pyx": "def answer():\n    return 42\n",
}


class Tree:
    def __init__(self, root: Path):
        self.root = root

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        (self.root / path).write_text(text.replace(old, new))

    def build(self, **environment: str) -> dict[str, set[str]]:
        """Build in place. Returns the modules that were translated and compiled."""
        done = self.run_setup(**environment)
        assert done.returncode == 0, done.stdout
        words = [line.split() for line in done.stdout.splitlines()]
        return {
            step: {Path(line[1]).stem for line in words if line[:1] == [step]} for step in ("Translating", "Compiling")
        }

    def run_setup(self, **environment: str) -> subprocess.CompletedProcess:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("QCORE_")}
        return subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=self.root, env=ours | {"QCORE_JOBS": "2"} | environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip

    def value(self, module: str, call: str) -> int:
        """The value of a function of a built module, in a new process."""
        code = f"from qcore_ext.room import {module}; print({module}.{call}())"
        ours = os.environ | {"PYTHONPATH": str(self.root)}
        return int(subprocess.run([sys.executable, "-c", code], cwd=self.root, env=ours, stdout=subprocess.PIPE).stdout)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Tree:
    """The tree, built once. Tests build in copies of it."""
    tree = Tree(tmp_path_factory.mktemp("build"))
    for path, text in TREE.items():
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_text(text)
    shutil.copy(SETUP, tree.root)
    assert tree.build() == {"Translating": MODULES, "Compiling": MODULES}
    return tree


@pytest.fixture
def tree(built: Tree, tmp_path: Path) -> Tree:
    return Tree(Path(shutil.copytree(built.root, tmp_path / "copy")))


@pytest.mark.sweep
def test_new_times_of_the_same_files_build_nothing(tree):
    # As after a checkout: every source is newer than every product.
    for path in TREE:
        os.utime(tree.root / path, (4e9, 4e9))
    assert tree.build() == {"Translating": set(), "Compiling": set()}


@pytest.mark.sweep
def test_a_changed_struct_builds_all_modules_that_read_it(tree):
    assert tree.value("caller", "size") == 8
    tree.replace("qcore_ext/ground/pair.pxd", "    int second\n", "    int second\n    int third\n")
    # As after a checkout of an old commit: the changed file is older than every product.
    os.utime(tree.root / "qcore_ext/ground/pair.pxd", (1e9, 1e9))
    assert tree.build() == {"Translating": {"reader", "caller"}, "Compiling": {"reader", "caller"}}
    assert tree.value("caller", "size") == 12


def test_a_changed_header_compiles_modules_that_include_it(tree):
    tree.replace("qcore_ext/ground/native/scale.h", "3", "5")
    assert tree.build() == {"Translating": set(), "Compiling": {"scaled"}}
    assert tree.value("scaled", "scale") == 5


def test_a_changed_comment_compiles_nothing(tree):
    tree.replace("qcore_ext/ground/pair.pxd", "# Two numbers.", "# A pair of numbers.")
    assert tree.build() == {"Translating": {"reader", "caller"}, "Compiling": set()}


def test_a_product_that_something_else_wrote_is_made_again(tree):
    (module,) = tree.root.glob("build/lib*/qcore_ext/room/alone*.so")
    module.write_bytes(module.read_bytes()[:1000])
    assert tree.build() == {"Translating": set(), "Compiling": {"alone"}}
    assert tree.value("alone", "answer") == 42


@pytest.mark.sweep
def test_builds_of_two_kinds_keep_each_others_files(tree):
    assert tree.build(QCORE_DEBUG_BUILD="1", QCORE_ONLY="alone") == {"Translating": {"alone"}, "Compiling": {"alone"}}
    (in_place,) = tree.root.glob("qcore_ext/room/alone*.so")
    debug = in_place.read_bytes()
    assert tree.build() == {"Translating": set(), "Compiling": set()}
    assert in_place.read_bytes() != debug


@pytest.mark.sweep
def test_a_build_after_a_failed_one_makes_only_missing_files(tree):
    tree.replace("qcore_ext/room/alone.pyx", "return 42", "return 42 +")
    failed = tree.run_setup()
    assert failed.returncode != 0
    assert "alone.pyx" in failed.stdout
    tree.replace("qcore_ext/room/alone.pyx", "return 42 +", "return 40")
    assert tree.build() == {"Translating": {"alone"}, "Compiling": {"alone"}}
    assert tree.value("alone", "answer") == 40


def test_a_relative_cimport_is_refused(tree):
    tree.replace("qcore_ext/room/caller.pyx", "from qcore_ext.room cimport", "from . cimport")
    failed = tree.run_setup()
    assert failed.returncode != 0
    assert "a relative cimport is not supported; write the whole name" in failed.stdout
