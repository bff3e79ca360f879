# qcore's commands. `make demo` and `make test` are all a newcomer needs; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# DEBUG=1: a build with bounds checks and assertions, in folders of its own.
DEBUG ?= 0
# SANITIZE=thread: a build for ThreadSanitizer, in folders of its own.
SANITIZE ?=
ifeq ($(DEBUG),1)
  VENV ?= .venv-debug
  DIST := build/debug/dist
else ifeq ($(SANITIZE),thread)
  VENV ?= .venv-tsan
  DIST := build/thread-sanitizer/dist
else
  VENV ?= .venv
  DIST := build/dist
endif
BIN := $(VENV)/bin
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
ARGS ?=
# Tests run in JOBS processes; ARGS='-n 0' runs them in pytest's own, as a debugger needs.
PROCESSES := -n $(JOBS)

# The first Python of 3.11 or later that can make an environment and has its headers; PYTHON=… overrides.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3 python; do \
	$$name -c 'import ensurepip, os, sys, sysconfig, venv; \
	sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
	>/dev/null 2>&1 && { echo $$name; break; }; done)

# Java 17 or later, or nothing; what needs no Spark runs without it.
JAVA := $(shell java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | awk '$$1 >= 17')
comma := ,
EXTRAS := sql,substrait,dev$(if $(JAVA),$(comma)spark)
NO_JAVA := Java 17 or later is missing, so Spark is left out; to have it: apt-get install openjdk-17-jre-headless

