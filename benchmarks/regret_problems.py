"""The problems of `regret.py`: made up, small to middling, of every kind; and real ones where the data are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.structures import Chain, Multiclass, Projective, Spanning

BETWEEN = Loss(4.0, 1.0)
_TEMPLATES = {"conll2000": "chunking", "conll2002-es": "ner"}  # the first 3,000 sentences


class Case(NamedTuple):
    """One line of the table: data by name, loss, l2, l1, and whether it belongs to the quick subset."""

    data: str
    loss: str | Loss
    l2: float
    quick: bool = False
    l1: float = 0.0

    @property
    def name(self) -> str:
        loss = self.loss if isinstance(self.loss, str) else f"({self.loss.beta:g}, {self.loss.gamma:g})"
        return f"{self.data} {loss} l2={self.l2:g}" + (f" l1={self.l1:g}" if self.l1 else "")


CASES = [
    Case("tiny classes", "log", 1.0, True),
    Case("tiny classes", "log", 0.01, True),
    Case("tiny classes", "hinge", 1.0, True),
    Case("tiny classes", "hinge", 0.01),
    Case("tiny chains", "log", 0.1, True),
    Case("tiny chains", "hinge", 0.1),
    *(Case("dense classes", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    Case("dense classes", "hinge", 10.0),
    Case("dense classes", BETWEEN, 1.0),
    *(Case("correlated classes", "log", l2, l2 == 0.01) for l2 in (10.0, 0.1, 0.01)),
    Case("correlated classes", "hinge", 10.0, True),
    *(Case("badly scaled classes", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    *(Case("text classes", "log", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    *(Case("text classes", "hinge", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    Case("text classes", BETWEEN, 1.0),
    Case("text classes", "log", 1.0, l1=1.0),
    Case("300 classes", "log", 1.0),
    Case("300 classes", "hinge", 1.0, True),
    Case("mixed classes", "log", 1.0, True),
    Case("mixed classes", "hinge", 1.0),
    *(Case("dense chains", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    Case("dense chains", "hinge", 100.0),
    Case("embedded chains", "log", 1.0),
    *(Case("text chains", "log", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    *(Case("text chains", "hinge", l2, l2 == 10.0) for l2 in (10.0, 1.0)),
    Case("text chains", BETWEEN, 1.0),
    Case("text chains", "log", 0.5, l1=0.5),
    Case("45 labels chains", "log", 1.0),
    Case("45 labels chains", "hinge", 3.0),
    Case("mixed chains", "log", 1.0, True),
    Case("mixed chains", BETWEEN, 0.1),
    *(Case("spanning trees", "log", l2, l2 == 3.0) for l2 in (3.0, 0.1)),
    Case("spanning trees", "hinge", 3.0, True),
    Case("projective trees", "log", 1.0),
    Case("projective trees", "hinge", 3.0),
    *(Case("ten sentences", "log", l2, l2 == 0.1) for l2 in (0.1, 0.001)),
    Case("ten sentences", "hinge", 0.1),
    *(Case("small chains", "log", l2) for l2 in (1.0, 0.001)),
    Case("small mixed chains", "log", 0.01),
    Case("120 labels chains", "log", 0.1),
    Case("small texts", "log", 0.01),
    Case("small texts", "hinge", 0.1),
    *(Case("small dense classes", "log", l2) for l2 in (1.0, 0.01)),
    Case("small dense classes", "hinge", 0.01),
    *(Case("badly scaled mixed classes", "log", l2) for l2 in (10.0, 0.1)),
    *(Case("few projective trees", "log", l2) for l2 in (1.0, 0.01)),
    Case("few spanning trees", "log", 0.1),
    *(Case("mnist", "log", l2) for l2 in (1000.0, 100.0, 10.0, 0.01)),
    *(Case("mnist", "hinge", l2) for l2 in (1000.0, 10.0)),
    *(Case("conll2000", "log", l2) for l2 in (2.0, 0.1)),
    Case("conll2000", "hinge", 10.0),
    *(Case("conll2002-es", "log", l2) for l2 in (1.0, 0.01)),
]


class Data(NamedTuple):
    """What a problem is built from, besides loss and regulariser."""

    structure: Any
    labels: np.ndarray
    shapes: Any
    rows: dict[str, RowData]


def build(case: Case, folder: Path | None) -> Problem | None:
    """The problem of a case; None where its data are not there."""
    if case.data not in _MADE and (folder is None or not (folder / case.data).is_dir()):
        return None
    if case.data in _TEMPLATES:
        from sequence import build_problem

        return build_problem(
            Path(folder or "") / case.data, case.l2, "observed", case.loss, l1=case.l1,
            template=_TEMPLATES[case.data], n_sentences=3000,
        )  # fmt: skip
    data = _data(case.data, folder)
    return Problem.build(
        data.structure, data.labels, data.shapes, data.rows, loss=case.loss, l2=case.l2, l1=case.l1
    )


@cache
def _data(name: str, folder: Path | None) -> Data:
    return _MADE[name]() if name in _MADE else _mnist(Path(folder or "") / name)


# -- features ---------------------------------------------------------------------------------------


def _dense(
    n: int, width: int, labels: np.ndarray, random: np.random.Generator, scales: Any = 1.0
) -> np.ndarray:
    """Independent normal features whose means differ a little between labels."""
    means = random.normal(size=(labels.max() + 1, width)) * 0.3
    return ((random.normal(size=(n, width)) + means[labels]) * scales).astype(np.float32)


def _correlated(n: int, width: int, labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Mixed by a random rotation after scaling by 1 to 0.01."""
    rotation = np.linalg.qr(random.normal(size=(width, width)))[0]
    plain = _dense(n, width, labels, random, np.logspace(0, -2, width))
    return (plain @ rotation).astype(np.float32)


