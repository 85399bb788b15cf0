"""Treebanks: files of constituent trees in two formats, with or without function tags and traces."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TextIO

from partwise.data import read_text
from partwise.data.brackets import parse_brackets, write_brackets
from partwise.data.constituents import Span, Tree, fold
from partwise.data.export_format import parse_export, write_export
from partwise.errors import InputError

FORMATS = ("brackets", "export")
TRACE_TAG = "-NONE-"
_PLAIN = re.compile(r"-.*|[^-=]*", re.DOTALL)


@dataclass
class Treebank:
    """Trees and where they came from.

    Attributes
    ----------
    trees : list of Tree
    lines : list of int
        The line on which each tree begins; empty for trees without a file.
    path : object
        The name of the file in errors.
    format : {"brackets", "export"}
    """

    trees: list[Tree]
    lines: list[int] = field(default_factory=list)
    path: object = None
    format: str = "brackets"

    def error(self, message: str, tree: int) -> InputError:
        """An error at the line of a tree."""
        if self.lines:
            return InputError(message, self.path, self.lines[tree])
        return InputError(f"tree {tree}: {message}")

    def only(self, kept: list[bool]) -> Treebank:
        """The trees for which `kept` is true."""
        chosen = [i for i, keep in enumerate(kept) if keep]
        lines = [self.lines[i] for i in chosen] if self.lines else []
        return Treebank([self.trees[i] for i in chosen], lines, self.path, self.format)

    def mapped(self, change: Callable[[Tree], Tree | None]) -> Treebank:
        """Change every tree; raises if nothing is left of one."""
        trees = []
        for i, tree in enumerate(self.trees):
            changed = change(tree)
            if changed is None:
                raise self.error("nothing but traces in this tree", i)
            trees.append(changed)
        return Treebank(trees, self.lines, self.path, self.format)


def read_trees(
    path: str | os.PathLike[str],
    format: str = "auto",
    *,
    functions: bool = True,
    traces: bool = True,
    crossing: str = "raise",
) -> Treebank:
    """Read a file of constituent trees.

    Parameters
    ----------
    path : str or path
        Plain or gzipped; "-" is standard input.
    format : {"auto", "brackets", "export"}
        "auto" reads export format if the first character that is no white space is ``#`` or ``%``.
    functions : bool
        Whether labels keep the text from their first ``-`` or ``=`` on (NP-SBJ-1).
    traces : bool
        Whether words with the tag -NONE-, and constituents that have no other words, are kept.
    crossing : {"raise", "error"}
        What to do with crossing branches in export files; see `ExportSentence.tree`.

    Returns
    -------
    Treebank
    """
    return parse_trees(read_text(path), path, format, functions=functions, traces=traces, crossing=crossing)


def parse_trees(
    text: str,
    path: object = None,
    format: str = "auto",
    *,
    functions: bool = True,
    traces: bool = True,
    crossing: str = "raise",
) -> Treebank:
    """Like `read_trees`, from a string."""
    if format not in ("auto", *FORMATS):
        raise InputError(f"format={format!r} is not one of auto, {', '.join(FORMATS)}")
    if crossing not in ("raise", "error"):
        raise InputError(f"crossing={crossing!r} is not one of raise, error")
    if format == "auto":
        format = "export" if text.lstrip()[:1] in ("#", "%") else "brackets"
    if format == "brackets":
        found = Treebank(*parse_brackets(text, path), path)
    else:
        sentences = parse_export(text, path).sentences
        found = Treebank([], [sentence.line for sentence in sentences], path, format)
        for i, sentence in enumerate(sentences):
            try:
                found.trees.append(sentence.tree(crossing))
            except InputError as error:
                raise found.error(str(error), i) from None
    if not found.trees:
        raise InputError("no trees in this file" if text else "this file is empty", path)
    if not traces:
        found = found.mapped(without_traces)
    return found if functions else found.mapped(without_functions)


def write_trees(handle: TextIO, trees: Iterable[Tree], format: str = "brackets") -> None:
    """Write trees as brackets, one per line, or as an export file of version 3."""
    if format not in FORMATS:
        raise InputError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    (write_brackets if format == "brackets" else write_export)(handle, trees)


def plain_label(label: str) -> str:
    """A label without function tags and indices: NP for NP-SBJ-1; -NONE- and -LRB- stay."""
    match = _PLAIN.match(label)
    return match[0] if match else label


def without_functions(tree: Tree) -> Tree:
    """A tree whose constituents have plain labels; tags stay as they are."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        return node if node.word is not None else Tree(plain_label(node.label), below)

    return fold(tree, make)


def plain_spans(tree: Tree) -> set[Span]:
    """The constituents of a tree, with labels as evalb compares them."""
    return {span._replace(label=plain_label(span.label)) for span in tree.spans() if span.label}


def without_traces(tree: Tree) -> Tree | None:
    """A tree without words tagged -NONE- and constituents that have no other words; None if nothing is left."""

    def make(node: Tree, below: list[Tree | None]) -> Tree | None:
        if node.word is not None:
            return None if node.label == TRACE_TAG else node
        kept = [child for child in below if child is not None]
        return Tree(node.label, kept) if kept else None

    return fold(tree, make)


def without_cycles(tree: Tree) -> Tree:
    """A tree in which no constituent is the only child of one with the same label.

    Removing traces leaves such pairs (an NP of an NP and a lost relative clause). A grammar that could repeat them
    would have infinitely many trees.
    """

    def make(node: Tree, below: list[Tree]) -> Tree:
        if node.word is not None:
            return node
        chain = below[0]
        # A label further down the chain would also be a cycle.
        while len(below) == 1 and chain.word is None:
            if chain.label == node.label:
                return chain
            if len(chain.children) != 1:
                break
            chain = chain.children[0]
        return Tree(node.label, below)

    return fold(tree, make)


def rooted(tree: Tree, label: str = "TOP") -> Tree:
    """A tree whose outermost bracket has this label: it replaces an empty label, or is put around the tree."""
    if tree.label == label:
        return tree
    return Tree(label, tree.children if tree.label == "" and tree.word is None else [tree])
