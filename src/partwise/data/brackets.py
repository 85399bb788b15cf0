"""Penn brackets: trees are read and written exactly, and errors name the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TextIO

from partwise.data.constituents import Tree
from partwise.errors import InputError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_BAD_IN_A_TOKEN = re.compile(r"[\s()]|^$")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


class TreeLines(NamedTuple):
    """Trees, and the line of a file on which each begins, counted from 1."""

    trees: list[Tree]
    lines: list[int]


def parse_brackets(text: str, path: object = None) -> TreeLines:
    """Read all trees of a text; white space between brackets does not matter.

    Parameters
    ----------
    text : str
    path : object
        The name of the text in errors.
    """
    tokens = _TOKEN.findall(text)
    trees: list[Tree] = []
    starts: list[int] = []
    labels: list[str] = []  # of the brackets that are open
    contents: list[list[Tree] | str] = []
    opened: list[int] = []
    index, n_tokens = 0, len(tokens)
    while index < n_tokens:
        token = tokens[index]
        if token == "(":
            opened.append(index)
            contents.append([])
            follows = tokens[index + 1] if index + 1 < n_tokens else "("
            if follows == "(" or follows == ")":
                labels.append("")
            else:
                labels.append(follows)
                index += 1
        elif token == ")":
            if not labels:
                raise _error("a closing bracket that none opened", text, path, index)
            label, content, start = labels.pop(), contents.pop(), opened.pop()
            if not content:
                what = f"constituent {label!r:.40} has no words" if label else "an empty bracket"
                raise _error(what, text, path, start)
            tree = Tree(label, content)
            if not labels:
                trees.append(tree)
                starts.append(start)
            elif isinstance(contents[-1], str):
                raise _error(f"constituent after the word {contents[-1]!r:.40}", text, path, start)
            else:
                contents[-1].append(tree)
        elif not labels:
            raise _error(f"{token!r:.40} is outside all brackets", text, path, index)
        elif contents[-1]:
            raise _error(f"word {token!r:.40} is not alone in its bracket", text, path, index)
        else:
            contents[-1] = token
        index += 1
    if labels:
        raise _error("a bracket opened here is never closed", text, path, opened[0])
    return TreeLines(trees, _lines_of(text, starts))


def write_brackets(handle: TextIO, trees: Iterable[Tree]) -> None:
    """Write trees, one per line."""
    for tree in trees:
        check_writable(tree)
        handle.write(f"{tree}\n")
    handle.flush()


def check_writable(tree: Tree) -> None:
    """Raise if the tree could not be read back: empty labels and words, white space, round brackets."""
    for node in tree.nodes():
        texts = (node.label, node.word) if node.word is not None else (node.label,)
        for text in texts:
            if _BAD_IN_A_TOKEN.search(text) and not (text == "" and node.children):
                raise InputError(f"{text!r:.40} cannot be written in brackets; use {escaped(text)!r:.40}")


def escaped(word: str) -> str:
    """A word in the form that Penn brackets can hold: round brackets by name, no white space."""
    if not _BAD_IN_A_TOKEN.search(word):
        return word
    for character, name in _ESCAPES.items():
        word = word.replace(character, name)
    return "_".join(word.split()) or "_"


def _lines_of(text: str, indices: list[int]) -> list[int]:
    """The lines of tokens, which are given by ascending number."""
    lines: list[int] = []
    wanted: Iterator[int] = iter(indices)
    due = next(wanted, -1)
    line, last = 1, 0
    for index, match in enumerate(_TOKEN.finditer(text)):
        if index == due:
            line += text.count("\n", last, match.start())
            last = match.start()
            lines.append(line)
            due = next(wanted, -1)
    return lines


def _error(message: str, text: str, path: object, index: int) -> InputError:
    match = next(islice(_TOKEN.finditer(text), index, None))
    line = 1 + text.count("\n", 0, match.start())
    if path is None:
        return InputError(f"line {line}: {message}")
    return InputError(message, path, line)
