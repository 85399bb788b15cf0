"""Trees in binary form, and back exactly: parent annotation, unary chains, horizontal markovisation.

Every step has an inverse:

- *vertical*: a constituent's label includes its parents' labels, ``NP^S``;
- *unary chains* become one node, ``SBAR+S``, with the tag at their end where they have one, ``NP+NNP``; or two nodes,
  the first of the chain and the rest; or stay;
- *horizontal*: of a constituent with more than two children one child after another is split off, from the left, from
  the right, or from both ends towards the head. The new nodes, such as ``@NP[<DT,<JJ]``, name what was split off last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partwise.data.constituents import Tree, fold
from partwise.data.head_rules import head_child
from partwise.errors import InputError

DIRECTIONS = ("left", "right", "head")
UNARIES = ("collapse", "one", "keep")
MARK, PARENT, CHAIN = "@", "^", "+"


@dataclass(frozen=True)
class BinaryForm:
    """How trees become binary.

    Attributes
    ----------
    direction : {"right", "left", "head"}
        The side to which new nodes branch. "right" splits children off from the left, "left" from the right. "head"
        splits off those after the head from the right, then those before it from the left.
    horizontal : int or None
        The number of children split off last that a new node names; None names all of them.
    vertical : int
        The number of labels in a constituent's label: 1 is its own, 2 adds its parent's.
    unary : {"collapse", "one", "keep"}
        What to do with a chain of constituents with one child each: make it one node, or two nodes (the first of the
        chain and the rest), or keep it.
    """

    direction: str = "right"
    horizontal: int | None = 0
    vertical: int = 1
    unary: str = "collapse"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise InputError(f"direction={self.direction!r:.40} is not one of {', '.join(DIRECTIONS)}")
        if self.unary not in UNARIES:
            raise InputError(f"unary={self.unary!r:.40} is not one of {', '.join(UNARIES)}")
        horizontal = 0 if self.horizontal is None else self.horizontal
        for name, value, least in (("horizontal", horizontal, 0), ("vertical", self.vertical, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number >= {least}, not {value!r:.40}")

    def apply(self, tree: Tree) -> Tree:
        """The tree in binary form."""
        for node in tree.nodes():
            if node.label.startswith(MARK) or PARENT in node.label or CHAIN in node.label:
                raise InputError(f"label {node.label!r:.40}: @ at the start, ^ and + are for binary forms")
        if self.vertical > 1:
            tree = with_parents(tree, self.vertical)
        if self.unary != "keep":
            tree = collapsed(tree)
        if self.unary == "one":
            tree = _with_one_unary(tree)
        return binarised(tree, self.direction, self.horizontal)

    def restore(self, tree: Tree) -> Tree:
        """The original of a tree in this binary form."""
        return without_parents(expanded(unbinarised(tree)))


def with_parents(tree: Tree, vertical: int) -> Tree:
    """Add the labels of up to `vertical` - 1 constituents above to every constituent, but not to tags."""
    # Labels come from above and trees are built from below: first the labels, in the order of `Tree.nodes`.
    labels: list[str] = []
    stack: list[tuple[Tree, tuple[str, ...]]] = [(tree, ())]
    while stack:
        node, above = stack.pop()
        if node.word is not None:
            continue
        labels.append(PARENT.join((node.label, *above)))
        own = (node.label, *above)[: vertical - 1]
        stack.extend((child, own) for child in reversed(node.children))
    # The fold meets constituents after all that are below them, the labels' order backwards but for siblings.
    number = {id(node): label for node, label in zip(_constituents(tree), labels, strict=True)}
    return fold(tree, lambda node, below: node if node.word is not None else Tree(number[id(node)], below))


def _constituents(tree: Tree) -> list[Tree]:
    return [node for node in tree.nodes() if node.word is None]


def without_parents(tree: Tree) -> Tree:
    """The inverse of `with_parents`."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        if node.word is not None:
            return node
        return Tree(node.label.partition(PARENT)[0], below)

    return fold(tree, make)


def collapsed(tree: Tree) -> Tree:
    """Make one node of every chain of nodes with one child each; a chain that ends in a tag keeps its word."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        if len(below) != 1:
            return node if node.word is not None else Tree(node.label, below)
        child = below[0]
        label = f"{node.label}{CHAIN}{child.label}"
        return Tree(label, child.children if child.word is None else child.word)

    return fold(tree, make)


def _with_one_unary(tree: Tree) -> Tree:
    """A collapsed tree in which the first label of every chain is a separate node."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        first, joined, rest = node.label.partition(CHAIN)
        content = node.word if node.word is not None else below
        return Tree(first, [Tree(rest, content)]) if joined else Tree(first, content)

    return fold(tree, make)


def expanded(tree: Tree) -> Tree:
    """The inverse of `collapsed`."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        *above, last = node.label.split(CHAIN)
        result = Tree(last, node.word if node.word is not None else below)
        for label in reversed(above):
            result = Tree(label, [result])
        return result

    return fold(tree, make)


def binarised(tree: Tree, direction: str = "right", horizontal: int | None = 0) -> Tree:
    """A tree whose nodes have at most two children; see `BinaryForm`."""

    def make(node: Tree, below: list[Tree]) -> Tree:
        if node.word is not None:
            return node
        if len(below) <= 2:
            return Tree(node.label, below)
        return _split(node.label, [child.label for child in node.children], below, direction, horizontal)

    return fold(tree, make)


def _split(
    label: str, names: Sequence[str], below: Sequence[Tree], direction: str, horizontal: int | None
) -> Tree:
    """Binary nodes over three or more children."""
    sides = _sides(label, names, direction)
    first, last = 0, len(names) - 1
    memory: list[str] = []
    labels = [label]
    for side in sides[:-1]:
        memory.append(side + (names[first] if side == "<" else names[last]))
        first, last = (first + 1, last) if side == "<" else (first, last - 1)
        kept = memory if horizontal is None else memory[len(memory) - min(horizontal, len(memory)) :]
        labels.append(f"{MARK}{label}" + (f"[{','.join(kept)}]" if kept else ""))
    # Two children are left. The others are put around them.
    result = Tree(labels[-1], below[first : last + 1])
    for own, side in zip(reversed(labels[:-1]), reversed(sides[:-1]), strict=True):
        if side == "<":
            first -= 1
            result = Tree(own, [below[first], result])
        else:
            last += 1
            result = Tree(own, [result, below[last]])
    return result


def _sides(label: str, names: Sequence[str], direction: str) -> list[str]:
    """The side from which each child but the last one is split off; "<" is the left."""
    if direction != "head":
        return ["<" if direction == "right" else ">"] * (len(names) - 1)
    top = label.partition(PARENT)[0].split(CHAIN)[-1]
    head = head_child(top, [name.partition(PARENT)[0].split(CHAIN)[0] for name in names])
    return [">"] * (len(names) - 1 - head) + ["<"] * head


def unbinarised(tree: Tree) -> Tree:
    """The inverse of `binarised`: children of marked nodes are children of the node above."""

    def make(node: Tree, below: list[list[Tree]]) -> list[Tree]:
        if node.word is not None:
            return [node]
        children = [child for each in below for child in each]
        if node.label.startswith(MARK) and node is not tree:
            return children
        return [Tree(node.label, children)]

    return fold(tree, make)[0]
