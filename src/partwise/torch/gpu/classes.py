"""Classes on a GPU, by PyTorch's own operations."""

from __future__ import annotations

import torch

from partwise.torch.layouts.base import ScoreBatch


def fits(batch: ScoreBatch) -> bool:
    """Whether there are examples."""
    return batch.n_examples > 0


class ClassSums:
    """Sums over classes, for scores (B, K)."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        (self.scores,) = scores

    def forward(self) -> torch.Tensor:
        """Values (B,)."""
        return torch.logsumexp(self.scores, 1)

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: the largest score is subtracted first."""
        return False

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Probabilities times `weight` (B,); 0 if no class is possible."""
        finite = torch.where(value == -torch.inf, 0.0, value)
        return [torch.exp(self.scores - finite[:, None]) * weight[:, None]]


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores, and indicators of a class that has each."""
    labels, value = best_labels(batch)
    possible = (value > -torch.inf).to(value.dtype)
    return [value, torch.zeros_like(batch.scores[0]).scatter_(1, labels[:, None], possible[:, None])]


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best class of every example, int64 (B,), and its score."""
    value, labels = batch.scores[0].max(1)
    return labels, value


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random classes, n_samples times (B,), and log-partitions (B,)."""
    scores = batch.scores[0].double()
    uniform = torch.rand(
        n_samples, *scores.shape, generator=generator, dtype=scores.dtype, device=scores.device
    )
    noisy = scores - torch.log(-torch.log(uniform))  # the largest is a draw (Gumbel)
    return list(noisy.argmax(2)), torch.logsumexp(scores, 1)


SUMS = ClassSums
