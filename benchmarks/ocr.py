"""Handwritten words by ten folds, as Taskar, Guestrin and Koller (2003) did: kernels, chains, losses.

    python benchmarks/ocr.py --data DIR/ocr [--train one] [--folds 0,1,…] [--kernels linear,quadratic,cubic]
                             [--structures classes,chain] [--losses log,hinge] [--json out.json]
    python benchmarks/ocr.py --data DIR/ocr --select          # l2 on a fifth of fold 0, trained on the rest of it
    python benchmarks/ocr.py --data DIR/ocr --train nine      # nine folds to train, one to test: Nyström features

Kernels are (x·x′/30 + 1)^degree of the 128 pixels; l2 is the one that --select found for each model. Per-letter
error of the letters tested, mean and standard deviation over folds; CPU seconds and peak memory of a process
that trains and tests all folds of a model one after another, on one thread.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, in_child, need_data, peak_megabytes, table, write_json
from ocr_data import N_FOLDS, Letters, read_letters, select

DEGREES = {"linear": 1, "quadratic": 2, "cubic": 3}
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
L2 = {
    "linear classes log": 0.1, "linear classes hinge": 0.3, "linear chain log": 0.3, "linear chain hinge": 0.3,
    "quadratic classes log": 0.1, "quadratic classes hinge": 0.3, "quadratic chain log": 0.3,
    "quadratic chain hinge": 1.0, "cubic classes log": 0.3, "cubic classes hinge": 1.0, "cubic chain log": 0.1,
    "cubic chain hinge": 3.0,
}  # fmt: skip
COMPONENTS = 1000


def kernel_settings(kernel: str) -> dict[str, Any]:
    return {"kernel": "poly", "degree": DEGREES[kernel], "gamma": 1 / 30, "coef0": 1.0}


def build(train: str, kernel: str, structure: str, loss: str, l2: float, tol: float, cache_mb: float) -> Any:
    """An estimator, or a pipeline of Nyström features and a linear one where all nine folds are to train."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    from partwise import Classifier, KernelClassifier, KernelSequenceLabeler, PerPosition, SequenceLabeler

    shared = {"loss": loss, "l2": l2, "tol": tol, "max_passes": 400}
    if train == "one":
        settings = {**kernel_settings(kernel), "precision": "single", "cache_mb": cache_mb}
        machine = KernelSequenceLabeler if structure == "chain" else KernelClassifier
        return machine(**shared, **settings)
    features = Nystroem(n_components=COMPONENTS, random_state=0, **kernel_settings(kernel))
    if structure == "chain":
        return make_pipeline(PerPosition(features), SequenceLabeler(**shared, pairs="all"))
    return make_pipeline(features, Classifier(**shared, fit_intercept=False))


def inputs(letters: Letters, structure: str) -> tuple[Any, Any]:
    return letters.words() if structure == "chain" else (letters.pixels, letters.labels)


def one_run(train: Letters, test: Letters, structure: str, estimator: Any) -> dict[str, float]:
    start = time.process_time()
    estimator.fit(*inputs(train, structure))
    trained = time.process_time()
    right = estimator.score(*inputs(test, structure))
    model = estimator[-1] if hasattr(estimator, "steps") else estimator
    return {
        "error": 100 * (1 - right),
        "train_cpu": trained - start,
        "test_cpu": time.process_time() - trained,
        "gap": model.duality_gap_,
        "passes": model.n_passes_,
        "support": len(getattr(model, "dual_coef_", [])),
    }


def task_folds(folder: str, folds: list[int], model: dict[str, Any]) -> dict[str, Any]:
    """All folds of one model; a fit on a few words first, so that compiling is not in the times."""
    letters, fold = read_letters(Path(folder))
    structure = model["structure"]
    few = select(letters, np.arange(len(fold)) < 40)
    warm = {**model, "train": "one"}
    one_run(few, few, structure, build(**warm))
    runs = []
    for k in folds:
        inside = fold == k if model["train"] == "one" else fold != k
        runs.append(one_run(select(letters, inside), select(letters, ~inside), structure, build(**model)))
    return {"runs": runs, "megabytes": peak_megabytes()}


def task_select(folder: str, model: dict[str, Any]) -> dict[str, Any]:
    """Errors on a fifth of fold 0 for every l2 of the grid, trained on the other four."""
    letters, fold = read_letters(Path(folder))
    words = np.flatnonzero(fold == 0)
    held = np.zeros(len(fold), bool)
    held[words[::5]] = True
    train, test = select(letters, (fold == 0) & ~held), select(letters, held)
    errors = {}
    for l2 in GRID:
        run = one_run(train, test, model["structure"], build(**{**model, "l2": l2}))
        errors[f"{l2:g}"] = run["error"]
    return {"errors": errors}


def summarise(name: str, found: dict[str, Any]) -> list[str]:
    runs = found["runs"]
    error = np.array([run["error"] for run in runs])
    spread = f"{error.std(ddof=1):.2f}" if len(error) > 1 else "–"
    mean = {key: np.mean([run[key] for run in runs]) for key in ("train_cpu", "test_cpu", "support")}
    gap = max(run["gap"] for run in runs)
    return [
        name, f"{error.mean():.2f} ± {spread}", f"{mean['train_cpu']:.1f}", f"{mean['test_cpu']:.1f}",
        f"{mean['support']:.0f}", f"{gap:.1e}", f"{found['megabytes']:.0f}",
    ]  # fmt: skip


def models(options: Any) -> dict[str, dict[str, Any]]:
    shared = {"train": options.train, "tol": float(options.tol), "cache_mb": float(options.cache_mb)}
    result = {}
    for kernel in options.kernels.split(","):
        for structure in options.structures.split(","):
            for loss in options.losses.split(","):
                name = f"{kernel} {structure} {loss}"
                l2 = L2.get(name, 1.0) if options.l2 is None else float(options.l2)
                own = {"kernel": kernel, "structure": structure, "loss": loss, "l2": l2}
                result[name] = {**shared, **own}
    return result


def main() -> None:
    options = arguments(
        __doc__ or "",
        more={
            "--train": "one", "--folds": ",".join(map(str, range(N_FOLDS))), "--tol": "1e-2",
            "--kernels": ",".join(DEGREES), "--structures": "classes,chain", "--losses": "log,hinge",
            "--cache-mb": "500", "--select": "",
        },
    )  # fmt: skip
    if options.task:
        found = {"folds": task_folds, "select": task_select}[options.task](**json.loads(options.options))
        print(json.dumps(found))
        return
    folder = str(need_data(options.data, "the handwritten words"))
    results, rows = {}, []
    for name, model in models(options).items():
        if options.select:
            results[name] = in_child(__file__, "select", folder=folder, model=model)
            print(name, results[name]["errors"], flush=True)
            continue
        folds = [int(k) for k in options.folds.split(",")]
        results[name] = in_child(__file__, "folds", folder=folder, folds=folds, model=model)
        rows.append(summarise(f"{name} (l2 {model['l2']:g})", results[name]))
        print(" ".join(rows[-1]), flush=True)
        write_json(options.json, results)
    if rows:
        header = [
            "model",
            "letters wrong %",
            "train CPU s",
            "test CPU s",
            "support",
            "largest gap",
            "peak MB",
        ]
        print(table(rows, header))


if __name__ == "__main__":
    main()
