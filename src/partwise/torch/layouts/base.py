"""The base class of layouts, and a batch of score tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch

from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.structures.contract import Structure
from partwise.torch.layouts.arrangement import CACHE, Arrangement
from partwise.torch.layouts.kept import Kept, read_mask

_HALF = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, torch.float64, *_HALF)


class ScoreBatch(NamedTuple):
    """Checked scores of a batch.

    Attributes
    ----------
    layout : Layout
    scores : tuple of Tensor
        Each with a first axis of B examples, in one floating type of at least single precision.
    lengths : Tensor of int64 (B,), or None if all examples have the longest length
    unexpanded : tuple of Tensor
        The scores before shared ones were expanded over the batch; empty if that is not known.
    costs : float64 array (n_parts,), or None
        Costs that are added to the scores of parts, if they cannot be added to entries. Only compiled code reads them.
    kept : Kept, or None
        The positions that scores and lengths are of, if a mask has left others out.
    """

    layout: Layout
    scores: tuple[torch.Tensor, ...]
    lengths: torch.Tensor | None
    unexpanded: tuple[torch.Tensor, ...] = ()
    costs: np.ndarray | None = None
    kept: Kept | None = None

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(each.shape) for each in self.scores)

    @property
    def n_examples(self) -> int:
        return self.scores[0].shape[0]

    def host_lengths(self) -> np.ndarray:
        """Lengths, int64 (B,), on the CPU."""
        if self.lengths is None:
            return np.full(self.n_examples, self.layout.longest(self.sizes), np.int64)
        return on_host(self.lengths)

    def values(self, values: torch.Tensor) -> torch.Tensor:
        """Values (B,) with 0 for examples without positions."""
        return values if self.kept is None else self.kept.values(values)

    def arrangement(self) -> Arrangement:
        lengths = self.host_lengths()
        key = self.layout, self.sizes, lengths.tobytes()
        return CACHE.get(key, lambda: self.layout.arrange(self.sizes, lengths))


class Layout(ABC):
    """How the score tensors of one structure are read. Equal layouts arrange equal batches in the same way.

    Parameters
    ----------
    structure : Structure
    """

    names: tuple[str, ...] = ()
    can_skip = False  # Whether a mask may leave out positions in the middle.

    def __init__(self, structure: Structure):
        self.structure = structure

    # -- for each structure --------------------------------------------------------------------------

    @abstractmethod
    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        """The tensors, B, and whether the second tensor is shared, which means that it has no batch axis. Raises
        :class:`InputError` if sizes do not fit."""

    def longest(self, sizes: tuple[tuple[int, ...], ...]) -> int:
        """The longest length that tensors of these sizes can hold."""
        return sizes[0][1]

    @abstractmethod
    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        """The parts of a batch of tensors of these sizes and lengths."""

    @abstractmethod
    def flat_labels(self, target: Any, lengths: np.ndarray) -> Any:
        """The labels of a batch as ``structure.encode_all`` reads them."""

    @abstractmethod
    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> Any:
        """Labellings from ``structure.decode_all`` as users read them."""

    @abstractmethod
    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        """The scores of one example as the structure's own methods take them."""

    @abstractmethod
    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> Any:
        """One labelling per example from the structure's own methods, as users read them."""

    def costs(self, arrangement: Arrangement, labels: Any, cost: Any) -> np.ndarray:
        """The cost of every part against labels from :meth:`flat_labels`, (part_ptr[B],)."""
        structure = arrangement.structure
        return structure.costs_of_parts(labels, arrangement.shapes, structure.read_cost(cost))

    def keep(self, scores: tuple[Any, ...], kept: Kept) -> tuple[Any, ...]:
        """Scores of the kept positions alone, if `can_skip`."""
        raise NotImplementedError

    def back(self, found: tuple[torch.Tensor, ...], kept: Kept) -> tuple[torch.Tensor, ...]:
        """Marginals of the kept positions in the places that these had, if `can_skip`."""
        raise NotImplementedError

    def truth(
        self, batch: ScoreBatch, target: Any, cost: Any, checked: bool = True, weights: Any = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor | None, ...] | np.ndarray | None, torch.Tensor | None]:
        """Scores of the true labels, (B,). Unless `cost` is None, also the cost of every entry of the scores (or of
        every part, if entries are not enough), and the cost of the true labels (B,), which is to be subtracted.
        None stands for a tensor or a number of zeros."""
        if weights is not None:
            raise InputError("weights of labels and positions are for chains")
        plan, like = batch.arrangement(), batch.scores[0]
        labels = self.flat_labels(target, batch.host_lengths())
        found = plan.counts_of(plan.structure.encode_all(labels, plan.shapes))

        def tensors(values: np.ndarray) -> list[torch.Tensor]:
            return [torch.from_numpy(each).to(like) for each in plan.to_tensors(values, batch.sizes)]

        gold = like.new_zeros(len(like))
        for own, used in zip(batch.scores, tensors(found), strict=True):
            gold = gold + torch.where(used > 0, own * used, torch.zeros_like(own)).flatten(1).sum(1)
        if cost is None:
            return gold, None, None
        costs = self.costs(plan, labels, cost)
        own = np.add.reduceat(found * costs, plan.part_ptr[:-1]) if len(like) else found
        base = torch.from_numpy(own).to(like)
        return gold, (tuple(tensors(costs)) if self.has_entry_costs(batch) else costs), base

    def has_entry_costs(self, batch: ScoreBatch) -> bool:
        """Whether the costs of parts can be added to the entries that score them."""
        return True

    def most_parts(self, batch: ScoreBatch) -> torch.Tensor:
        """The largest number of parts of a labelling of each example, (B,)."""
        plan, like = batch.arrangement(), batch.scores[0]
        return torch.from_numpy(plan.structure.most_parts(plan.shapes)).to(like)

    def for_marginals(self, batch: ScoreBatch) -> ScoreBatch:
        """A batch whose counts are the marginals: no two examples share scores in it."""
        return batch

    # -- for all structures --------------------------------------------------------------------------

    def batch(self, scores: tuple[Any, ...], lengths: Any, validate: bool | None) -> ScoreBatch:
        """Checked scores. On a GPU, numbers are checked only if `validate`, because that waits for a transfer."""
        tensors, n_examples, is_shared = self.read(scores)
        dtype, device = tensors[0].dtype, tensors[0].device
        for name, each in zip(self.names[1:], tensors[1:], strict=False):
            if each.dtype != dtype:
                dtype = torch.promote_types(dtype, each.dtype)
            if each.device != device:
                raise InputError(f"{name} is on {each.device}, {self.names[0]} on {device}")
        if dtype in _HALF:
            dtype = torch.float32
        tensors = tuple([each if each.dtype == dtype else each.to(dtype) for each in tensors])
        checked = is_checked(validate, device)
        read = None
        if lengths is not None:
            longest = self.longest(tuple(tuple(each.shape) for each in tensors))
            read = read_lengths(lengths, n_examples, longest, device, checked)
        batch = ScoreBatch(self, tensors, read, tensors)
        if is_shared:
            first, second, *rest = tensors
            batch = batch._replace(scores=(first, second.expand(n_examples, *second.shape), *rest))
        if checked and not all(bool((each < torch.inf).all()) for each in tensors):
            return self._numbers(batch)
        return batch

    def masked_batch(
        self, scores: tuple[Any, ...], lengths: Any, mask: Any, validate: bool | None
    ) -> ScoreBatch:
        """Checked scores of the positions that a mask keeps."""
        if not self.can_skip:
            if lengths is not None:
                raise InputError(f"{self.structure!r} takes lengths or a mask, not both")
            given = whole_numbers(mask, "mask")
            return self.batch(scores, given if given.ndim < 2 else given != 0, validate)
        tensors, n_examples, _ = self.read(scores)
        longest = self.longest(tuple(tuple(each.shape) for each in tensors))
        device = tensors[0].device
        checked = is_checked(validate, device)
        if lengths is not None:
            lengths = read_lengths(lengths, n_examples, longest, device, checked)
        kept, lengths = read_mask(mask, lengths, n_examples, longest, device, checked)
        if kept is None:
            return self.batch(scores, lengths, validate)
        return self.batch(self.keep(scores, kept), lengths, validate)._replace(kept=kept)

    def _numbers(self, batch: ScoreBatch) -> ScoreBatch:
        """The batch with zeros in place of NaN and +inf behind the lengths; raises if there are others."""
        plan, scores = batch.arrangement(), []
        used = plan.to_tensors(np.ones(int(plan.part_ptr[-1])), batch.sizes[: len(plan.maps)])
        for k, (name, each) in enumerate(zip(self.names, batch.unexpanded, strict=False)):
            wrong = ~(each < torch.inf)
            is_own = k < len(used) and each is batch.scores[k]  # not shared by all examples
            counted = wrong & (torch.from_numpy(used[k]).to(each.device) > 0) if is_own else wrong
            if bool(counted.any()):
                raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")
            scores.append(torch.where(wrong, torch.zeros_like(each), each) if is_own else each)
        both = zip(scores, batch.scores, strict=True)
        expanded = tuple([own if own.shape == each.shape else each for own, each in both])
        return batch._replace(scores=expanded, unexpanded=tuple(scores))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (id(self.structure),)


