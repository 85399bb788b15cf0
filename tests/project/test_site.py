"""The API reference has every public name, where its docstring is."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path

import pytest
from data_paths import ROOT

pytest.importorskip("mkdocs")
_SPECIFICATION = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
assert _SPECIFICATION is not None and _SPECIFICATION.loader is not None
hooks = importlib.util.module_from_spec(_SPECIFICATION)
_SPECIFICATION.loader.exec_module(hooks)


@pytest.mark.parametrize("name", [name for name in hooks.MODULES if name != "partwise.torch"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module, found = import_module(name), hooks.public_names(name)
    assert set(found) == set(module.__all__) - {"__version__"}
    overview = hooks.overview(name, "title")
    for each, public in found.items():
        value = getattr(import_module(public.home.rpartition(".")[0]), each)
        assert value is getattr(module, each) and f"[`{each}`]" in overview
        assert public.is_class or f"::: {public.home}\n" in overview
        if callable(value) and name != "partwise.scorers":
            assert public.sentence, f"{public.home} has no docstring"


def test_modules_that_cannot_be_imported_are_read_from_their_source() -> None:
    names = hooks.public_names("partwise.torch")
    assert names["StructuredLoss"].is_class and not names["log_partition"].is_class
    assert names["log_partition"].home == "partwise.torch.functions.log_partition"


def test_docstrings_of_the_reference_have_an_entry_for_each_parameter_and_no_roles() -> None:
    docstrings = importlib.util.spec_from_file_location("docstrings", ROOT / "docs" / "griffe_docstrings.py")
    assert docstrings is not None and docstrings.loader is not None
    module = importlib.util.module_from_spec(docstrings)
    docstrings.loader.exec_module(module)
    text = (
        "Does :class:`~a.B`.\n\nParameters\n----------\na, b : int\n    Both.\n\nExamples\n--------\n>>> 1\n"
    )
    expected = (
        "Does `a.B`.\n\nExamples\n--------\n>>> 1\n\n"
        "Parameters\n----------\na : int\n    Both.\nb : int\n    Both.\n"
    )
    assert module.readable(text, example_first=True).split() == expected.split()


def test_the_command_line_reference_has_every_command() -> None:
    page = hooks.command_line()
    for command in ("train sequence", "predict", "path dependency", "serve"):
        assert f"\n## partwise {command}\n" in page
    assert "| `--l2` |" in page


def test_pages_that_nobody_listed_come_last(tmp_path: Path) -> None:
    for page in ("one.md", "two.md"):
        (tmp_path / page).write_text("# page\n")

    class Config:
        nav = [{"Start": "index.md"}, {"Group": [{"One": "one.md"}]}]  # noqa: RUF012
        docs_dir = tmp_path

    nav = hooks.on_config(Config()).nav
    assert nav[-1] == {"More": ["two.md"]} and len(nav[-2]["Reference"]) == 1 + len(hooks.MODULES)