SOURCES := $(shell find qcore qcore_ext -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h' \
	-o -path '*/native/*.c' -o -name py.typed) setup.py pyproject.toml README.md

MADE := $(VENV)/.made
WHEEL := $(DIST)/.built
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
# Operators for tests and benchmarks: built from the same tree with the same flags, installed beside the wheel.
TESTING := $(VENV)/.testing
TESTING_SOURCES := $(wildcard tests/native/qcore_testing/*.pyx)
BUILD_ENVIRONMENT := QCORE_DEBUG_BUILD=$(DEBUG) QCORE_SANITIZE=$(SANITIZE) QCORE_JOBS=$(JOBS)

.PHONY: help build install develop demo test test-all test-nightly debug tsan tsan-tests tpc bench chart bench-spark bench-spark-rows planning kernels fuzz fuzz-sql fuzz-bytes coverage tidy warnings java clean

help:  ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

# Cython's hints (a hidden lock of the interpreter in a hot loop), and what Cython and the C compiler warn of.
SHOW_WARNINGS := grep -nE 'performance hint|warning: .*\.(pyx|pxd):|\.(c|h):[0-9:]+ warning: ' $(DIST)/build.log

$(MADE):
	@[ -n "$(PYTHON)" ] || { echo "qcore needs Python 3.11 or later with venv and headers:" \
		"apt-get install python3-venv python3-dev, or make PYTHON=/path/to/python" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "qcore needs a C compiler: apt-get install build-essential" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check 'setuptools>=68' wheel 'Cython>=3.3,<4'
	@touch $@

$(WHEEL): $(SOURCES) | $(MADE)
	@mkdir -p $(DIST) && rm -f $(DIST)/*.whl
	$(BUILD_ENVIRONMENT) $(BIN)/python -m pip wheel -v --disable-pip-version-check --no-build-isolation \
		--no-deps -w $(DIST) . > $(DIST)/build.log 2>&1 || { tail -n 60 $(DIST)/build.log >&2; exit 1; }
	@$(SHOW_WARNINGS) >&2 || true
	@touch $@

$(INSTALLED): $(WHEEL)
	$(BIN)/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps $(DIST)/*.whl
	$(BIN)/python -m pip install -q --disable-pip-version-check "$$(echo $(DIST)/*.whl)[$(EXTRAS)]"
	@touch $@

$(TESTING): $(INSTALLED) $(TESTING_SOURCES)
	$(BUILD_ENVIRONMENT) QCORE_TESTING=1 $(BIN)/python setup.py -q build_ext \
		--build-lib "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" \
		> $(DIST)/testing.log 2>&1 || { tail -n 60 $(DIST)/testing.log >&2; exit 1; }
	@touch $@

warnings:  ## Fail if the last build of the wheel warned of anything
	@test -f $(DIST)/build.log && ! $(SHOW_WARNINGS)

java:
	@[ -n "$(JAVA)" ] || echo "$(NO_JAVA)"

build: $(WHEEL)  ## Build the wheel (build/dist)

install: $(INSTALLED)  ## Build the wheel and install it into .venv with its extras

develop: $(MADE)  ## Build the extensions in place, only what changed
	$(BUILD_ENVIRONMENT) $(BIN)/python setup.py -q build_ext --inplace

demo: java $(INSTALLED)  ## TPC-H Q1, Q3, Q6: by SQL, by splits, over Spark; compared with DuckDB
	$(BIN)/python demo/run.py $(ARGS)

test: java $(TESTING)  ## Run the tests but the sweeps against the installed wheel (ARGS='-k join')
	QCORE_TEST_INSTALLED=1 $(BIN)/pytest -q -m 'not sweep' $(PROCESSES) $(ARGS)

test-all: java $(TESTING)  ## Run all tests but the nightly ones, as CI does
	QCORE_TEST_INSTALLED=1 $(BIN)/pytest -q -m 'not nightly' $(PROCESSES) $(ARGS)

test-nightly: java $(TESTING)  ## Run the tests that only .ci/nightly runs
	QCORE_TEST_INSTALLED=1 $(BIN)/pytest -q -m nightly $(PROCESSES) $(ARGS)

debug:  ## Run the tests of make test against a build with bounds checks and assertions
	$(MAKE) test DEBUG=1

tsan:  ## Run the stress tests under ThreadSanitizer (ARGS=tests/… for others)
	$(MAKE) tsan-tests SANITIZE=thread

# The run-time library must be loaded before Python and needs addresses that are not random. Reports go to files, because
# pytest captures what a test prints. The search for deadlocks allows 64 locks a thread; a fork takes more (Arrow's allocator).
RACES := build/thread-sanitizer/races
LIBTSAN := $${CC:-cc} -print-file-name=libtsan.so
STRESS := $(addprefix tests/,$(addprefix execution/test_,contract_check.py polled.py scheduler.py task.py) flow \
	aggregate/test_whole_columns.py $(addprefix ground/test_memory,.py _pool.py) join/test_bridge.py lowering/test_retyping.py \
	$(addprefix exchange/test_,local_partition.py part_pages.py partitioned_output.py) \
	$(addprefix queries/test_,early_finish.py no_locks.py recursion.py traps.py) \
	$(addprefix session/test_,memory_pool.py polled_query.py task.py) \
	$(addprefix writing/test_,growing_file.py partition_files.py table_write.py) \
	test_user_operators.py)
# In a second process: after a thousand other tests the sanitizer itself runs out of address space here.
STRESS_ALONE := $(addprefix tests/,session/test_nested_queries.py test_driver_fuzz.py)
WATCHED := QCORE_TEST_INSTALLED=1 setarch $$(uname -m) -R env -u PYTHONPATH LD_PRELOAD="$$($(LIBTSAN))" \
	TSAN_OPTIONS="suppressions=$(abspath tests/tsan_suppressions.txt) log_path=$(abspath $(RACES))/of exitcode=66 die_after_fork=0 detect_deadlocks=0" \
	$(BIN)/pytest -q
SHOW_RACES := || { status=$$?; cat $(RACES)/of.* >&2 || true; exit $$status; }

tsan-tests: $(TESTING)
	@[ -e "$$($(LIBTSAN))" ] || { echo "make tsan needs gcc's libtsan: apt-get install build-essential" >&2; exit 1; }
	@rm -rf $(RACES) && mkdir -p $(RACES)
	$(WATCHED) $(or $(ARGS),$(STRESS)) $(SHOW_RACES)
	$(if $(ARGS),,$(WATCHED) $(STRESS_ALONE) $(SHOW_RACES))

tpc: $(INSTALLED)  ## All queries of TPC-H, SSB, TPC-DS at SF1, 1, 2, 8 drivers, against DuckDB's answers
	$(BIN)/python bench/tpc/answers.py $(ARGS)

bench: $(INSTALLED)  ## All rows beside DuckDB, Polars, DataFusion (ARGS='--only join tpch --rounds 3')
	$(BIN)/python bench/run.py $(ARGS)

chart: $(INSTALLED)  ## Measure what build/bench.json lacks, and draw the README's chart (docs/bench.svg)
	$(BIN)/python bench/run.py --missing --chart docs/bench.svg $(ARGS)

bench-spark: java $(INSTALLED)  ## TPC-H SF1 by Spark, by qcore in Spark's tasks, by qcore alone (ARGS='--queries 1 3')
	$(BIN)/python bench/spark/run.py $(ARGS)

bench-spark-rows: java $(INSTALLED)  ## Planning DataFrames, frames that Spark computes, joins over the exchange
	$(BIN)/python bench/spark/rows.py $(ARGS)

planning: $(INSTALLED)  ## What planning and starting cost in processor time (ARGS='--suites tpch')
	$(BIN)/python bench/planning/run.py $(ARGS)

kernels: $(TESTING)  ## Single kernels
	$(BIN)/pytest -q bench/kernels --benchmark-only $(ARGS)

fuzz: $(TESTING)  ## Disturbed drivers, seed by seed (ARGS='--seconds 600', or '--seed 7 --runs 1' for one again)
	cd tests && QCORE_DEBUG=1 $(abspath $(BIN))/python -m driver_fuzz $(ARGS)

fuzz-sql: $(INSTALLED)  ## Random SQL against DuckDB (ARGS='--seconds 600 --seed 7')
	cd tests && QCORE_DEBUG=1 $(abspath $(BIN))/python -m sql_fuzz $(ARGS)

fuzz-bytes: $(INSTALLED)  ## Damaged files, plans and C streams (ARGS='--seconds 600', or '--kinds parquet --seed 7 --mutations 1')
	cd tests && QCORE_TEST_INSTALLED=1 $(abspath $(BIN))/python -m bytes_fuzz $(ARGS)

coverage:  ## Write docs/SPEC_COVERAGE.md: which tests show which row of the specification
	$(or $(PYTHON),python3) tests/spec_coverage.py

tidy: $(TESTING)  ## Lint, types, stubs, the order of rooms
	$(BIN)/ruff check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint --max-line-length 120 qcore_ext tests/native
	$(BIN)/mypy
	cd build && MYPYPATH=$(abspath tests/native) $(abspath $(BIN))/python -m mypy.stubtest qcore_ext qcore_testing \
		--ignore-missing-stub --concise
	QCORE_TEST_INSTALLED=1 $(BIN)/pytest -q tests/test_tidy.py

clean:  ## Remove everything built, and the environments
	rm -rf build dist .venv .venv-debug .venv-tsan *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find qcore_ext tests/native -name '*.so' -delete
