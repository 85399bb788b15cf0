# Two commands for everyone: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test hostile lint format clean

demo: $(STAMP)
	$(BIN)/partwise demo

# A file stays with one worker, so that little is compiled twice.
test: $(STAMP) lint
	$(BIN)/pytest -n 2 --dist loadfile

# Every attack on files, inputs and certificates, also those that take minutes (docs/reliability.md).
hostile: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadfile -m "hostile or not hostile" \
		tests/test_hostile_*.py tests/test_certificates.py tests/test_model_file.py tests/test_model_fuzz.py

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
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
