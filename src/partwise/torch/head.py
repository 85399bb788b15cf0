"""The last layer of a frozen network, trained to a certified optimum."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from partwise.compiled.clock import telling
from partwise.core.checks import check_positive
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.report.compiling import CompilingLine
from partwise.report.progress import duration, number, relative_gap
from partwise.solvers import BMRM, LBFGS, Progress, Solution, Solver, StopReason, solve, solver_for
from partwise.structures.contract import Structure
from partwise.structures.grammar.grammar import Grammar
from partwise.torch.activations import gather
from partwise.torch.device_problem import DeviceProblem
from partwise.torch.functions import argmax
from partwise.torch.graph_rows import GraphFeed, feed_for
from partwise.torch.packed import unpacked
from partwise.torch.rows import Feed

# Passes of cutting planes on a device: runs that need more are usually faster on the CPU.
_FIRST_PASSES = 150
_SILENCE = 2.0  # Seconds before the first line of progress and between two lines.


class Head(torch.nn.Module):
    """A last layer: linear maps from activations to scores, and scores that all examples share.

    Calling it turns activations into the score tensors that the layers of this package take.

    Attributes
    ----------
    structure : Structure
    linear : ModuleDict of Linear
        By the kind of rows (`node`, `edge`, `arc`, `relation`, `segment`, `word`, `span`).
    shared : ParameterDict
        `transition` (L, L), `rule` (R,) or the table of a graph's edges (S, S), if the structure has them.
    certificate : Certificate
        P and D. P is the sum of the losses plus l2 / 2 times the squared norm of all weights above, biases included.
    history : list of Record
    converged : bool
    why : str
        The reason why training ended.
    solver, device : str
        The solver, and the device that computed sums.
    weights : float64 array (n_weights,)
        The solver's weights. The tensors above are the same in PyTorch's default type.
    """

    def __init__(self, feed: Feed, solution: Solution, bias: bool, solver: str, device: str):
        super().__init__()
        self.structure, self._feed = feed.structure, feed
        self.linear, self.shared = torch.nn.ModuleDict(), torch.nn.ParameterDict()
        self.certificate, self.history = solution.certificate, solution.history
        self.converged, self.why, self.weights = solution.converged, solution.why, solution.weights
        self.solver, self.device = solver, device
        for each in feed.tensors:
            rows = solution.problem.scorer.kinds[each.number]
            own = solution.weights[rows.first_weight : rows.first_weight + rows.n_weights]
            table = torch.tensor(
                own.reshape(-1, rows.stride)[:, : each.width], dtype=torch.get_default_dtype()
            )
            if each.tied:
                self.shared[each.name] = torch.nn.Parameter(table.reshape(each.tail))
            elif len(table):
                self.linear[each.name] = _linear(table, each.column, each.n_entries, bias)

    def forward(self, *activations: Any) -> tuple[torch.Tensor, ...]:
        """Scores, in the order in which layers take them, from the outputs of the module."""
        feed, given = self._feed.of_batch(unpacked(activations, None)[0])
        left = iter(given)
        scores = []
        for each in feed.tensors:
            if each.tied:
                scores.append(self.shared[each.name])
            elif each.name in self.linear:
                own = next(left)
                scores.append(self.linear[each.name](own).reshape(*own.shape[:-1], *each.tail))
        return feed.arguments(tuple(scores))

    def argmax(self, *activations: Any, lengths: Any = None) -> Any:
        """Best labellings, as :func:`partwise.torch.argmax` returns them."""
        _, lengths = unpacked(activations, lengths)
        return argmax(self.structure, *self(*activations), lengths=lengths)

    @torch.no_grad()
    def load_into(self, *targets: Any) -> None:
        """Copy the weights into modules with `weight` (and `bias`), and into tensors, in the order of the scores.

        Examples
        --------
        >>> head.load_into(tagger.linear, tagger.transitions)
        """
        own = [
            self.shared[each.name] if each.tied else self.linear[each.name]
            for each in self._feed.tensors
            if each.tied or each.name in self.linear
        ]
        if len(targets) != len(own):
            raise InputError(f"load_into takes {len(own)} targets for {self.structure!r}, not {len(targets)}")
        for target, source in zip(targets, own, strict=True):
            _copy(target, source)


def _copy(target: Any, source: Any) -> None:
    if isinstance(source, torch.nn.Parameter):
        if not isinstance(target, torch.Tensor) or target.shape != source.shape:
            raise InputError(f"shared scores need a tensor of shape {tuple(source.shape)}")
        target.copy_(source)
        return
    weight, bias = getattr(target, "weight", None), getattr(target, "bias", None)
    if not isinstance(weight, torch.Tensor) or weight.shape != source.weight.shape:
        raise InputError(f"weights need a module with weight of shape {tuple(source.weight.shape)}")
    if bias is None and source.bias is not None:
        raise InputError("the head has a bias and the module has none: use bias=False")
    weight.copy_(source.weight)
    if bias is not None:
        bias.copy_(source.bias if source.bias is not None else torch.zeros_like(bias))


def _linear(table: torch.Tensor, columns: np.ndarray, n_entries: int, bias: bool) -> torch.nn.Linear:
    """A linear layer from weights (n_features, width). With a bias, the last row is the bias."""
    n_features = len(table) - bias
    result = torch.nn.Linear(n_features, n_entries, bias=bias)
    with torch.no_grad():
        result.weight.zero_()
        result.weight[columns] = table[:n_features].T
        if bias:
            result.bias.zero_()
            result.bias[columns] = table[-1]
    return result


def fit_head(
    module: torch.nn.Module,
    loader: Iterable[Any],
    structure: Structure,
    loss: str | Loss = "log",
    l2: float = 1.0,
    *,
    cost: Any = "hamming",
    bias: bool = True,
    tol: float = 1e-3,
    max_passes: float = 1000,
    solver: str | Solver = "auto",
    device: str | torch.device | None = None,
    verbose: bool | None = None,
) -> Head:
    """Train the last layer of a network to a certified optimum. The network does not change.

    The module runs over the loader once, in evaluation mode. Its activations are the features of a convex problem,

        P(W) = Σ_i ℓ(scores of example i under W, its true labels) + (l2 / 2) ‖W‖²,

    which is solved until a dual bound proves that P is within `tol` of its minimum.

    Parameters
    ----------
    module : Module
        Returns activations with the features in the last axis, one tensor for every kind of rows of the structure:
        classes (B, H); chains (B, T, H), with ``Chain(L, tied=False)`` also (B, T − 1, H); trees
        (B, n + 1, n + 1, H), and again for relations; segments (B, T, D, H); grammars words (B, n, H) and perhaps
        spans (B, n, n, H); graphs vertices (B, V, H) and edges (E, 2), and (B, E, H) unless the edges' tables are tied.
        Activations of a chain may be a ``PackedSequence``.
    loader : iterable
        Yields batches (inputs, target) or (inputs, target, lengths). A tuple of inputs is several arguments of the
        module, a dict named ones. Targets and lengths are those of :class:`StructuredLoss`.
    structure : Structure
        Transitions of tied chains and of segments, rules of grammars and tied tables of edges are also weights. A
        graph names its kinds: ``Graph({"vertex": 3}, [FactorKind("edge", ("vertex", "vertex"), tied=True)])``.
    loss : str or Loss
    l2 : float
        Above 0. P is a sum over examples, not a mean.
    cost, tol, max_passes
        As in the training of other models.
    bias : bool
        Whether scores have a constant term, under the same l2.
    solver : str or Solver
        "auto" chooses the fastest known solver. For β = ∞, if that does not converge within `max_passes`, `bmrm` runs
        for as many passes.
    device : str or torch.device, optional
        The device that computes sums over the examples, by default the device of the activations. Solvers that need
        only such sums use a GPU: `lbfgs`, the choice of "auto" for finite β; `bmrm`, its first choice for β = ∞;
        `extragradient`; `cg`. Other solvers run on the CPU, for example the dual solvers that "auto" tries for β = ∞ if
        150 passes of `bmrm` were not enough. :attr:`Head.device` is the device that was used.
    verbose : bool, optional
        Whether to print progress on stderr, by default if stderr is a terminal. The first line comes after two seconds.

    Returns
    -------
    Head
        If `max_passes` were not enough, a ConvergenceWarning names the gap that was reached.
    """
    loss = Loss.of(loss)
    for name, value in (("l2", l2), ("tol", tol), ("max_passes", max_passes)):
        check_positive(name, value)
    asked = None if device is None else _checked_device(device)
    feed, tell = feed_for(structure), _ProgressLines(verbose)
    found = gather(module, loader, feed, bias, tell)
    where = found.device if asked is None else asked
    plain = found.problem(feed, loss, l2, cost, torch.get_num_threads())
    line = CompilingLine(sys.stderr) if tell.shown else None
    with telling(line, f"a head on {type(structure).__name__.lower()}"):
        solution, chosen = _solved(plain, feed, solver, where, tol, max_passes, tell)
    on_device = solution.problem if isinstance(solution.problem, DeviceProblem) else None
    ran_on = "cpu" if on_device is None else str(on_device.device)
    if not np.isfinite(solution.certificate.primal):
        raise InputError(
            f"the objective became {solution.certificate.primal}: activations, cost or 1 / l2 are too large"
        )
    if not solution.converged:
        from sklearn.exceptions import ConvergenceWarning

        gap = f"relative gap {solution.certificate.relative_gap:.2g}, tol {tol:g}"
        warnings.warn(f"{solution.why} ({gap})", ConvergenceWarning, stacklevel=2)
    return Head(feed, solution, bias, chosen.name, ran_on).to(found.device)


def _checked_device(device: str | torch.device) -> torch.device:
    """The device; raises :class:`InputError` if it cannot be used."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r:.60} cannot be used: {reason}") from None


