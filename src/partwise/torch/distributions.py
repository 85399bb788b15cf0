"""The distribution over the labellings of a structure as an object, in the form of torch-struct."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.contract import Structure
from partwise.structures.grammar.grammar import Grammar
from partwise.torch import functions
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chain_truth import masked
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.classes import ClassLayout
from partwise.torch.loss import StructuredLoss
from partwise.torch.sums import answer


def distribution(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> StructureDistribution:
    """The distribution p(y) ∝ exp(score of y) over the labellings of a batch of examples.

    Parameters
    ----------
    structure, *scores, lengths, mask, validate
        See :func:`log_partition`.
    """
    return StructureDistribution(structure, *scores, lengths=lengths, mask=mask, validate=validate)


class StructureDistribution(torch.distributions.Distribution):
    """p(y) ∝ exp(score of y), for every example of a batch. Made by :func:`distribution`.

    Properties are computed when they are first asked for, and are differentiable where they are real numbers.

    Parameters
    ----------
    structure, *scores, lengths, mask, validate
        See :func:`log_partition`.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - as PyTorch's own distributions have it
    has_rsample = False

    def __init__(
        self,
        structure: Structure,
        *scores: Any,
        lengths: Any = None,
        mask: Any = None,
        validate: bool | None = None,
    ):
        self.structure, self.scores = structure, scores
        self._options = {"lengths": lengths, "mask": mask, "validate": validate}
        self._batch = functions.read_batch(structure, scores, lengths, validate, mask)
        super().__init__(torch.Size([self._batch.n_examples]), validate_args=False)

    @cached_property
    def partition(self) -> torch.Tensor:
        """log Σ_y exp(score of y), (B,)."""
        return self._of("log_partition")

    @cached_property
    def marginals(self) -> Any:
        """Probabilities of all parts: see :func:`partwise.torch.marginals`."""
        return self._of("marginals")

    @cached_property
    def max(self) -> torch.Tensor:
        """The largest score of a labelling, (B,)."""
        return self._of("max_score")

    @cached_property
    def argmax(self) -> Any:
        """A best labelling of every example: see :func:`partwise.torch.argmax`."""
        return self._of("argmax")

    @property
    def mode(self) -> Any:
        """A best labelling of every example."""
        return self.argmax

    @cached_property
    def entropy(self) -> torch.Tensor:  # type: ignore[override]
        """Entropy in nats, (B,). A property, as in torch-struct."""
        return self._of("entropy")

    def cross_entropy(self, other: StructureDistribution) -> torch.Tensor:
        """−Σ_y p(y) log q(y) with the distribution `other` as q, (B,); +inf where q excludes what p does not."""
        own, others = _alike(self, other)
        _, *counts = answer(own, "sums")
        expected = others.values(answer(others, "sums")[0])
        for count, scores in zip(counts, others.scores, strict=True):
            terms = torch.where(count > 0, count * torch.where(count > 0, scores, 0.0), 0.0)
            expected = expected - terms.flatten(1).sum(1)
        return own.values(expected)

    def kl(self, other: StructureDistribution) -> torch.Tensor:
        """Kullback-Leibler divergence Σ_y p(y) log(p(y) / q(y)) from q, the distribution `other`, (B,)."""
        own, others = _alike(self, other)
        value, *counts = answer(own, "sums")
        divergence = others.values(answer(others, "sums")[0]) - own.values(value)
        for count, p, q in zip(counts, own.scores, others.scores, strict=True):
            used = count > 0
            apart = torch.where(used, p, 0.0) - torch.where(used, q, 0.0)
            divergence = divergence + (count * apart).flatten(1).sum(1)
        return own.values(divergence)

    def log_prob(self, value: Any) -> torch.Tensor:
        """log p(y) of one labelling of every example, as :attr:`argmax` gives them, (B,).

        A tensor of labellings may have an axis of samples in front, as :meth:`sample` makes it: then (n, B). Parts
        that are −inf or that the structure forbids give −inf on a GPU; forbidden labels raise on the CPU.
        """
        if isinstance(value, torch.Tensor) and value.ndim > self._n_axes:
            return torch.stack([self.log_prob(each) for each in value])
        if isinstance(value, tuple) and value[0].ndim > self._n_axes:
            return torch.stack([self.log_prob(each) for each in zip(*value, strict=True)])
        criterion = StructuredLoss(
            self.structure, "log", reduction="none", validate=self._options["validate"], ignore_index=None
        )
        rest = {name: self._options[name] for name in ("lengths", "mask")}
        return -criterion(*self.scores, target=value, **rest)

    def sample(  # type: ignore[override]
        self, sample_shape: Any = None, generator: torch.Generator | None = None
    ) -> Any:
        """Labellings drawn from p.

        Parameters
        ----------
        sample_shape : int or tuple of one int, optional
            The number of samples n. Without it there is one, and no axis for it.

        Returns
        -------
        Tensor (n, B, …), tuple of those, or list of n batches of labellings
            Lists for segmentations and derivations, which are no tensors.
        """
        shape = sample_shape if sample_shape is not None else ()
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(shape) > 1:
            raise InputError(f"sample_shape must be the number of samples, not {sample_shape!r:.60}")
        drawn = self._of("sample", n_samples=shape[0] if shape else 1, generator=generator)
        if not shape:
            return drawn[0]
        if isinstance(drawn[0], torch.Tensor):
            return torch.stack(drawn)
        if isinstance(drawn[0], tuple):
            return tuple(torch.stack(each) for each in zip(*drawn, strict=True))
        return drawn

    def relaxed_sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Any:
        """Marginals of scores with Gumbel noise, over a temperature: differentiable, near a labelling if that is low.

        Noise is added to the first scores. This is perturb-and-parse (Corro and Titov 2019). At temperature 0 it would
        be a best labelling of perturbed scores, whose distribution is near p but not equal to it.
        """
        if not temperature > 0 or temperature == float("inf"):
            raise InputError(f"temperature must be a finite number > 0, not {temperature!r:.60}")
        first, *rest = functions.unpacked(self.scores, self._options["lengths"])[0]
        uniform = torch.rand(first.shape, generator=generator, device=first.device, dtype=first.dtype)
        tiny = torch.finfo(first.dtype).tiny
        first = first - (-uniform.clamp(min=tiny).log()).clamp(min=tiny).log()
        scaled = [
            each / temperature if isinstance(each, torch.Tensor) and each.is_floating_point() else each
            for each in (first, *rest)
        ]
        lengths = self._batch.lengths if self._batch.kept is None else self._options["lengths"]
        mask = None if self._batch.kept is None else self._options["mask"]
        validate = self._options["validate"]
        return functions.marginals(self.structure, *scaled, lengths=lengths, mask=mask, validate=validate)

    def topk(self, k: int) -> list[list[tuple[Any, float]]]:
        """The k best labellings with their scores, best first: see :func:`partwise.torch.kbest`."""
        return self._of("kbest", k=k)

    def _of(self, name: str, **options: Any) -> Any:
        return getattr(functions, name)(self.structure, *self.scores, **self._options, **options)

    @property
    def _n_axes(self) -> int:
        """The number of axes of a batch of labellings, where these are tensors."""
        return 1 if isinstance(self._batch.layout, ClassLayout) else 2

    def __repr__(self) -> str:
        return f"StructureDistribution({self.structure!r}, batch_shape={self.batch_shape})"


