# A fresh machine needs python3 (3.11 or newer), make and a package registry, nothing else.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := src paper tests benchmarks examples scripts

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Programs that JAX has compiled once are read from here the next time.
export JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0.1
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo reproduce test test-all lint types format tables docs docs-commands release-check examples interop bench peers lock clean

# Create the virtual environment $(1) unless it is there.
define create_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || test -x $(1)/bin/pip || { \
  echo "twofold needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
    "name a newer one, for example: make PYTHON=python3.12 test"; exit 1; }
@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1)
endef

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | while IFS='|' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: .venv/.installed-run  ## fit a small model and show its uncertainty in two parts
	$(BIN)/twofold example oven --out demo-output --force
	$(BIN)/twofold fit demo-output/oven.csv --target yield_percent --out demo-output/oven.twofold --quick --force
	$(BIN)/twofold suggest demo-output/oven.twofold demo-output/candidates.csv --num 5
	$(BIN)/twofold report demo-output/oven.twofold --out demo-output/index.html

reproduce: .venv/.installed-dev  ## make a table or figure of the paper: make reproduce WHAT=table_1 [ARGS="--smoke"]
	$(BIN)/python -m paper $(WHAT) $(ARGS)

test: .venv/.installed-dev  ## run the quick tests
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-all: .venv/.installed-dev  ## run all tests, the slow ones too
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m ""

lint: .venv/.installed-dev  ## check format and style
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: .venv/.installed-dev  ## check the types
	$(BIN)/mypy

format: .venv/.installed-dev  ## fix format and style
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

tables: .venv/.installed-run  ## regenerate the tables of README and docs from results/
	$(BIN)/python -m paper tables
	$(BIN)/python scripts/cli_page.py

docs: .venv/.installed-dev  ## check all pages and build the documentation into site/
	$(BIN)/python scripts/check_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-commands: .venv/.installed-dev  ## run the commands and code of all pages at a small size (minutes)
	$(BIN)/python scripts/check_docs.py --run

release-check: .venv/.installed-dev  ## build, install and test the package in empty environments [ARGS="--tests"]
	$(BIN)/python scripts/release.py $(ARGS)

examples: .venv/.installed-dev interop  ## run the examples at full size and update their pages and pictures
	$(BIN)/python scripts/render_examples.py
	$(BIN)/python scripts/page_pictures.py
	for name in scikit_learn share_model gymnasium_loop minari_d3rlpy; do \
	  $(BIN)/python examples/interop/$$name.py || exit 1; done
	for name in botorch_surrogate arviz_inference_data; do \
	  .peers/interop/bin/python examples/interop/$$name.py || exit 1; done

interop: .peers/interop/.installed .peers/d3rlpy/.installed  ## environments for examples/interop

bench: .venv/.installed-dev .bench-venv/.installed peers  ## run all benchmarks, with other libraries and hardware limits
	$(BIN)/python benchmarks/suite.py

peers: .peers/bde/.installed .peers/boosting/.installed .peers/d3rlpy/.installed  ## environments of the libraries compared in benchmarks/regression.py and offline_rl.py

lock:  ## regenerate constraints.txt from pyproject.toml
	rm -rf .cache/lock-venv
	$(call create_venv,.cache/lock-venv)
	.cache/lock-venv/bin/python -m pip install -q -e '.[dev]'
	{ echo '# Versions that `make lock` resolved (Python 3.11, pip install -e ".[dev]"); do not edit.'; \
	  .cache/lock-venv/bin/python -m pip freeze --exclude-editable --exclude setuptools --exclude wheel; \
	} > .cache/constraints.txt
	mv .cache/constraints.txt constraints.txt
	rm -rf .cache/lock-venv

clean:  ## remove environments, caches and the demo's output
	rm -rf .venv .bench-venv .peers .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo-output site
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed-run: pyproject.toml constraints.txt
	$(call create_venv,.venv)
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

.venv/.installed-dev: pyproject.toml constraints.txt
	$(call create_venv,.venv)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch .venv/.installed-run $@

.peers/bde/.installed: PACKAGES := sklearn-contrib-bde==1.0.2
.peers/boosting/.installed: PACKAGES := catboost==1.2.10 ngboost==0.5.11 scikit-learn==1.9.1
.peers/d3rlpy/.installed: PACKAGES := d3rlpy==2.8.1 torch==2.13.0 "minari[hdf5]==0.5.4" pillow
.peers/interop/.installed: PACKAGES := -e . botorch==0.18.1 arviz==0.23.4 torch==2.13.0
.peers/%/.installed: Makefile
	$(call create_venv,.peers/$*)
	.peers/$*/bin/python -m pip install -q $(PACKAGES)
	echo $(PACKAGES) > $@

# torchvision 0.28 is built for CUDA and fails to import beside a CPU torch; 0.16.2 imports.
.bench-venv/.installed: Makefile
	$(call create_venv,.bench-venv)
	.bench-venv/bin/python -m pip install -q torch==2.13.0
	.bench-venv/bin/python -m pip install -q torch==2.13.0 torchvision==0.28.0 lightning-uq-box==0.2.0 requests
	.bench-venv/bin/python -m pip install -q --no-deps torchvision==0.16.2
	touch $@
