"""A linear-chain CRF with its own transitions, in the form of pytorch-crf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.chain.masks import transition_mask
from partwise.torch import functions
from partwise.torch.loss import StructuredLoss, checked_reduction
from partwise.torch.loss_weights import reduced
from partwise.torch.sums import answer

if TYPE_CHECKING:
    from partwise.torch.distributions import StructureDistribution

_LARGEST_START = (
    0.1  # Transitions start from the uniform distribution on [−0.1, 0.1], as those of pytorch-crf.
)


class CRF(torch.nn.Module):
    """Conditional random field over label sequences: change the import of pytorch-crf to this one.

    Parameters
    ----------
    num_tags : int
        Number of labels L.
    batch_first : bool
        Whether tensors are (B, T, …) instead of (T, B, …).
    loss : str or Loss
        "log", "hinge", "softmax_margin", "perceptron", or ``Loss(beta, gamma)``.
    cost : "hamming" or array_like (L, L)
        Cost of a wrong label, or costs [true, predicted], for losses with γ > 0.
    ignore_index : int or None
        Positions with this label are left out of the loss, also inside a sequence. None: no label means that.
    label_weights : array_like (L,), optional
        Weight of each true label in the loss: see :class:`StructuredLoss`.
    length_average : bool
        Whether the loss of a sequence is divided by its length.
    learn_transitions : bool
        If false, the three parameters of transitions are zero and have no gradient. ``crf.transitions.data.copy_(…)``
        sets them.
    validate : bool, optional
        See :func:`log_partition`.

    Attributes
    ----------
    start_transitions, end_transitions : Parameter (L,)
    transitions : Parameter (L, L)
        Score of label j after label i.

    Notes
    -----
    Names of parameters, and so ``state_dict``, are those of pytorch-crf. A mask may have holes: positions that it
    leaves out are skipped, and the chain connects their neighbours. Constraints are not part of ``state_dict``.

    Examples
    --------
    >>> crf = CRF(5, batch_first=True)
    >>> loss = -crf(torch.randn(2, 7, 5), torch.zeros(2, 7, dtype=torch.long))
    >>> len(crf.decode(torch.randn(2, 7, 5)))
    2
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        loss: str | Loss = "log",
        cost: Any = "hamming",
        *,
        ignore_index: int | None = -100,
        label_weights: Any = None,
        length_average: bool = False,
        learn_transitions: bool = True,
        validate: bool | None = None,
    ):
        super().__init__()
        if isinstance(num_tags, bool) or not isinstance(num_tags, int) or num_tags < 1:
            raise InputError(f"num_tags must be a whole number >= 1, not {num_tags!r:.60}")
        self.num_tags, self.batch_first, self.validate = num_tags, batch_first, validate
        self.criterion = StructuredLoss(
            Chain(num_tags), loss, cost, "sum", validate, ignore_index, label_weights, length_average
        )
        self.structure = self.criterion.structure
        for name, shape in (
            ("start_transitions", (num_tags,)),
            ("end_transitions", (num_tags,)),
            ("transitions", (num_tags, num_tags)),
        ):
            own = torch.nn.Parameter(torch.zeros(shape), requires_grad=learn_transitions)
            self.register_parameter(name, own)
        if learn_transitions:
            self.reset_parameters()

    start_transitions: torch.nn.Parameter
    end_transitions: torch.nn.Parameter
    transitions: torch.nn.Parameter

    def reset_parameters(self) -> None:
        """Draw transitions from the uniform distribution on [−0.1, 0.1]."""
        for each in (self.start_transitions, self.end_transitions, self.transitions):
            torch.nn.init.uniform_(each, -_LARGEST_START, _LARGEST_START)

    def constrain(
        self,
        scheme: str | None = None,
        labels: Sequence[str] | Mapping[int, str] | None = None,
        *,
        allowed: Any = None,
        allowed_start: Any = None,
        allowed_end: Any = None,
        training: bool = True,
    ) -> CRF:
        """Forbid labels that may not follow each other, and return the module. Without arguments nothing is forbidden.

        Parameters
        ----------
        scheme : {"IOB1", "IOB2", "IOBES", "BILOU"}, optional
            Labels that are no well formed chunks are forbidden.
        labels : sequence of str, or mapping of numbers to str
            The names of the L labels in order, "O" and "B-PER" and so on, if there is a scheme.
        allowed : array_like of bool (L, L), optional
            Whether label j may follow label i. Holds beside the scheme.
        allowed_start, allowed_end : array_like of bool (L,), optional
            Whether a label may stand first, last.
        training : bool
            Whether the loss and probabilities know it too. If false, only :meth:`decode` and :meth:`kbest` do; then
            true labels may violate it.
        """
        masks: list[Any] = [allowed, allowed_start, allowed_end]
        if (scheme is None) != (labels is None):
            raise InputError("constrain takes a scheme and the names of all labels, or neither")
        if scheme is not None and labels is not None:
            for k, own in enumerate(transition_mask(_names(labels, self.num_tags), scheme)):
                masks[k] = own if masks[k] is None else own & torch.as_tensor(masks[k]).bool().numpy()
        forbidding = Chain(self.num_tags, allowed=masks[0], allowed_start=masks[1], allowed_end=masks[2])
        self.structure = forbidding
        self.criterion.structure = forbidding if training else Chain(self.num_tags)
        return self

    @functions.traced_for_chains
    def forward(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None = None,
        reduction: str = "sum",
        *,
        position_weights: Any = None,
        sample_weights: Any = None,
    ) -> torch.Tensor:
        """The log-likelihood of the true labels; for other losses the negative loss. So ``-crf(…)`` is to be minimised.

        Parameters
        ----------
        emissions : Tensor (T, B, L), or (B, T, L) with `batch_first`
        tags : Tensor of int (T, B) or (B, T)
            True labels. With a third axis L: Boolean sets of allowed labels, or floating likelihoods of labels.
        mask : Tensor of bool or of 0 and 1, (T, B) or (B, T), optional
            The positions that count.
        reduction : {"sum", "mean", "token_mean", "none"}
        position_weights : Tensor (T, B) or (B, T), optional
            Weights of positions in the loss: see :class:`StructuredLoss`.
        sample_weights : Tensor (B,), optional
            Weights of sequences.
        """
        checked_reduction(reduction, self.criterion.length_average)
        if position_weights is not None:
            position_weights = self._batch_first(torch.as_tensor(position_weights), "position_weights", 2)
        tags = self._batch_first(tags, "tags", 3 if isinstance(tags, torch.Tensor) and tags.ndim == 3 else 2)
        scores, mask = self._scores(emissions), self._mask(mask)
        values, batch = self.criterion.values(scores, tags, None, mask, position_weights)
        average = self.criterion.length_average
        return -reduced(values, batch, reduction, average, sample_weights, self.validate)

    @functions.traced_for_chains
    @torch.no_grad()
    def decode(self, emissions: torch.Tensor, mask: Any = None, pad_tag: int | None = None) -> Any:
        """Best labels.

        Returns
        -------
        list of list of int
            The labels of the positions that count, for each sequence. With a `pad_tag` a tensor (T, B) or (B, T) of
            all positions, with `pad_tag` at the others.
        """
        scores, mask = self._scores(emissions), self._mask(mask)
        best = functions.argmax(self.structure, *scores, mask=mask, validate=self.validate)
        return self._labels(best, emissions, pad_tag)

    @functions.not_compiled
    @torch.no_grad()
    def kbest(
        self, emissions: torch.Tensor, mask: Any = None, k: int = 5
    ) -> list[list[tuple[list[int], float]]]:
        """The k best label sequences of each sequence with their scores, best first."""
        scores, mask = self._scores(emissions), self._mask(mask)
        found = functions.kbest(self.structure, *scores, mask=mask, k=k, validate=self.validate)
        return [[(labels[labels >= 0].tolist(), score) for labels, score in own] for own in found]

    @functions.not_compiled
    @torch.no_grad()
    def sample(
        self,
        emissions: torch.Tensor,
        mask: Any = None,
        n_samples: int = 1,
        generator: torch.Generator | None = None,
        pad_tag: int | None = None,
    ) -> list[Any]:
        """Label sequences drawn from the model: `n_samples` batches, each as :meth:`decode` gives it."""
        scores, mask = self._scores(emissions), self._mask(mask)
        drawn = functions.sample(
            self.criterion.structure, *scores, mask=mask, n_samples=n_samples, generator=generator,
            validate=self.validate,
        )  # fmt: skip
        return [self._labels(each, emissions, pad_tag) for each in drawn]

    @functions.traced_for_chains
    def marginals(self, emissions: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Probability of each label at each position, in the shape of `emissions`; 0 where nothing counts."""
        batch = functions.read_batch(
            self.criterion.structure, self._scores(emissions), None, self.validate, self._mask(mask)
        )
        found = answer(batch, "sums")[1]
        found = found if batch.kept is None else batch.kept.back(found)
        return found if self.batch_first else found.transpose(0, 1)

    def log_partition(self, emissions: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Logarithm of the sum of exp(score) over all label sequences, (B,)."""
        return self._of("log_partition", emissions, mask)

    def entropy(self, emissions: torch.Tensor, mask: Any = None) -> torch.Tensor:
        """Entropy in nats of the distribution over label sequences, (B,)."""
        return self._of("entropy", emissions, mask)

    def distribution(self, emissions: torch.Tensor, mask: Any = None) -> StructureDistribution:
        """The distribution over label sequences, with the batch in front: see :func:`partwise.torch.distribution`."""
        from partwise.torch.distributions import distribution

        scores, mask = self._scores(emissions), self._mask(mask)
        return distribution(self.criterion.structure, *scores, mask=mask, validate=self.validate)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}"

    def _of(self, name: str, emissions: torch.Tensor, mask: Any) -> torch.Tensor:
        scores, mask = self._scores(emissions), self._mask(mask)
        return getattr(functions, name)(self.criterion.structure, *scores, mask=mask, validate=self.validate)

    def _scores(self, emissions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        emissions = self._batch_first(emissions, "emissions", 3)
        return emissions, self.transitions, self.start_transitions, self.end_transitions

    def _mask(self, mask: Any) -> torch.Tensor | None:
        return None if mask is None else self._batch_first(torch.as_tensor(mask), "mask", 2)

    def _batch_first(self, values: torch.Tensor, name: str, n_axes: int) -> torch.Tensor:
        if isinstance(values, torch.Tensor) and values.ndim == n_axes:
            return values if self.batch_first else values.transpose(0, 1)
        order = "(batch, length" if self.batch_first else "(length, batch"
        shape = f"{order}, {self.num_tags})" if n_axes == 3 else f"{order})"
        found = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise InputError(f"{name} must be a tensor {shape}, not {found}")

    def _labels(self, labels: torch.Tensor, emissions: torch.Tensor, pad_tag: int | None) -> Any:
        """Labels (B, longest), −1 where nothing counts, as users read them."""
        if pad_tag is None:
            return _lists(labels)
        length = emissions.shape[1 if self.batch_first else 0]
        whole = torch.nn.functional.pad(labels, (0, length - labels.shape[1]), value=-1)
        whole = whole.masked_fill(whole < 0, pad_tag)
        return whole if self.batch_first else whole.transpose(0, 1)


@functions.not_compiled
def _lists(labels: torch.Tensor) -> list[list[int]]:
    """Labels (B, T) of the positions that count."""
    return [[each for each in row if each >= 0] for row in labels.tolist()]


def _names(labels: Sequence[str] | Mapping[int, str], n_labels: int) -> list[str]:
    """The names of the labels in order."""
    if isinstance(labels, Mapping):
        numbers = sorted(labels, key=int)
        if [int(each) for each in numbers] != list(range(n_labels)):
            raise InputError(f"labels must name the numbers 0 to {n_labels - 1}, not {list(labels)!r:.60}")
        return [labels[each] for each in numbers]
    names = [labels] if isinstance(labels, str) else list(labels)
    if len(names) != n_labels:
        raise InputError(f"labels has {len(names)} names for {n_labels} labels")
    return names
