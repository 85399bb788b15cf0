"""Problems of `regret.py --fresh`: none of them was looked at while `auto` was made, so that they are its test.

Most are made by scikit-learn, by other processes than those of the two tables, or come with it. Handwritten words are
read from `--data`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from regret_data import BETWEEN, Case, Data, chain_data, node_rows, tree_data, word_rows

from partwise.core.rows import AttributeRows
from partwise.structures import Chain, Multiclass, Projective, Spanning

CASES = [
    *(Case("wine", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("breast cancer, standardised", loss, 0.1) for loss in ("log", "hinge")),
    *(Case("scanned digits", "log", l2) for l2 in (10.0, 0.1)),
    Case("scanned digits", "hinge", 30.0),
    *(Case("clusters with flipped labels", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("gaussian quantiles", "log", l2) for l2 in (1.0, 1e-3)),
    *(Case("polynomials of degree 4", "log", l2) for l2 in (1.0, 0.01)),
    *(Case("heavy tails", loss, 1.0) for loss in ("log", "hinge")),
    *(Case("wide dense rows", loss, 10.0) for loss in ("log", "hinge")),
    *(Case("hashed n-grams", "log", l2) for l2 in (3.0, 0.03)),
    Case("hashed n-grams", "hinge", 0.3),
    *(Case("topics", "log", l2) for l2 in (0.1, 0.003)),
    Case("topics", BETWEEN, 0.1),
    Case("long signals", "log", 1.0),
    Case("long signals", "hinge", 100.0),
    Case("250 labels", "log", 0.5),
    *(Case("tagging", "log", l2) for l2 in (1.0, 0.01)),
    Case("tagging", "hinge", 3.0),
    *(Case("sixty sentences", loss, 0.3) for loss in ("log", "hinge")),
    Case("crossing arcs", "log", 0.03),
    *(Case("ocr", "log", l2) for l2 in (1.0, 0.01)),
    Case("ocr", "hinge", 10.0),
    *(Case("blobs that hardly touch", "log", l2) for l2 in (1.0, 0.05, 0.01, 0.003)),
    *(Case("thirty hypercubes", "log", l2) for l2 in (3.0, 0.02)),
    Case("thirty hypercubes", BETWEEN, 0.1),
    *(Case("diabetes in thirds", "log", l2) for l2 in (1.0, 1e-4)),
    *(Case("iris, standardised", "log", l2) for l2 in (1.0, 1e-3)),
    *(Case("gaussian states", "log", l2) for l2 in (30.0, 1.0, 0.01)),
    *(Case("sure gaussian states", "log", l2) for l2 in (3.0, 0.03)),
    *(Case("vectors and words", "log", l2) for l2 in (3.0, 0.03)),
    *(Case("a dozen chains", "log", l2) for l2 in (1.0, 0.01)),
    *(Case("forty long sentences", loss, 0.5) for loss in ("log", BETWEEN)),
    *(Case("500 short trees", "log", l2) for l2 in (2.0, 0.05)),
    *(Case("eight paragraphs", "log", l2) for l2 in (3.0, 0.05)),
    *(Case("gaussian states", "hinge", l2) for l2 in (100.0, 1.0)),
    Case("thirty hypercubes", "hinge", 1.0),
]


def _classes(labels: np.ndarray, columns: np.ndarray) -> Data:
    n_labels = int(labels.max()) + 1
    rows = node_rows(n_labels, 0, None, np.ascontiguousarray(columns, np.float32))
    return Data(Multiclass(n_labels), labels.astype(np.int64), np.ones(len(labels), int), rows)


def _sparse(labels: np.ndarray, matrix: object, real: bool) -> Data:
    from scipy.sparse import csr_matrix

    x, n_labels = csr_matrix(matrix), int(labels.max()) + 1
    x.sort_indices()
    values = x.data.astype(np.float64) if real else None
    rows = AttributeRows(x.indptr.astype(np.int64), x.indices.astype(np.int32), values)
    shapes = np.ones(len(labels), int)
    return Data(
        Multiclass(n_labels), labels.astype(np.int64), shapes, node_rows(n_labels, x.shape[1], rows, None)
    )


def _standardised(columns: np.ndarray) -> np.ndarray:
    spread = columns.std(axis=0)
    standard: np.ndarray = (columns - columns.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return standard


def _wine() -> Data:
    from sklearn.datasets import load_wine

    columns, labels = load_wine(return_X_y=True)
    return _classes(labels, columns)


def _breast_cancer() -> Data:
    from sklearn.datasets import load_breast_cancer

    columns, labels = load_breast_cancer(return_X_y=True)
    return _classes(labels, _standardised(columns))


def _scanned_digits() -> Data:
    from sklearn.datasets import load_digits

    columns, labels = load_digits(return_X_y=True)
    return _classes(labels, columns)


def _clusters() -> Data:
    from sklearn.datasets import make_classification

    columns, labels = make_classification(
        25_000, 60, n_informative=12, n_redundant=20, n_classes=4, flip_y=0.05, random_state=7
    )
    return _classes(labels, columns)


def _quantiles() -> Data:
    from sklearn.datasets import make_gaussian_quantiles

    columns, labels = make_gaussian_quantiles(n_samples=8000, n_features=15, n_classes=5, random_state=7)
    return _classes(labels, np.column_stack([columns, columns**2, np.ones(len(labels))]))


def _polynomials() -> Data:
    from sklearn.datasets import make_moons
    from sklearn.preprocessing import PolynomialFeatures

    columns, labels = make_moons(5000, noise=0.25, random_state=7)
    random = np.random.default_rng(7)
    columns = np.column_stack([columns, 0.5 * random.normal(size=(5000, 2))])
    return _classes(labels, PolynomialFeatures(4).fit_transform(columns))


def _heavy_tails() -> Data:
    random = np.random.default_rng(7)
    labels = random.choice(3, size=12_000, p=[0.7, 0.2, 0.1])
    columns = random.lognormal(0.4 * labels[:, None] * (np.arange(25) % 4 == 0), 1.0, size=(12_000, 25))
    return _classes(labels, columns * 10.0 ** random.uniform(-3, 2, 25))


def _wide() -> Data:
    from sklearn.datasets import make_classification

    columns, labels = make_classification(
        400, 3000, n_informative=40, n_redundant=0, n_classes=4, random_state=7
    )
    return _classes(labels, columns)


def _n_grams() -> Data:
    """8,000 documents of about 120 hashed n-grams out of 200,000, in 15 classes."""
    random = np.random.default_rng(7)
    labels = random.integers(15, size=8000)
    sizes = random.poisson(120, size=8000) + 5
    document = np.repeat(np.arange(8000), sizes)
    general = np.minimum(random.pareto(0.8, size=len(document)) * 20, 199_999).astype(np.int64)
    own = (general * 31 + labels[document] * 7919 + 17) % 200_000
    ids = np.where(random.random(len(document)) < 0.15, own, general)
    from scipy.sparse import coo_matrix

    counts = coo_matrix((np.ones(len(ids)), (document, ids)), shape=(8000, 200_000)).tocsr()
    return _sparse(labels, counts, real=False)


def _topics() -> Data:
    """4,000 documents of 40 topics, tf-idf values, rows of length one."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfTransformer

    random = np.random.default_rng(7)
    topics = random.dirichlet(np.full(6000, 0.02), size=40)
    background = random.dirichlet(np.full(6000, 0.2))
    labels = random.integers(40, size=4000)
    counts = np.vstack([random.multinomial(90, 0.35 * topics[k] + 0.65 * background) for k in labels])
    return _sparse(labels, TfidfTransformer().fit_transform(csr_matrix(counts)), real=True)


