"""What the documentation site has besides the pages of this folder: changes, API and command-line reference.

MkDocs calls the functions named ``on_…``. The API reference has every public name, by the ``__all__`` of the modules
in `MODULES`: a page for each module, and one for each class. mkdocstrings puts the docstrings in.
"""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import griffe
import typer
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
    "partwise.torch": "PyTorch layers",
    "partwise.distributed": "Distributed training",
}
# Classes that most readers look for. The others follow in alphabetical order.
FIRST = [
    "SequenceLabeler",
    "Classifier",
    "SegmentLabeler",
    "DependencyParser",
    "ConstituencyParser",
    "GraphLabeler",
]


class Public(NamedTuple):
    """A public name of a module: where it is defined, whether it is a class, and its first sentence."""

    home: str
    is_class: bool
    sentence: str


# -- hooks -------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Add the references to the list of pages, and the pages that the list lacks."""
    listed = set(_pages(config.nav))
    sys.path.insert(0, str(ROOT / "src"))
    modules = [{title: [{"Overview": _page(name)}, *_class_nav(name)]} for name, title in MODULES.items()]
    config.nav.append({"Reference": [{"Command line": "api/command_line.md"}, *modules]})
    others = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in listed)
    if others:
        config.nav.append({"More": others})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make the pages that are not files of this folder."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changes.md", content=changes))
    files.append(File.generated(config, "api/command_line.md", content=command_line()))
    for name, title in MODULES.items():
        files.append(File.generated(config, _page(name), content=overview(name, title)))
        for each, public in public_names(name).items():
            if public.is_class:
                files.append(File.generated(config, _page(name, each), content=f"::: {public.home}\n"))
    return files


def _class_nav(name: str) -> list[dict[str, str]]:
    return [{each: _page(name, each)} for each, public in public_names(name).items() if public.is_class]


def _page(name: str, public: str = "") -> str:
    return f"api/{name}.{public}.md" if public else f"api/{name}.md"


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [page for value in values for page in _pages(value)]


# -- the API -----------------------------------------------------------------------------------------


def overview(name: str, title: str) -> str:
    """The page of a module: a table of its public names, then its functions."""
    names = public_names(name)
    lines = [f"# {title}: {name}\n", f"{_module_docstring(name)}\n", "| name | what it is |", "|---|---|"]
    for each, public in names.items():
        target = f"{name}.{each}.md" if public.is_class else f"#{public.home}"
        lines.append(f"| [`{each}`]({target}) | {public.sentence} |")
    functions = [f"::: {public.home}\n" for public in names.values() if not public.is_class]
    return "\n".join([*lines, "", *functions])


@cache
def public_names(name: str) -> dict[str, Public]:
    """The public names of a module: classes first, the most important ones at the top."""
    try:
        found = _imported(name)
    except ImportError:  # PyTorch is an extra
        found = _parsed(name)

    def place(each: str) -> tuple[bool, int, str]:
        return not found[each].is_class, FIRST.index(each) if each in FIRST else len(FIRST), each

    return {each: found[each] for each in sorted(found, key=place)}


def _imported(name: str) -> dict[str, Public]:
    module = import_module(name)
    found = {}
    for each in module.__all__:
        value = getattr(module, each)
        if re.match("__", each) or inspect.ismodule(value):
            continue
        home = getattr(value, "__module__", None) or ""
        described = inspect.getdoc(value) if callable(value) else ""
        where = f"{home if home.startswith('partwise') else name}.{each}"
        found[each] = Public(where, inspect.isclass(value), _first_sentence(described or ""))
    return found


def _parsed(name: str) -> dict[str, Public]:
    """Like `_imported`, from the source of a module that cannot be imported here."""
    module = _source()[name.partition(".")[2]]
    found = {}
    for each in map(str, module.exports or []):
        value = module[each].final_target if module[each].is_alias else module[each]
        described = value.docstring.value if value.docstring else ""
        found[each] = Public(value.path, value.is_class, _first_sentence(described))
    return found


def _module_docstring(name: str) -> str:
    module = _source()[name.partition(".")[2]] if "." in name else _source()
    text = module.docstring.value if module.docstring else ""
    return re.sub(r":\w+:`[~!]?([^`]+)`", r"`\1`", text)


@cache
def _source() -> Any:
    return griffe.load("partwise", search_paths=[str(ROOT / "src")], resolve_aliases=True)


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")
    return re.sub(r":\w+:`[~!]?([^`]+)`", r"`\1`", re.split(r"(?<=[.])\s", paragraph)[0])


# -- the command line --------------------------------------------------------------------------------


def command_line() -> str:
    """A page with the help of every command."""
    from partwise.cli import app

    lines = ["# Command line: partwise\n"]
    for path, command in _commands(typer.main.get_command(app), "partwise"):
        about = inspect.cleandoc(command.help or "").replace("\b\n", "")
        lines += [f"## {path}\n", f"{about}\n", f"    {path} {' '.join(_usage(command))}\n"]
        options = [
            each for each in command.params if each.param_type_name == "option" and each.name != "help"
        ]
        if options:
            lines += ["| option | meaning | default |", "|---|---|---|", *map(_option_row, options), ""]
    return "\n".join(lines)


def _commands(command: Any, path: str) -> list[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        return [(path, command)]
    # Groups make their commands when they are asked for; none needs a context.
    named = [(name, command.get_command(None, name)) for name in command.list_commands(None)]
    return [found for name, each in named for found in _commands(each, f"{path} {name}")]


def _usage(command: Any) -> list[str]:
    places = [each for each in command.params if each.param_type_name == "argument"]
    return ["[OPTIONS]", *(each.metavar or each.name.upper() for each in places)]


def _option_row(option: Any) -> str:
    names = ", ".join(f"`{each}`" for each in [*option.opts, *option.secondary_opts])
    default = option.default if isinstance(option.default, str | int | float) else ""
    shown = "" if default in ("", False) or callable(default) else f"`{default}`"
    return f"| {names} | {(option.help or '').replace('|', chr(92) + '|')} | {shown} |"
