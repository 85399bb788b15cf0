"""Votes of three noisy annotators distilled into one tagger, beside majority vote: F1 of entities on a test set.

    python benchmarks/crowd_labels.py [--data DIR] [--sentences 1500] [--l2 1] [--seeds 3] [--json FILE]

*names* are `partwise.data.make_names`, trained on half of the names and tested on all; *conll2002-es* the first
--sentences sentences of CoNLL-2002 in Spanish. Every annotator misses entities, takes a type for another, moves ends
of entities and marks words that are none; one is careful, one is hasty, one is poor. The taggers are trained on the
labels of most votes, those of one annotator (the mean of three), the sets of all labels with a vote, the votes as
distributions over labels, the labels' probabilities given the votes (Dawid and Skene 1979: confusion matrices of the
annotators by expectation and maximisation) as distributions, the most probable labels of these, and the true labels.
`voted` is the F1 of the majority against the truth, on training data.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from common import ONE_THREAD, arguments, write_json

os.environ.update(ONE_THREAD)

RATES = {"careful": 0.15, "hasty": 0.4, "poor": 0.6}  # of entities that an annotator gets wrong
SPURIOUS = 0.03  # of words outside that an annotator of rate 0.5 takes for an entity


def annotated(labels: list[str], rate: float, types: list[str], generator: random.Random) -> list[str]:
    """One annotator's labels of a sentence, IOB2."""
    from partwise.scoring.metrics import chunks

    found, length = ["O"] * len(labels), len(labels)
    for kind, start, end in chunks(labels):
        if generator.random() < rate:
            error = generator.choice(("missed", "type", "first", "last"))
            if error == "missed":
                continue
            if error == "type":
                kind = generator.choice([each for each in types if each != kind])
            elif error == "first":
                start = max(0, min(end - 1, start + generator.choice((-1, 1))))
            else:
                end = min(length, max(start + 1, end + generator.choice((-1, 1))))
        found[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    for t, label in enumerate(found):
        if label == "O" and generator.random() < SPURIOUS * rate / 0.5:
            found[t] = f"B-{generator.choice(types)}"
    return found


def read_set(name: str, folder: str, n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows and labels, of training and of test."""
    if name == "names":
        from partwise.data import make_names

        few, many = make_names(n, share=0.5, random_state=seed), make_names(n, random_state=seed + 1000)
        return *_rows(*few), *_rows(*many)
    from partwise.data import read

    train, test = (read(Path(folder) / name / file) for file in ("train.txt.gz", "testa.txt"))
    return (
        train.row_sequences()[:n],
        train.label_sequences()[:n],
        test.row_sequences(),
        test.label_sequences(),
    )


def _rows(X: list[list[str]], y: list[list[str]]) -> tuple[Any, Any]:
    return [[[word] for word in words] for words in X], y


def posteriors(voted: list[list[list[str]]], n_rounds: int = 30) -> list[list[dict[str, float]]]:
    """Probabilities of labels given the votes for a token, by Dawid and Skene's model; those below 1 % left out."""
    import numpy as np

    names = sorted({label for own in voted for sentence in own for label in sentence})
    index = {label: k for k, label in enumerate(names)}
    codes = np.array([[index[label] for sentence in own for label in sentence] for own in voted])
    one_hot = np.eye(len(names))[codes]  # (annotator, token, label)
    belief = one_hot.mean(axis=0)
    for _ in range(n_rounds):
        prior = belief.mean(axis=0) + 1e-6
        logs = np.tile(np.log(prior), (len(belief), 1))
        for own, votes in zip(codes, one_hot, strict=True):
            confusion = belief.T @ votes + 0.01
            logs += np.log(confusion / confusion.sum(axis=1, keepdims=True))[:, own].T
        belief = np.exp(logs - logs.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
    rows = iter([{names[k]: float(p) for k, p in enumerate(row) if p >= 0.01} for row in belief])
    return [[next(rows) for _ in sentence] for sentence in voted[0]]


def targets_of(voted: list[list[list[str]]]) -> dict[str, Any]:
    """Training targets by name; `voted` is [annotator][sentence][token]."""
    votes = [[Counter(each) for each in zip(*own, strict=True)] for own in zip(*voted, strict=True)]
    skilled = posteriors(voted)
    return {
        "majority": [[max(each, key=each.__getitem__) for each in own] for own in votes],
        "sets": [[set(each) for each in own] for own in votes],
        "votes": [[dict(each) for each in own] for own in votes],
        "posteriors": skilled,
        "most probable": [[max(each, key=each.__getitem__) for each in own] for own in skilled],
    }


def f1(true: Any, found: Any) -> float:
    from partwise.scoring.labelling import labelling_scores

    return 100.0 * labelling_scores(true, found).f1


def one_run(name: str, folder: str, n: int, l2: float, seed: int) -> dict[str, float]:
    from partwise import SequenceLabeler

    X, y, X_test, y_test = read_set(name, folder, n, seed)
    types = sorted({label[2:] for own in y for label in own if label != "O"})
    generator = random.Random(seed)
    voted = [[annotated(own, rate, types, generator) for own in y] for rate in RATES.values()]
    targets = targets_of(voted) | {"truth": y}

    def score(labels: Any) -> float:
        model = SequenceLabeler(template="ner", l2=l2, tol=1e-2).fit(X, labels)
        return f1(y_test, model.predict(X_test))

    found = {"voted": f1(y, targets["majority"])}
    found["one annotator"] = sum(map(score, voted)) / len(voted)
    return found | {each: score(labels) for each, labels in targets.items()}


def main() -> None:
    more = {"--sentences": "1500", "--seeds": "3", "--sets": "names,conll2002-es"}
    options = arguments(__doc__ or "", data="../shared/data", l2="1", more=more)
    rows: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        n = min(int(options.sentences), 300) if name == "names" else int(options.sentences)
        seeds = range(int(options.seeds))
        runs = [one_run(name, options.data, n, float(options.l2), seed) for seed in seeds]
        rows.append({key: sum(run[key] for run in runs) / len(runs) for key in runs[0]})
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in rows[-1].values()) + " |", flush=True)
    print("| data | " + " | ".join(rows[0]) + " |")
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