def _blobs() -> Data:
    from sklearn.datasets import make_blobs

    columns, labels = make_blobs(6000, 48, centers=25, cluster_std=4.0, random_state=11)
    return _classes(labels, columns)


def _hypercubes() -> Data:
    from sklearn.datasets import make_classification

    columns, labels = make_classification(
        9000, 80, n_informative=30, n_redundant=10, n_classes=30, class_sep=3.0, random_state=11
    )
    return _classes(labels, 0.2 * columns)


def _diabetes() -> Data:
    from sklearn.datasets import load_diabetes

    columns, target = load_diabetes(return_X_y=True)
    return _classes(np.digitize(target, np.quantile(target, [1 / 3, 2 / 3])), _standardised(columns))


def _iris() -> Data:
    from sklearn.datasets import load_iris

    columns, labels = load_iris(return_X_y=True)
    return _classes(labels, np.column_stack([_standardised(columns), np.ones(len(labels))]))


def _states(separation: float) -> Data:
    """1,000 chains of 8 to 20 positions, 12 labels, 40 columns: states that emit Gaussian vectors."""
    random = np.random.default_rng(11)
    lengths = random.integers(8, 21, size=1000)
    labels = np.cumsum(random.choice(4, p=[0.6, 0.2, 0.15, 0.05], size=lengths.sum())) % 12
    columns = separation * random.normal(size=(12, 40))[labels] + random.normal(size=(len(labels), 40))
    rows = node_rows(12, 0, None, columns.astype(np.float32))
    return Data(Chain(12), labels, lengths, rows)


