"""Training with labels missing: time beside that of all labels, objective beside random starts, and accuracy.

    python benchmarks/partial_labels.py [--data DIR] [--l2 1,0.1,0.01] [--tasks tags,dense,entities] [--tokens 80000]
        [--restarts 0] [--json FILE]

*tags* are parts of speech of the Penn Treebank sample from words, *dense* the same from random vectors for words, 50
columns of very different sizes, and *entities* those of CoNLL-2002 in Spanish; the first --tokens tokens of each.
Labels are hidden at random: shares of all labels, whole sentences, labels of entities; or one label (NN) everywhere.
CPU seconds are those of the solver on one thread, compiling apart. *Restarts* are L-BFGS runs on the same objective
from random weights, of at most 300 passes. Accuracy (F1 for entities) on the test set, beside that of a model trained
on the sentences without a gap alone.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from common import ONE_THREAD, arguments, in_child, table, write_json

os.environ.update(ONE_THREAD)

HIDDEN = {
    "tags": (
        ("none", 0.0),
        ("labels", 0.05),
        ("labels", 0.3),
        ("labels", 0.9),
        ("sentences", 0.5),
        ("NN", 1.0),
    ),
    "dense": (("none", 0.0), ("labels", 0.3), ("labels", 0.9)),
    "entities": (("none", 0.0), ("entities", 0.3)),
}
COLUMNS = 50  # of dense rows


def read_set(folder: str, name: str, n_tokens: int) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Rows and labels, of training and of test."""
    found: list[list[Any]] = []
    if name == "entities":
        from partwise.data import read

        for file in ("train.txt.gz", "testa.txt"):
            columns = read(Path(folder) / "conll2002-es" / file)
            found += [columns.row_sequences(), columns.label_sequences()]
    else:
        for file in ("train.dp", "test.dp"):
            text = (Path(folder) / "ptb-sample" / file).read_text(encoding="utf-8")
            sentences = [
                [line.split("\t") for line in each.split("\n")] for each in text.strip().split("\n\n")
            ]
            words = [[token[:1] for token in sentence] for sentence in sentences]
            found += [as_vectors(words) if name == "dense" else words]
            found += [[[token[1] for token in sentence] for sentence in sentences]]
    n, seen = 0, 0
    while seen < n_tokens and n < len(found[0]):
        seen, n = seen + len(found[0][n]), n + 1
    return found[0][:n], found[1][:n], found[2], found[3]


def as_vectors(sentences: list[Any]) -> list[Any]:
    """A random vector for each word, with columns from 1 to 0.01 that are turned so that all are correlated."""
    import zlib

    import numpy as np

    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(COLUMNS, COLUMNS)))[0]
    shape = np.geomspace(1.0, 0.01, COLUMNS)[:, None] * turned
    words = {word for sentence in sentences for (word,) in sentence}
    vectors = {
        word: (np.random.default_rng(zlib.crc32(word.encode())).normal(size=COLUMNS) @ shape)
        for word in words
    }
    return [np.array([vectors[word] for (word,) in sentence], np.float32) for sentence in sentences]


def hidden(labels: list[Any], what: str, share: float) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    if what == "sentences":
        return [[None] * len(each) if random.random() < share else each for each in labels]
    if what not in ("labels", "entities", "none"):
        return [[None if label == what else label for label in each] for each in labels]
    kept = "O" if what == "entities" else None
    return [
        [None if label != kept and random.random() < share else label for label in each] for each in labels
    ]


def task_fit(
    folder: str, name: str, what: str, share: float, l2: float, n_tokens: int, restarts: int
) -> dict[str, Any]:
    import numpy as np

    from partwise import SequenceLabeler
    from partwise.scoring.metrics import chunk_scores
    from partwise.solvers import LBFGS, WarmStart, solve

    warnings.simplefilter("ignore")
    rows, labels, test_rows, test_labels = read_set(folder, name, n_tokens)
    partial = hidden(labels, what, share)
    template = {"tags": "pos", "entities": "ner", "dense": None}[name]
    settings: dict[str, Any] = {"template": template, "l2": l2}
    SequenceLabeler(**settings, max_passes=1).fit(rows[:200], partial[:200])  # loads compiled code
    model = SequenceLabeler(**settings).fit(rows, partial)

    def scored(fitted: Any) -> float:
        if name == "entities":
            return 100 * chunk_scores(test_labels, fitted.predict(test_rows)).f1
        return 100 * fitted.score(test_rows, test_labels)

    whole = [i for i, each in enumerate(partial) if None not in each]
    only = None
    if 0 < len(whole) < len(rows):
        only = scored(SequenceLabeler(**settings).fit([rows[i] for i in whole], [partial[i] for i in whole]))
    result: dict[str, Any] = {
        "cpu": model.history_[-1]["cpu_seconds"], "passes": model.n_passes_, "objective": model.objective_,
        "gap": model.duality_gap_, "score": scored(model), "whole": len(whole), "of": len(rows), "only": only,
    }  # fmt: skip
    problem, random, found = model._training.problem, np.random.default_rng(1), []
    for _ in range(restarts if what != "none" else 0):
        start = LBFGS().init(problem, random)._replace(weights=random.normal(size=problem.n_weights))
        again = solve(problem, LBFGS(), tol=1e-3, max_passes=300, warm_start=WarmStart(problem, start))
        found.append(again.certificate.primal)
    return result | {"restarts": found}


def main() -> None:
    more = {"--tokens": 80000, "--restarts": 0, "--tasks": "tags,dense,entities"}
    options = arguments(__doc__.splitlines()[0], data="../shared/data", l2="1,0.1,0.01", more=more)
    if options.task:
        import json

        print(json.dumps(task_fit(**json.loads(options.options))))
        return
    results, rows = [], []
    for name in options.tasks.split(","):
        for l2 in map(float, options.l2.split(",")):
            full = 0.0
            for what, share in HIDDEN[name]:
                found = in_child(
                    __file__, "fit", folder=options.data, name=name, what=what, share=share, l2=l2,
                    n_tokens=int(options.tokens), restarts=int(options.restarts),
                )  # fmt: skip
                results.append({"set": name, "l2": l2, "hidden": what, "share": share, **found})
                full = full or found["cpu"]
                rows.append(row_of(name, l2, what, share, found, full))
                print(" ".join(rows[-1]), flush=True)
    print()
    titles = [
        "",
        "l2",
        "CPU s",
        "× all known",
        "passes",
        "gap",
        "objective",
        "best restart",
        "score",
        "whole only",
    ]
    print(table(rows, titles))
    if options.json:
        write_json(options.json, results)


def row_of(name: str, l2: float, what: str, share: float, found: dict[str, Any], full: float) -> list[str]:
    again = f"{min(found['restarts']):,.3f}" if found["restarts"] else ""
    only = "" if found["only"] is None else f"{found['only']:.2f} ({found['whole']:,})"
    return [
        f"{name}, {share:.0%} of {what}" if share else f"{name}, all known", f"{l2:g}", f"{found['cpu']:.1f}",
        f"{found['cpu'] / full:.1f}", f"{found['passes']:.0f}", f"{found['gap']:.1e}",
        f"{found['objective']:,.3f}", again, f"{found['score']:.2f}", only,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
