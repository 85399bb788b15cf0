"""Collins et al. (2008), §§7.2 and 8: dependency parsing, log-linear and max-margin."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.curves import (
    CPU,
    DUAL,
    PASSES,
    PRIMAL,
    SEEN,
    best_gaps,
    best_seen,
    bracket,
    curve,
    first_below,
    number,
    passes_to,
    published_eg,
)
from reproduction.experiment import Experiment, Numbers, Verdict
from reproduction.paths import auto_path, draw_path, path_table, warm_path
from reproduction.pictures import column, line, panels
from reproduction.treebanks import Treebank, treebank

PAPER = "Collins et al. 2008"
N_TRAIN, N_DEV = 2306, 643
MARGIN_PASSES = 40.0  # of one max-margin curve
CPU_SECONDS = 12.0  # the least for it, unless it comes to its gap
MARGIN_SEEDS = 3
CLEARLY = 1.25  # times faster
LOG_STRENGTHS = (1000.0, 100.0, 10.0, 1.0, 0.1)
MARGIN_STRENGTHS = (10_000.0, 1000.0, 100.0, 10.0, 1.0)
RATES = (1.0, 0.1, 0.001, 0.0001)  # η₀ tried for SGD
PUBLISHED = (
(
    8, 3.01, 4.76, 4.9, 4.91, 6.1, 6.06, 6.08, 7.23, 7.23, 8.33, 9.4, 12.6, 13.71, 19.03, 23.33, 30.82, 37.22, 45.8,
    57.53, 73.6,
),
(
    72.44, 73.42, 74.35, 75.29, 76.13, 77.13, 77.82, 78.74, 79.41, 79.99, 80.38, 80.60, 80.77, 80.72, 80.67, 80.61,
    80.31, 80.18, 79.98, 79.63, 79.36,
),
)  # fmt: skip
SETTING = (
    "The paper trains on 2,306 Spanish sentences of CoNLL-X and validates on 1,000; here the first 2,306 sentences of "
    "the Spanish CoNLL-2007 data train and the next 643 validate. Projective trees, features after McDonald et al., "
    "gold tags; each word keeps its 10 likeliest heads (the paper does not prune). EG is the paper's: random order, η "
    "halved until the dual improves, then × 1.05, every η counted, weights of the last visit."
)


@cache
def spanish(data: Path, loss: str, limit: int | None) -> Treebank:
    return treebank(data / "conll2007-es", loss, limit, N_TRAIN, N_DEV)


# -- Table 3 -----------------------------------------------------------------------------------------


def run_path(data: Path, numbers: Numbers) -> None:
    here = spanish(data, "log", numbers.limit())
    l2s = [1000.0 * 0.7**k for k in range(21)]
    numbers.once("auto", auto_path, here.problem, l2s, 1e-3, here.accuracy)
    numbers.once("paper", warm_path, here.problem, published_eg(), l2s, 1e-3, here.accuracy)


def path_verdicts(numbers: dict[str, Any]) -> list[Verdict]:
    paper, auto = numbers["paper"], numbers["auto"]
    total, ours = (sum(row["passes"] for row in rows) for rows in (paper, auto))
    best = max(paper, key=lambda row: row["seen"])
    return [
        Verdict(
            "21 values in 389.65 effective iterations",
            f"{total:.2f}; `auto` {ours:.1f}",
            None if numbers["sentences"] else total <= 389.65,  # fewer sentences, fewer iterations
        ),
        Verdict(
            "the best accuracy is inside the range, at C = 13.84",
            f"{best['seen']:.2f} % at C = {best['l2']:.4g}",
            best not in (paper[0], paper[-1]),
        ),
    ]


# -- Figure 12: log-linear, by effective iterations ---------------------------------------------------


def run_log(data: Path, numbers: Numbers) -> None:
    from partwise.solvers import LBFGS, SGD, solver_for

    here = spanish(data, "log", numbers.limit())
    for strength in LOG_STRENGTHS:
        at = here.problem.with_l2(strength)
        solvers = {
            "eg": (published_eg(), 40.0),
            "auto": (solver_for(at, "auto", 1e-7), 30.0),
            "lbfgs": (LBFGS(preconditioner=None), 40.0),
            "shaped": (LBFGS(), 40.0),
        }
        for key, (solver, most) in solvers.items():
            numbers.once(
                f"{key} C={strength:g}", curve, at, solver, most, gap=1e-4, spacing=0.15, watch=here.watch()
            )
        if strength == LOG_STRENGTHS[0]:
            numbers.once(f"eg η=1 C={strength:g}", whole_steps, at)
        right = numbers.once(f"sgd rates C={strength:g}", first_accuracy, at, here)
        rate = RATES[right.index(max(right))]
        numbers.once(f"sgd C={strength:g}", curve, at, SGD(rate), 20.0, spacing=0.2, watch=here.watch())


def whole_steps(problem: Any) -> list[list[Any]]:
    """EG whose first η is 1, so that a visit moves an example all the way to the model at the present weights."""
    return curve(problem, published_eg(initial_step=1.0), 12.0)


def first_accuracy(problem: Any, here: Treebank) -> list[float]:
    """After one pass of SGD, by rate."""
    from partwise.solvers import SGD

    return [curve(problem, SGD(rate), 1.0, watch=here.watch())[-1][SEEN] for rate in RATES]


def draw_log(numbers: dict[str, Any]) -> Any:
    figure, axes = panels(5, 2, height=2.6, sharex="col", sharey="row")
    names = {
        "eg": "EG, the paper's", "auto": "auto", "lbfgs": "L-BFGS", "shaped": "L-BFGS, preconditioned", "sgd": "SGD",
    }  # fmt: skip
    for strength, upper, lower in zip(LOG_STRENGTHS, axes[:5], axes[5:], strict=True):
        optimum = bracket(numbers[f"{key} C={strength:g}"] for key in names)[0]
        for k, (key, label) in enumerate(names.items()):
            points = numbers[f"{key} C={strength:g}"]
            across = column(points, PASSES)
            line(upper, across, [max(p[PRIMAL] / optimum - 1, 1e-6) for p in points], label, k)
            line(lower, across, column(points, SEEN), label, k)
        upper.set(yscale="log", xscale="log", ylim=(1e-5, 20), title=f"C = {strength:g}")
        lower.set(xlabel="iterations")
    best = max(p[SEEN] or 0.0 for c in LOG_STRENGTHS for p in numbers[f"eg C={c:g}"])
    axes[0].set_ylabel("primal above the optimum, relative")
    axes[5].set(ylabel="heads right, %", ylim=(best - 10, best + 1))
    axes[0].legend(frameon=False)
    return figure


def log_verdicts(numbers: dict[str, Any]) -> list[Verdict]:
    keys = ("eg", "auto", "lbfgs", "shaped", "sgd")
    within: dict[float, dict[float, list[float | None]]] = {1e-2: {}, 1e-3: {}}
    ahead = 0
    for c in LOG_STRENGTHS:
        curves = [numbers[f"{key} C={c:g}"] for key in keys]
        optimum = bracket(curves)[0]
        for target, found in within.items():
            found[c] = [passes_to(points, optimum, target) for points in curves]
        orders = [(at or math.inf, p[-1][PRIMAL]) for at, p in zip(within[1e-2][c], curves, strict=True)]
        ahead += orders[0] < orders[2]
    strengths = "at C = " + ", ".join(f"{c:g}" for c in LOG_STRENGTHS)
    listed = {
        target: "; ".join(" / ".join(number(each) for each in found[c]) for c in LOG_STRENGTHS)
        for target, found in within.items()
    }
    best = {c: best_seen(numbers[f"eg C={c:g}"]) for c in LOG_STRENGTHS}
    top = max(best, key=lambda c: best[c])
    near, nearer = within[1e-2], within[1e-3]
    strongest = LOG_STRENGTHS[0]
    optimum = bracket([numbers[f"{key} C={strongest:g}"] for key in keys])[0]
    whole = [number(passes_to(numbers[f"eg η=1 C={strongest:g}"], optimum, t)) for t in within]
    return [
        Verdict(
            "EG converges to the optimum significantly faster than L-BFGS",
            f"ahead at {ahead} of {len(LOG_STRENGTHS)} C; iterations to within 1 % {strengths} (–: not in 40, SGD "
            f"20), EG / `auto` / L-BFGS / preconditioned / SGD: {listed[1e-2]}. To within 0.1 %: {listed[1e-3]}",
            ahead == len(LOG_STRENGTHS),
        ),
        Verdict(
            "SGD does not come to the optimum for C = 1 and 10, and is slower than EG where it does",
            "to within 1 % and 0.1 %, EG and SGD: "
            + "; ".join(
                f"C = {c:g}: {number(near[c][0])}, {number(near[c][-1])} and {number(nearer[c][0])}, "
                f"{number(nearer[c][-1])}"
                for c in LOG_STRENGTHS
            )
            + f". At C = {strongest:g} examples hardly pull on each other, and with η = 0.5 a visit moves an "
            f"example only half of the way. With η = 1 EG needs {' and '.join(whole)}",
            nearer[1.0][-1] is None
            and nearer[10.0][-1] is None
            and all(found[-1] is None or (found[0] or math.inf) < found[-1] for found in nearer.values()),
        ),
        Verdict("C = 10 has the best validation accuracy", f"C = {top:g}, {best[top]:.2f} %", top == 10.0),
    ]


# -- Figure 13: max-margin, by time -------------------------------------------------------------------


def run_margin(data: Path, numbers: Numbers) -> None:
    from partwise.solvers import SVMStruct, solve, solver_for

    here = spanish(data, "hinge", numbers.limit())
    few = here.problem.shard(np.arange(20))
    for strength in MARGIN_STRENGTHS:
        at = here.problem.with_l2(strength)
        solvers = {"eg": published_eg(), "auto": solver_for(at, "auto", 1e-7), "svm-struct": SVMStruct()}
        for key, solver in solvers.items():
            solve(few, getattr(solver, "solver", solver), tol=1e-9, max_passes=2)  # compiles
            limits: dict[str, Any] = {"max_cpu": CPU_SECONDS, "gap": 1e-3, "spacing": 0.15}
            numbers.once(
                f"{key} C={strength:g}", curve, at, solver, MARGIN_PASSES, **limits, watch=here.watch()
            )
        for seed in range(1, MARGIN_SEEDS):  # SVM-struct draws nothing
            limits = {"max_cpu": CPU_SECONDS, "gap": 1e-3, "spacing": 0.1, "seed": seed}
            numbers.once(f"eg C={strength:g} seed={seed}", curve, at, published_eg(), MARGIN_PASSES, **limits)


def draw_margin(numbers: dict[str, Any]) -> Any:
    figure, axes = panels(5, 2, height=2.6, sharex="col")
    names = {"eg": "EG, the paper's", "auto": "auto", "svm-struct": "SVM-struct"}
    for strength, upper, lower in zip(MARGIN_STRENGTHS, axes[:5], axes[5:], strict=True):
        curves = {key: numbers[f"{key} C={strength:g}"] for key in names}
        _, least = bracket(curves.values())
        for k, (key, label) in enumerate(names.items()):
            across = column(curves[key], CPU)
            line(upper, across, column(curves[key], PRIMAL), label, k)
            line(upper, across, column(curves[key], DUAL), None, k, ls="--")
            line(lower, across, column(curves[key], SEEN), label, k)
        upper.set(xscale="log", ylim=(0.0, 2.5 * least), title=f"C = {strength:g}")
        lower.set(xlabel="CPU seconds")
    axes[0].set_ylabel("primal; dashed: dual")
    axes[5].set_ylabel("heads right, %")
    axes[0].legend(frameon=False)
    return figure


def margin_verdicts(numbers: dict[str, Any]) -> list[Verdict]:
    cells, ahead, behind = [], [], []
    for c in MARGIN_STRENGTHS:
        eg, rival = (numbers[f"{key} C={c:g}"] for key in ("eg", "svm-struct"))
        seeds = [eg, *(numbers[f"eg C={c:g} seed={seed}"] for seed in range(1, MARGIN_SEEDS))]
        factors = [times_faster(points, rival) for points in seeds]
        passes = " ".join(number(first_below(points, 1e-2)) for points in seeds)
        auto, other = (number(first_below(numbers[f"{key} C={c:g}"], 1e-2)) for key in ("auto", "svm-struct"))
        cells.append(f"C = {c:g}: {min(factors):.1f} to {max(factors):.1f} ({passes} / {auto} / {other})")
        ahead += [c] * (min(factors) >= CLEARLY)
        behind += [c] * (max(factors) <= 1.0 / CLEARLY)
    best = {c: best_seen(numbers[f"eg C={c:g}"]) for c in MARGIN_STRENGTHS}
    top = max(best, key=lambda c: best[c])
    most = len(cells) / 2
    return [
        Verdict(
            "EG is considerably faster than SVM-struct for most C, comparable at C = 1",
            f"with every seed of {MARGIN_SEEDS} it is at least {CLEARLY:g} times faster at "
            f"{', '.join(f'C = {c:g}' for c in ahead)}, and slower by as much at "
            f"{', '.join(f'C = {c:g}' for c in behind) or 'none'}. Times faster by seed, and passes to 1 % (EG by "
            f"seed / `auto` / SVM-struct, – for not at all): {'; '.join(cells)}",
            True if len(ahead) > most else False if len(behind) > most else None,
        ),
        Verdict("C = 100 has the best validation accuracy", f"C = {top:g}, {best[top]:.2f} %", top == 100.0),
    ]


def times_faster(points: list[list[Any]], rival: list[list[Any]]) -> float:
    """CPU seconds of the rival over one's own to a gap of 1 %; if one does not come to it, the gaps after equal CPU."""
    own, other = (first_below(each, 1e-2, CPU) for each in (points, rival))
    if own is not None and other is not None:
        return other / own
    last = min(points[-1][CPU], rival[-1][CPU])
    gap, others = (best_gaps([p for p in each if p[CPU] <= last])[-1] for each in (points, rival))
    return others / gap


