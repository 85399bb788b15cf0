"""The API reference has every public name, where its docstring is."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest
from data_paths import ROOT

pytest.importorskip("mkdocs")
_SPECIFICATION = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
assert _SPECIFICATION is not None and _SPECIFICATION.loader is not None
hooks = importlib.util.module_from_spec(_SPECIFICATION)
_SPECIFICATION.loader.exec_module(hooks)


@pytest.mark.parametrize("name", hooks.MODULES)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module, page = import_module(name), hooks.reference(name, "title")
    found = re.findall(r"^::: (\S+)\.(\w+)$", page, re.MULTILINE)
    assert [each for _, each in found] == [each for each in module.__all__ if each != "__version__"]
    for home, each in found:
        value = getattr(import_module(home), each)
        assert value is getattr(module, each)
        if callable(value) and name != "partwise.scorers":
            assert value.__doc__, f"{home}.{each} has no docstring"


def test_pages_that_nobody_listed_come_last(tmp_path: Path) -> None:
    for page in ("one.md", "two.md"):
        (tmp_path / page).write_text("# page\n")

    class Config:
        nav = [{"Start": "index.md"}, {"Group": [{"One": "one.md"}]}]  # noqa: RUF012
        docs_dir = tmp_path

    nav = hooks.on_config(Config()).nav
    assert nav[-1] == {"More": ["two.md"]} and len(nav[-2]["API"]) == len(hooks.MODULES)
