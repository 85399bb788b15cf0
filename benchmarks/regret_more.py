"""Further problems of `regret.py --more`: kinds of data that users bring, other than those its rules were found on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from regret_data import (
    BETWEEN,
    Case,
    Data,
    chain_data,
    class_data,
    correlated_columns,
    dense_columns,
    node_rows,
    tree_data,
    word_rows,
)

from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows, RowData
from partwise.structures import (
    FactorKind,
    Grammar,
    Graph,
    GraphShape,
    Multiclass,
    Projective,
    SemiMarkov,
    Spanning,
)

CASES = [
    *(Case("2 classes, 5 columns", loss, 1.0) for loss in ("log", "hinge", BETWEEN)),
    *(Case("20 standardised columns", "log", l2) for l2 in (1.0, 1e-4)),
    *(Case("20 standardised columns", "hinge", l2) for l2 in (1.0, 0.01)),
    *(Case("flowers", "log", l2) for l2 in (1.0, 0.01)),
    Case("flowers", "hinge", 1.0),
    *(Case("digits", "log", l2) for l2 in (1.0, 0.01)),
    *(Case("digits", "hinge", l2) for l2 in (100.0, 1.0)),
    *(Case("tf-idf", "log", l2) for l2 in (1.0, 0.01)),
    *(Case("tf-idf", loss, 1.0) for loss in ("hinge", "softmax_margin")),
    Case("tf-idf", "hinge", 0.01),
    Case("tf-idf", "log", 0.1, l1=0.1),
    *(Case("tf-idf, 1000 classes", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("one-hot and large columns", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("one-hot and large, sparse", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("99 to 1", "log", l2) for l2 in (1.0, 0.01)),
    Case("99 to 1", "hinge", 1.0),
    *(Case("repeated rows", loss, 0.1) for loss in ("log", "hinge")),
    *(Case("genes", "log", l2) for l2 in (1.0, 0.01)),
    *(Case("genes", loss, 1.0) for loss in ("hinge", BETWEEN)),
    Case("genes", "log", 1.0, l1=1.0),
    *(Case("weighted dense classes", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("weighted texts", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("2 label chains", loss, 1.0) for loss in ("log", "hinge", "softmax_margin")),
    *(Case("100 labels", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("long chains", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("short chains", loss, 1.0) for loss in ("log", "hinge", BETWEEN)),
    *(Case("real columns and words, chains", loss, 1.0) for loss in ("log", "hinge")),
    Case("real columns and words, chains", "log", 0.5, l1=0.5),
    *(Case("order 2 chains", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("mostly O", "log", l2) for l2 in (1.0, 0.1)),
    Case("mostly O", "hinge", 1.0),
    *(Case("300 columns a word", "log", l2) for l2 in (300.0, 1.0)),
    *(Case("300 columns a word", "hinge", l2) for l2 in (300.0, 1.0)),
    *(Case("standardised chains", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("long projective trees", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("long spanning trees", loss, 1.0) for loss in ("log", "hinge", BETWEEN)),
    *(Case("segments", loss, 1.0) for loss in ("log", "hinge", "softmax_margin")),
    *(Case("small grammar", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("grids", loss, 1.0) for loss in ("log", "hinge", BETWEEN)),
]


# -- classes ----------------------------------------------------------------------------------------


def _flowers() -> Data:
    """150 rows of four lengths in centimetres, none of them centred, and an intercept."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 50)
    means = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    columns = means[labels] + random.normal(size=(150, 4)) * [0.5, 0.35, 0.4, 0.2]
    return _classes_of(labels, np.column_stack([columns, np.ones(150)]))


def _digits() -> Data:
    """1,800 rows of 64 whole numbers from 0 to 16, many of them mostly zero."""
    random = np.random.default_rng(0)
    labels = random.integers(10, size=1800)
    shapes = random.normal(size=(10, 64)) * 7 + np.linspace(-8, 10, 64)
    return _classes_of(labels, np.clip(shapes[labels] + random.normal(size=(1800, 64)) * 6, 0, 16).round())


def _classes_of(
    labels: np.ndarray, columns: np.ndarray, words: AttributeRows | None = None, d: int = 0
) -> Data:
    k = int(labels.max()) + 1
    rows = node_rows(k, d, words, columns.astype(np.float32) if columns.size else None)
    return Data(Multiclass(k), labels, np.ones(len(labels), int), rows)


def _tf_idf(n: int, n_labels: int, n_words: int, size: int) -> Data:
    """Rows of length one, rare words weighing more."""
    random = np.random.default_rng(0)
    labels = random.integers(n_labels, size=n)
    rows = word_rows(n, n_words, size, labels, random)
    weight = np.log(n / (1.0 + np.bincount(rows.ids, minlength=n_words)))[rows.ids] + 1.0
    length = np.sqrt(np.add.reduceat(weight**2, rows.row_ptr[:-1]))
    values = weight / np.repeat(length, np.diff(rows.row_ptr))
    return _classes_of(labels, np.zeros((n, 0)), AttributeRows(rows.row_ptr, rows.ids, values), n_words)


