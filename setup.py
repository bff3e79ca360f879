"""Extensions of qcore: one abi3 shared object for each .pyx. Metadata is in pyproject.toml.

A module is built again when the content of a file that it reads changed, or a setting, or the version of a compiler.
Times of files do not count.
"""

import filecmp
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import Cython
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

# Assertions and bounds checks. At run time QCORE_DEBUG, another variable, switches checked mode in any build.
DEBUG = os.environ.get("QCORE_DEBUG_BUILD") == "1"
# "thread": the extensions watched by ThreadSanitizer, for `make tsan`.
SANITIZE = os.environ.get("QCORE_SANITIZE", "")
# Rebuild only these modules (comma-separated ends of names); for development in place.
ONLY = [name for name in os.environ.get("QCORE_ONLY", "").split(",") if name]
JOBS = int(os.environ.get("QCORE_JOBS", os.cpu_count() or 1))
# Packages with extensions, and their folders. qcore_testing contains operators for tests and benchmarks: a build in
# place includes it, QCORE_TESTING=1 builds it alone, the wheel never contains it.
ENGINE = {"qcore_ext": Path("qcore_ext")}
TESTING = {"qcore_testing": Path("tests/native/qcore_testing")}
if os.environ.get("QCORE_TESTING") == "1":
    PACKAGES = TESTING
else:
    PACKAGES = ENGINE | TESTING if "--inplace" in sys.argv else ENGINE

MACROS = [("Py_LIMITED_API", "0x030b0000"), ("CYTHON_LIMITED_API", "1"), ("QCORE_DEBUG", "1" if DEBUG else "0")]
# No -march: the wheel runs on any processor of its architecture; files in ground/native choose at run time.
FLAGS = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0"]
# Cython's temporaries drop const, and its modules hold functions they do not call.
LINK_FLAGS = []
if SANITIZE:
    FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    LINK_FLAGS = [f"-fsanitize={SANITIZE}"]
FLAGS += ["-fno-strict-aliasing", "-Wno-unused-function", "-Wno-discarded-qualifiers"]
BUILD = "build/debug" if DEBUG else f"build/{SANITIZE}-sanitizer" if SANITIZE else "build"
# Folders in which cimports, and includes of C, are looked up.
ROOTS = [Path("."), Path("tests/native")]
INCLUDE = [Path("qcore_ext/ground"), Path("qcore_ext")]
CIMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?cimport[ \t]+(?:\(([^)]*)\)|([^#\n]*))", re.MULTILINE)
HEADER = re.compile(r"^[ \t]*(?:#[ \t]*include|cdef extern from)[ \t]+\"([^\"]+)\"", re.MULTILINE)
# C sources of a module beside its .pyx: the same kernels for several instruction sets, each under a target pragma.
NATIVE = {
    "qcore_ext.ground.dispatch": [
        f"qcore_ext/ground/native/{name}.c" for name in ("dispatch", "kernels_v2", "kernels_v3", "kernels_v4")
    ],
}
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": DEBUG,
    "embedsignature": False,
    # A changed comment that moves no line changes no C, so nothing is compiled.
    "emit_code_comments": False,
}


@functools.cache
def files_named_in(path: Path) -> list[Path]:
    """The .pxd files that a file cimports and the headers that it includes, as far as they are in this tree."""
    text = path.read_text()
    candidates = [path.with_suffix(".pxd")] if path.suffix == ".pyx" else []
    for package, in_parentheses, in_line in CIMPORT.findall(text):
        if package.startswith("."):
            raise SystemExit(f"{path}: a relative cimport is not supported; write the whole name of {package}")
        names = re.findall(r"[\w.]+", in_parentheses or in_line)
        modules = [package, *(f"{package}.{name}" for name in names)] if package else names
        paths = [Path(root, *module.split(".")) for module in modules for root in ROOTS]
        candidates += [file for path in paths for file in (path.with_suffix(".pxd"), path / "__init__.pxd")]
    for header in HEADER.findall(text):
        found = [folder / header for folder in (path.parent, *INCLUDE) if (folder / header).exists()]
        candidates += found[:1]
    return [candidate for candidate in candidates if candidate.exists()]


def files_read_for(*paths: Path) -> list[Path]:
    """The files, and all that they name, directly or through others."""
    found = list(dict.fromkeys(paths))
    for path in found:
        found += [named for named in files_named_in(path) if named not in found]
    return found


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


@functools.cache
def digest_of_source(path: Path) -> str:
    return digest(path.read_bytes())


def report(line: str) -> None:
    """Print a line in one piece: other threads print too."""
    print(f"{line}\n", end="", flush=True)


class Record:
    """What earlier builds made, in `build/record.json`: path → (hash of the inputs, hash of the file).

    A file is current if both hashes agree. So builds of all kinds share the record, and a file that something else
    wrote is made again.
    """

    def __init__(self, path: Path):
        self.path = path
        self.entries = json.loads(path.read_text()) if path.exists() else {}
        self.lock = threading.Lock()

    def is_current(self, made: Path, inputs: str) -> bool:
        """Whether the file exists and was made from these inputs."""
        return made.exists() and self.entries.get(str(made)) == [inputs, digest(made.read_bytes())]

    def add(self, made: Path, inputs: str) -> None:
        """Note a new file at once: a build that is stopped later keeps it."""
        with self.lock:
            self.entries[str(made)] = [inputs, digest(made.read_bytes())]
            new = self.path.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(self.entries, indent=0, sort_keys=True))
            new.replace(self.path)


