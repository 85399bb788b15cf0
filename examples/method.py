"""Online exponentiated gradient for a chain, with gap sampling and a duality-gap certificate, in plain NumPy.

    python examples/method.py

The method of partwise without its engineering. Equation numbers are those of `docs/method.md`, which walks through this
file. A label sequence y of an example with T positions and K labels is scored by its *parts*: one score per position
and label, and one score per pair of neighbouring labels. All positions share the latter, so the scores of an example
are one matrix s (T + K, K): rows 0 … T − 1 are positions, rows T … T + K − 1 are transitions. The same shape holds
potentials θ, expected part counts μ and the true part counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Share of visits drawn in proportion to the gaps. The others are uniform, because a gap is known from the last visit
# only and may have grown since.
BY_GAP = 0.8
# Growth of an example's step after a success, as in Collins et al. (2008), section 7. A failure halves the step.
GROWTH = 1.05
# Initial potential of the true labels: exp(5) times as likely as others, so that training starts near them.
START = 5.0


class Example(NamedTuple):
    """One training example.

    Attributes
    ----------
    phi : float array (T + K, d + K)
        The part scores under weights W (d + K, K) are ``phi @ W``. The first d rows of W are weights of features, the
        last K rows are weights of transitions.
    true : float array (T + K, K)
        How often the true labels use each part.
    """

    phi: np.ndarray
    true: np.ndarray


def encode(x: np.ndarray, y: np.ndarray, n_labels: int) -> Example:
    """An example from features x (T, d) and true labels y (T,)."""
    (length, d), K = x.shape, n_labels
    phi = np.zeros((length + K, d + K))
    phi[:length, :d], phi[length:, d:] = x, np.eye(K)
    true = np.zeros((length + K, K))
    true[np.arange(length), y] = 1.0
    np.add.at(true, (length + y[:-1], y[1:]), 1.0)
    return Example(phi, true)


# -- the structure -----------------------------------------------------------------------------------


def forward_backward(s: np.ndarray) -> tuple[float, np.ndarray]:
    """log Σ_y exp(score of y), equation (1), and its gradient, the expected part counts, for part scores s."""
    K = s.shape[1]
    node, edge = s[:-K], s[-K:]
    forward, backward = np.empty_like(node), np.zeros_like(node)
    forward[0] = node[0]
    for t in range(1, len(node)):
        forward[t] = node[t] + np.logaddexp.reduce(forward[t - 1][:, None] + edge, axis=0)
    for t in range(len(node) - 2, -1, -1):
        backward[t] = np.logaddexp.reduce(edge + node[t + 1] + backward[t + 1], axis=1)
    log_partition = float(np.logaddexp.reduce(forward[-1]))
    counts = np.zeros_like(s)
    counts[:-K] = np.exp(forward + backward - log_partition)
    for t in range(1, len(node)):
        after = node[t] + backward[t]
        counts[-K:] += np.exp(forward[t - 1][:, None] + edge + after - log_partition)
    return log_partition, counts


# -- primal and dual -----------------------------------------------------------------------------------


@dataclass
class Dual:
    """The dual point α, one distribution per example, in the form of potentials.

    Attributes
    ----------
    theta, mu : list of float array (T + K, K)
        α_i(y) ∝ exp(Σ of θ_i over the parts of y), and the expected part counts under α_i.
    entropy : float array (n,)
        H(α_i).
    v : float array (d + K, K)
        Σ_i Φ_iᵀ (true counts − μ_i), equation (3). The weights of α are v / l2.
    """

    theta: list[np.ndarray]
    mu: list[np.ndarray]
    entropy: np.ndarray
    v: np.ndarray

    @classmethod
    def at(cls, theta: list[np.ndarray], examples: list[Example]) -> Dual:
        """Everything that follows from the potentials."""
        found = [entropy_and_counts(each) for each in theta]
        mu = [counts for _, counts in found]
        v = sum(each.phi.T @ (each.true - own) for each, own in zip(examples, mu, strict=True))
        return cls(theta, mu, np.array([entropy for entropy, _ in found]), v)

    def value(self, l2: float) -> float:
        """D(α) = Σ_i H(α_i) − ‖v‖² / (2 l2), equation (4)."""
        return float(self.entropy.sum() - np.sum(self.v**2) / (2.0 * l2))


def entropy_and_counts(theta: np.ndarray) -> tuple[float, np.ndarray]:
    """H(α) = log Z(θ) − θ·μ, equation (2), and μ, for one example."""
    log_partition, mu = forward_backward(theta)
    return log_partition - float(np.sum(theta * mu)), mu


def primal(weights: np.ndarray, examples: list[Example], l2: float) -> float:
    """P(w) = Σ_i (log Z(s_i) − score of the true labels) + (l2 / 2) ‖w‖², equation (5)."""
    scores = [each.phi @ weights for each in examples]
    losses = [forward_backward(s)[0] - np.sum(s * e.true) for s, e in zip(scores, examples, strict=True)]
    return float(sum(losses) + 0.5 * l2 * np.sum(weights**2))


# -- online exponentiated gradient ---------------------------------------------------------------------


def visit(i: int, point: Dual, example: Example, step: np.ndarray, l2: float) -> float:
    """Improve α_i with all other examples fixed. Returns the gap of the example before the visit."""
    s = example.phi @ point.v / l2
    gap = forward_backward(s)[0] - float(np.sum(point.mu[i] * s)) - point.entropy[i]  # equation (7)
    while True:
        theta = (1.0 - step[i]) * point.theta[i] + step[i] * s  # equation (6)
        entropy, mu = entropy_and_counts(theta)
        v = point.v + example.phi.T @ (point.mu[i] - mu)
        growth = entropy - point.entropy[i] - (np.sum(v**2) - np.sum(point.v**2)) / (2.0 * l2)
        if growth >= 0.0:
            point.theta[i], point.mu[i], point.entropy[i], point.v = theta, mu, entropy, v
            step[i] = min(GROWTH * step[i], 1.0)  # a step of 1 reaches the model's own distribution
            return gap
        if gap < 1e-12:
            return gap  # α_i is optimal to rounding: no step can improve D
        step[i] /= 2.0


def visiting_order(gaps: np.ndarray, random: np.random.Generator) -> Iterator[int]:
    """n examples to visit, mostly in proportion to their last gaps."""
    for _ in range(len(gaps)):
        if random.random() < BY_GAP and gaps.sum() > 0.0:
            yield int(random.choice(len(gaps), p=gaps / gaps.sum()))
        else:
            yield int(random.integers(len(gaps)))


def near_truth(example: Example) -> np.ndarray:
    """Potentials of a distribution near the true labels."""
    theta = START * example.true
    theta[-theta.shape[1] :] = 0.0  # transitions: all positions share them
    return theta


def train(
    examples: list[Example], l2: float = 1.0, tol: float = 1e-4, max_passes: int = 100, seed: int = 0
) -> tuple[np.ndarray, float, float]:
    """Weights (d + K, K), and bounds on the least possible objective: D(α) below and P(w) above.

    Stops if (P − D) / P is at most `tol`. Each pass visits n examples and prints both bounds.
    """
    random, step = np.random.default_rng(seed), np.ones(len(examples))
    point = Dual.at([near_truth(each) for each in examples], examples)
    gaps = np.full(len(examples), np.inf)
    print("pass    lower bound    upper bound        gap")
    for n_passes in range(1, max_passes + 1):
        order = random.permutation(len(examples)) if n_passes == 1 else visiting_order(gaps, random)
        for i in order:
            gaps[i] = visit(i, point, examples[i], step, l2)
        point = Dual.at(point.theta, examples)  # the certificate must not contain the rounding of many visits
        weights = point.v / l2
        lower, upper = point.value(l2), primal(weights, examples, l2)
        print(f"{n_passes:4} {lower:14.4f} {upper:14.4f} {(upper - lower) / upper:10.1e}")
        if upper - lower <= tol * upper:
            break
    return weights, lower, upper


def data(n: int = 60, n_labels: int = 4, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Features and labels of n sequences. The labels are a Markov chain, the features a noisy view of them."""
    random = np.random.default_rng(seed)
    transition = random.dirichlet(np.full(n_labels, 0.5), n_labels)
    X, y = [], []
    for length in random.integers(3, 10, n):
        labels = [int(random.integers(n_labels))]
        while len(labels) < length:
            labels.append(int(random.choice(n_labels, p=transition[labels[-1]])))
        y.append(np.array(labels))
        X.append(np.eye(n_labels)[labels] + random.normal(scale=0.7, size=(length, n_labels)))
    return X, y


if __name__ == "__main__":
    X, y = data()
    train([encode(*pair, n_labels=4) for pair in zip(X, y, strict=True)])
