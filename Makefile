# Two commands for everyone: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

# What `make test-torch` installs.
TORCH ?= torch triton

.PHONY: demo test test-torch test-ray hostile lint format docs dist clean

demo: $(STAMP)
	$(BIN)/partwise demo

# A file stays with one worker, so that little is compiled twice.
test: $(STAMP) lint
	$(BIN)/pytest -n 2 --dist loadfile

# Structures as PyTorch layers (docs/neural.md): an environment of its own, since PyTorch is large.
test-torch: $(VENV)-torch/.installed
	$(VENV)-torch/bin/pytest -n 2 --dist loadfile tests/torch tests/project/test_docs.py -k "torch or neural"

$(VENV)-torch/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet --editable '.[test]' $(TORCH)
	touch $@

# Training on a Ray cluster (docs/scaling.md): an environment of its own, and a limit to how long it may take.
test-ray: $(VENV)-ray/.installed
	timeout 600 $(VENV)-ray/bin/pytest tests/distributed/test_ray.py

$(VENV)-ray/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --editable '.[test,ray]'
	touch $@

# Every attack on files, inputs, certificates, the server and its pages, also those that take minutes (docs/reliability.md).
hostile: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadfile -m "hostile or not hostile" \
		tests/storage tests/*/test_hostile_*.py tests/solvers/test_certificates.py tests/solvers/test_rounding.py \
		tests/solvers/test_independent_optimum.py tests/web/test_serve.py

# The pages and the API reference as a site, in site/; a broken link is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Wheel and sdist in dist/, tried in an environment of their own.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist > /dev/null
	$(BIN)/python tests/project/check_dist.py dist

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test,plots,docs,dist]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-torch $(VENV)-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
