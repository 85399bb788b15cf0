"""The functions that users call: answers about a batch of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import Any

import numpy as np
import torch

import partwise.torch.operators  # noqa: F401 - defines what traced code calls
from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.checks import checked_count, checked_samples, require_possible
from partwise.structures.contract import Structure
from partwise.structures.grammar.grammar import Grammar
from partwise.structures.graphs.graph import Graph
from partwise.structures.multiclass.multiclass import Multiclass
from partwise.structures.segments.factored import FactoredSemiMarkov
from partwise.structures.segments.semi_markov import SemiMarkov
from partwise.structures.trees.trees import Trees
from partwise.torch.layouts.base import Layout, ScoreBatch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.classes import ClassLayout
from partwise.torch.layouts.factored_segments import FactoredLayout
from partwise.torch.layouts.grammars import GrammarLayout
from partwise.torch.layouts.graphs import GraphLayout
from partwise.torch.layouts.segments import SegmentLayout
from partwise.torch.layouts.trees import TreeLayout
from partwise.torch.packed import unpacked
from partwise.torch.sums import answer, best_labels, device_kernels, device_ranking, values_of
from partwise.torch.torch_hooks import is_batched

_LAYOUTS: tuple[tuple[type[Structure], type[Layout]], ...] = (
    (Multiclass, ClassLayout),
    (Chain, ChainLayout),
    (Trees, TreeLayout),
    (SemiMarkov, SegmentLayout),
    (FactoredSemiMarkov, FactoredLayout),
    (Grammar, GrammarLayout),
    (Graph, GraphLayout),
)


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Under ``torch.compile`` the function runs as it is, between compiled pieces."""

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*arguments, **options)
        return function(*arguments, **options)

    return called