def _one_hot(is_sparse: bool, n: int = 20000, n_categories: int = 10, n_levels: int = 20) -> Data:
    """Ten categories of twenty levels, and three numeric columns about 1e4 in size."""
    random = np.random.default_rng(0)
    levels = np.minimum(random.zipf(1.4, size=(n, n_categories)), n_levels) - 1
    ids = levels + n_levels * np.arange(n_categories)
    columns = random.lognormal(0.0, 0.5, size=(n, 3)) * 1e4
    score = random.normal(size=n_levels * n_categories)[ids].sum(axis=1) + columns @ [1e-4, -1e-4, 5e-5]
    labels = (score + 2.0 * random.logistic(size=n) > np.median(score)).astype(int)
    if not is_sparse:
        rows = AttributeRows(n_categories * np.arange(n + 1), ids.ravel().astype(np.int32), None)
        return _classes_of(labels, columns, rows, n_levels * n_categories)
    width = n_levels * n_categories
    ids = np.column_stack([ids, np.tile(width + np.arange(3), (n, 1))])
    values = np.column_stack([np.ones((n, n_categories)), columns])
    rows = AttributeRows((n_categories + 3) * np.arange(n + 1), ids.ravel().astype(np.int32), values.ravel())
    return _classes_of(labels, np.zeros((n, 0)), rows, width + 3)


def _unbalanced() -> Data:
    random = np.random.default_rng(0)
    labels = (random.random(20000) < 0.01).astype(int)
    return _classes_of(labels, 2.0 * dense_columns(20000, 30, labels, random))


def _repeated() -> Data:
    """20,000 rows, 300 of them different, with labels that do not always agree."""
    random = np.random.default_rng(0)
    labels = random.integers(5, size=300)
    columns, which = correlated_columns(300, 30, labels, random), random.integers(300, size=20000)
    noisy = np.where(random.random(20000) < 0.1, random.integers(5, size=20000), labels[which])
    return _classes_of(noisy, columns[which])


def _weighted(data: Data) -> Data:
    """Weights from 0.01 to 100."""
    return data._replace(example_weight=10.0 ** np.random.default_rng(0).uniform(-2, 2, len(data.shapes)))


# -- chains, segments, grammars, graphs ---------------------------------------------------------------


def _real_chains() -> Data:
    """Five columns of any scale and eight words a position, both with real values."""
    data = chain_data(10000, 9, "sparse", 5000)
    random = np.random.default_rng(1)
    columns = dense_columns(10000, 5, data.labels, random, np.logspace(1, -1, 5))
    rows = node_rows(9, 5000, word_rows(10000, 5000, 8, data.labels, random, real=True), columns)
    return data._replace(rows=rows)


def _mostly_o(n: int = 20000) -> Data:
    """Nine labels, B and I of four kinds of names after an O that has nineteen positions in twenty."""
    random = np.random.default_rng(0)
    labels = np.zeros(n, np.int64)
    for t in range(1, n):
        before, kind = labels[t - 1], random.integers(4)
        goes_on = before > 0 and random.random() < 0.4
        labels[t] = (
            1 + (before - 1) // 2 * 2 + 1 if goes_on else 1 + 2 * kind if random.random() < 0.03 else 0
        )
    data = chain_data(n, 9, "sparse", 20000)
    return data._replace(
        labels=labels, rows=node_rows(9, 20000, word_rows(n, 20000, 12, labels, random), None)
    )


