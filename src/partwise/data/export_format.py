"""Read and write the export format of NEGRA and TIGER: sentences of numbered nodes whose branches may cross.

    #BOS 1                                      sentence 1 begins
    the     DT      --      --      500         word, tag, morphology, edge label, parent
    dog     NN      --      HD      500
    barks   VBZ     --      HD      501
    #500    NP      --      SB      501         a constituent
    #501    S       --      --      0           0 is the root, which has no line
    #EOS 1

Version 4 (``#FORMAT 4``) has a lemma after the word. Pairs of label and parent after the parent are secondary edges,
and text after ``%%`` is a comment. Tabs align the columns at 24 characters (word), 24 (lemma), 8, 16 and 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TextIO

from partwise.data import shortened
from partwise.data.constituents import Tree, fold
from partwise.errors import InputError

_FIRST_NODE, _LAST_NODE = 500, 999_999
_WIDTHS = {3: (24, 8, 16, 8), 4: (24, 24, 8, 16, 8)}
_NODE = re.compile(r"#([1-9][0-9]{2,5})", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)
_BEGIN = re.compile(r"#BOS\s+(\d{1,9})(.*)", re.ASCII)
_END = re.compile(r"#EOS\s+(\d{1,9})\s*", re.ASCII)
_NOT_A_WORD = re.compile(r"#(BOS|EOS|[1-9][0-9]{2,5}$)", re.ASCII)
NO_VALUE = "--"


@dataclass
class ExportNode:
    """A line of a sentence, a word or a constituent.

    Attributes
    ----------
    name : str
        The word, or ``#`` and the number of the constituent.
    tag, morphology, edge, lemma : str
        ``--`` if there is none.
    parent : int
        The number of a constituent; 0 is the root.
    secondary : list of (label, parent)
    comment : str
        Text after ``%%``; "" if there is none.
    """

    name: str
    tag: str
    morphology: str = NO_VALUE
    edge: str = NO_VALUE
    parent: int = 0
    lemma: str = NO_VALUE
    secondary: list[tuple[str, int]] = field(default_factory=list)
    comment: str = ""


@dataclass
class ExportSentence:
    """One sentence: words in their order, then constituents.

    Attributes
    ----------
    number : int
    origin : str
        Text after the number in the sentence's first line.
    words, constituents : list of ExportNode
        Constituent k is number 500 + k.
    line : int
        The sentence's first line in its file, counted from 1; 0 if there is no file.
    """

    number: int
    words: list[ExportNode]
    constituents: list[ExportNode]
    origin: str = ""
    line: int = 0

    def tree(self, crossing: str = "raise") -> Tree:
        """The tree without edge labels, under an outer bracket without a label.

        Parameters
        ----------
        crossing : {"raise", "error"}
            What to do with a constituent whose words are not consecutive. "raise" attaches the children that are not
            beside its head (the edge HD, else the child with most words) to its parent.
        """
        order = self._from_below()
        below: list[list[_Branch]] = [[] for _ in range(len(order) + 1)]  # the last is the root's
        for place, word in enumerate(self.words):
            leaf = Tree(word.tag, word.name)
            below[_slot(word.parent)].append(_Branch(place, place + 1, leaf, word.edge == "HD"))
        for k in order:
            node = self.constituents[k]
            blocks = _blocks(below[k])
            if len(blocks) > 1 and crossing == "error":
                what = f"sentence {self.number}: constituent {node.name} ({node.tag}) is interrupted"
                raise InputError(f"{what}; such trees have no brackets")
            kept = max(
                blocks, key=lambda block: (any(b.is_head for b in block), block[-1].end - block[0].first)
            )
            parent = below[_slot(node.parent)]
            tree = Tree(node.tag, [branch.tree for branch in kept])
            parent.append(_Branch(kept[0].first, kept[-1].end, tree, node.edge == "HD"))
            parent.extend(branch for block in blocks if block is not kept for branch in block)
        return Tree("", [branch.tree for branch in sorted(below[-1], key=lambda branch: branch.first)])

    def is_continuous(self) -> bool:
        """Whether the words of every constituent are consecutive."""
        try:
            self.tree(crossing="error")
        except InputError:
            return False
        return True

    def _from_below(self) -> list[int]:
        """Constituents in an order in which children come before parents."""
        waiting = [0] * len(self.constituents)
        for node in self.constituents:
            if node.parent:
                waiting[node.parent - _FIRST_NODE] += 1
        ready = [k for k, n in enumerate(waiting) if n == 0]
        order = []
        while ready:
            k = ready.pop()
            order.append(k)
            parent = self.constituents[k].parent
            if parent:
                waiting[parent - _FIRST_NODE] -= 1
                if waiting[parent - _FIRST_NODE] == 0:
                    ready.append(parent - _FIRST_NODE)
        return order


@dataclass
class _Branch:
    first: int
    end: int
    tree: Tree
    is_head: bool


def _slot(parent: int) -> int:
    return parent - _FIRST_NODE if parent else -1


def _blocks(branches: list[_Branch]) -> list[list[_Branch]]:
    """Branches from left to right, cut at words of other constituents."""
    blocks: list[list[_Branch]] = []
    for branch in sorted(branches, key=lambda branch: branch.first):
        if blocks and blocks[-1][-1].end == branch.first:
            blocks[-1].append(branch)
        else:
            blocks.append([branch])
    return blocks


@dataclass
class ExportTreebank:
    """Sentences of an export file.

    Attributes
    ----------
    sentences : list of ExportSentence
    version : {3, 4}
        Version 4 has lemmas.
    preamble : list of str
        Lines before the first sentence: version, tables and comments.
    """

    sentences: list[ExportSentence]
    version: int = 3
    preamble: list[str] = field(default_factory=list)


def export_sentence(tree: Tree, number: int = 1) -> ExportSentence:
    """A tree as a sentence. Constituents are numbered from the bottom up, from left to right.

    An outer bracket without a label becomes the root, which has no line; any other top is a constituent under it.
    """
    words: list[ExportNode] = []
    constituents: list[ExportNode] = []

    def make(node: Tree, below: list[ExportNode]) -> ExportNode:
        if node.word is not None:
            words.append(ExportNode(node.word, node.label))
            return words[-1]
        if node is tree and node.label == "":
            return ExportNode("", "")
        own = ExportNode(f"#{_FIRST_NODE + len(constituents)}", node.label)
        constituents.append(own)
        for child in below:
            child.parent = int(own.name[1:])
        return own

    fold(tree, make)
    if len(constituents) > _LAST_NODE - _FIRST_NODE:
        raise InputError(
            f"sentence {number} has {len(constituents)} constituents, too many for an export file"
        )
    return ExportSentence(number, words, constituents)


def write_export(handle: TextIO, treebank: ExportTreebank | Iterable[Tree]) -> None:
    """Write a treebank, or trees as sentences 1, 2, … of version 3."""
    if not isinstance(treebank, ExportTreebank):
        treebank = ExportTreebank([export_sentence(tree, i) for i, tree in enumerate(treebank, 1)])
    pieces = [f"{line}\n" for line in treebank.preamble]
    for sentence in treebank.sentences:
        pieces.append(f"#BOS {sentence.number}{sentence.origin}\n")
        for word in sentence.words:
            if _NOT_A_WORD.match(word.name):
                raise InputError(f"word {shortened(word.name)} cannot be written in an export file")
        pieces += [_written(node, treebank.version) for node in (*sentence.words, *sentence.constituents)]
        pieces.append(f"#EOS {sentence.number}\n")
    handle.write("".join(pieces))
    handle.flush()


def _written(node: ExportNode, version: int) -> str:
    fields = [node.name, node.tag, node.morphology, node.edge]
    if version == 4:
        fields.insert(1, node.lemma)
    for each in (*fields, *(label for label, _ in node.secondary)):
        if not each or each.split() != [each] or "%%" in each:
            raise InputError(f"{shortened(each)} cannot be written in an export file")
    # Tabs up to the column's width, at least one.
    aligned = [
        text + "\t" * max(-(-(width - len(text)) // 8), 1)
        for text, width in zip(fields, _WIDTHS[version], strict=True)
    ]
    rest = [str(node.parent)] + [f"\t{label}\t{parent}" for label, parent in node.secondary]
    comment = f"\t%% {node.comment}" if node.comment else ""
    return "".join(aligned) + "".join(rest) + comment + "\n"


def parse_export(text: str, path: object = None) -> ExportTreebank:
    """Read an export file; errors name the line."""
    treebank = ExportTreebank([])
    sentence: ExportSentence | None = None
    in_table = False
    for number, line in enumerate(text.split("\n"), 1):
        if sentence is None:
            if match := _BEGIN.fullmatch(line):
                sentence = ExportSentence(int(match[1]), [], [], match[2].rstrip(), number)
            elif line.startswith("#FORMAT"):
                treebank.version = _version(line, path, number)
                treebank.preamble.append(line)
            elif line.startswith(("#BOT", "#EOT")) or in_table or line.startswith("%%"):
                in_table = not line.startswith("#EOT") and (in_table or line.startswith("#BOT"))
                if not treebank.sentences:
                    treebank.preamble.append(line)
            elif line.strip():
                raise InputError(f"{shortened(line)} is outside all sentences (#BOS … #EOS)", path, number)
        elif match := _END.fullmatch(line):
            if int(match[1]) != sentence.number:
                raise InputError(f"sentence {sentence.number} ends as {match[1]}", path, number)
            _check(sentence, path)
            treebank.sentences.append(sentence)
            sentence = None
        elif line.startswith("#BOS") or not line.strip():
            raise InputError(f"sentence {sentence.number} has no end before this line", path, number)
        else:
            _add_node(sentence, line, treebank.version, path, number)
    if sentence is not None:
        raise InputError(f"sentence {sentence.number}, begun here, has no end", path, sentence.line)
    return treebank


def _version(line: str, path: object, number: int) -> int:
    fields = line.split()
    if len(fields) != 2 or fields[1] not in ("3", "4"):
        raise InputError(f"{shortened(line)}: versions 3 and 4 are known", path, number)
    return int(fields[1])


def _add_node(sentence: ExportSentence, line: str, version: int, path: object, number: int) -> None:
    data, _, comment = line.partition("%%")
    fields = data.split()
    n_fields = version + 2
    if len(fields) < n_fields or (len(fields) - n_fields) % 2:
        what = f"{len(fields)} columns; version {version} has {n_fields}, and pairs of label and parent"
        raise InputError(what, path, number)
    parents = [fields[n_fields - 1], *fields[n_fields + 1 :: 2]]
    for parent in parents:
        if not _NUMBER.fullmatch(parent) or 0 < int(parent) < _FIRST_NODE:
            raise InputError(
                f"parent {shortened(parent)} is neither 0 nor a number from 500 on", path, number
            )
    lemma = fields.pop(1) if version == 4 else NO_VALUE
    labels = fields[5::2]
    secondary = [(label, int(parent)) for label, parent in zip(labels, parents[1:], strict=True)]
    name, tag, morphology, edge = fields[:4]
    node = ExportNode(name, tag, morphology, edge, int(parents[0]), lemma, secondary, comment.strip())
    if match := _NODE.fullmatch(node.name):
        due = _FIRST_NODE + len(sentence.constituents)
        if int(match[1]) != due:
            raise InputError(f"constituent {node.name} where #{due} is due", path, number)
        sentence.constituents.append(node)
    elif sentence.constituents:
        raise InputError(f"word {shortened(node.name)} after constituents", path, number)
    else:
        sentence.words.append(node)


def _check(sentence: ExportSentence, path: object) -> None:
    """Raise unless every parent exists, every constituent has children, and no node is above itself."""
    n_words, known = len(sentence.words), len(sentence.constituents)
    if not n_words:
        raise InputError(f"sentence {sentence.number} has no words", path, sentence.line)
    has_children = [False] * known
    for index, node in enumerate((*sentence.words, *sentence.constituents)):
        for parent in (node.parent, *(each for _, each in node.secondary)):
            if parent >= _FIRST_NODE + known:
                line = sentence.line + 1 + index
                raise InputError(f"parent {parent} is no constituent of this sentence", path, line)
        if node.parent:
            has_children[node.parent - _FIRST_NODE] = True
    if not all(has_children):
        k = has_children.index(False)
        line = sentence.line + 1 + n_words + k
        raise InputError(f"constituent #{_FIRST_NODE + k} has no children", path, line)
    order = sentence._from_below()
    if len(order) < known:
        k = min(set(range(known)) - set(order))
        line = sentence.line + 1 + n_words + k
        raise InputError(f"constituent #{_FIRST_NODE + k} is above itself", path, line)