def _vectors_and_words() -> Data:
    """Chains whose words have five sparse attributes and a vector of 50 numbers."""
    random = np.random.default_rng(11)
    data = chain_data(9000, 7, "sparse", 4000, 5, seed=11, lengths=(10, 30))
    vectors = 0.3 * random.normal(size=(4000, 50)).astype(np.float32)
    words = word_rows(9000, 4000, 5, data.labels, random)
    rows = node_rows(7, 4000, words, vectors[words.ids[words.row_ptr[:-1]]])
    return data._replace(rows=rows)


def _signals() -> Data:
    """Six signals of 4,000 positions with 12 smoothed columns, and labels that last."""
    random = np.random.default_rng(7)
    n = 24_000
    labels = np.repeat(random.integers(6, size=n // 40), 40)
    noise = random.normal(size=(n, 12))
    smooth = np.cumsum(noise, axis=0)
    smooth[8:] -= smooth[:-8].copy()
    columns = 0.6 * random.normal(size=(6, 12))[labels] + smooth / 4.0
    return Data(Chain(6), labels, np.full(6, 4000), node_rows(6, 0, None, columns.astype(np.float32)))


def _ocr(folder: Path) -> Data:
    """The first four folds of handwritten words, 128 pixels a letter."""
    with gzip.open(folder / "letter.data.gz", "rt") as lines:
        table = [line.rstrip("\n").split("\t") for line in lines]
    table = [line for line in table if int(line[5]) < 4]
    labels = np.array([ord(line[1]) - 97 for line in table])
    word = np.array([int(line[3]) for line in table])
    pixels = np.array([line[6:] for line in table], np.float32)
    starts = np.flatnonzero(np.append(True, word[1:] != word[:-1]))
    return Data(Chain(26), labels, np.diff(np.append(starts, len(word))), node_rows(26, 0, None, pixels))


MADE: dict[str, Callable[[], Data]] = {
    "wine": _wine,
    "breast cancer, standardised": _breast_cancer,
    "scanned digits": _scanned_digits,
    "clusters with flipped labels": _clusters,
    "gaussian quantiles": _quantiles,
    "polynomials of degree 4": _polynomials,
    "heavy tails": _heavy_tails,
    "wide dense rows": _wide,
    "hashed n-grams": _n_grams,
    "topics": _topics,
    "long signals": _signals,
    "250 labels": lambda: chain_data(2500, 250, "sparse", 6000, 6, seed=7, lengths=(8, 30), skew=4.0),
    "tagging": lambda: chain_data(30_000, 40, "sparse", 15_000, 12, seed=7, lengths=(9, 26), skew=2.0),
    "sixty sentences": lambda: tree_data(60, Projective(single_root=False), seed=7, lengths=(8, 30)),
    "crossing arcs": lambda: tree_data(120, Spanning(single_root=False), seed=7, lengths=(6, 20)),
    "blobs that hardly touch": _blobs,
    "thirty hypercubes": _hypercubes,
    "diabetes in thirds": _diabetes,
    "iris, standardised": _iris,
    "gaussian states": lambda: _states(0.25),
    "sure gaussian states": lambda: _states(0.7),
    "vectors and words": _vectors_and_words,
    "a dozen chains": lambda: chain_data(360, 15, "sparse", 25_000, 20, seed=11, lengths=(25, 36)),
    "forty long sentences": lambda: tree_data(40, Projective(single_root=False), seed=11, lengths=(30, 50)),
    "500 short trees": lambda: tree_data(500, Spanning(single_root=False), seed=11, lengths=(3, 10)),
    "eight paragraphs": lambda: chain_data(4000, 18, "sparse", 8000, 12, seed=11, lengths=(480, 520)),
}
FROM_FOLDER: dict[str, Callable[[Path], Data]] = {"ocr": _ocr}