def _segments(n: int = 400, n_labels: int = 4, longest: int = 5) -> Data:
    """Sentences of 5 to 30 words in segments of up to five, each seen by its length and its first and last word."""
    random, structure = np.random.default_rng(0), SemiMarkov(n_labels, longest, tokens=True)
    lengths, tags = random.integers(5, 31, size=n), []
    for length in lengths:
        at = 0
        while at < length:
            size = min(int(random.integers(1, longest + 1)), int(length) - at)
            tags += [2 * (label := int(random.integers(n_labels)))] + [2 * label + 1] * (size - 1)
            at += size
    labels, shapes = np.array(tags), structure.shapes(lengths)
    word = np.minimum(random.zipf(1.5, size=len(labels)) + 50 * (labels // 2), 999)
    starting = structure.n_starting(shapes)
    start = np.repeat(np.arange(len(labels)), starting)
    size = np.arange(len(start)) - np.repeat(np.cumsum(starting) - starting, starting)
    ids = np.column_stack([size, longest + word[start], longest + 1000 + word[start + size]])
    of_segments = AttributeRows(3 * np.arange(len(ids) + 1), ids.ravel().astype(np.int32), None)
    of_tokens = AttributeRows(np.arange(len(word) + 1), word.astype(np.int32), None)
    rows = {
        "segment": RowData(FeatureMap.build(n_labels, longest + 2000), of_segments),
        "token": RowData(FeatureMap.build(2 * n_labels, 1000), of_tokens),
    }
    return Data(structure, labels, shapes, rows)


def _grammar(n: int = 100, n_inner: int = 4, n_tags: int = 4) -> Data:
    """Random trees over 3 to 12 words in a grammar with all rules, words typical of their tags."""
    random, n_symbols = np.random.default_rng(0), n_inner + n_tags
    rules = np.array(list(np.ndindex(n_inner, n_symbols, n_symbols)))
    structure = Grammar(n_symbols, rules, word_symbols=np.arange(n_inner, n_symbols))

    def nodes(first: int, last: int, symbol: int) -> list[tuple[int, int, int]]:
        if first == last:
            return [(first, last, n_inner + int(random.integers(n_tags)))]
        split, below = int(random.integers(first, last)), random.integers(n_inner, size=2)
        left, right = nodes(first, split, int(below[0])), nodes(split + 1, last, int(below[1]))
        return [(first, last, symbol), *left, *right]

    lengths = random.integers(3, 13, size=n)
    derivations = [np.array(nodes(0, int(length) - 1, 0)) for length in lengths]
    labels, shapes = (
        np.concatenate([structure.labels_of(each) for each in derivations]),
        structure.shapes(lengths),
    )
    tags = np.concatenate([each[each[:, 0] == each[:, 1], 2] for each in derivations]) - n_inner
    ptr, first, last = structure.spans_of(shapes)
    before = np.repeat(np.cumsum(lengths) - lengths, np.diff(ptr))
    word = np.minimum(random.zipf(1.5, size=len(tags)) + 30 * tags, 199)
    ids = np.column_stack([np.minimum(last - first, 9), 10 + word[before + first], 210 + word[before + last]])
    kinds = {kind.name: kind for kind in structure.kinds}
    of_words = AttributeRows(np.arange(len(word) + 1), word.astype(np.int32), None)
    of_spans = AttributeRows(3 * np.arange(len(ids) + 1), ids.ravel().astype(np.int32), None)
    rows = {
        "word": RowData(FeatureMap.build(kinds["word"].width, 200), of_words),
        "span": RowData(FeatureMap.build(kinds["span"].width, 410), of_spans),
    }
    return Data(structure, labels, shapes, rows)


def _grids(n: int = 200, side: int = 4, n_labels: int = 3) -> Data:
    """Squares of pixels with ten noisy columns each, neighbours mostly alike."""
    random = np.random.default_rng(0)
    at = np.arange(side * side).reshape(side, side)
    edges = np.vstack([np.column_stack([a.ravel(), b.ravel()]) for a, b in
                       ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))])  # fmt: skip
    structure = Graph({"pixel": n_labels}, [FactorKind("edge", ("pixel", "pixel"), True)])
    shapes = structure.shapes_of([GraphShape(np.zeros(side * side, np.int64), [edges])] * n)
    coarse = random.integers(n_labels, size=(n, side // 2, side // 2))
    labels = coarse.repeat(2, axis=1).repeat(2, axis=2).ravel()
    columns = dense_columns(len(labels), 10, labels, random)
    return Data(
        structure, labels, shapes, {"pixel": RowData(FeatureMap.build(n_labels, 0, 10), None, columns)}
    )


MADE: dict[str, Callable[[], Data]] = {
    "2 classes, 5 columns": lambda: class_data(100_000, 2, "dense", 5),
    "20 standardised columns": lambda: class_data(1000, 3, "dense", 20),
    "flowers": _flowers,
    "digits": _digits,
    "tf-idf": lambda: _tf_idf(10000, 20, 20000, 80),
    "tf-idf, 1000 classes": lambda: _tf_idf(5000, 1000, 10000, 40),
    "one-hot and large columns": lambda: _one_hot(False),
    "one-hot and large, sparse": lambda: _one_hot(True),
    "99 to 1": _unbalanced,
    "repeated rows": _repeated,
    "genes": lambda: class_data(100, 3, "dense", 5000),
    "weighted dense classes": lambda: _weighted(class_data(5000, 4, "dense", 30)),
    "weighted texts": lambda: _weighted(class_data(5000, 10, "sparse", 10000, 40)),
    "2 label chains": lambda: chain_data(20000, 2, "sparse", 5000),
    "100 labels": lambda: chain_data(5000, 100, "sparse", 5000),
    "long chains": lambda: chain_data(50000, 5, "sparse", 10000, lengths=(5000, 5001)),
    "short chains": lambda: chain_data(20000, 9, "sparse", 10000, lengths=(1, 4)),
    "real columns and words, chains": _real_chains,
    "order 2 chains": lambda: chain_data(5000, 9, "sparse", 5000, order=2),
    "mostly O": _mostly_o,
    "300 columns a word": lambda: chain_data(50000, 20, "embedded", 300),
    "standardised chains": lambda: chain_data(6000, 5, "dense", 100),
    "long projective trees": lambda: tree_data(10, Projective(single_root=False), lengths=(60, 100)),
    "long spanning trees": lambda: tree_data(10, Spanning(single_root=False), lengths=(60, 100)),
    "segments": _segments,
    "small grammar": _grammar,
    "grids": _grids,
}