def is_checked(validate: bool | None, device: torch.device) -> bool:
    """Whether numbers are looked at. Traced code has none: the operators look at them when they run."""
    if torch.compiler.is_compiling():
        return False
    return validate if validate is not None else device.type == "cpu"


def read_lengths(
    lengths: Any, n_examples: int, longest: int, device: torch.device, checked: bool
) -> torch.Tensor:
    """Lengths as int64 (B,). A boolean mask (B, length) that starts with True means its row sums."""
    given = whole_numbers(lengths, "lengths")
    if given.dtype == torch.bool:
        if tuple(given.shape) != (n_examples, longest):
            raise InputError(f"the mask has shape {tuple(given.shape)}, expected ({n_examples}, {longest})")
        if checked and bool((given[:, 1:] & ~given[:, :-1]).any()):
            raise InputError(
                "the mask must be True at the first positions of an example and False behind them; chains take masks "
                "with holes as mask="
            )
        given = given.sum(1)
    if given.shape != (n_examples,) or given.is_floating_point() or given.is_complex():
        kind = str(given.dtype).removeprefix("torch.")
        raise InputError(
            f"lengths must be {n_examples} whole numbers, not {kind} of shape {tuple(given.shape)}"
        )
    if checked and n_examples and (int(given.min()) < 1 or int(given.max()) > longest):
        wrong = int(given.max()) if int(given.max()) > longest else int(given.min())
        raise InputError(f"lengths holds {wrong}; they run from 1 to {longest}, the length of the padding")
    return given.to(device=device, dtype=torch.int64)


