"""The house rules that a machine can check. The order of floors is the one docs/ARCHITECTURE.md draws."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
# Spelled in pieces, so that this file does not match itself.
BANNED_TEXT = {
    "a path of one machine": re.compile("/(?:root|home/\\w+|work" + "|tmp)/"),
    "a package registry": re.compile("index-" + "url|https?://[\\w.-]*pypi" + "|files\\.pythonhosted"),
    "unfinished work": re.compile("\\b(?:TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + "Error)\\b"),
}
TEXT_SUFFIXES = {
    ".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".toml", ".sql", ".txt", ".cfg", ".in", ".sh", ".scala", "",
}  # fmt: skip


def floors() -> list[str]:
    """Modules, lowest first, as the block of docs/ARCHITECTURE.md that begins with ```floors lists them."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    block = text.split("```floors\n", 1)[1].split("```", 1)[0]
    modules, package = [], ""
    for line in block.splitlines():
        if not line.startswith(" "):
            package, _, line = line.partition(":")
        modules += [f"{package.strip()}.{name}".replace("/", ".") for name in line.split()]
    return modules


def package_files(*suffixes: str) -> list[Path]:
    return sorted(
        path
        for package in ("qcore", "qcore_ext")
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    )


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import of ours; imports for type checkers alone do not count."""
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


def resolve(module: str, known: set[str]) -> str | None:
    """The module a dotted import refers to: itself, or what the last name is taken from."""
    while module:
        if module in known:
            return module
        if f"{module}.__init__" in known:
            return f"{module}.__init__"
        module = module.rpartition(".")[0]
    return None


def is_part_of(path: Path, target: str) -> bool:
    """Whether `target` is a part of this .pyx in a file of its own: a sibling that builds on this module's .pxd."""
    stem = ROOT / Path(*target.split("."))
    if path.suffix != ".pyx" or stem.parent != path.parent:
        return False
    files = [file for file in (stem.with_suffix(".pxd"), stem.with_suffix(".pyx")) if file.exists()]
    own = f"{module_name(path)}."
    return any(f"{imported}.".startswith(own) for file in files for _, imported in imported_modules(file))


def where(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def test_architecture_places_every_module() -> None:
    placed = floors()
    assert len(placed) == len(set(placed))
    present = {
        module_name(path)
        for path in package_files(".py", ".pyx", ".pxd")
        if path.name not in ("__init__.py", "__init__.pxd") or path.read_text().strip()
    }
    packages = {module for module in present if module.endswith(".__init__")}
    missing, stale = sorted(present - set(placed) - packages), sorted(set(placed) - present)
    assert not missing, f"docs/ARCHITECTURE.md does not place {missing}"
    assert not stale, f"docs/ARCHITECTURE.md places what is not there: {stale}"


def test_imports_point_down() -> None:
    order = {module: rank for rank, module in enumerate(floors())}
    # A package's __init__ ranks with its last module, unless placed on its own.
    for module in list(order):
        package = module.rpartition(".")[0]
        order[f"{package}.__init__"] = max(order.get(f"{package}.__init__", 0), order[module])
    order.update({module: rank for rank, module in enumerate(floors())})
    wrong = []
    for path in package_files(".py", ".pyx", ".pxd"):
        module = module_name(path)
        for line, imported in imported_modules(path):
            target = resolve(imported, set(order))
            if target is None or target == module:
                continue
            if is_part_of(path, target):
                continue
            if order[target] >= order.get(module, 0) and not module.endswith("__init__"):
                wrong.append(f"{where(path, line)} imports {target}")
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


def test_neighbours_do_not_know_each_other() -> None:
    """Operators never import each other, connectors never frontends, and only lowering builds operators."""
    wrong = []
    for path in package_files(".pyx", ".pxd", ".py"):
        module = module_name(path)
        for line, imported in imported_modules(path):
            operator = imported.startswith("qcore_ext.operators.") and not imported.startswith(
                "qcore_ext.flow.operator"
            )
            if operator and not allowed_operator_import(module, imported):
                wrong.append(f"{where(path, line)} imports {imported}")
            for one, other in (("connectors", "frontends"), ("frontends", "connectors")):
                if module.startswith(f"qcore.{one}.") and imported.startswith(f"qcore.{other}"):
                    wrong.append(f"{where(path, line)} imports {imported}")
    assert not wrong, "\n".join(wrong)


def allowed_operator_import(module: str, imported: str) -> bool:
    return imported.startswith(module) or not module.startswith(
        ("qcore_ext.operators.", "qcore.connectors", "qcore.frontends")
    )


def test_files_and_functions_are_short() -> None:
    wrong = []
    for path in package_files(".py", ".pyx", ".pxd", ".h", ".c") + sorted((ROOT / "tests").rglob("*.py")):
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


def test_modules_open_with_purpose_and_floor() -> None:
    folders = ("ground", "data", "compute", "structures", "operators", "execution")
    wrong = []
    for path in package_files(".pyx", ".pxd"):
        text = path.read_text()
        if path.name == "__init__.pxd":
            continue
        opening = text.split('"""')[1] if text.startswith('"""') else ""
        floor = re.search(r"\bFloor\s+E(\d)\b", opening)
        folder = path.relative_to(ROOT).parts[1]
        if floor is None or (folder in folders and int(floor[1]) != folders.index(folder)):
            wrong.append(f"{where(path)}: {opening.strip().splitlines()[:1]}")
    for path in package_files(".py"):
        text = path.read_text()
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            wrong.append(f"{where(path)}: no docstring")
    assert not wrong, "\n".join(wrong)


def test_nothing_compiled_is_tracked() -> None:
    wrong = [where(path) for path in tracked_files() if path.suffix in (".so", ".o", ".whl", ".pyc", ".parquet")]
    assert not wrong, wrong
