"""Small labelled sequences, in every form that estimators take."""

from __future__ import annotations

import numpy as np

LABELS = ["A", "B", "C"]
TEMPLATE = "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\nB\nB01:%x[0,1]\n"


def sequences(n: int = 40, seed: int = 0, longest: int = 6):
    """Tokens as dicts with strings, bools and floats; labels that run in circles."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels: list[int] = []
        tokens = []
        for _ in range(random.integers(1, longest + 1)):
            jump = not labels or random.random() < 0.3
            labels.append(int(random.integers(3)) if jump else (labels[-1] + 1) % 3)
            seen = labels[-1] if random.random() < 0.7 else int(random.integers(3))
            tokens.append({"w": str(seen), "even": bool(random.random() < 0.5), "f": float(random.random())})
        X.append(tokens)
        y.append([LABELS[label] for label in labels])
    return X, y


def as_strings(X):
    return [[[f"w:{token['w']}", *(["even"] if token["even"] else [])] for token in x] for x in X]


def as_matrices(X):
    rows = [[[*(float(t["w"] == k) for k in "012"), float(t["even"]), t["f"]] for t in x] for x in X]
    return [np.array(each) for each in rows]


def as_rows(X):
    return [[(token["w"], str(token["even"])) for token in x] for x in X]


X, Y = sequences()
