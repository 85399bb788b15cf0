"""Test F1 against CPU time: `auto` after so many passes, and CRFsuite's quick learners after so many epochs.

    python benchmarks/equal_f1.py --data DIR/conll2000 [--l2 2] [--epochs 3,10,30,100] [--plot out.png]

Same features for all (chunking template, observed pairs, all transitions); CRFsuite's l2sgd has c2 = l2 / 2, and
ap, pa and arow their defaults. Every point is a run of its own from nothing, on one thread. CPU seconds are those of
training: CRFsuite's `train` without appending the data, our solver with its certificates without encoding the data;
`whole fit` is our fit from columns of text. A learner's F1 is met at the first number of passes from which on
ours is never below it.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from common import arguments, in_child, need_data, table, write_json
from sequence import feature_strings, read

ALGORITHMS = ("l2sgd", "ap", "pa", "arow")
MOST_PASSES = 14


def chunk_f1(test: Any, predicted: Any) -> float:
    from partwise.scoring.metrics import chunk_scores

    return 100 * chunk_scores(test.label_sequences(), predicted).f1


def task_partwise(folder: str, l2: float, template: str) -> dict[str, Any]:
    """One fit for each number of passes; the same random numbers make them one trajectory."""
    from partwise import SequenceLabeler

    train, test = read(Path(folder), "train"), read(Path(folder), "test")
    settings = {"l2": l2, "template": template, "solver": "eg-gap", "tol": 1e-9}
    warnings.simplefilter("ignore")  # that it has not converged
    SequenceLabeler(**settings, max_passes=1).fit(train).predict(test)  # loads compiled code
    points = []
    for passes in range(1, MOST_PASSES + 1):
        start = time.process_time()
        model = SequenceLabeler(**settings, max_passes=passes).fit(train)
        whole = time.process_time() - start
        if points and model.n_passes_ == points[-1]["passes"]:
            continue
        point = {"passes": model.n_passes_, "cpu": model.history_[-1]["cpu_seconds"], "whole": whole}
        points.append({**point, "f1": chunk_f1(test, model.predict(test)), "gap": model.duality_gap_})
    start = time.process_time()
    model = SequenceLabeler(l2=l2, template=template, tol=1e-3).fit(train)
    whole = time.process_time() - start
    certified = {"passes": model.n_passes_, "cpu": model.history_[-1]["cpu_seconds"], "whole": whole}
    return {"points": points, "certified": {**certified, "f1": chunk_f1(test, model.predict(test))}}


def task_crfsuite(folder: str, l2: float, algorithm: str, epochs: list[int]) -> dict[str, Any]:
    import pycrfsuite

    train, test = read(Path(folder), "train"), read(Path(folder), "test")
    features, test_features = feature_strings(train), feature_strings(test)
    points = []
    for count in epochs:
        trainer = pycrfsuite.Trainer(algorithm, verbose=False)
        for x, y in zip(features, train.label_sequences(), strict=True):
            trainer.append(x, y)
        own = {"c2": l2 / 2} if algorithm == "l2sgd" else {}
        trainer.set_params({**own, "max_iterations": count, "feature.possible_transitions": True})
        path = tempfile.mktemp(suffix=".crfsuite")
        start = time.process_time()
        trainer.train(path)
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        predicted = [tagger.tag(x) for x in test_features]
        tagger.close()
        Path(path).unlink()
        points.append({"epochs": count, "cpu": seconds, "f1": chunk_f1(test, predicted)})
        print(algorithm, points[-1], flush=True)
    return {"points": points}


def met(points: list[dict[str, float]], f1: float) -> dict[str, float] | None:
    """The first point from which on F1 is never below."""
    found = None
    for point in reversed(points):
        if point["f1"] < f1:
            break
        found = point
    return found


def show(result: dict[str, Any]) -> None:
    ours = result["partwise"]
    columns = ["passes", "CPU s", "whole fit", "F1"]
    rows = [[f"{p['passes']:.1f}", f"{p['cpu']:.2f}", f"{p['whole']:.2f}", f"{p['f1']:.2f}"]
            for p in [*ours["points"], ours["certified"]]]  # fmt: skip
    print("partwise by pass; last line: stopped by itself at a certified 1e-3\n" + table(rows, columns))
    rows = []
    for algorithm, run in result["crfsuite"].items():
        for point in run["points"]:
            here = met(ours["points"], point["f1"])
            row = [algorithm, str(point["epochs"]), f"{point['cpu']:.2f}", f"{point['f1']:.2f}"]
            if here:
                row += [f"{here['passes']:.1f}", f"{here['cpu']:.2f}", f"{point['cpu'] / here['cpu']:.1f}"]
            rows.append(row if here else [*row, "–", "–", "–"])
    print(table(rows, ["CRFsuite", "epochs", "CPU s", "F1", "our passes", "our CPU s", "ratio"]))


def plot(result: dict[str, Any], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), constrained_layout=True)
    runs = {"partwise auto, by pass": result["partwise"]}
    runs |= {f"CRFsuite {name}": run for name, run in result["crfsuite"].items()}
    for number, (name, run) in enumerate(runs.items()):
        points = run["points"]
        style = {"lw": 1.4 if number else 2.6, "marker": "o", "ms": 4}
        axes.plot([p["cpu"] for p in points], [p["f1"] for p in points], label=name, **style)
    best = max(point["f1"] for run in runs.values() for point in run["points"])
    axes.set(xscale="log", xlabel="CPU seconds", ylabel="test F1, %", ylim=(best - 6.0, best + 0.5))
    axes.set_title(f"{Path(result['data']).name}, l2 = {result['l2']:g}")
    axes.grid(color="#eceff4")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    more = {"--epochs": "3,10,30,100", "--plot": None, "--template": "chunking"}
    options = arguments(__doc__ or "", l2="2", more=more)
    if options.task:
        print(json.dumps(globals()[f"task_{options.task}"](**json.loads(options.options))))
        return
    folder = str(need_data(options.data, "conll2000 or conll2002-es"))
    shared = {"folder": folder, "l2": float(options.l2)}
    epochs = [int(count) for count in options.epochs.split(",")]
    result: dict[str, Any] = {"data": folder, "l2": float(options.l2), "crfsuite": {}}
    result["partwise"] = in_child(__file__, "partwise", **shared, template=options.template)
    for algorithm in () if options.skip_peer else ALGORITHMS:
        run = in_child(__file__, "crfsuite", **shared, algorithm=algorithm, epochs=epochs)
        result["crfsuite"][algorithm] = run
    show(result)
    write_json(options.json, result)
    if options.plot:
        plot(result, options.plot)


if __name__ == "__main__":
    main()