def _experiment(
    name: str,
    place: str,
    more: str,
    solvers: tuple[str, ...],
    run: Any,
    draw: Any,
    verdicts: Any,
    table: Any = None,
) -> Experiment:
    source, data = f"{PAPER}, {place}", ("conll2007-es",)
    return Experiment(name, source, SETTING + more, data, run, name, draw, verdicts, table, solvers)


LOG_SOLVERS = tuple(
    f"{solver}, log-linear trees" for solver in ("eg", "auto", "lbfgs", "preconditioned lbfgs", "sgd")
)
MARGIN_SOLVERS = tuple(f"{solver}, max-margin trees" for solver in ("eg", "svm-struct"))
EXPERIMENTS = (
    _experiment(
        "parsing-path", "Table 3, p. 33", "", LOG_SOLVERS[:2], run_path,
        lambda numbers: draw_path(numbers, PUBLISHED, "heads right, %", max), path_verdicts,
        lambda numbers: path_table(numbers, PUBLISHED, "heads right, %"),
    ),
    _experiment(
        "parsing-log-es", "Figure 12, p. 34",
        " SGD's η₀ is the best of 1, 0.1, 0.001, 0.0001 by accuracy after one pass, not counted, as there.",
        LOG_SOLVERS, run_log, draw_log, log_verdicts,
    ),
    _experiment(
        "parsing-margin-es", "Figure 13, p. 36",
        f" Costs are wrong heads. A solver gets {MARGIN_PASSES:.0f} passes or at least {CPU_SECONDS:.0f} CPU seconds "
        "on one thread (the paper's axis is hours), evaluations not counted. CPU seconds of a busy machine are off by "
        f"a fifth or so: a solver is ahead if it is {CLEARLY:g} times faster to a gap of 1 % or, if one does "
        "not come to it, by the gap after equal CPU seconds.",
        MARGIN_SOLVERS, run_margin, draw_margin, margin_verdicts,
    ),
)  # fmt: skip
