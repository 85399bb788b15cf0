"""Activations of a frozen network as the dense rows of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence

from partwise.core.arrays import offsets
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.torch.layouts.base import read_lengths
from partwise.torch.packed import padded_target, unpacked
from partwise.torch.rows import Feed


class Activations(NamedTuple):
    """The training data of a last layer.

    Attributes
    ----------
    rows : dict of float32 arrays, shape (n_rows, n_features)
        By the kind of rows, without padding, one example after another. With a bias, the last column is ones.
    labels
        As ``structure.encode_all`` reads them.
    shapes : Shapes
    device : torch.device
        The device of the network's outputs.
    """

    rows: dict[str, np.ndarray]
    labels: np.ndarray
    shapes: Shapes
    device: torch.device

    def problem(self, feed: Feed, loss: Loss, l2: float, cost: Any, n_jobs: int) -> Problem:
        """The problem of the last layer."""
        rows = {}
        for each in feed.fed:
            dense = self.rows.get(each.name)
            n_columns = 0 if dense is None else dense.shape[1]
            rows[each.name] = RowData(FeatureMap.build(each.width, 0, n_columns), None, dense)
        return Problem.build(
            feed.structure, self.labels, self.shapes, rows, loss=loss, l2=l2, cost=cost, n_jobs=n_jobs
        )


@torch.no_grad()
def gather(
    module: torch.nn.Module,
    loader: Iterable[Any],
    feed: Feed,
    bias: bool,
    tell: Callable[[str], None],
) -> Activations:
    """Run `module` over `loader` once, in evaluation mode. Its mode is restored afterwards."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    pieces: list[tuple[dict[str, np.ndarray], np.ndarray, Shapes]] = []
    device, n = torch.device("cpu"), 0
    try:
        for k, batch in enumerate(loader):
            found, labels, shapes, device = _one_batch(module, batch, feed, f"batch {k}", bias)
            _check_alike(pieces, found, k)
            pieces.append((found, labels, shapes))
            n += len(shapes.ptr) - 1
            tell(f"activations of {n:,} examples")
    finally:
        for each, was_training in modes:
            each.training = was_training
    if not pieces:
        raise InputError("the loader gave no batches")
    names = list(pieces[0][0])
    rows = {name: np.concatenate([found.pop(name) for found, _, _ in pieces]) for name in names}
    labels = np.concatenate([each[1] for each in pieces])
    sizes = np.concatenate([np.diff(each[2].ptr) for each in pieces])
    shapes = Shapes(offsets(sizes), np.concatenate([each[2].values for each in pieces]))
    return Activations(rows, labels, shapes, device)


def _check_alike(pieces: list[Any], found: Mapping[str, np.ndarray], k: int) -> None:
    if pieces and pieces[0][0].keys() != found.keys():
        raise InputError(f"batch {k}: there are activations of {', '.join(found)}, before of others")
    for name, own in found.items():
        before = pieces[0][0].get(name, own).shape[1] if pieces else own.shape[1]
        if own.shape[1] != before:
            raise InputError(f"batch {k}: there are {own.shape[1]} activations of a {name}, before {before}")


def _one_batch(
    module: torch.nn.Module, batch: Any, feed: Feed, what: str, bias: bool
) -> tuple[dict[str, np.ndarray], np.ndarray, Shapes, torch.device]:
    """Rows by kind, labels and shapes of a batch."""
    if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 3:
        raise InputError(f"{what}: the loader must give (inputs, target) or (inputs, target, lengths)")
    inputs, target, lengths = (*batch, None)[:3]
    given = _called(module, inputs)
    is_one = isinstance(given, (torch.Tensor, PackedSequence)) or not isinstance(given, (tuple, list))
    given, lengths = unpacked((given,) if is_one else tuple(given), lengths)
    feed, given = feed.of_batch(given)
    tensors = _checked(given, feed, what)
    n, first = len(tensors[0]), feed.fed[0]
    sizes = ((*tensors[0].shape[:-1], *first.tail),)
    longest = feed.layout.longest(sizes)
    for each, tensor in zip(feed.fed, tensors, strict=False):
        wanted = (n, *feed.axes(each.name, longest))
        if tuple(tensor.shape[:-1]) != wanted or not tensor.shape[-1]:
            raise InputError(
                f"{what}: activations of a {each.name} have shape {tuple(tensor.shape)}, expected "
                f"({', '.join(map(str, wanted))}, features)"
            )
    host = np.full(n, longest, np.int64)
    if lengths is not None:
        host = read_lengths(lengths, n, longest, torch.device("cpu"), True).numpy()
    shapes = feed.shapes(host)
    labels = feed.layout.flat_labels(padded_target(target), host)
    feed.structure.encode_all(labels, shapes)  # an error names this batch
    places, rows = feed.row_positions(shapes, longest), {}
    for each, tensor in zip(feed.fed, tensors, strict=False):
        each.check()
        place = torch.from_numpy(places[each.name]).to(tensor.device)
        flat = tensor.reshape(-1, tensor.shape[-1])[place].float().cpu().numpy()
        if not np.isfinite(flat).all():
            raise InputError(f"{what}: activations of a {each.name} contain NaN or infinity")
        rows[each.name] = np.hstack([flat, np.ones((len(flat), 1), np.float32)]) if bias else flat
    return rows, labels, shapes, tensors[0].device


def _called(module: torch.nn.Module, inputs: Any) -> Any:
    """Call the module. A tuple or list is several arguments, a dict named ones."""
    if isinstance(inputs, Mapping):
        return module(**inputs)
    if isinstance(inputs, (tuple, list)) and not isinstance(inputs, PackedSequence):
        return module(*inputs)
    return module(inputs)


def _checked(given: tuple[Any, ...], feed: Feed, what: str) -> tuple[torch.Tensor, ...]:
    fed, structure = feed.fed, feed.structure
    names = [each.name for each in fed]
    least = 1 if names[-1:] == ["span"] else len(fed)
    if not least <= len(given) <= len(fed):
        raise InputError(
            f"{what}: the module gave {len(given)} tensors; {structure!r} has {', '.join(names)}"
        )
    for each, tensor in zip(fed, given, strict=False):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.ndim < 2:
            raise InputError(
                f"{what}: activations of a {each.name} must be a tensor of floating numbers, the features last"
            )
    return given
