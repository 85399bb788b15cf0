"""Constituent trees: the class `Tree`, and the texts and tuples that users may pass instead. Nothing recurses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from partwise.errors import InputError

Result = TypeVar("Result")


class Span(NamedTuple):
    """A constituent over the words `first` to `end` - 1."""

    first: int
    end: int
    label: str


class Tree:
    """A node of a constituent tree with everything below it; immutable.

    A node has either children or a word. The nodes with words are the tags of the sentence. No method recurses, so a
    tree may be as deep as memory allows.

    Parameters
    ----------
    label : str
        "" for the outer bracket that Penn files have around every tree.
    content : str, or sequence of Tree
        The word, or the children.
    """

    __slots__ = ("children", "label", "word")

    label: str
    children: tuple[Tree, ...]
    word: str | None

    def __init__(self, label: str, content: str | Sequence[Tree]):
        self.label = label
        if isinstance(content, str):
            self.children, self.word = (), content
        else:
            self.children, self.word = tuple(content), None

    @property
    def is_tag(self) -> bool:
        """Whether this node has a word."""
        return self.word is not None

    def nodes(self) -> Iterator[Tree]:
        """This node and all below, each before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def tags(self) -> list[Tree]:
        """The nodes that have words, from left to right."""
        return [node for node in self.nodes() if node.word is not None]

    def words(self) -> list[str]:
        """The words, from left to right."""
        return [node.word for node in self.nodes() if node.word is not None]

    def tagged_words(self) -> list[tuple[str, str]]:
        """Pairs of word and tag, from left to right."""
        return [(node.word, node.label) for node in self.nodes() if node.word is not None]

    def spans(self) -> list[Span]:
        """All constituents that are no tags, each before those below it."""
        found: list[Span | None] = []
        stack: list[tuple[Tree, int, int]] = [(self, -1, 0)]
        n_words = 0
        while stack:
            node, place, first = stack.pop()
            if place >= 0:
                found[place] = Span(first, n_words, node.label)
            elif node.word is not None:
                n_words += 1
            else:
                stack.append((node, len(found), n_words))
                found.append(None)
                stack.extend((child, -1, 0) for child in reversed(node.children))
        return [span for span in found if span is not None]

    def nested(self) -> tuple[Any, ...]:
        """The same as nested tuples, ``("NP", ("DT", "the"), ("NN", "dog"))``."""
        return fold(self, lambda node, below: (node.label, *(below or (node.word,))))

    def __str__(self) -> str:
        """One line of Penn brackets."""
        pieces: list[str] = []
        stack: list[Tree | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                pieces.append(")")
            elif node.word is not None:
                pieces.append(f" ({node.label} {node.word})")
            else:
                pieces.append(f" ({node.label}")
                stack.append(None)
                stack.extend(reversed(node.children))
        return "".join(pieces)[1:]

    def __repr__(self) -> str:
        shown = str(self)
        return f"Tree.of({shown if len(shown) <= 200 else shown[:200] + '…'!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        mine, theirs = self.nodes(), other.nodes()
        return all(
            (a.label, a.word, len(a.children)) == (b.label, b.word, len(b.children))
            for a, b in zip(mine, theirs, strict=False)
        )

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        """Pickle as flat lists, because pickling nested objects recurses."""
        nodes = list(self.nodes())
        labels = [node.label for node in nodes]
        return tree_from_lists, (
            labels,
            [node.word for node in nodes],
            [len(node.children) for node in nodes],
        )

    @staticmethod
    def of(value: Any, what: str = "tree") -> Tree:
        """Make a tree of a Tree, of Penn brackets, or of nested tuples or lists.

        Parameters
        ----------
        what : str
            The name of the value in errors.
        """
        if isinstance(value, Tree):
            return value
        if isinstance(value, str):
            from partwise.data.brackets import parse_brackets

            trees = parse_brackets(value, what).trees
            if len(trees) != 1:
                raise InputError(f"{what} must be one tree; these brackets are {len(trees)}")
            return trees[0]
        return _from_nested(value, what)


def fold(tree: Tree, make: Callable[[Tree, list[Result]], Result]) -> Result:
    """Build a result from the bottom up: `make` takes a node and the results of its children."""
    results: list[Result] = []
    stack: list[tuple[Tree, int]] = [(tree, -1)]
    while stack:
        node, mark = stack.pop()
        if mark >= 0:
            below = results[mark:]
            del results[mark:]
            results.append(make(node, below))
        elif node.word is not None:
            results.append(make(node, []))
        else:
            stack.append((node, len(results)))
            stack.extend((child, -1) for child in reversed(node.children))
    return results[0]


def tree_from_lists(labels: list[str], words: list[str | None], sizes: list[int]) -> Tree:
    """Build a tree from the labels, words and numbers of children of all nodes, parents first."""
    done: list[Tree] = []
    for label, word, size in zip(reversed(labels), reversed(words), reversed(sizes), strict=True):
        children = done[len(done) - size :][::-1]
        del done[len(done) - size :]
        done.append(Tree(label, children if word is None else word))
    return done[0]


def _from_nested(value: Any, what: str) -> Tree:
    labels: list[str] = []
    words: list[str | None] = []
    sizes: list[int] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Tree):
            inner = list(node.nodes())
            labels += [each.label for each in inner]
            words += [each.word for each in inner]
            sizes += [len(each.children) for each in inner]
            continue
        if not isinstance(node, (tuple, list)) or len(node) < 2 or not isinstance(node[0], str):
            raise InputError(
                f"{what}: {node!r:.60} is no tree; trees look like ('NP', ('DT', 'the'), ('NN', 'dog'))"
            )
        has_word = len(node) == 2 and isinstance(node[1], str)
        labels.append(node[0])
        words.append(node[1] if has_word else None)
        sizes.append(0 if has_word else len(node) - 1)
        if not has_word:
            stack.extend(reversed(node[1:]))
    return tree_from_lists(labels, words, sizes)