def _alike(p: StructureDistribution, q: StructureDistribution) -> tuple[ScoreBatch, ScoreBatch]:
    """Both batches with scores of the same shapes, −inf for what masks of chains forbid."""
    if not isinstance(q, StructureDistribution) or not _same(p.structure, q.structure):
        raise InputError(f"two distributions over one structure are needed, not {p!r} and {q!r:.80}")
    first, second = p._batch, q._batch
    if isinstance(first.layout, ChainLayout) and isinstance(second.layout, ChainLayout):
        if first.layout.per_position != second.layout.per_position:
            first, second = (each.layout.for_marginals(each) for each in (first, second))
        first, second = _free(first), _free(second)
    lengths = first.host_lengths(), second.host_lengths()
    if first.sizes != second.sizes or lengths[0].tolist() != lengths[1].tolist():
        raise InputError(f"the distributions have scores {first.sizes} and {second.sizes}, or other lengths")
    if (
        first.kept is not None
        and second.kept is not None
        and not torch.equal(first.kept.mask, second.kept.mask)
    ):
        raise InputError("the distributions have different masks")
    return first, second


def _same(one: Structure, other: Structure) -> bool:
    """Whether two structures have the same labellings. Masks of chains may differ: they become scores."""
    if isinstance(one, Chain) and isinstance(other, Chain):
        return True
    return one is other or (not isinstance(one, Grammar) and repr(one) == repr(other))


def _free(batch: ScoreBatch) -> ScoreBatch:
    """A batch of chains whose masks are −inf among its scores."""
    node, edge = masked(batch, *batch.scores)
    return batch._replace(scores=(node, edge), unexpanded=())


@torch.distributions.kl.register_kl(StructureDistribution, StructureDistribution)
def _kl(p: StructureDistribution, q: StructureDistribution) -> torch.Tensor:
    return p.kl(q)
