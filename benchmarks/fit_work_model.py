"""Fit the work model (`solvers/work_model.py`) to timed runs, and print how wrong it is on data that it has not seen.

    python benchmarks/regret.py --slack 4 --data DIR --json results.json
    python benchmarks/regret.py --slack 4 --more --json more.json
    python benchmarks/fit_work_model.py results.json more.json [--test fresh.json]

Each model is fitted to all problems, and once more for every dataset without that dataset: "left out" are the errors on
the dataset that was left out, as factors. The last table is what the fit decides, the solver that begins.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import table
from scipy.optimize import nnls

Result = dict[str, Any]
ONLINE, BATCH = "eg-gap", "lbfgs"


class Sample(NamedTuple):
    """A number to explain, what explains it, and the problem and the dataset that it belongs to."""

    features: list[float]
    value: float
    problem: str
    data: str


# -- work of a pass -----------------------------------------------------------------------------------


def work_samples(results: list[Result], solver: str, sizes: str) -> list[Sample]:
    """Nanoseconds of a pass, and the sizes that explain them."""
    from partwise.solvers.work_model import FIXED

    found = []
    for result in results:
        run, known = result["runs"].get(solver), result["quantities"]
        if run is None or known["is_hard"] or "l1=" in result["name"]:
            continue
        value = 1e9 * run["cpu"] / run["passes"]
        found.append(Sample([FIXED, *known[sizes]], value, result["name"], result["data"]))
    return found


def work_fit(samples: list[Sample]) -> np.ndarray:
    """Coefficients of the sizes, at least 0, with the least squares of relative errors."""
    features = np.array([sample.features for sample in samples])
    value = np.array([sample.value for sample in samples])
    found, _ = nnls(features[:, 1:] / value[:, None], 1.0 - features[:, 0] / value)
    return np.append(1.0, found)


def work_at(fit: np.ndarray, sample: Sample) -> float:
    return float(fit @ sample.features)


# -- passes -------------------------------------------------------------------------------------------


def passes_samples(results: list[Result], solver: str, row: str) -> list[Sample]:
    """Logarithm of the passes to the tolerance; one that was stopped early is taken to need twice as many."""
    from partwise.solvers.work_model import SOFT

    found = []
    for result in results:
        run, known = result["runs"].get(solver), result["quantities"]
        if run is None or known["is_hard"] or known["is_steep"] or known["told"] != row:
            continue
        if run["converged"] or run["passes"] > 20.0:
            features = [1.0, math.log1p(known["stiffness"] / SOFT)]
            passes = run["passes"] * (1.0 if run["converged"] else 2.0)
            found.append(Sample(features, passes, result["name"], result["data"]))
    return found


def passes_fit(samples: list[Sample]) -> np.ndarray:
    """The logarithm of `least`, and `power`, with the least squares of logarithms."""
    features = np.array([sample.features for sample in samples])
    found, *_ = np.linalg.lstsq(features, np.log([sample.value for sample in samples]), rcond=None)
    return np.append(found[0], max(found[1], 0.0))


def fitted_passes(fit: np.ndarray, sample: Sample) -> float:
    return math.exp(min(float(fit @ sample.features), 20.0))


# -- errors -------------------------------------------------------------------------------------------


def left_out(samples: list[Sample], fit: Any, at: Any) -> list[float]:
    """Prediction over value, for every sample, by a fit without its dataset."""
    fits = {
        data: fit([sample for sample in samples if sample.data != data])
        for data in {sample.data for sample in samples}
    }
    return [at(fits[sample.data], sample) / sample.value for sample in samples]


def factors(ratios: list[float]) -> str:
    """Median and nine-tenths quantile of the error as a factor."""
    sizes = np.exp(np.abs(np.log(ratios)))
    return f"{np.median(sizes):.2f} / {np.quantile(sizes, 0.9):.2f}"


def errors(samples: list[Sample], fit: Any, at: Any) -> list[str]:
    """Columns of a line: number of runs, errors in the fit and left out, and the problem with the largest."""
    whole = fit(samples)
    outside = left_out(samples, fit, at)
    worst = int(np.argmax(np.abs(np.log(outside))))
    inside = [at(whole, sample) / sample.value for sample in samples]
    return [
        str(len(samples)), factors(inside), factors(outside), f"{samples[worst].problem}: {outside[worst]:.2f}",
    ]  # fmt: skip


def decisions(results: list[Result]) -> None:
    """Print how much longer the solver takes that the model lets begin, if it goes on to the end."""
    from partwise.solvers.work_model import (
        EVALUATION,
        FIXED,
        VISITS,
        passes_at,
    )

    lines, ratios = [], []
    for result in results:
        known, runs = result["quantities"], result["runs"]
        if known["is_hard"] or ONLINE not in runs or BATCH not in runs or known["is_steep"]:
            continue
        both = [runs[ONLINE], runs[BATCH]]
        done = [run["cpu"] for run in both if run["converged"]]
        if not done:
            continue
        visits = FIXED + float(np.dot(VISITS, known["visits"]))
        evaluation = FIXED + float(np.dot(EVALUATION, known["evaluation"]))
        forecast = [
            passes_at(known["told"], solver, known["stiffness"], known["n_competing"]) * work
            for solver, work in ((ONLINE, visits), (BATCH, evaluation))
        ]
        begins = int(np.argmin(forecast))
        ratio = both[begins]["cpu"] / min(done)
        ratios.append(ratio)
        if ratio > 1.2:
            name = (ONLINE, BATCH)[begins]
            lines.append(
                (ratio, [result["name"], name, f"{ratio:.2f}" + "+" * (not both[begins]["converged"])])
            )
    print(
        f"\nThe solver that begins: {len(ratios)} problems, median {np.median(ratios):.2f}, "
        f"{sum(ratio <= 1.2 for ratio in ratios)} within 1.2; the others, before anything is measured:\n"
    )
    print(table([line for _, line in sorted(lines, reverse=True)], ["problem", "begins", "times the faster"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", nargs="+", help="what regret.py --json wrote")
    parser.add_argument("--test", help="results that nothing is fitted to")
    options = parser.parse_args()
    results = [result for file in options.results for result in json.loads(Path(file).read_text())]
    lines, values = [], []
    for solver, sizes in ((ONLINE, "visits"), (BATCH, "evaluation")):
        samples = work_samples(results, solver, sizes)
        lines.append([f"work of {solver}", *errors(samples, work_fit, work_at)])
        values.append([sizes, *(f"{each:.3g}" for each in work_fit(samples)[1:])])
    for row in ("told, classes", "not told"):  # three datasets with told structures are too few
        for solver in (ONLINE, BATCH):
            samples = passes_samples(results, solver, row)
            lines.append([f"passes of {solver}, {row}", *errors(samples, passes_fit, fitted_passes)])
            least, power = passes_fit(samples)
            values.append([f"{row}, {solver}", f"{math.exp(least):.2g}", f"{power:.2f}", "", "", ""])
    print(table(values, ["coefficients", "examples / least", "sparse / power", "dense", "sums", "weights"]))
    print("\nErrors as factors, median / nine tenths:\n")
    print(table(lines, ["model", "runs", "in the fit", "left out", "worst left out"]))
    decisions(results)
    if options.test:
        print("\nOn problems that nothing was fitted to:")
        decisions(json.loads(Path(options.test).read_text()))


if __name__ == "__main__":
    main()
