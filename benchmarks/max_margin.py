"""Max-margin training by pass, as Figure 4 of Bartlett et al. 2004: `smo`, `eg` from it and without it, and others.

    python benchmarks/max_margin.py --data DIR/conll2002-es [--l2 1] [--sentences 1000] [--solvers smo,smo-eg]
                                    [--plot out.png] [--json out.json]

First sentences of named entity data, observed features, tied transitions, loss="hinge". The figures are dual and
primal values after so many passes, with the CPU seconds it took, certificates not counted; one after another, on one
thread. `smo-entropy` is the SMO that gets stuck, as the paper's does, and `smo-entropy-eg` goes on from there.
"""

from __future__ import annotations

import time
from typing import Any

from common import arguments, need_data, table, write_json
from sequence import build_problem

PASSES = (1, 2, 5, 10, 20, 40, 80)
PAPER = ("eg", "smo-entropy", "smo-entropy-eg")  # the three curves of its figure
SOLVERS = "eg,eg-gap,smo-entropy,smo-entropy-eg,smo,smo-eg,bcfw,extragradient,bmrm"


def by_pass(problem: Any, solver: Any, marks: tuple[int, ...]) -> list[dict[str, float]]:
    """A record at the first step that reaches each number of passes."""
    import numpy as np

    random, passes, seconds, records = np.random.default_rng(0), 0.0, 0.0, []
    state = solver.init(problem, random)
    for mark in marks:
        while passes < mark:
            start = time.process_time()
            state, info = solver.step(problem, state, random)
            seconds += time.process_time() - start
            passes += info.passes
        _, certificate = solver.certificate(problem, type(state)(*(np.copy(a) for a in state)))
        record = {"passes": passes, "cpu": seconds, "dual": certificate.dual, "primal": certificate.primal}
        records.append(record)
    return records


def plot(figures: dict[str, list[dict[str, float]]], path: str) -> None:
    """The dual against passes, as in the paper, and against CPU seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, constrained_layout=True)
    for axes, key, label in zip(
        both, ("passes", "cpu"), ("passes over the data", "CPU seconds"), strict=True
    ):
        for name, records in figures.items():
            across, up = [r[key] for r in records], [max(r["dual"], -10.0) for r in records]
            axes.plot(across, up, "o-", label=name, lw=2.4 if name in PAPER else 1.3, ms=3)
        axes.set(xscale="log", xlabel=label)
        axes.axhline(
            min(r["primal"] for records in figures.values() for r in records), color="k", ls=":", lw=1
        )
        axes.grid(color="#eceff4")
    both[0].set_ylabel("dual; dotted: smallest primal seen")
    both[1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=110)


def main() -> None:
    more = {"--sentences": "1000", "--plot": None}
    options = arguments("Max-margin training by pass", l2="1", solvers=SOLVERS, more=more)
    from partwise.solvers import SMO, SMOThenEG
    from partwise.solvers import SOLVERS as REGISTERED

    solvers = {**REGISTERED, "smo-entropy": SMO("entropy"), "smo-entropy-eg": SMOThenEG(smo=SMO("entropy"))}
    folder = need_data(options.data, "named entities")
    problem = build_problem(
        folder, float(options.l2), "observed", "hinge", template="ner", n_sentences=int(options.sentences)
    )
    figures = {}
    for name in options.solvers.split(","):
        by_pass(problem, solvers[name], PASSES[:4])  # compiles
        figures[name] = by_pass(problem, solvers[name], PASSES)
    for what in ("dual", "primal", "cpu"):
        rows = [[name, *(f"{record[what]:.1f}" for record in records)] for name, records in figures.items()]
        print(f"\n{what}\n" + table(rows, ["solver", *(f"{mark} passes" for mark in PASSES)]))
    write_json(options.json, figures)
    if options.plot:
        plot(figures, options.plot)


if __name__ == "__main__":
    main()
