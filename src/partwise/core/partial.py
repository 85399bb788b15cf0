"""Problems whose labels are known in part. The loss sums over all labellings that agree with what is known.

    F(w) = Σ_i c_i (1/β) [ A(β(s_i + γ e_i)) − A(the same, −inf for parts that disagree) ] + penalty(w)

The second term is concave, so F is not convex. A *completion* q_i is a distribution over the labellings that agree,
in place of the true label. With fixed completions the problem is convex: P_q(w) − H(q)/β is an upper bound of F. The
bound is tight if q is the model restricted to the labellings that agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.core.arrays import offsets, ranges
from partwise.core.evaluation import Evaluation
from partwise.core.partial_pass import balance_pass, partial_losses, partial_pass
from partwise.core.problem import Problem

_NOTHING = np.zeros(0)


class Gaps(NamedTuple):
    """The known parts of labels.

    Attributes
    ----------
    hidden : uint8 array, shape (n_examples,)
        1 if something about the label is unknown.
    excluded_ptr, excluded_part : int64 arrays, shapes (n_examples + 1,) and (excluded_ptr[n],)
        Parts, counted within their example, that disagree with what is known.
    """

    hidden: np.ndarray
    excluded_ptr: np.ndarray
    excluded_part: np.ndarray


@dataclass
class PartialProblem(Problem):
    """A problem with gaps in its labels. `gold` is the label of every example whose label is fully known.

    Costs must be the same for all labellings that agree with what is known.
    """

    visits_read_rows = False

    gaps: Gaps = field(default_factory=lambda: Gaps(*np.zeros((3, 0), np.int64)))

    @classmethod
    def of(cls, problem: Problem, gaps: Gaps) -> PartialProblem:
        parts: Any = (*problem._parts(), {}, gaps)
        return cls(*parts)

    def _parts(self) -> tuple[Any, ...]:
        return *super()._parts(), {}, self.gaps

    def shard(self, examples: np.ndarray) -> PartialProblem:
        hidden, ptr, part = self.gaps
        sizes = np.diff(ptr)[examples]
        gaps = Gaps(hidden[examples], offsets(sizes), part[ranges(ptr[:-1][examples], sizes)])
        return PartialProblem.of(super().shard(examples), gaps)

    @property
    def certified(self) -> str:
        return "local"

    @property
    def known(self) -> tuple[np.ndarray, ...]:
        return *super().known, *self.gaps

    def at_weights(
        self,
        weights: np.ndarray,
        scale: float,
        cost_scale: float = 0.0,
        gold_scale: float = 0.0,
        hard: bool = False,
    ) -> Evaluation:
        """The gradient of the losses is −v. `gold` holds the log-partitions of the labellings that agree.

        Entropies of the completions are subtracted. :meth:`dual` is then a lower bound of P_q − H(q)/β for the
        completions of these weights, and F − dual is ‖∇F‖² / (2 l2).
        """
        if hard or gold_scale:
            raise NotImplementedError("labels known in part have sums only")
        return self._evaluated(weights, scale, cost_scale, _NOTHING)

    def _evaluated(
        self, weights: np.ndarray, scale: float, cost_scale: float, balance: np.ndarray
    ) -> Evaluation:
        entropy, cost, log_total, agreeing = (np.zeros(self.n_examples) for _ in range(4))
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in self.pieces(first, last, weights, v):
                partial_pass(
                    *piece, self.gaps, weights, scale, cost_scale, balance,
                    v, entropy, cost, log_total, agreeing, scratch,
                )  # fmt: skip

        v = self.over_examples(np.float64, work, ("sums",))
        return Evaluation(v, entropy, cost, log_total, agreeing)

    def balance(self, weights: np.ndarray) -> np.ndarray:
        """Expected counts under labellings that agree minus those under all labellings, (n_parts,)."""
        found, beta = np.zeros(self.n_parts), self.loss.beta
        self._evaluated(weights, beta, beta * self.loss.gamma, found)
        return found

    def at_balance(self, balance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v, and costs (n_examples,), from differences of expected counts, in double precision."""
        cost = np.zeros(self.n_examples)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in self.pieces(first, last, v=v):
                balance_pass(*piece, balance, v, cost, scratch)

        return self.over_examples(np.float64, work, ()), cost

    def sums(
        self, weights: np.ndarray, completion: np.ndarray = _NOTHING
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-partitions over β of all labellings and of those that agree, and scores of `completion` (n_parts,)."""
        total, agreeing, met = (np.zeros(self.n_examples) for _ in range(3))
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in self.pieces(first, last, weights):
                partial_losses(
                    *piece, self.gaps, weights, self.loss.beta, self.loss.gamma, completion,
                    total, agreeing, met, scratch,
                )  # fmt: skip

        self.over_examples(np.float64, work, ("sums",))
        return total, agreeing, met

    def losses(self, weights: np.ndarray, mu: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """ℓ_i at `weights`. There are no inner products."""
        total, agreeing, met = self.sums(weights)
        return total - agreeing, met
