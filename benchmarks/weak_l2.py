"""`eg-gap` with its acceleration and without, where l2 is weak: passes and CPU seconds to a certified 1e-3.

    python benchmarks/weak_l2.py --data DIR/conll2002-es [--template ner] [--sentences 1000] [--l2 0.01,0.1,1]

Without it at most 100 passes are made. A last line gives the objective at every certificate of the first l2, for
comparison with other programs.
"""

from __future__ import annotations

from common import arguments, need_data, table
from sequence import build_problem


def main() -> None:
    from partwise.solvers import SOLVERS, ExponentiatedGradient, solve

    options = arguments(__doc__ or "", l2="0.01,0.1,1", more={"--template": "ner", "--sentences": "1000"})
    folder, rows, curve = need_data(options.data, "conll2000 or conll2002-es"), [], ""
    solvers = {"accelerated": SOLVERS["eg-gap"]}
    solvers["plain"] = ExponentiatedGradient("gap", "newton", acceleration=None)
    for l2 in options.l2.split(","):
        problem = build_problem(
            folder, float(l2), "observed", template=options.template, n_sentences=int(options.sentences)
        )
        solve(problem, SOLVERS["eg-gap"], max_passes=1)  # loads what is compiled
        for name, solver in solvers.items():
            found = solve(problem, solver, tol=1e-3, max_passes=300 if name == "accelerated" else 100)
            last = found.history[-1]
            numbers = [f"{found.passes:.1f}", f"{last.cpu_seconds:.2f}", f"{last.relative_gap:.1e}"]
            rows.append([l2, name, *numbers, f"{last.primal:.3f}", str(len(found.history))])
            curve = curve or "  ".join(f"{r.cpu_seconds:.1f} s {r.primal:.2f}" for r in found.history)
    print(table(rows, ["l2", "eg-gap", "passes", "CPU s", "relative gap", "primal", "certificates"]))
    print(curve)


if __name__ == "__main__":
    main()