def whole_numbers(values: Any, name: str) -> torch.Tensor:
    """`values` as a tensor; raises :class:`InputError` if that is not possible."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be whole numbers, not {type(values).__name__} of others") from None


def on_host(whole: torch.Tensor) -> np.ndarray:
    """Whole numbers as an array, also under `torch.func`, whose tensors have no memory to read."""
    try:
        return whole.cpu().numpy()
    except RuntimeError:
        return np.array(whole.tolist(), np.int64).reshape(tuple(whole.shape))


def require_tensor(value: Any, name: str, shape: tuple[int | None, ...], what: str) -> torch.Tensor:
    """`value` if it is a floating tensor of this shape. None means any size."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        raise InputError(f"{name} must be a tensor of floating numbers, {what}")
    if value.layout is not torch.strided or value.dtype not in _FLOATS:
        kind = str(value.dtype if value.layout is torch.strided else value.layout).removeprefix("torch.")
        raise InputError(f"{name} is {kind}; it must be a dense tensor of floats of 16 bits or more")
    size = value.shape
    if size != shape and (
        len(size) != len(shape) or any(s not in (None, n) for s, n in zip(shape, size, strict=True))
    ):
        raise InputError(f"{name} has shape {tuple(value.shape)}, expected {what}")
    return value


def padded(rows: list[Any], longest: int, device: torch.device) -> torch.Tensor:
    """Rows of whole numbers as int64 (B, longest), padded with −1."""
    result = np.full((len(rows), longest), -1, np.int64)
    for i, row in enumerate(rows):
        result[i, : len(row)] = row
    return torch.from_numpy(result).to(device)


def unpadded(target: Any, lengths: np.ndarray, name: str = "target") -> np.ndarray:
    """The first `lengths` entries of every row of a whole-number tensor (B, T), one after another."""
    array = on_host(whole_numbers(target, name))
    if array.ndim != 2 or len(array) != len(lengths) or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be whole numbers of shape ({len(lengths)}, length), not {array.dtype} of {array.shape}"
        )
    if len(lengths) and array.shape[1] < lengths.max():
        raise InputError(f"{name} has {array.shape[1]} positions for an example of length {lengths.max()}")
    return array[np.arange(array.shape[1]) < lengths[:, None]].astype(np.int64)


def blocks(counts: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Offsets of examples whose parts are blocks of these sizes, and the first part of each block, (B,) each."""
    total = np.sum(counts, axis=0) if counts else np.zeros(0, np.int64)
    part_ptr = offsets(total)
    firsts, first = [], part_ptr[:-1]
    for count in counts:
        firsts.append(first)
        first = first + count
    return part_ptr, firsts
