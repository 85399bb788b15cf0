# Two commands for everyone: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

# What `make test-torch` installs.
TORCH ?= torch triton

.PHONY: demo test kernels kernel-list test-torch test-ray hostile lint format docs notebooks dist clean

demo: $(STAMP)
	$(BIN)/partwise demo

# A file stays with one worker, so that little is computed twice.
test: $(STAMP) lint kernels
	$(BIN)/pytest -n 2 --dist loadfile

# The library of compiled code for this processor: only what has changed is compiled. Without it, code is compiled
# when it is first used.
kernels: $(STAMP)
	$(BIN)/python -m partwise.compiled.build

# What the library contains: all that the tests ask for.
kernel-list: $(STAMP)
	rm -f build/kernel-list
	mkdir -p build
	PARTWISE_KERNEL_LIST=$(CURDIR)/build/kernel-list $(BIN)/pytest -n 2 --dist loadfile -m "hostile or not hostile"
	grep '^partwise' build/kernel-list | LC_ALL=C sort -u > src/partwise/compiled/kernels.txt

# Structures as PyTorch layers (docs/neural.md): an environment of its own, since PyTorch is large.
test-torch: $(VENV)-torch/.installed
	$(VENV)-torch/bin/pytest -n 2 --dist loadfile tests/torch tests/project/test_docs.py -k "torch or neural or transformers"

$(VENV)-torch/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet --editable '.[jit,test,test-torch]' $(TORCH)
	touch $@

# Training on a Ray cluster (docs/scaling.md), also one whose network is cut, if root runs this: an environment of its
# own, and a limit to how long it may take.
test-ray: $(VENV)-ray/.installed
	timeout 900 $(VENV)-ray/bin/pytest -m "hostile or not hostile" tests/distributed/test_ray.py \
		tests/distributed/test_ray_network.py

$(VENV)-ray/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --editable '.[jit,test,ray]'
	touch $@

# Every attack on files, inputs, certificates, the server and its pages, also those that take minutes (docs/reliability.md).
hostile: $(STAMP) $(VENV)-torch/.installed
	$(BIN)/pytest -n 2 --dist loadfile -m "hostile or not hostile" \
		tests/storage tests/*/test_hostile_*.py tests/solvers/test_certificates.py tests/solvers/test_rounding.py \
		tests/solvers/test_independent_optimum.py tests/web/test_serve.py
	$(VENV)-torch/bin/pytest -n 2 --dist loadfile -m "hostile or not hostile" tests/torch/test_torch_hostile*.py

# The pages and the API reference as a site, in site/; a broken link is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The tutorials as executed notebooks, in examples/notebooks; a test tells when a page has changed.
notebooks: $(STAMP) kernels
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/make_notebooks.py

# The wheel for this platform, with the library for all its processors, and the sdist: in dist/, tried in an
# environment of their own, without a compiler.
dist: $(STAMP)
	rm -rf dist build/wheel
	$(BIN)/python -m partwise.compiled.build --all-levels
	$(BIN)/python -m build --sdist --outdir dist > /dev/null
	$(BIN)/python -m build --wheel --outdir build/wheel > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
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
	$(BIN)/python -m pip install --quiet --editable '.[jit,test,plots,docs,dist]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-torch $(VENV)-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