def _words(
    n: int, n_words: int, size: int, labels: np.ndarray, random: np.random.Generator, real: bool = False
) -> AttributeRows:
    """`size` attributes a row, frequencies as of words, most of them typical of some label."""
    rank = np.minimum(random.zipf(1.3, size=(n, size)), n_words) - 1
    own = (rank * 7 + labels[:, None] * 13 + 1) % n_words
    ids = np.where(random.random((n, size)) < 0.4, own, rank).astype(np.int32)
    ids.sort(axis=1)
    keep = np.column_stack([np.ones(n, bool), np.diff(ids, axis=1) > 0])
    ptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    values = random.random(int(ptr[-1])) if real else None
    return AttributeRows(ptr, ids[keep], values)


def _node(
    n_labels: int, n_words: int, sparse: AttributeRows | None, dense: np.ndarray | None
) -> dict[str, RowData]:
    width = 0 if dense is None else dense.shape[1]
    return {"node": RowData(FeatureMap.build(n_labels, n_words, width), sparse, dense)}


# -- classes and chains -----------------------------------------------------------------------------


def _classes(n: int, n_labels: int, kind: str, width: int, size: int = 30, seed: int = 0) -> Data:
    random = np.random.default_rng(seed)
    labels = random.integers(n_labels, size=n)
    rows = _features(labels, n_labels, kind, width, size, random)
    return Data(Multiclass(n_labels), labels, np.ones(n, int), rows)


def _chains(n: int, n_labels: int, kind: str, width: int, size: int = 10, seed: int = 0) -> Data:
    """`n` positions in chains of 5 to 40, labels from a Markov chain."""
    random = np.random.default_rng(seed)
    next_label = random.permuted(np.tile(np.arange(n_labels), (n_labels, 1)), axis=1)
    labels = np.zeros(n, np.int64)
    for t in range(1, n):
        labels[t] = next_label[labels[t - 1], int(n_labels * random.random() ** 3)]
    lengths = random.integers(5, 41, size=n)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), n) + 1]
    lengths[-1] -= lengths.sum() - n
    rows = _features(labels, n_labels, kind, width, size, random)
    return Data(Chain(n_labels), labels, lengths, rows)


def _features(
    labels: np.ndarray, n_labels: int, kind: str, width: int, size: int, random: np.random.Generator
) -> dict[str, RowData]:
    n = len(labels)
    if kind == "dense":
        return _node(n_labels, 0, None, _dense(n, width, labels, random))
    if kind == "correlated":
        return _node(n_labels, 0, None, _correlated(n, width, labels, random))
    if kind == "scaled":
        return _node(n_labels, 0, None, _dense(n, width, labels, random, np.logspace(1.5, -2, width)))
    if kind == "embedded":  # a fixed random vector for every word
        words = _words(n, 3000, 1, labels, random)
        return _node(n_labels, 0, None, random.normal(size=(3000, width)).astype(np.float32)[words.ids])
    if kind == "mixed":
        return _node(
            n_labels, 5000, _words(n, 5000, size, labels, random), _correlated(n, width, labels, random)
        )
    if kind == "scaled and words":
        scaled = _dense(n, width, labels, random, np.logspace(1.5, -2, width))
        return _node(n_labels, 5000, _words(n, 5000, size, labels, random), scaled)
    return _node(n_labels, width, _words(n, width, size, labels, random), None)