def traced_for_chains(function: Callable[..., Any]) -> Callable[..., Any]:
    """Under ``torch.compile`` the function is a part of the graph if its structure is a chain.

    The structure is the first argument, or an attribute of it.
    """
    outside = not_compiled(function)

    @wraps(function)
    def called(first: Any, *arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling() and not _is_traceable(first):
            return outside(first, *arguments, **options)
        return function(first, *arguments, **options)

    return called


def _is_traceable(first: Any) -> bool:
    """Whether there are operators for the structure, and for the costs of a loss."""
    cost = getattr(getattr(first, "criterion", first), "cost", None)
    return isinstance(getattr(first, "structure", first), Chain) and not isinstance(cost, Mapping)


def read_batch(
    structure: Structure, scores: tuple[Any, ...], lengths: Any, validate: bool | None, mask: Any = None
) -> ScoreBatch:
    """Checked scores of a batch; raises :class:`InputError` naming the argument."""
    scores, lengths = unpacked(scores, lengths)
    if not torch.compiler.is_compiling() and any(map(is_batched, scores)):
        raise InputError("scores are a batch already: instead of vmap, let the examples be one axis")
    layout = layout_for(structure)
    if mask is None:
        return layout.batch(scores, lengths, validate)
    return layout.masked_batch(scores, lengths, mask, validate)


def layout_for(structure: Structure) -> Layout:
    """How the scores of a structure are read."""
    # Traced code has no caches.
    find = _layout_of.__wrapped__ if torch.compiler.is_compiling() else _layout_of
    layout = find(type(structure))
    if layout is None:
        known = ", ".join(kind.__name__ for kind, _ in _LAYOUTS)
        raise InputError(f"there are no layers for {structure!r}; there are for {known}")
    return layout(structure)


@cache
def _layout_of(structure: type[Structure]) -> type[Layout] | None:
    return next((layout for kind, layout in _LAYOUTS if issubclass(structure, kind)), None)


@traced_for_chains
def log_partition(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> torch.Tensor:
    """log Σ_y exp(score of y) of every example.

    Parameters
    ----------
    structure : Structure
        Any of ``Multiclass``, ``Chain`` (order 1), ``Projective``, ``Spanning``, ``SemiMarkov``, ``Grammar``,
        ``Graph``.
    *scores : Tensor
        What the structure's own methods take, with a batch in front. Scores that all examples share (transitions,
        rules) need no batch. Half precision is summed in single precision. The first may be a ``PackedSequence``,
        which brings its lengths along.
    lengths : Tensor of int (B,), or of bool (B, length), optional
        How much of the padding each example fills; a mask is True at its first positions.
    mask : Tensor of bool or of 0 and 1 (B, length), optional
        The positions that count. Chains may have holes: other positions are left out, and the chain connects their
        neighbours. A transition of its own scores, (B, T − 1, L, L), is then that into the later position.
        An example without any position has one labelling, with score 0.
    validate : bool, optional
        Whether numbers are checked as well as shapes: NaN and +inf, lengths. The default is to do so on the CPU, and
        not on a GPU, because that costs a transfer. Invalid numbers there give invalid results.

    Returns
    -------
    Tensor (B,)
        −inf where nothing is possible, with gradient 0.
    """
    batch = read_batch(structure, scores, lengths, validate, mask)
    return batch.values(values_of(batch, "sums"))


@traced_for_chains
def marginals(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> Any:
    """Probabilities of all parts: the gradient of :func:`log_partition`, and differentiable itself.

    Returns
    -------
    Tensor, or tuple of Tensor
        In the shapes of the scores, 0 in the padding; one for each tensor of scores if there are several. A chain's
        edges have a block (L, L) for every pair of neighbours even where their scores are shared; shared transitions
        of segments and rules of grammars have expected numbers for every example. Positions that a mask leaves out
        have 0. The block of two neighbours with a hole between them is that of the later one.
    """
    batch = read_batch(structure, scores, lengths, validate, mask)
    found = answer(batch.layout.for_marginals(batch), "sums")[1:]
    if batch.kept is not None:
        found = batch.layout.back(found, batch.kept)
    return found[0] if len(found) == 1 else found


@traced_for_chains
def entropy(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> torch.Tensor:
    """Entropy in nats of the distribution over labellings, (B,): A(s) − s·μ, differentiable; −inf where there is
    none."""
    batch = read_batch(structure, scores, lengths, validate, mask)
    values, *counts = answer(batch, "sums")
    for own, amount in zip(batch.scores, counts, strict=True):
        finite = torch.where(own == -torch.inf, torch.zeros_like(own), own)
        values = values - (finite * amount).flatten(1).sum(1)
    return batch.values(values)


@traced_for_chains
def max_score(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> torch.Tensor:
    """The largest score of a labelling, (B,); its gradient counts the parts of one that has it."""
    batch = read_batch(structure, scores, lengths, validate, mask)
    return batch.values(values_of(batch, "best"))


@traced_for_chains
@torch.no_grad()
def argmax(
    structure: Structure, *scores: Any, lengths: Any = None, mask: Any = None, validate: bool | None = None
) -> Any:
    """A best labelling of every example.

    Returns
    -------
    Tensor of int64, or what the structure has
        Classes (B,); chains (B, T) and heads of trees (B, n), −1 in the padding and in holes of a mask; with relations
        a pair of such; graphs (B, V); segmentations as a list of tensors (k, 3); derivations as a list of lists of
        nodes.
    """
    batch = read_batch(structure, scores, lengths, validate, mask)
    found = best_labels(batch)
    return found if batch.kept is None else batch.kept.back(found, -1)


@not_compiled
@torch.no_grad()
def sample(
    structure: Structure,
    *scores: Any,
    lengths: Any = None,
    mask: Any = None,
    n_samples: int = 1,
    generator: torch.Generator | None = None,
    validate: bool | None = None,
) -> list[Any]:
    """Labellings drawn with probability ∝ exp(score).

    Parameters
    ----------
    generator : torch.Generator, optional
        Where randomness comes from, PyTorch's own without.

    Returns
    -------
    list of n_samples batches of labellings, each as :func:`argmax` gives them
    """
    n_samples = checked_samples(n_samples)
    device = "cpu" if generator is None else generator.device
    seed = int(torch.randint(2**62, (1,), generator=generator, device=device))
    batch = read_batch(structure, scores, lengths, validate, mask)
    kernels = device_kernels(batch)
    if hasattr(kernels, "drawn"):
        there = torch.Generator(batch.scores[0].device).manual_seed(seed)
        labels, values = kernels.drawn(batch, n_samples, there)
        require_possible(values.cpu().numpy(), False)
        return labels if batch.kept is None else [batch.kept.back(each, -1) for each in labels]
    own_random = np.random.default_rng(seed).spawn(batch.n_examples)  # the same for any number of threads
    drawn = _of_each(
        batch,
        lambda i, *own: batch.layout.structure.sample(*own, n_samples=n_samples, random_state=own_random[i]),
    )
    lengths, device = batch.host_lengths(), batch.scores[0].device
    found = [batch.layout.stacked([own[k] for own in drawn], lengths, device) for k in range(n_samples)]
    return found if batch.kept is None else [batch.kept.back(each, -1) for each in found]


@not_compiled
@torch.no_grad()
def kbest(
    structure: Structure,
    *scores: Any,
    lengths: Any = None,
    mask: Any = None,
    k: int = 5,
    validate: bool | None = None,
) -> list[list[tuple[Any, float]]]:
    """The k best labellings of every example with their scores, best first; fewer if the example has fewer labellings.

    Returns
    -------
    list of B lists of (labelling, score)
        Labellings as the structure's own ``kbest`` gives them; with holes of a mask arrays (T,) with −1 there.
    """
    k, batch = checked_count(k, "k"), read_batch(structure, scores, lengths, validate, mask)
    ranking = device_ranking(batch, k)
    if ranking is not None:
        found = ranking.kbest(batch, k)
    else:
        found = _of_each(batch, lambda i, *own: batch.layout.structure.kbest(*own, k=k))
    if batch.kept is None:
        return found
    return [_spread(own, where) for own, where in zip(found, batch.kept.mask.cpu().numpy(), strict=True)]


def _spread(ranked: list[tuple[Any, float]], where: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Ranked labellings of one example, with −1 at positions that the mask (T,) leaves out."""
    if not where.any():
        return [(np.full(len(where), -1, np.int64), 0.0)]
    result = []
    for labels, score in ranked:
        whole = np.full(len(where), -1, np.int64)
        whole[where] = labels
        result.append((whole, score))
    return result


def _of_each(batch: ScoreBatch, work: Callable[..., Any]) -> list[Any]:
    """`work` of the number of every example and its scores, without padding, in PyTorch's number of threads."""
    arrays = [_as_array(each) for each in batch.scores]
    lengths = batch.host_lengths().tolist()

    def of_one(i: int) -> Any:
        return work(i, *batch.layout.example(arrays, i, lengths[i]))

    if torch.get_num_threads() <= 1 or len(lengths) < 2:
        return [of_one(i) for i in range(len(lengths))]
    with ThreadPoolExecutor(min(torch.get_num_threads(), len(lengths))) as pool:
        return list(pool.map(of_one, range(len(lengths))))


def _as_array(scores: torch.Tensor) -> np.ndarray:
    """Of float64 (B, …); scores that all examples share are there once."""
    is_shared = len(scores) > 1 and scores.stride(0) == 0
    own = (scores[:1] if is_shared else scores).detach().cpu().double().numpy()
    return np.broadcast_to(own, tuple(scores.shape))
