"""Entities of Spanish newswire (CoNLL-2002): cost, calibration, decoding, coverage of sets, risk of entities returned.

    python benchmarks/entities.py --data ../shared/data/conll2002-es [--splits 500] [--plot docs/images/entities.png]

A model is trained on the training data, and its probabilities are calibrated on the development data. Sentences of the
test data are split into halves at random, many times: one half calibrates sets and risks, the other measures. They are
exchangeable, as the guarantees need. The last table is of data that are not: sets calibrated on the development data,
measured on the test data.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from partwise import SequenceLabeler, load
from partwise.data.conll import parse_conll
from partwise.errors import InputError
from partwise.estimators.conformal import LEAST, conformal_quantile, least_of_each_sentence, mean_of
from partwise.estimators.entities import is_among
from partwise.estimators.risk import controlled
from partwise.metrics import chunk_scores

COVERAGES, RISKS = (0.8, 0.9, 0.95), (0.15, 0.1, 0.05)


def read(path: Path) -> tuple[list[Any], list[Any]]:
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8").read()
    data = parse_conll(text)
    return data.row_sequences(), data.label_sequences()


def cpu(work: Callable[[], Any], times: int = 5) -> float:
    """Seconds of CPU time, the best of some runs."""
    best = float("inf")
    for _ in range(times + 1):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def costs(model: Any, X: list[Any]) -> None:
    answers: dict[str, Callable[[], Any]] = {
        "predict_marginals_array": lambda: model.predict_marginals_array(X),
        "predict": lambda: model.predict(X),
        "predict_entities": lambda: model.predict_entities(X),
        "predict_entities, threshold 0.01": lambda: model.predict_entities(X, 0.01),
        "predict_entities, threshold 0.0001": lambda: model.predict_entities(X, 0.0001),
        "predict_entity_counts": lambda: model.predict_entity_counts(X),
        "predict_entities, mbr": lambda: model.predict_entities(X, decode="mbr"),
        "predict, mbr": lambda: model.predict(X, decode="mbr"),
    }
    seconds = {name: cpu(work) for name, work in answers.items()}
    first = seconds["predict_marginals_array"]
    for name, own in seconds.items():
        print(f"{name:36} {1e6 * own / sum(map(len, X)):6.1f} µs per token  {own / first:5.2f} × marginals")


def decoding(model: Any, X: list[Any], y: list[Any]) -> None:
    for decode in ("viterbi", "marginal", "mbr"):
        found = chunk_scores(y, model.predict(X, decode=decode))
        rates = (
            f"F1 {100 * found.f1:.2f}  precision {100 * found.precision:.2f}  recall {100 * found.recall:.2f}"
        )
        print(f"{decode:9} {rates}  accuracy {100 * found.accuracy:.2f}")


def calibration(model: Any, dev: tuple[Any, Any], test: tuple[Any, Any]) -> Any:
    """Calibration error of entities of the test data; returns the scores before and after."""
    found = {}
    for name, settings in (
        ("as trained", None),
        ("temperature, by labels", {}),
        ("temperature, by entities", {"on": "entities"}),
        ("isotonic", {"on": "entities", "method": "isotonic"}),
    ):
        own = copy.copy(model)
        if settings is not None:
            own.calibrate(*dev, **settings)
        found[name] = own.entity_scores(*test)
        predicted, possible = (
            found[name].reliability(of).expected_error for of in ("predicted", "candidates")
        )
        print(f"{name:26} predicted {100 * predicted:5.2f} %  possible {100 * possible:5.2f} %")
    return found


def sets(model: Any, X: list[Any], y: list[Any], n_splits: int) -> None:
    """Coverage and size of sets, and risk, over random splits.

    Scores of the truths and probabilities of the candidates are those of the estimator; they do not depend on the
    split, and are computed once.
    """
    truths = {on: model._set_truths(X, y, on, 100) for on in ("entities", "labellings")}
    possible, best = model._found(X, LEAST, "viterbi").spans, model._found(X, None, "viterbi").spans
    is_true, types = is_among(best, model._true_spans(X, y)), model._entity_types()
    rows: dict[str, list[tuple[float, float]]] = {}
    for seed in range(n_splits):
        calibrates = np.random.default_rng(seed).random(len(X)) < 0.5
        for coverage in COVERAGES:
            for each in ("entity", "sentence"):
                name = "an entity" if each == "entity" else "all entities of a sentence"
                own = truths["entities"]
                row = _split(own, calibrates, coverage, each, possible)
                rows.setdefault(f"{coverage:g} {name}", []).append(row)
            for kind, name in enumerate(types):
                own = truths["entities"].take(truths["entities"].kind == kind)
                row = _split(own, calibrates, coverage, "entity", possible.take(possible.kind == kind))
                rows.setdefault(f"{coverage:g} an entity of the type {name}", []).append(row)
            if coverage < 0.85:  # the 100 best labellings do not reach more
                row = _split(truths["labellings"], calibrates, coverage, "entity", None)
                rows.setdefault(f"{coverage:g} the whole labelling", []).append(row)
        for risk in RISKS:
            first = calibrates[best.example]
            columns = best.probability[first], is_true[first], best.example[first]
            try:
                threshold = controlled(*columns, int(calibrates.sum()), risk, 0.1).threshold
            except InputError:  # too few data to prove anything: no entity is returned
                threshold = 2.0
            kept = best.probability[~first] >= threshold
            wrong = 1 - is_true[~first][kept].mean() if kept.any() else 0.0
            rows.setdefault(f"risk {risk:g}", []).append((wrong, kept.mean()))
    print(f"{'':34} {'mean':>7} {'10 %':>7} {'90 %':>7} {'size, or share returned':>24}")
    for name in sorted(rows):
        values, size = np.array(rows[name]).T
        low, high = np.quantile(values, [0.1, 0.9])
        print(f"{name:34} {values.mean():7.4f} {low:7.4f} {high:7.4f} {size.mean():24.2f}")
    for risk in RISKS:
        above = np.mean([value > risk for value, _ in rows[f"risk {risk:g}"]])
        none = np.mean([share == 0 for _, share in rows[f"risk {risk:g}"]])
        print(
            f"risk {risk:g}: above it in {100 * above:.0f} %, nothing proved in {100 * none:.0f} % of the splits"
        )


def _split(
    truths: Any, calibrates: np.ndarray, coverage: float, each: str, possible: Any
) -> tuple[float, float]:
    """Coverage and mean size of the sets of one half, calibrated by the other."""
    if each == "sentence":
        truths = least_of_each_sentence(truths, False)
    own = calibrates[truths.example]
    first, second = truths.take(own), truths.take(~own)
    quantile = conformal_quantile(first.score, first.example, coverage)
    covered = mean_of(second.score <= quantile, second.example, each)
    if possible is None:
        return covered, float("nan")
    listed = possible.probability[~calibrates[possible.example]] >= 1.0 - quantile
    return covered, float(listed.sum() / (~calibrates).sum())


def plot(scores: Any, path: str) -> None:
    """Reliability of predicted entities before and after, and precision and recall by threshold."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), constrained_layout=True)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, marker in (("as trained", "o"), ("temperature, by entities", "s")):
        found = scores[name].reliability(n_bins=10)
        left.plot(found.probability, found.frequency, marker=marker, label=name)
    left.set(xlabel="probability of the entity", ylabel="share that is true")
    left.legend()
    rows = scores["temperature, by entities"].by_threshold(np.linspace(0.02, 0.98, 49))
    for name in ("precision", "recall", "f1"):
        right.plot([row.threshold for row in rows], [getattr(row, name) for row in rows], label=name)
    right.set(xlabel="threshold", ylim=(0, 1))
    right.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data/conll2002-es", type=Path)
    parser.add_argument("--splits", default=500, type=int)
    parser.add_argument("--plot", default=None)
    parser.add_argument("--model", default=None, help="model file, instead of training")
    options = parser.parse_args()
    train, dev, test = (read(options.data / name) for name in ("train.txt.gz", "testa.txt", "testb.txt"))
    model = load(options.model) if options.model else SequenceLabeler(template="ner").fit(*train)
    print("cost on the test data", flush=True)
    costs(model, test[0])
    print("\ndecoding, test data", flush=True)
    decoding(model, *test)
    print("\ncalibration error of entities: calibrated on development data, measured on test data")
    scores = calibration(model, dev, test)
    if options.plot:
        plot(scores, options.plot)
    model.calibrate(*dev, on="entities")
    print(f"\nsets and risks, {options.splits} random halves of the test data")
    sets(model, *test, options.splits)
    print("\nsets calibrated on development data, measured on test data")
    for settings in ({}, {"each": "sentence"}, {"on": "labellings", "coverage": 0.8}):
        model.conformal(*dev, **settings)
        found = model.evaluate_sets(*test)
        wanted = model.conformal_.coverage
        print(f"{settings!s:44} wanted {wanted:g}  coverage {found.coverage:.4f}  size {found.mean_size:.2f}")


if __name__ == "__main__":
    main()