def _solved(
    plain: Problem,
    feed: Feed,
    solver: str | Solver,
    where: torch.device,
    tol: float,
    max_passes: float,
    tell: _ProgressLines,
) -> tuple[Solution, Solver]:
    """The solution, computed on the device if the solver can, and the solver.

    For β = ∞, "auto" starts with cutting planes on the device. No solver that needs only sums is surely fast, so after
    `_FIRST_PASSES` the best solver on the CPU takes over. If that does not converge either, cutting planes run again:
    features of very different sizes do not slow them down.
    """
    is_there, there = _has_kernels(feed, where), None
    attempts: list[tuple[Solver, float]]
    if solver == "auto" and plain.loss.is_hard:
        attempts = [(solver_for(plain, solver, tol), max_passes), (BMRM(), max_passes)]
        if is_there and not isinstance(plain.structure, Grammar):  # there are no kernels for best derivations
            attempts.insert(0, (BMRM(), min(_FIRST_PASSES, max_passes)))
    elif solver == "auto" and is_there:
        attempts = [(LBFGS(), max_passes)]
    else:
        attempts = [(solver_for(plain, solver, tol), max_passes)]
    found: tuple[Solution, Solver] | None = None
    for chosen, most in attempts:
        problem = plain
        if is_there and chosen.runs_on_gpu:
            problem = there = there or DeviceProblem.of(plain, feed, where)
        solution = solve(problem, chosen, tol=tol, max_passes=most, callback=tell.progress)
        if solution.stop_reason is StopReason.STALLED and chosen.name == "auto" and not plain.loss.is_hard:
            chosen = LBFGS()  # the activations are too large for dual steps
            solution = solve(problem, chosen, tol=tol, max_passes=most, callback=tell.progress)
        gap = solution.certificate.relative_gap
        if found is None or not gap > found[0].certificate.relative_gap:
            found = solution, chosen
        if solution.converged:
            break
    assert found is not None
    return found


def _has_kernels(feed: Feed, where: torch.device) -> bool:
    """Whether this device has kernels for the sums."""
    structure = feed.structure
    has_unaries = (
        isinstance(structure, Grammar) and len(structure.unaries) > 0
    )  # their costs are not costs of entries
    return where.type != "cpu" and not isinstance(feed, GraphFeed) and not has_unaries


class _ProgressLines:
    """Prints lines of progress on stderr, at most one in `_SILENCE` seconds."""

    def __init__(self, verbose: bool | None):
        stream = sys.stderr
        self.shown = bool(stream is not None and (stream.isatty() if verbose is None else verbose))
        self._begun = self._last = time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self.shown and now >= self._last + _SILENCE:
            self._last = now
            print(f"{duration(now - self._begun)}  {text}", file=sys.stderr, flush=True)

    def progress(self, progress: Progress) -> None:
        primal = progress.dual + progress.estimated_gap
        self(
            f"pass {progress.passes:.0f}  primal {number(primal)}  dual {number(progress.dual)}  "
            f"relative gap {relative_gap(progress):.2e}"
        )
