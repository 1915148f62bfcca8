# Everything below makes its own .venv from constraints.txt; nothing needs to be installed by hand but Python 3.11+.
PYTHON ?= python3
BIN := .venv/bin
PYTHONS ?= 3.11 3.12 3.13

.PHONY: help setup demo demo-serve test soak crash fuzz check docs package bench clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	# torch first and alone: in its pinned version, so that nothing below picks another build of it
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --group dev --group docs -e '.[datasets,faces,hub,networks,onnx,ray,serve,tensorboard]'
	touch $@

setup: .venv/ready  ## the virtual environment

demo: setup  ## learn 100 classes in ten states, and see what each method keeps of them (some minutes)
	$(BIN)/scail run --dataset glyphs --states 10 --memory 2% --methods ft,ft_nem,ft_l2,ft_init,ft_init_l2,scail,full \
		--select random --seed 1 --out runs/demo

demo-serve: setup  ## teach and try a small model in the browser
	$(BIN)/scail serve --demo

test soak crash fuzz: export OMP_NUM_THREADS = 1
test: setup  ## the tests and the examples in docstrings, on all cores
	# Tests of one file share what they run, and so a process.
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not soak'

soak: setup  ## the tests that take long or need the machine for themselves, one after the other
	$(BIN)/python -m pytest -m soak $$(grep -rl --include=test_*.py mark.soak tests)

crash: setup  ## every command killed, its power lost, its disk full or broken, at many points (some ten minutes; CRASH=--every: at all)
	$(BIN)/python -m tests.crash $(CRASH)

SECONDS ?= 300
fuzz: setup  ## damaged and hostile files for everything that reads files, in minutes; make fuzz SECONDS=3600
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group fuzz || true
	$(BIN)/python -m tests.hostile --seconds $(SECONDS)

check: setup docs  ## format, lint, types, import contract; the site builds without a warning
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup  ## the site of the documents, in site/: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

package: setup  ## what is built installs into an empty environment, with every Python of PYTHONS that is here
	SCAIL_PYTHONS="$(PYTHONS)" $(BIN)/python -m pytest -m soak tests/test_package.py

bench: setup  ## speed, measured
	$(BIN)/python -m benchmarks

clean:  ## remove the virtual environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
