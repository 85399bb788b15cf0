"""Losses between CRF and SVM on named entities, as Table 1 of Martins et al. 2010: test F1 by β and γ.

    python benchmarks/loss_family.py --data DIR/conll2002-es [--l2 0.5,2,8] [--solver mira] [--passes 10]
                                     [--plot losses.png] [--json out.json]

For every (β, γ) the l2 with the best F1 on testa.txt is taken, and F1 on testb.txt reported; β = ∞ with γ = 0 is
left out, since its optimum is no weights at all. `mira` is the paper's online dual coordinate ascent; with `auto`
every cell is trained to a gap of 1e-2 instead.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

from common import arguments, need_data, table, write_json

BETAS, GAMMAS = (1.0, 3.0, 5.0, math.inf), (0.0, 1.0, 3.0, 5.0)


def chunk_f1(model: Any, data: Any) -> float:
    from partwise.scoring.metrics import chunk_scores

    bounds = zip(data.sequence_ptr[:-1], data.sequence_ptr[1:], strict=True)
    gold = [list(data.labels[first:last]) for first, last in bounds]
    return 100.0 * chunk_scores(gold, model.predict(data)).f1


def cell(data: dict[str, Any], beta: float, gamma: float, options: Any) -> dict[str, Any]:
    """The best l2 by F1 on the development part, and what it gives on the test part."""
    from partwise import Loss, SequenceLabeler

    best: dict[str, Any] = {"dev": -1.0}
    started = time.process_time()
    for l2 in map(float, options.l2.split(",")):
        model = SequenceLabeler(
            Loss(beta, gamma), l2=l2, template="ner", solver=options.solver, tol=1e-2,
            max_passes=float(options.passes),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data["train"])
        dev = chunk_f1(model, data["dev"])
        if dev > best["dev"]:
            best = {"dev": dev, "test": chunk_f1(model, data["test"]), "l2": l2, "gap": model.duality_gap_}
    return {"beta": beta, "gamma": gamma, **best, "cpu": time.process_time() - started}


def plot(cells: list[dict[str, Any]], path: str) -> None:
    """F1 on the test part against γ, a line for each β."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), constrained_layout=True)
    for beta in BETAS:
        line = [c for c in cells if c["beta"] == beta]
        axes.plot([c["gamma"] for c in line], [c["test"] for c in line], "o-", label=f"β = {beta:g}")
    axes.set(xlabel="γ", ylabel="F1, %", title="Named entities: CRF is β = 1, γ = 0; SVM is β = ∞, γ = 1")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    more = {"--solver": "mira", "--passes": "10", "--plot": None}
    options = arguments(__doc__.splitlines()[0], l2="0.5,2,8", more=more)
    folder = need_data(options.data, "conll2002-es")
    from partwise.data.conll import read_conll

    files = {"train": "train.txt.gz", "dev": "testa.txt", "test": "testb.txt"}
    data = {part: read_conll(Path(folder) / name) for part, name in files.items()}
    cells = []
    for beta in BETAS:
        for gamma in GAMMAS:
            if math.isinf(beta) and gamma == 0.0:
                continue
            cells.append(cell(data, beta, gamma, options))
            print(cells[-1], flush=True)
    found = {(c["beta"], c["gamma"]): f"{c['test']:.2f} (l2 {c['l2']:g})" for c in cells}
    rows = [[f"{beta:g}", *(found.get((beta, gamma), "–") for gamma in GAMMAS)] for beta in BETAS]
    print(table(rows, ["β", *(f"γ = {gamma:g}" for gamma in GAMMAS)]))
    if options.plot:
        plot(cells, options.plot)
    write_json(options.json, cells)


if __name__ == "__main__":
    main()
