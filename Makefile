# Everything happens in .venv, which is made here and kept up to date. Debian and Ubuntu need
# python3-venv, python3-dev, g++ and make; CMake comes from PyPI where it isn't installed.
#
#   make demo    install unladen, let it tell a story and answer in a chat
#   make test    lint, types and tests against the installed package
#   make long    the tests that it leaves out: every architecture and perplexity on wgpu, other
#                cases on OpenCL and the emulator, faults in every line of C kernels, programs
#                against the server; Codex and Claude Code (700 MB) where there is npm; short
#                runs of soak and fuzz-api
#   make emulator   every architecture and shared model on the emulator of graphics processors and
#                on OpenCL. make test runs every tenth architecture on the emulator
#   make intel   op cases and models on Intel's runtime for processors, through OpenCL and through
#                SYCL (dpctl); 1.6 GB in build/intel
#   make emulated   test the CPU kernels for 64-bit Arm; needs g++-aarch64-linux-gnu and qemu-user
#   make emulated-avx512   test those for AVX-512 with AVX2 alone at hand; a quarter of an hour
#   make emulated-vbmi   test those for AVX-512 with VBMI where the processor has AVX-512 alone
#   make oracle  10,000 random strings a kind through tokenizers, sentencepiece and ours
#   make bench   PEER=/path/to/llama-bench MODELS="a.gguf b.gguf": speed beside llama.cpp's
#   make fuzz    mutated files (FILES=20000), native fuzzers (SECONDS_EACH=180), and GPU kernels of
#                random sizes on the emulator; wants clang++
#   make soak    random clients of a server for SOAK_SECONDS=600
#   make fuzz-api   CASES=5000 requests that the server's description allows, or doesn't
#   make sanitize   TESTS="tests/..." over a module with the sanitizers, the pool under another, and
#                the GPU kernels in the emulator
#   make matrix  run all ops and formats on all backends, and write what ran into docs/reference;
#                on Intel's runtime, too, after make intel
#   make site    the documentation as a site in build/site; a broken link is an error
#   make web     the page that the server shows: build it, compare it with the built files in the
#                package, and test it; needs Node 20.19 or newer and Chromium
#   make pictures   those of the page in docs/pictures, which README.md and the guide show
#   make wheels  wheels for Linux on x86-64 and 64-bit Arm, in dist/, each tried; wants qemu-user
#   make gate    compile all C++ for Windows and macOS, by zig's clang
#   make cubins  compile every GPU kernel for every chip of NVIDIA by NVRTC, and compare what it
#                takes with the record; CUBINS=--accept writes it. An hour of one core
#   make clean   remove what the others made

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo test long emulator intel emulated emulated-avx512 emulated-vbmi oracle bench clean \
        fuzz sanitize site threads kernels wheels gate cubins soak fuzz-api web pictures matrix
.DEFAULT_GOAL := demo

