"""What the examples share: end-to-end training with a structured loss, then a certified last layer, and both compared.

A network gives activations; `network.scores(*activations)` is its last layer, whose parts `network.last()` lists. The
training objective of both is the same, P = Σ loss + (l2 / 2) ‖last layer‖²; only the network moves the activations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import partwise.torch as layers


class Batch(NamedTuple):
    """A batch as `fit_head` takes it: inputs of the network, true labels, lengths."""

    inputs: tuple[torch.Tensor, ...]
    target: Any
    lengths: torch.Tensor

    def to(self, device: str) -> Batch:
        target = self.target
        if isinstance(target, torch.Tensor):
            target = target.to(device)
        return Batch(tuple(each.to(device) for each in self.inputs), target, self.lengths.to(device))


class Result(NamedTuple):
    """After an epoch: P and the score on test data of the network's own last layer and of the certified one."""

    loss: str
    epoch: int
    seconds: float
    objective: float
    score: float
    head: layers.Head
    head_seconds: float
    head_score: float

    def line(self) -> str:
        found = self.head.certificate
        return (
            f"{self.loss:<5} {self.epoch:>5} {self.seconds:>8.1f} {self.objective:>12.2f} {self.score:>7.2f}"
            f"   {found.primal:>12.2f} {found.relative_gap:>9.1e} {self.head_score:>7.2f}"
            f" {self.head_seconds:>8.1f}  {self.head.solver}, {self.head.device}"
        )


TITLE = (
    "loss  epoch  seconds   P, trained   score      P, certified       gap   score  seconds  solver\n"
    "                     end to end                 last layer"
)


def penalty(network: Any) -> torch.Tensor:
    """‖last layer‖²."""
    total = torch.zeros(())
    for part in network.last():
        tensors = part.parameters() if isinstance(part, torch.nn.Module) else [part]
        total = sum(((each**2).sum() for each in tensors), total.to(next(network.parameters()).device))
    return total


def train_epoch(
    network: Any, batches: list[Batch], criterion: Any, optimizer: Any, l2: float, n: int
) -> None:
    """One epoch of Adam on P / n, batch by batch."""
    network.train()
    for k in torch.randperm(len(batches)).tolist():
        batch = batches[k]
        optimizer.zero_grad()
        scores = network.scores(*as_tuple(network(*batch.inputs)))
        value = criterion(*scores, target=batch.target, lengths=batch.lengths)
        (value + 0.5 * l2 / n * penalty(network)).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()


@torch.no_grad()
def objective(network: Any, batches: list[Batch], structure: Any, loss: str, l2: float) -> float:
    """P of the network's own last layer, in double precision."""
    network.eval()
    criterion = layers.StructuredLoss(structure, loss, reduction="sum")
    total = 0.0
    for batch in batches:
        scores = network.scores(*as_tuple(network(*batch.inputs)))
        scores = tuple(each.double() if each.is_floating_point() else each for each in scores)
        total += criterion(*scores, target=batch.target, lengths=batch.lengths).item()
    return total + 0.5 * l2 * penalty(network).double().item()


@torch.no_grad()
def predictions(network: Any, batches: list[Batch], structure: Any, head: Any = None) -> list[Any]:
    """Best labellings of the batches, under the network's last layer or another."""
    network.eval()
    last = network.scores if head is None else head
    return [
        layers.argmax(structure, *last(*as_tuple(network(*batch.inputs))), lengths=batch.lengths)
        for batch in batches
    ]


def compare(
    make_network: Callable[[], Any],
    train: list[Batch],
    test: list[Batch],
    structure: Any,
    score: Callable[[list[Any]], float],
    *,
    losses: tuple[str, ...] = ("log", "hinge"),
    epochs: int = 5,
    every_epoch: bool = False,
    l2: float = 1.0,
    tol: float = 1e-3,
    device: str = "cpu",
) -> Iterator[Result]:
    """Train end to end with each loss, and certify the last layer on top of the frozen network.

    Parameters
    ----------
    score : callable
        Of the labellings of all batches of `test`.
    every_epoch : bool
        Whether the last layer is certified after every epoch, not only after the last.
    """
    train, test = ([each.to(device) for each in batches] for batches in (train, test))
    n = sum(len(each.lengths) for each in train)
    for loss in losses:
        torch.manual_seed(0)
        network = make_network().to(device)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        criterion, seconds = layers.StructuredLoss(structure, loss), 0.0
        for epoch in range(1, epochs + 1):
            begin = time.perf_counter()
            train_epoch(network, train, criterion, optimizer, l2, n)
            synchronize(device)
            seconds += time.perf_counter() - begin
            if not every_epoch and epoch < epochs:
                continue
            before = objective(network, train, structure, loss, l2)
            own = score(predictions(network, test, structure))
            begin = time.perf_counter()
            head = layers.fit_head(network, train, structure, loss, l2, tol=tol)
            synchronize(device)
            spent = time.perf_counter() - begin
            certified = score(predictions(network, test, structure, head))
            yield Result(loss, epoch, seconds, before, own, head, spent, certified)


def as_tuple(activations: Any) -> tuple[Any, ...]:
    return activations if isinstance(activations, tuple) else (activations,)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def in_batches(lengths: list[int], size: int) -> list[list[int]]:
    """Examples of similar lengths together."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return [order[k : k + size] for k in range(0, len(order), size)]


def padded(rows: list[list[int]], fill: int = 0) -> torch.Tensor:
    """Rows of whole numbers as one tensor."""
    longest = max(map(len, rows))
    return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])
