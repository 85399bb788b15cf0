"""What the documentation site has besides the pages of this folder: the list of changes and the API reference.

MkDocs calls the functions named ``on_…``. The reference has every public name, by the ``__all__`` of the modules in
`MODULES`; mkdocstrings puts the docstrings in.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    "partwise": "Estimators",
    "partwise.structures": "Structures",
    "partwise.solvers": "Solvers",
    "partwise.data": "Data",
    "partwise.metrics": "Scores",
    "partwise.scorers": "Scorers",
    "partwise.guarantees": "Guarantees",
}


def on_config(config: Any) -> Any:
    """Add the reference to the list of pages, and what nobody has put there."""
    listed = set(_pages(config.nav))
    config.nav.append({"API": [{title: _page(name)} for name, title in MODULES.items()]})
    others = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in listed)
    if others:
        config.nav.append({"More": others})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make the pages that are not files of this folder."""
    sys.path.insert(0, str(ROOT / "src"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changes.md", content=changes))
    for name, title in MODULES.items():
        files.append(File.generated(config, _page(name), content=reference(name, title)))
    return files


def reference(name: str, title: str) -> str:
    """A page of all public names of a module."""
    module = import_module(name)
    lines = [f"# {title}: {name}\n", f"{(module.__doc__ or '').strip()}\n"]
    for public in public_names(name):
        lines.append(f"::: {home(name, public)}\n")
    return "\n".join(lines)


def public_names(name: str) -> list[str]:
    """The public names of a module; its version and its own modules are not for a reference."""
    return [each for each in import_module(name).__all__ if not re.match("__", each)]


def home(name: str, public: str) -> str:
    """Where something is defined, which is where its docstring is read."""
    value = getattr(import_module(name), public)
    module = getattr(value, "__module__", None)
    return f"{module}.{public}" if module and module.startswith("partwise") else f"{name}.{public}"


def _page(name: str) -> str:
    return f"api/{name}.md"


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [page for value in values for page in _pages(value)]
