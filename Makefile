# SPDX-License-Identifier: MIT
# A thin front for CMake. `make help` lists what there is.

PRESET ?= release
PREFIX ?= /usr/local
BUILD := build/$(PRESET)

# Debian packages: to build, to test.
PACKAGES := gcc g++ cmake ninja-build pkg-config libopenblas0 libjansson-dev libpcre2-dev libcmocka-dev \
  libopenmpi-dev openmpi-bin
# And to check the source and the kernels in every way that CONTRIBUTING.md names.
DEV_PACKAGES := clang clang-format clang-tidy clang-tools cppcheck gcovr valgrind libclang-rt-dev
# And for the Python package. Where $(PYTHON) is another one than Debian's and lacks something, it is fetched into build/python.
PYTHON_PACKAGES := python3-dev python3-venv python3-pip python3-numpy python3-cffi python3-setuptools python3-wheel python3-pytest

.PHONY: all everything help deps deps-dev configure demo test test-all bench bench-peer bench-versions bench-instructions python browser fuzz check-all lint analyze coverage mutants soak format install deb clean

all: configure ## build the library and the program, build/release/sia
	@cmake --build $(BUILD) --target pages sia_shared sia_static

everything: configure
	@cmake --build $(BUILD)

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

deps: ## install the Debian packages that a build needs
	@sh cmake/deps.sh $(PACKAGES)

deps-dev: deps ## and those for lint and the sanitizers
	@sh cmake/deps.sh $(DEV_PACKAGES)

configure: deps
	@mkdir -p build; test -f $(BUILD)/build.ninja || cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >$(BUILD).log 2>&1 \
	  || { cat $(BUILD).log; exit 1; }

DEMO ?= demo
demo: configure ## train schemes short, see them long; needles; theory: tables, and the report in demo/ (7 minutes on two cores)
	@cmake --build $(BUILD) --target sia
	@sh cmake/demo.sh $(BUILD)/sia $(DEMO)

test: everything ## build and run the tests
	@ctest --preset $(PRESET) -j 2

test-all: deps-dev ## the tests with gcc, clang and each sanitizer, and valgrind
	@for preset in release clang asan ubsan tsan; do $(MAKE) --no-print-directory test PRESET=$$preset || exit 1; done
	@sh tests/valgrind.sh build/release

bench: all ## the speed of attention on this machine
	@$(BUILD)/sia bench attention

bench-peer: all ## the same in PyTorch, in the same rounds; PYTHON names one that has it; PEER_ARGS are for bench/peer_torch.py
	@PYTHON="$(PYTHON)" sh bench/peer_torch.sh --sia $(BUILD)/sia $(PEER_ARGS)

bench-versions: configure ## this version against another build with the same sia.h, in one process: OLD=path/to/libsia.so
	@test -n "$(OLD)" || { echo "make bench-versions: OLD=path/to/libsia.so names the build to compare with" >&2; exit 2; }
	@cmake --build $(BUILD) --target bench_versions sia_shared
	@$(BUILD)/bench/versions "$(abspath $(OLD))" $(BUILD)/libsia.so

bench-instructions: configure ## how many instructions attention takes: the same on a busy machine; LENGTHS (256 1024)
	@sh cmake/deps.sh valgrind
	@cmake --build $(BUILD) --target bench_instructions sia_shared
	@sh bench/instructions.sh $(BUILD) si+nope $(LENGTHS)

python: configure ## the Python package and its tests, in build/python; PYTHON is the interpreter (python3)
	@sh cmake/deps.sh $(PYTHON_PACKAGES)
	@cmake --build $(BUILD) --target sia
	@PYTHON="$(PYTHON)" sh python/test.sh $(BUILD)

browser: everything ## the report in Debian's chromium: a sample, and the demo's where it is; pictures in build/browser
	@sh cmake/deps.sh chromium python3-minimal
	@python3 tests/outside/report_browser.py --build $(BUILD) --pictures build/browser
	@test ! -f $(DEMO)/report.html || python3 tests/outside/report_browser.py --report $(DEMO)/report.html --pictures build/browser/demo

FUZZ_S ?= 60
fuzz: deps-dev configure ## run the fuzz targets, FUZZ_S (60) seconds each; what they find of interest is kept in build/corpus
	@cmake $(BUILD) >$(BUILD).log || { cat $(BUILD).log; exit 1; } # clang may be newer than the tree
	@cmake --build $(BUILD) --target fuzz_programs
	@for target in $(BUILD)/tests/fuzz/fuzz_*[!.]; do name=$${target##*/fuzz_}; \
	  test -x $$target -a -f $$target || continue; mkdir -p build/corpus/$$name; \
	  $$target -max_total_time=$(FUZZ_S) -max_len=16384 -verbosity=0 -print_final_stats=1 \
	    build/corpus/$$name tests/fuzz/corpus/$$name || exit 1; done

check-all: deps-dev everything fuzz ## all that takes too long for 'make test', hours of it: docs/reliability.md says what
	@$(BUILD)/tests/faults/test_faults --all
	@$(BUILD)/tests/faults/test_kill --all
	@$(MAKE) --no-print-directory lint analyze mutants soak test-all coverage

lint: deps-dev configure ## formatting, clang-tidy and cppcheck
	@sh cmake/lint.sh $(BUILD)

analyze: deps-dev configure ## gcc -fanalyzer and scan-build, a file at a time: some minutes
	@sh cmake/analyze.sh

coverage: deps-dev ## lines and branches that the tests reach, by folder; what none reaches: build/coverage/unreached.txt
	@$(MAKE) --no-print-directory everything PRESET=coverage
	@sh cmake/coverage.sh build/coverage "-j 2"

MUTANTS ?= 200
mutants: everything ## change the library MUTANTS (200) times, a sign, an offset or a bound each: the tests must notice
	@sh cmake/deps.sh python3-minimal
	@python3 tests/mutate.py --build $(BUILD) --count $(MUTANTS) $(MUTATE_ARGS)

SOAK_S ?= 1800
soak: everything ## training, evaluation, generation and random calls for SOAK_S (1800) seconds: flat memory, the same bits
	@$(BUILD)/tests/soak/soak $(SOAK_S)

format: deps-dev ## put every source file into the project's format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all ## install to PREFIX (and DESTDIR)
	@cmake $(BUILD) -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >$(BUILD).log # sia.pc names the prefix
	@cmake --install $(BUILD)
	@test -n "$(DESTDIR)" || test "$$(id -u)" != 0 || ldconfig # what is linked with libsia.so finds it

deb: deps ## a Debian package, in build/; tests/deb.sh tries it
	@sh cmake/deps.sh dpkg-dev
	@mkdir -p build; { cmake -S . -B build/deb -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr -DSIA_TESTS=OFF && \
	  cmake --build build/deb; } >build/deb.log 2>&1 || { cat build/deb.log; exit 1; }
	@sh cmake/deb.sh build/deb

clean: ## remove what was built
	@rm -rf build
