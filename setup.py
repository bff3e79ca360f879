"""Extensions of qcore: one abi3 shared object for each .pyx. Metadata is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("QCORE_DEBUG") == "1"
# Rebuild only these modules (comma-separated); for development in place.
ONLY = [name for name in os.environ.get("QCORE_ONLY", "").split(",") if name]

MACROS = [("Py_LIMITED_API", "0x030b0000"), ("CYTHON_LIMITED_API", "1")]
FLAGS = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0"]

extensions = []
for source in sorted(Path("qcore_ext").rglob("*.pyx")):
    name = ".".join(source.with_suffix("").parts)
    if ONLY and not any(name.endswith(only) for only in ONLY):
        continue
    extensions.append(
        Extension(
            name,
            [str(source)],
            include_dirs=["qcore_ext/ground"],
            define_macros=MACROS + [("QCORE_DEBUG", "1" if DEBUG else "0")],
            extra_compile_args=[*FLAGS, "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-discarded-qualifiers"],
            libraries=["pthread"],
            py_limited_api=True,
        )
    )

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": DEBUG,
            "embedsignature": False,
        },
        build_dir="build/cython",
        show_all_warnings=False,
    ),
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