PYTHON ?= python3
BIN := .venv/bin
SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE $(wildcard cmake/*) \
           $(shell find src -type f ! -name '*.so' ! -name '*.pyc')

# Ninja builds in parallel by itself; where it is absent, Make is told to.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
# Python keeps what it compiles: without that each process of pytest compiles all tests anew, which
# takes half a minute.
unexport PYTHONDONTWRITEBYTECODE
# Each of two processes gets tests that are neighbours, so most of what a folder's tests share is
# made once. The process that finishes first takes over half of the other's tests.
PYTEST_2 := $(BIN)/python -m pytest -n 2 --dist worksteal

demo: .venv/installed
	@echo "$$ unladen run tiny 'Once upon a time' --temp 0" >&2
	@$(BIN)/unladen run tiny 'Once upon a time' --temp 0
	@echo
	@echo "$$ python examples/chat.py" >&2
	@$(BIN)/python examples/chat.py

# PoCL compiles a kernel a second time to give its binary away, and has a cache of its own.
test long emulator: export UNLADEN_KERNEL_CACHE :=
# PoCL compiles kernels in less than half the time if it doesn't optimize them. make long has it
# optimize.
test: export POCL_EXTRA_BUILD_FLAGS := -cl-opt-disable
test: export POCL_CACHE_DIR := $(CURDIR)/build/pocl
test: .venv/installed .venv/tested-with
	$(BIN)/ruff check .
	printf '%s\n' linux darwin win32 \
	    | xargs -P 3 -I{} $(BIN)/mypy --platform {} --cache-dir .mypy_cache/{}
	$(PYTEST_2) -m "not long"

long: .venv/installed .venv/tested-with build/frameworks/made build/schemathesis/made \
        $(shell command -v npm >/dev/null && echo build/agents/made)
	@test -e build/agents/made || echo "note: no npm: Codex and Claude Code are not tested" >&2
	UNLADEN_TEST_FRAMEWORKS=build/frameworks/bin/python \
	    UNLADEN_TEST_AGENTS=$$(test ! -e build/agents/made || echo $(AGENTS)) \
	    UNLADEN_TEST_SCHEMATHESIS=build/schemathesis/bin/schemathesis \
	    $(PYTEST_2) -m long

emulator: .venv/installed .venv/tested-with
	UNLADEN_TEST_ALL=1 $(PYTEST_2) tests/emulator \
	    tests/backends/opencl/test_models_on_opencl.py

intel: .venv/installed .venv/tested-with build/intel/made
	UNLADEN_TEST_INTEL=build/intel $(BIN)/python -m pytest tests/backends/test_intel.py $(INTEL)

build/intel/made: Makefile
	$(PYTHON) -m venv build/intel >&2
	build/intel/bin/python -m pip install --quiet intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt \
	    'tbb==2023.*' tcmlib 'dpctl>=0.22' >&2
	@touch $@

# In an environment of their own, as they bring half of PyPI.
build/frameworks/made: pyproject.toml
	$(PYTHON) -m venv build/frameworks >&2
	build/frameworks/bin/python -m pip install --quiet --upgrade 'pip>=25.1' >&2
	build/frameworks/bin/python -m pip install --quiet --group frameworks >&2
	@touch $@

build/schemathesis/made: pyproject.toml
	$(PYTHON) -m venv build/schemathesis >&2
	build/schemathesis/bin/python -m pip install --quiet --upgrade 'pip>=25.1' >&2
	build/schemathesis/bin/python -m pip install --quiet --group fuzz >&2
	@touch $@

# One version of each: what agents send changes by the week.
AGENTS := build/agents/node_modules/.bin
build/agents/made: Makefile
	npm install --silent --no-audit --no-fund --prefix build/agents @openai/codex@0.171.0 \
	    @anthropic-ai/claude-code@2.1.197 >&2
	@touch $@

# One pip at a time writes to .venv, so these are installed before targets that may run at once.
.venv/builds: .venv/made .venv/installed .venv/tested-with
	$(BIN)/python -m pip install --quiet nanobind cmake ninja >&2
	@touch $@

NINJA := -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
ARM := build/emulated-aarch64
# Only tests that call the emulated kernels; what other tests run here is what make test runs. No
# level of Arm screens.
emulated: .venv/builds
	@$(BIN)/cmake -S . -B $(ARM) $(NINJA) -DCMAKE_BUILD_TYPE=Release \
	    -DUNLADEN_KERNEL_SERVER=ON -DCMAKE_SYSTEM_NAME=Linux \
	    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
	    -DCMAKE_EXE_LINKER_FLAGS=-static >&2
	@$(BIN)/cmake --build $(ARM) >&2
	UNLADEN_TEST_EMULATED="qemu-aarch64 -cpu max $(ARM)/kernel_server" \
	    $(PYTEST_2) $$(grep -l '^import machines' tests/backends/cpu/test_*.py) \
	    -k "not test_screening or test_other_types"

# The package's sources with the module that a folder has.
define with_module
	rm -rf $(1)/python && mkdir -p $(1)/python
	cp -rs $(CURDIR)/src/unladen $(1)/python/
	rm -f $(1)/python/unladen/_native*.so
	cp $(1)/_native*.so $(1)/python/unladen/
endef

# Whole models too where a step of one level runs other code. What is no kernel is compiled at -O1:
# other targets test it as it is installed.
emulated-avx512 emulated-vbmi: emulated-%: .venv/builds
	@$(BIN)/cmake -S . -B build/$@ $(NINJA) -DCMAKE_BUILD_TYPE=Release \
	    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
	    -DUNLADEN_EMULATE_$(shell echo $* | tr a-z A-Z)=ON \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >&2
	@$(BIN)/cmake --build build/$@ --target _native >&2
	$(call with_module,build/$@)
	PYTHONPATH=build/$@/python \
	    $(PYTEST_2) tests/backends/cpu -k "$* or test_screening"

.venv/makes-wheels: .venv/builds pyproject.toml
	$(BIN)/python -m pip install --quiet --group wheels >&2
	@touch $@

# WHEELS: what `python tools/wheels --help` lists.
wheels: .venv/makes-wheels
	$(BIN)/python tools/wheels $(WHEELS)

gate: .venv/makes-wheels
	$(BIN)/python tools/wheels/gate.py $(GATE)

cubins: .venv/installed .venv/tested-with
	PYTHONPATH=tests $(BIN)/python tests/backends/cuda/gate.py $(CUBINS)

oracle: .venv/installed .venv/tested-with
	UNLADEN_ORACLE_STRINGS=10000 $(BIN)/python -m pytest tests/tokenizer/test_oracles.py

RAN := tests/backends/ran.json
matrix: .venv/installed .venv/tested-with
	PYTHONPATH=tests $(PYTEST_2) -p ran --ran $(RAN) tests/backends/test_ops.py \
	    tests/backends/wgpu/test_kernels.py tests/backends/opencl/test_kernels_on_opencl.py \
	    tests/emulator/test_emulated_ops.py tests/backends/metal \
	    tests/backends/_gpu/cuda_like/test_kernels_on_the_stub.py \
	    -k "within or products or formats or test_ops or test_every_op"
	@if test -e build/intel/made; then PYTHONPATH=tests $(MAKE) --no-print-directory intel \
	    INTEL="-p ran --ran $(RAN) -k on_it"; \
	    else echo "note: make intel was not run: its devices stay as they ran last" >&2; fi
	$(BIN)/python tools/gen_matrices.py

bench: .venv/installed
	@test -n "$(PEER)" -a -n "$(MODELS)" || { echo 'error: PEER and MODELS are wanted' >&2; \
	    echo 'hint: make bench PEER=/path/to/llama-bench MODELS="a.gguf b.gguf"' >&2; exit 2; }
	$(BIN)/python benchmarks/compare.py --peer $(PEER) $(MODELS) $(BENCH)

# In an environment of its own: the tests' environment holds what users get. Pages that went away
# would stay.
site: build/site-env/made
	rm -rf build/site
	build/site-env/bin/zensical build --strict --clean >&2
	$(PYTHON) tools/check_site.py build/site

build/site-env/made: pyproject.toml
	$(PYTHON) -m venv build/site-env >&2
	build/site-env/bin/python -m pip install --quiet --upgrade 'pip>=25.1' >&2
	build/site-env/bin/python -m pip install --quiet --group docs >&2
	@touch $@

# Packed files are left out: other versions of zlib pack otherwise. A test in Python unpacks them.
web: .venv/installed web/node_modules/.made
	cd web && npm run --silent types && npx vite build --outDir ../build/page --emptyOutDir \
	    --logLevel warn >&2
	@diff -r --brief --exclude '*.gz' build/page src/unladen/ui >&2 || { \
	    echo 'error: src/unladen/ui is not what web/ builds' >&2; \
	    echo 'hint: (cd web && npm run build), and commit src/unladen/ui' >&2; exit 1; }
	cd web && npm test --silent
	cd web && UNLADEN_COMMAND=$(CURDIR)/$(BIN)/unladen npm run --silent browser

pictures: .venv/installed web/node_modules/.made
	cd web && UNLADEN_COMMAND=$(CURDIR)/$(BIN)/unladen UNLADEN_PICTURES=$(CURDIR)/docs/pictures \
	    npm run --silent browser -- pictures

web/node_modules/.made: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --silent >&2
	@touch $@

FILES ?= 20000
SECONDS_EACH ?= 180
FUZZ_FOLDER ?= build/fuzz
fuzz: .venv/tested-with .venv/installed
	@command -v clang++ >/dev/null || { echo 'error: clang++ is missing' >&2; exit 2; }
	$(BIN)/python -m pip install --quiet nanobind cmake ninja >&2
	$(BIN)/python tests/fuzz/run.py --files $(FILES) --keep $(FUZZ_FOLDER)/files $(FUZZ)
	$(BIN)/cmake -S . -B $(FUZZ_FOLDER) $(NINJA) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_CXX_COMPILER=clang++ -DUNLADEN_FUZZ=ON \
	    -DUNLADEN_SANITIZE=fuzzer-no-link,address,undefined \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >&2
	$(BIN)/cmake --build $(FUZZ_FOLDER) --target fuzzers >&2
	for each in tests/fuzz/native/*.cc; do \
	    name=$$(basename $$each .cc); mkdir -p $(FUZZ_FOLDER)/corpus/$$name; \
	    $(FUZZ_FOLDER)/fuzz_$$name -max_total_time=$(SECONDS_EACH) -timeout=10 \
	        -print_final_stats=1 -artifact_prefix=$(FUZZ_FOLDER)/$$name- \
	        $(FUZZ_FOLDER)/corpus/$$name; \
	done
	UNLADEN_FUZZ_SECONDS=$(SECONDS_EACH) $(PYTEST_2) --timeout 0 tests/emulator/test_random_cases.py

SOAK_SECONDS ?= 600
soak: .venv/installed .venv/tested-with
	$(BIN)/python tests/fuzz/soak.py --seconds $(SOAK_SECONDS) $(SOAK)

CASES ?= 5000
fuzz-api: .venv/installed .venv/tested-with build/schemathesis/made
	$(BIN)/python tests/fuzz/api.py --program build/schemathesis/bin/schemathesis \
	    --cases $(CASES) $(API)

# The thread pool under the thread sanitizer, which some systems' random addresses confuse.
THREADS := backends/cpu/csrc/pool.cc backends/cpu/csrc/crowding.cc
threads:
	mkdir -p $(SANITIZE_FOLDER)
	$(CXX) -std=c++20 -O1 -g -fsanitize=thread -pthread -Isrc/unladen tests/fuzz/threads/pool.cc \
	    $(THREADS:%=src/unladen/%) -o $(SANITIZE_FOLDER)/pool
	$$(setarch -R true 2>/dev/null && echo setarch -R) $(SANITIZE_FOLDER)/pool >&2

# The C kernels in the emulator, with private arrays checked, too.
kernels: .venv/installed .venv/tested-with
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	    UNLADEN_EMULATOR_ASAN=1 $(PYTEST_2) tests/emulator/test_emulated_ops.py

# The package's sources with a module of their own; the checks' library must be there before Python.
# What Python itself keeps to its end is no leak of ours. The mutated files run in less memory than
# the checks take.
SANITIZE_FOLDER ?= build/sanitize
TESTS ?= tests --deselect tests/fuzz/test_files.py::test_slice
sanitize: threads kernels .venv/tested-with
	$(BIN)/python -m pip install --quiet nanobind cmake ninja >&2
	$(BIN)/cmake -S . -B $(SANITIZE_FOLDER) $(NINJA) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DUNLADEN_SANITIZE=address,undefined -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >&2
	$(BIN)/cmake --build $(SANITIZE_FOLDER) --target _native >&2
	$(call with_module,$(SANITIZE_FOLDER))
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	    PYTHONPATH=$(SANITIZE_FOLDER)/python $(BIN)/python -m pytest --timeout 3600 $(TESTS)

clean:
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis $(FUZZ_FOLDER) \
	    $(SANITIZE_FOLDER) build/intel build/site build/site-env build/frameworks build/agents \
	    build/page build/schemathesis web/node_modules .cache
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "error: unladen needs Python 3.11 or newer" >&2; exit 1; }
	@header=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h; \
	    test -e "$$header" || { echo "error: $$header is missing" >&2; \
	    echo "hint: install python3-dev" >&2; exit 1; }
	$(PYTHON) -m venv .venv >&2
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' >&2
	@touch $@

# A real install, as from PyPI: what is tested is what users get.
.venv/installed: .venv/made $(SOURCES)
	@echo "building and installing unladen (log: .venv/install.log)" >&2
	@rm -f .venv/install.log
	@$(BIN)/python -m pip install --quiet --log .venv/install.log . >&2
	@touch $@

.venv/tested-with: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --group test --group lint --group oracle \
	    --group clients --group cuda >&2
	@touch $@
