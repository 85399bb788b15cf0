"""What the problems of `regret.py` are made of: features, labels and structures, made up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows, RowData
from partwise.structures import Chain, Multiclass, Projective

BETWEEN = Loss(4.0, 1.0)


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


class Data(NamedTuple):
    """What a problem is built from, besides loss and regulariser."""

    structure: Any
    labels: np.ndarray
    shapes: Any
    rows: dict[str, RowData]
    example_weight: np.ndarray | None = None


# -- features ---------------------------------------------------------------------------------------


def dense_columns(
    n: int, width: int, labels: np.ndarray, random: np.random.Generator, scales: Any = 1.0
) -> np.ndarray:
    """Independent normal features whose means differ a little between labels."""
    means = random.normal(size=(labels.max() + 1, width)) * 0.3
    return ((random.normal(size=(n, width)) + means[labels]) * scales).astype(np.float32)


def correlated_columns(n: int, width: int, labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Mixed by a random rotation after scaling by 1 to 0.01."""
    rotation = np.linalg.qr(random.normal(size=(width, width)))[0]
    plain = dense_columns(n, width, labels, random, np.logspace(0, -2, width))
    return (plain @ rotation).astype(np.float32)


def word_rows(
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


def node_rows(
    n_labels: int, n_words: int, sparse: AttributeRows | None, dense: np.ndarray | None
) -> dict[str, RowData]:
    width = 0 if dense is None else dense.shape[1]
    return {"node": RowData(FeatureMap.build(n_labels, n_words, width), sparse, dense)}


# -- classes and chains -----------------------------------------------------------------------------


def class_data(n: int, n_labels: int, kind: str, width: int, size: int = 30, seed: int = 0) -> Data:
    random = np.random.default_rng(seed)
    labels = random.integers(n_labels, size=n)
    rows = node_features(labels, n_labels, kind, width, size, random)
    return Data(Multiclass(n_labels), labels, np.ones(n, int), rows)


def chain_data(
    n: int,
    n_labels: int,
    kind: str,
    width: int,
    size: int = 10,
    seed: int = 0,
    lengths: tuple[int, int] = (5, 41),
    skew: float = 3.0,
    order: int = 1,
) -> Data:
    """`n` positions in chains of these `lengths`, labels from a Markov chain: the larger `skew`, the surer."""
    random = np.random.default_rng(seed)
    next_label = random.permuted(np.tile(np.arange(n_labels), (n_labels, 1)), axis=1)
    labels = np.zeros(n, np.int64)
    for t in range(1, n):
        labels[t] = next_label[labels[t - 1], int(n_labels * random.random() ** skew)]
    sizes = random.integers(*lengths, size=n)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), n) + 1]
    sizes[-1] -= sizes.sum() - n
    rows = node_features(labels, n_labels, kind, width, size, random)
    return Data(Chain(n_labels, order=order), labels, sizes, rows)


def node_features(
    labels: np.ndarray, n_labels: int, kind: str, width: int, size: int, random: np.random.Generator
) -> dict[str, RowData]:
    n = len(labels)
    if kind == "dense":
        return node_rows(n_labels, 0, None, dense_columns(n, width, labels, random))
    if kind == "correlated":
        return node_rows(n_labels, 0, None, correlated_columns(n, width, labels, random))
    if kind == "scaled":
        return node_rows(
            n_labels, 0, None, dense_columns(n, width, labels, random, np.logspace(1.5, -2, width))
        )
    if kind == "embedded":  # a fixed random vector for every word
        own = word_rows(n, 3000, 1, labels, random)
        return node_rows(n_labels, 0, None, random.normal(size=(3000, width)).astype(np.float32)[own.ids])
    if kind == "mixed":
        return node_rows(
            n_labels,
            5000,
            word_rows(n, 5000, size, labels, random),
            correlated_columns(n, width, labels, random),
        )
    if kind == "scaled and words":
        scaled = dense_columns(n, width, labels, random, np.logspace(1.5, -2, width))
        return node_rows(n_labels, 5000, word_rows(n, 5000, size, labels, random), scaled)
    return node_rows(n_labels, width, word_rows(n, width, size, labels, random), None)


# -- trees ------------------------------------------------------------------------------------------


def tree_data(n: int, structure: Any, seed: int = 0, lengths: tuple[int, int] = (4, 25)) -> Data:
    """Heads lie before their words and are chosen by hidden scores of pairs of word classes."""
    random = np.random.default_rng(seed)
    sizes = random.integers(*lengths, size=n)
    shapes = structure.shapes(sizes)
    arcs = structure.arcs_of(shapes)
    first = np.cumsum(sizes + 1) - sizes - 1
    word = np.minimum(random.zipf(1.5, size=int((sizes + 1).sum())), 500) - 1
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
