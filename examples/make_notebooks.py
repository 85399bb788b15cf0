"""Notebooks of the tutorials: the pages of docs/ as cells, executed.

    python examples/make_notebooks.py [PAGE ...]

writes examples/notebooks/PAGE.ipynb; it needs nbclient and ipykernel (`pip install 'partwise[docs]'`). A test compares
the cells with the pages, so run it again when a tutorial has changed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "examples" / "notebooks"
TUTORIALS = [
    "named_entities", "guide", "classification", "segments", "parsing", "constituents", "labelling_graphs",
]  # fmt: skip
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
_EXCERPT = re.compile(r"<!-- excerpt: .*? -->\n+```python\n.*?^```\n", re.DOTALL | re.MULTILINE)


def cells_of(page: Path) -> list[tuple[str, str]]:
    """The page as (kind, source) of cells: prose is Markdown, blocks of Python and of commands are code.

    What blocks print is left out, since the notebook has its own outputs.
    """
    text, cells, end = _EXCERPT.sub("", page.read_text(encoding="utf-8")), [], 0
    for match in _BLOCK.finditer(text):
        cells.append(("markdown", _prose(text[end : match.start()])))
        kind, source = match.groups()
        if kind == "python":
            cells.append(("code", source.strip("\n")))
        elif kind == "console":
            cells.append(("code", _commands(source)))
        elif kind != "text":
            cells.append(("markdown", match[0].strip()))
        end = match.end()
    cells.append(("markdown", _prose(text[end:])))
    return [cell for cell in cells if cell[1]]


def _prose(text: str) -> str:
    """Links and pictures of a page lead to docs/ from the notebook's folder."""
    text = re.sub(r"\]\((?!https?:|#)([^)]+)\)", r"](../../docs/\1)", text)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()


def _commands(source: str) -> str:
    """The commands of a console block as a cell of a shell; their output is left out."""
    pieces = re.split(r"^\$ ", source, flags=re.MULTILINE)[1:]
    found = ["%%bash"]
    for piece in pieces:
        lines = piece.splitlines()
        last = next(k for k, line in enumerate(lines) if not line.endswith("\\"))
        found.append(" ".join(line.rstrip("\\").strip() for line in lines[: last + 1]))
    return "\n".join(found)


def notebook_of(page: Path) -> dict[str, Any]:
    """The cells in the format of notebooks, not executed."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells: list[dict[str, Any]] = []
    for k, (kind, source) in enumerate(cells_of(page)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": source}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main(names: list[str]) -> None:
    import nbformat
    from nbclient import NotebookClient

    for name in names or TUTORIALS:
        found = nbformat.from_dict(notebook_of(ROOT / "docs" / f"{name}.md"))
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(found, timeout=600, resources={"metadata": {"path": folder}}).execute()
        found["metadata"] = {"kernelspec": found["metadata"]["kernelspec"]}
        for cell in found["cells"]:
            cell["metadata"] = {}  # without times of execution
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        (NOTEBOOKS / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(f"{name}: {len(found['cells'])} cells", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
