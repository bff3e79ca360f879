"""The rules of the code that a machine can check. docs/ARCHITECTURE.md lists the rooms in their order."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# `make tidy` runs all of them.
pytestmark = pytest.mark.sweep
ROOT = Path(__file__).resolve().parents[1]
FILE_LINES_MAX = 900
FUNCTION_LINES_MAX = 70
# Of one class in Python. Lowering has the most: one method for nearly every kind of node.
METHODS_MAX = 45
BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
# Participles with another form than the verb. Others of the kind, such as `read` or `split`, are verbs too.
IRREGULAR_PARTICIPLES = {
    "begun", "broken", "built", "chosen", "drawn", "found", "given", "gone", "held", "hidden", "kept", "known", "lost",
    "made", "met", "seen", "sent", "shown", "taken", "told", "woken", "written",
}  # fmt: skip
# `qcore.polled` is documented. A test's oracle is named `expected`, as the argument of assert_same_rows is.
PARTICIPLES_ALLOWED = {"polled", "expected"}
# Spelled in pieces, so that this file does not match itself.
BANNED_TEXT = {
    "a path of one machine": re.compile("/(?:root|home/\\w+|work" + "|tmp)/"),
    "a package registry": re.compile("index-" + "url|https?://[\\w.-]*pypi" + "|files\\.pythonhosted"),
    "unfinished work": re.compile("\\b(?:TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + "Error)\\b"),
}
TEXT_SUFFIXES = {
    ".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".toml", ".sql", ".txt", ".cfg", ".in", ".sh", ".scala", "",
}  # fmt: skip


def rooms() -> dict[str, int]:
    """Folders and modules of both packages with their ranks in the ```rooms block of docs/ARCHITECTURE.md."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    block = text.split("```rooms\n", 1)[1].split("```", 1)[0]
    ranks: dict[str, int] = {}
    package = ""
    for line in block.splitlines():
        if not line.startswith(" "):
            package, _, line = line.partition(":")
        for name in line.split():
            ranks[f"{package}.{name}"] = len(ranks)
    return ranks


def room(module: str) -> str:
    """The room of a module: its folder below the package, or the module itself."""
    parts = module.split(".")
    return ".".join(parts[:2])


def package_files(*suffixes: str) -> list[Path]:
    return sorted(
        path
        for package in ("qcore", "qcore_ext")
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    )


def files_of_tests() -> list[Path]:
    return sorted(path for suffix in ("py", "pyx") for path in (ROOT / "tests").rglob(f"*.{suffix}"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import of qcore or qcore_ext. Imports for type checkers do not count."""
    if path.suffix == ".py":
        yield from python_imports(ast.parse(path.read_text()))
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r"\s*(?:from\s+(qcore[\w.]*)\s+c?import\s+(\w+)|c?import\s+(qcore[\w.]*))", line)
        if found:
            module = found[1] or found[3]
            yield number, module if found[1] is None or module.count(".") > 1 else f"{module}.{found[2]}"


def python_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("qcore", "qcore_ext"):
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("qcore", "qcore_ext"):
                    yield node.lineno, alias.name
        else:
            yield from python_imports(node)


def named_modules(path: Path, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and module of every text that is the name of a module: it is for import_module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            yield node.lineno, node.value


def resolve(module: str, known: set[str]) -> str | None:
    """The module that a dotted import refers to."""
    while module:
        if module in known:
            return module
        if f"{module}.__init__" in known:
            return f"{module}.__init__"
        module = module.rpartition(".")[0]
    return None


def where(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def import_graph() -> dict[str, list[tuple[str, str]]]:
    """For each module the modules that it imports, and where. A .pyx and its .pxd are one module."""
    files = package_files(".py", ".pyx", ".pxd")
    known = {module_name(path) for path in files}
    graph: dict[str, list[tuple[str, str]]] = {}
    for path in files:
        module = module_name(path)
        for line, imported in imported_modules(path):
            target = resolve(imported, known)
            if target is not None and target != module:
                graph.setdefault(module, []).append((target, where(path, line)))
    return graph


def test_every_room_has_a_rank() -> None:
    present = {
        room(module_name(path))
        for path in package_files(".py", ".pyx", ".pxd")
        if path.read_text().strip() or path.parent.parent != ROOT
    }
    ranks = set(rooms())
    assert not present - ranks, f"docs/ARCHITECTURE.md has no room for {sorted(present - ranks)}"
    assert not ranks - present, f"docs/ARCHITECTURE.md has rooms that are not there: {sorted(ranks - present)}"


def test_rooms_import_downwards() -> None:
    ranks = rooms()
    wrong = [
        f"{importer} imports {target}"
        for module, imports in import_graph().items()
        for target, importer in imports
        if module.split(".")[0] == target.split(".")[0] and ranks[room(target)] > ranks[room(module)]
    ]
    assert not wrong, "\n".join(wrong)


# Rooms that import a later room by its name, when a user passes an object of pyspark: without pyspark it cannot be
# imported.
NAMED_UPWARDS = {("qcore.connectors", "qcore.spark"), ("qcore.session", "qcore.spark")}


def test_modules_in_texts_are_in_earlier_rooms() -> None:
    """import_module hides an import from the rules above, so a module's name in a text counts as an import."""
    ranks = rooms()
    files = package_files(".py")
    known = {module_name(path) for path in files}
    found = {
        (room(module_name(path)), room(module)): f"{where(path, line)} names {module}"
        for path in files
        for line, module in named_modules(path, known)
        if ranks[room(module)] > ranks[room(module_name(path))]
    }
    wrong = [text for pair, text in found.items() if pair not in NAMED_UPWARDS]
    assert not wrong, "\n".join(wrong)
    assert not NAMED_UPWARDS - found.keys(), f"nobody needs these exceptions: {NAMED_UPWARDS - found.keys()}"


def test_modules_do_not_import_in_circles() -> None:
    graph = {module: {target for target, _ in imports} for module, imports in import_graph().items()}
    finished: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(sorted(graph[start])))] if start not in finished else []
        path = [start] if stack else []
        while stack:
            module, targets = stack[-1]
            following = next((target for target in targets if target not in finished), None)
            if following is None:
                finished.add(module)
                stack.pop()
                path.pop()
            else:
                assert following not in path, " imports ".join([*path[path.index(following) :], following])
                path.append(following)
                stack.append((following, iter(sorted(graph.get(following, ())))))


# Subjects of the engine, and the subjects that each may use.
SUBJECTS: dict[str, set[str]] = {
    "sort": set(),
    "aggregate": {"sort"},
    "join": set(),
    "window": {"sort", "aggregate"},
    "exchange": set(),
    "basic": set(),
}


def test_subjects_do_not_know_each_other() -> None:
    wrong = []
    for module, imports in import_graph().items():
        subject = room(module).rpartition(".")[2]
        if not module.startswith("qcore_ext.") or subject not in SUBJECTS:
            continue
        allowed = SUBJECTS[subject] | {subject}
        for target, importer in imports:
            other = room(target).rpartition(".")[2]
            if other in SUBJECTS and other not in allowed:
                wrong.append(f"{importer} imports {target}")
    assert not wrong, "\n".join(wrong)


def operator_modules() -> set[str]:
    """Modules of the engine's subjects that define an operator. Base classes of operators do not count."""
    head = re.compile(r"^cdef class (\w+)\((\w*Operator)\)", re.MULTILINE)
    found = [
        (name, base, module_name(path))
        for path in package_files(".pyx", ".pxd")
        if room(module_name(path)).rpartition(".")[2] in SUBJECTS
        for name, base in head.findall(path.read_text())
    ]
    bases = {base for _, base, _ in found}
    return {module for name, _, module in found if name not in bases}


def test_only_lowering_builds_operators() -> None:
    """No other module imports an operator, neither other operators nor other rooms of the engine."""
    operators = operator_modules()
    assert len(operators) > 20
    wrong = [
        f"{importer} imports {target}"
        for module, imports in import_graph().items()
        for target, importer in imports
        if target in operators and not module.startswith("qcore.lowering.") and module != target
    ]
    assert not wrong, "\n".join(wrong)


def test_front_doors_and_connectors_do_not_know_each_other() -> None:
    doors = {"qcore.substrait", "qcore.connectors", "qcore.sql"}
    wrong = [
        f"{importer} imports {target}"
        for module, imports in import_graph().items()
        for target, importer in imports
        if room(module) in doors
        and room(target) in doors
        and "connectors" in module + target
        and room(module) != room(target)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_engine_knows_no_planner() -> None:
    wrong = [
        f"{where(path, line)} imports {module}"
        for path in package_files(".pyx", ".pxd", ".py")
        if path.relative_to(ROOT).parts[0] == "qcore_ext"
        for line, module in imported_modules(path)
        if module.split(".")[0] == "qcore"
    ]
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_are_short() -> None:
    wrong = []
    for path in package_files(".py", ".pyx", ".pxd", ".h", ".c") + files_of_tests():
        lines = path.read_text().splitlines()
        if len(lines) > FILE_LINES_MAX:
            wrong.append(f"{where(path)} has {len(lines)} lines")
        if path.suffix in (".py", ".pyx"):
            wrong += [
                f"{where(path, start)} {name} has {n_lines} lines"
                for start, name, n_lines in functions(lines)
                if n_lines > FUNCTION_LINES_MAX
            ]
    assert not wrong, "\n".join(wrong)


def test_classes_have_a_bounded_number_of_methods() -> None:
    """A class is measured by its methods and not by its lines, so that no class is cut into bases to fit a limit."""
    wrong = []
    for path in package_files(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                n = sum(isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) for part in node.body)
                if n > METHODS_MAX:
                    wrong.append(f"{where(path, node.lineno)} {node.name} has {n} methods")
    assert not wrong, "\n".join(wrong)


def functions(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """First line, name and length of every function, by indentation, so that it works for Cython too."""
    head = re.compile(r"(\s*)(?:async )?(?:def|cdef(?! class)|cpdef)\b.*?\b(\w+)\(")
    for start, line in enumerate(lines):
        found = head.match(line)
        if not found or not opens_block(lines, start):
            continue
        indent = len(found[1])
        end = last = start
        while end + 1 < len(lines):
            end += 1
            text = lines[end]
            if text.strip() and len(text) - len(text.lstrip()) <= indent and not text.lstrip().startswith((")", "#")):
                break
            if text.strip():
                last = end
        yield start + 1, found[2], last - start + 1


def opens_block(lines: list[str], start: int) -> bool:
    """Whether the signature that starts here ends in a colon (a declaration does not)."""
    depth = 0
    for line in lines[start:]:
        code = line.split("#")[0].rstrip()
        depth += code.count("(") - code.count(")")
        if depth <= 0:
            return code.endswith(":")
    return False


def test_names_say_something() -> None:
    wrong = [where(path) for path in tracked_files() if {path.stem.lower(), path.parent.name.lower()} & BANNED_NAMES]
    assert not wrong, wrong


@pytest.mark.parametrize("what", BANNED_TEXT)
def test_tracked_files_are_free_of(what: str) -> None:
    wrong = []
    for path in tracked_files():
        if path.suffix not in TEXT_SUFFIXES:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if BANNED_TEXT[what].search(line):
                wrong.append(f"{where(path, number)}: {line.strip()}")
    assert not wrong, f"{what}:\n" + "\n".join(wrong)


def test_functions_are_named_by_verbs() -> None:
    """No function is named by a past participle alone: `pick_rows`, not `picked`. Properties may name a state."""
    wrong = []
    for path in [*package_files(".py", ".pyx", ".pxd"), *files_of_tests()]:
        before = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r"\s*(?:async )?(?:def|cdef(?! class)|cpdef)\b[^=]*?\b_*([a-z]+)\(", line)
            is_plain = "property" not in before and "fixture" not in before
            if found and is_plain and is_participle(found[1]) and found[1] not in PARTICIPLES_ALLOWED:
                wrong.append(f"{where(path, number)}: {line.strip()}")
            before = line
    assert not wrong, "\n".join(wrong)


def is_participle(word: str) -> bool:
    return word in IRREGULAR_PARTICIPLES or (word.endswith("ed") and not word.endswith("eed") and word != "embed")


def test_comments_name_rules_in_words() -> None:
    """The packages do not contain the specification, so their texts do not refer to its rows."""
    wrong = [
        f"{where(path, number)}: {line.strip()}"
        for path in package_files(".py", ".pyx")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bSPEC [A-Z]\d", line)
    ]
    assert not wrong, "\n".join(wrong)


def test_names_of_structs_and_classes_are_unique() -> None:
    """Each name of the engine means one thing."""
    head = re.compile(r"^(?:ctypedef (?:struct|union|fused)|c?p?def (?:class|enum|struct)|class) (\w+)", re.MULTILINE)
    places: dict[str, set[str]] = {}
    for path in package_files(".pyx", ".pxd"):
        for name in head.findall(path.read_text()):
            places.setdefault(name, set()).add(module_name(path))
    wrong = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert not wrong, wrong


# Plan nodes whose operator has the same name and is written in Python.
NODES_AND_OPERATORS = {"TableWrite"}


def test_names_of_classes_in_python_are_unique() -> None:
    """Each name of qcore means one thing, as in the engine."""
    found: dict[str, set[str]] = {}
    for path in package_files(".py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(module_name(path))
    wrong = {name: sorted(modules) for name, modules in found.items() if len(modules) > 1}
    assert wrong.keys() == NODES_AND_OPERATORS, wrong


def test_classes_are_whole() -> None:
    """No class is cut into mixins that declare each other's attributes, and no method is found by a composed name."""
    wrong = []
    for path in package_files(".py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                wrong += [
                    f"{where(path, part.lineno)}: {node.name} declares attributes for type checkers alone"
                    for part in node.body
                    if isinstance(part, ast.If) and "TYPE_CHECKING" in ast.dump(part.test)
                ]
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "getattr"
                and isinstance(node.args[1], ast.JoinedStr)
            ):
                wrong.append(f"{where(path, node.lineno)}: getattr with a name that is put together")
    assert not wrong, "\n".join(wrong)


def test_modules_open_with_their_purpose() -> None:
    wrong = []
    for path in package_files(".pyx", ".pxd"):
        if path.name != "__init__.pxd" and not path.read_text().startswith('"""'):
            wrong.append(f"{where(path)}: no docstring")
    for path in package_files(".py"):
        text = path.read_text()
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            wrong.append(f"{where(path)}: no docstring")
    assert not wrong, "\n".join(wrong)


def test_units_of_the_engine_have_tests() -> None:
    """Each .pyx has a test file of its name. untested_units.txt lists exceptions, and may only become shorter."""
    without = {
        str(path.relative_to(ROOT / "qcore_ext").with_suffix(""))
        for path in package_files(".pyx")
        if not (ROOT / "tests" / path.relative_to(ROOT / "qcore_ext").parent / f"test_{path.stem}.py").exists()
    }
    listed = set((ROOT / "tests" / "untested_units.txt").read_text().split())
    assert not without - listed, f"units without a test file: {sorted(without - listed)}"
    assert not listed - without, f"these have a test file now; take them off the list: {sorted(listed - without)}"


def test_nothing_compiled_is_tracked() -> None:
    wrong = [where(path) for path in tracked_files() if path.suffix in (".so", ".o", ".whl", ".pyc", ".parquet")]
    assert not wrong, wrong
