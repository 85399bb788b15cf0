"""Training with labels missing: time beside that of all labels, objective beside random starts, and accuracy.

    python benchmarks/partial_labels.py [--data DIR] [--l2 1] [--tokens 80000] [--restarts 5] [--json FILE]

Tagging (part of speech, CoNLL-2000) and named entities (CoNLL-2002, Spanish), the first --tokens tokens, with labels
hidden at random: shares of all labels, whole sentences, or labels of entities. CPU seconds are those of the solver on
one thread, compiling apart. *Restarts* are L-BFGS runs on the same objective from random weights. Accuracy (F1 for
entities) on the test set, beside that of a model trained on the sentences without a gap alone.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from common import ONE_THREAD, arguments, in_child, table, write_json

os.environ.update(ONE_THREAD)

SETS = {
    "tags": ("conll2000", "test.txt", 1, "pos"),
    "entities": ("conll2002-es", "testa.txt", 2, "ner"),
}
TASKS = (
    ("tags", "none", 0.0), ("tags", "labels", 0.05), ("tags", "labels", 0.3), ("tags", "labels", 0.9),
    ("tags", "sentences", 0.5), ("entities", "none", 0.0), ("entities", "entities", 0.3),
)  # fmt: skip


def read_set(folder: str, name: str, n_tokens: int) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Rows and labels, of training and of test."""
    from partwise.data import read

    where, test, label, _ = SETS[name]
    train, heldout = (read(Path(folder) / where / file) for file in ("train.txt.gz", test))
    found: list[list[Any]] = []
    for columns in (train, heldout):
        rows, labels = columns.row_sequences(), columns.label_sequences()
        if label == 1:  # the tag is to be found, from words alone
            labels = [[token[1] for token in sentence] for sentence in rows]
            rows = [[token[:1] for token in sentence] for sentence in rows]
        found += [rows, labels]
    n, seen = 0, 0
    while seen < n_tokens and n < len(found[0]):
        seen, n = seen + len(found[0][n]), n + 1
    return found[0][:n], found[1][:n], found[2], found[3]


def hidden(labels: list[Any], what: str, share: float) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    if what == "sentences":
        return [[None] * len(each) if random.random() < share else each for each in labels]
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
    settings: dict[str, Any] = {"template": SETS[name][3], "l2": l2}
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
    more = {"--tokens": 80000, "--restarts": 5}
    options = arguments(__doc__.splitlines()[0], data="../shared/data", l2="1", more=more)
    if options.task:
        import json

        print(json.dumps(task_fit(**json.loads(options.options))))
        return
    results, rows, full = [], [], {}
    for name, what, share in TASKS:
        found = in_child(
            __file__, "fit", folder=options.data, name=name, what=what, share=share, l2=float(options.l2),
            n_tokens=int(options.tokens), restarts=int(options.restarts),
        )  # fmt: skip
        results.append({"set": name, "hidden": what, "share": share, **found})
        full.setdefault(name, found["cpu"])
        again = f"{min(found['restarts']):,.2f}" if found["restarts"] else ""
        only = "" if found["only"] is None else f"{found['only']:.2f}"
        rows.append([
            f"{name}, {share:.0%} of {what}" if share else f"{name}, all known", f"{found['cpu']:.1f}",
            f"{found['cpu'] / full[name]:.1f}", f"{found['passes']:.0f}", f"{found['objective']:,.2f}", again,
            f"{found['score']:.2f}", only, f"{found['whole']:,}",
        ])  # fmt: skip
        print(" ".join(rows[-1]), flush=True)
    print()
    titles = [
        "",
        "CPU s",
        "× all known",
        "passes",
        "objective",
        "best restart",
        "score",
        "whole only",
        "whole",
    ]
    print(table(rows, titles))
    if options.json:
        write_json(options.json, results)


if __name__ == "__main__":
    main()