# -- trees ------------------------------------------------------------------------------------------


def _trees(n: int, structure: Any, seed: int = 0) -> Data:
    """Heads lie before their words and are chosen by hidden scores of pairs of word classes."""
    random = np.random.default_rng(seed)
    lengths = random.integers(4, 25, size=n)
    shapes = structure.shapes(lengths)
    arcs = structure.arcs_of(shapes)
    first = np.cumsum(lengths + 1) - lengths - 1
    word = np.minimum(random.zipf(1.5, size=int((lengths + 1).sum())), 500) - 1
    head, modifier = word[first[arcs.sentence] + arcs.head], word[first[arcs.sentence] + arcs.modifier]
    distance = np.clip(arcs.modifier - arcs.head, -5, 5) + 5
    pair = head % 40 * 40 + modifier % 40
    ids = np.column_stack([distance, 11 + head, 511 + modifier, 1011 + pair]).astype(np.int32)
    hidden = random.normal(size=2611)
    score = hidden[ids].sum(axis=1) + random.gumbel(size=len(ids))
    score[arcs.head >= arcs.modifier] = -np.inf
    if isinstance(structure, Projective):  # a chain from left to right, with some words at the root
        score[(arcs.head != arcs.modifier - 1) & (arcs.head != 0)] = -np.inf
    order = np.lexsort((score, arcs.modifier, arcs.sentence))
    last = np.append(np.diff(arcs.sentence[order] * 1000 + arcs.modifier[order]) != 0, True)
    rows = AttributeRows(4 * np.arange(len(ids) + 1), ids.ravel(), None)
    return Data(structure, arcs.head[order[last]], shapes, {"arc": RowData(FeatureMap.build(1, 2611), rows)})


# -- real data --------------------------------------------------------------------------------------


def _mnist(folder: Path) -> Data:
    from multiclass import read

    x, y = (part[:20000] for part in read(folder))
    rows = AttributeRows(x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
    return Data(Multiclass(10), y, np.ones(len(y), int), _node(10, 784, rows, None))


_MADE: dict[str, Callable[[], Data]] = {
    "tiny classes": lambda: _classes(150, 3, "dense", 4),
    "tiny chains": lambda: _chains(300, 4, "sparse", 100, 5),
    "dense classes": lambda: _classes(10000, 10, "dense", 200),
    "correlated classes": lambda: _classes(20000, 5, "correlated", 50),
    "badly scaled classes": lambda: _classes(10000, 5, "scaled", 40),
    "text classes": lambda: _classes(10000, 20, "sparse", 30000, 60),
    "300 classes": lambda: _classes(5000, 300, "sparse", 5000, 20),
    "mixed classes": lambda: _classes(10000, 8, "mixed", 40),
    "dense chains": lambda: _chains(15000, 9, "dense", 150),
    "embedded chains": lambda: _chains(15000, 9, "embedded", 150),
    "text chains": lambda: _chains(20000, 9, "sparse", 20000),
    "45 labels chains": lambda: _chains(10000, 45, "sparse", 10000),
    "mixed chains": lambda: _chains(10000, 9, "mixed", 40),
    "spanning trees": lambda: _trees(300, Spanning(single_root=False)),
    "projective trees": lambda: _trees(300, Projective(single_root=False)),
    "ten sentences": lambda: _chains(120, 5, "sparse", 300, 8),
    "small chains": lambda: _chains(1000, 20, "sparse", 2000, 8),
    "small mixed chains": lambda: _chains(300, 5, "mixed", 20),
    "120 labels chains": lambda: _chains(3000, 120, "sparse", 5000),
    "small texts": lambda: _classes(500, 6, "sparse", 2000, 15),
    "small dense classes": lambda: _classes(500, 5, "dense", 30),
    "badly scaled mixed classes": lambda: _classes(8000, 6, "scaled and words", 40, 10),
    "few projective trees": lambda: _trees(20, Projective(single_root=False)),
    "few spanning trees": lambda: _trees(60, Spanning(single_root=False)),
}
