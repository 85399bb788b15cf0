"""The notebooks in examples/notebooks hold the code of the tutorials, and were executed."""

from __future__ import annotations

import json
import sys

import pytest
from data_paths import ROOT

sys.path.insert(0, str(ROOT / "examples"))
from make_notebooks import NOTEBOOKS, TUTORIALS, cells_of

sys.path.pop(0)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_is_its_page_executed(name: str) -> None:
    found = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    cells = [(each["cell_type"], "".join(each["source"])) for each in found]
    message = f"run `python examples/make_notebooks.py {name}`: docs/{name}.md has changed"
    assert cells == cells_of(ROOT / "docs" / f"{name}.md"), message
    counts = [each["execution_count"] for each in found if each["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for each in found for output in each.get("outputs", [])]
    assert outputs and all(output["output_type"] != "error" for output in outputs)
