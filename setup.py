"""Extensions of qcore: one abi3 shared object for each .pyx. Metadata is in pyproject.toml."""

import json
import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

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
# The settings that the modules were compiled with. Modules built in place are the same files for every kind of build.
SETTINGS = Path("build" if "--inplace" in sys.argv else BUILD) / "settings.json"
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
}


def note_settings(path: Path, settings: object) -> bool:
    """Write the settings to the file unless it has them. Returns whether they are new, which makes the file newer."""
    text = json.dumps(settings, indent=1)
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def drop_what_other_settings_made() -> None:
    """Compile again what was compiled with other flags, and translate again what has other directives.

    Every extension depends on SETTINGS. Cython compares sources only, so its output is removed.
    """
    if note_settings(Path(BUILD) / "directives.json", DIRECTIVES):
        shutil.rmtree(Path(BUILD) / "cython", ignore_errors=True)
    compiler = [os.environ.get("CC"), os.environ.get("CFLAGS")]
    note_settings(SETTINGS, [FLAGS, LINK_FLAGS, MACROS, DIRECTIVES, NATIVE, compiler])


def headers_of(source: Path) -> list[str]:
    """The C headers that a .pyx may include: those of its own room and of `ground`."""
    return sorted({str(path) for room in (source.parent, Path("qcore_ext/ground")) for path in room.rglob("*.h")})


def extensions() -> list[Extension]:
    """One extension a .pyx file; the name follows from the path."""
    found = []
    sources = [(package, source) for package, folder in PACKAGES.items() for source in sorted(folder.rglob("*.pyx"))]
    for package, source in sources:
        name = ".".join([package, *source.relative_to(PACKAGES[package]).with_suffix("").parts])
        if ONLY and not any(name.endswith(only) for only in ONLY):
            continue
        found.append(
            Extension(
                name,
                [str(source), *NATIVE.get(name, [])],
                include_dirs=["qcore_ext/ground", "qcore_ext"],
                define_macros=MACROS,
                extra_compile_args=FLAGS,
                extra_link_args=LINK_FLAGS,
                libraries=["pthread"],
                depends=[*headers_of(source), str(SETTINGS)],
                py_limited_api=True,
            )
        )
    return found


def drop_stale_build_products() -> None:
    """Remove from build/lib what no longer has a source, lest an incremental build puts it into the wheel."""
    for built in Path(BUILD).glob("lib*/qcore*/**/*"):
        source = Path(*built.relative_to(BUILD).parts[1:])
        if built.suffix == ".so":
            source = source.with_name(source.name.split(".")[0] + ".pyx")
        if built.is_file() and not source.exists():
            built.unlink()


if __name__ == "__main__":
    drop_stale_build_products()
    drop_what_other_settings_made()
    setup(
        package_dir={package: str(folder) for package, folder in TESTING.items()},
        ext_modules=cythonize(
            extensions(),
            compiler_directives=DIRECTIVES,
            build_dir=f"{BUILD}/cython",
            nthreads=JOBS if JOBS > 1 and not ONLY else 0,
            show_all_warnings=False,
        ),
        options={
            "bdist_wheel": {"py_limited_api": "cp311"},
            "build": {"build_base": BUILD},
            "build_ext": {"parallel": JOBS},
        },
    )