class BuildChanged(build_ext):
    """Builds the modules of which an input changed: the content of a file, a setting, the version of a compiler.

    A module has two steps, and each runs only if its own inputs changed. Cython reads the .pyx and .pxd files. The C
    compiler reads Cython's output and the headers. JOBS modules are built at a time.
    """

    def build_extensions(self) -> None:
        # The methods of the base class compare times unless forced.
        self.force = True
        self.failed = False
        Path("build").mkdir(exist_ok=True)
        self.record = Record(Path("build/record.json"))
        compiler = self.compiler.compiler_so
        version = subprocess.run([compiler[0], "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
        # sys.version stands for the headers of Python.
        self.c_settings = [FLAGS, LINK_FLAGS, MACROS, compiler, self.compiler.linker_so, version, sys.version]
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Build one module. After a failure the modules that have not begun are left out."""
        if self.failed:
            return
        try:
            self.build_changed(ext)
        except BaseException:
            self.failed = True
            raise

    def build_changed(self, ext: Extension) -> None:
        source, *native = map(Path, ext.sources)
        c_file = Path(BUILD, "c", source).with_suffix(".c")
        read = files_read_for(source, *native)
        inputs = self.hash_inputs([Cython.__version__, DIRECTIVES], [p for p in read if p.suffix in (".pyx", ".pxd")])
        if not self.record.is_current(c_file, inputs):
            self.translate(ext.name, source, c_file)
            self.record.add(c_file, inputs)
        module = Path(self.get_ext_fullpath(ext.name))
        settings = [self.c_settings, digest(c_file.read_bytes())]
        inputs = self.hash_inputs(settings, [p for p in read if p.suffix in (".c", ".h")])
        if not self.record.is_current(module, inputs):
            report(f"Compiling {c_file}")
            ext.sources = [str(c_file), *map(str, native)]
            super().build_extension(ext)
            self.record.add(module, inputs)

    def hash_inputs(self, settings: object, paths: list[Path]) -> str:
        """The hash of settings, and of the names and contents of files."""
        contents = [(str(path), digest_of_source(path)) for path in sorted(paths)]
        return digest(json.dumps([settings, contents]).encode())

    def translate(self, name: str, source: Path, c_file: Path) -> None:
        """Run Cython in a process of its own: it holds the interpreter's lock."""
        report(f"Translating {source}")
        c_file.parent.mkdir(parents=True, exist_ok=True)
        directives = ",".join(f"{name}={value}" for name, value in DIRECTIVES.items())
        command = [sys.executable, "-m", "cython", "-X", directives, "-I", ".", "--module-name", name]
        if subprocess.run([*command, "-o", str(c_file), str(source)]).returncode:
            raise CompileError(f"Cython failed for {source}")

    def copy_file(self, infile: str, outfile: str, *args, **kwargs) -> object:
        """Copy a module into the tree unless the same bytes are there."""
        if os.path.exists(outfile) and filecmp.cmp(infile, outfile, shallow=False):
            return outfile, False
        return super().copy_file(infile, outfile, *args, **kwargs)


def extensions() -> list[Extension]:
    """One extension a .pyx file; the name follows from the path."""
    found = []
    sources = [(package, source) for package, folder in PACKAGES.items() for source in sorted(folder.rglob("*.pyx"))]
    for package, source in sources:
        name = ".".join([package, *source.relative_to(PACKAGES[package]).with_suffix("").parts])
        if ONLY and not any(name.endswith(only) for only in ONLY):
            continue
        files = [source, *map(Path, NATIVE.get(name, []))]
        found.append(
            Extension(
                name,
                list(map(str, files)),
                include_dirs=list(map(str, INCLUDE)),
                define_macros=MACROS,
                extra_compile_args=FLAGS,
                extra_link_args=LINK_FLAGS,
                libraries=["pthread"],
                # For source archives; builds compare contents.
                depends=[str(path) for path in files_read_for(*files) if path not in files],
                py_limited_api=True,
            )
        )
    # The largest first, so that no processor waits long for the last one.
    return sorted(found, key=lambda ext: -Path(ext.sources[0]).stat().st_size)


def drop_stale_build_products() -> None:
    """Remove from build/lib what this kind of build has no source for, lest it gets into the wheel."""
    for built in Path(BUILD).glob("lib*/qcore*/**/*"):
        package, *parts = built.relative_to(BUILD).parts[1:]
        source = Path(PACKAGES.get(package, package), *parts)
        if built.suffix == ".so":
            source = source.with_name(source.name.split(".")[0] + ".pyx")
        if built.is_file() and not source.exists():
            built.unlink()


if __name__ == "__main__":
    drop_stale_build_products()
    setup(
        package_dir={package: str(folder) for package, folder in TESTING.items()},
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildChanged},
        options={
            "bdist_wheel": {"py_limited_api": "cp311"},
            "build": {"build_base": BUILD},
            "build_ext": {"parallel": JOBS},
        },
    )
