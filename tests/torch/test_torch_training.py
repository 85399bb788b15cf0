"""Layers in the ways that people train networks: autocast, several processes, checkpointing, functional calls."""

from __future__ import annotations

import socket
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise import InputError  # noqa: E402

TAGS = torch.tensor([[0, -100, 1, 2, 2, 0], [1, 2, 0, 0, 0, 0], [3, 4, 0, 0, 0, 0], [2, 2, 1, 1, 0, 3]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]])


class Tagger(torch.nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.hidden, self.linear = torch.nn.Linear(4, 6), torch.nn.Linear(6, 5)
        self.crf, self.checkpointed = layers.CRF(5, batch_first=True), checkpointed

    def loss(self, words: Any, tags: Any, mask: Any) -> Any:
        return -self.crf(self.linear(self.hidden(words).tanh()), tags, mask, "mean")

    def forward(self, words: Any, tags: Any, mask: Any) -> Any:
        if self.checkpointed:
            from torch.utils.checkpoint import checkpoint

            return checkpoint(self.loss, words, tags, mask, use_reentrant=False)
        return self.loss(words, tags, mask)


def made(checkpointed: bool = False) -> tuple[Tagger, Any]:
    torch.manual_seed(0)
    return Tagger(checkpointed), torch.randn(4, 6, 4)


def gradients(loss: Any, model: Tagger) -> tuple[Any, ...]:
    return torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast(kind: Any) -> None:
    model, words = made()
    with torch.autocast("cpu", dtype=kind):
        emissions = model.linear(model.hidden(words).tanh())
        assert emissions.dtype == kind
        loss = -model.crf(emissions, TAGS, MASK, "mean")
        best = model.crf.decode(emissions, MASK)
    assert loss.dtype == torch.float32
    exact = -model.crf(emissions.detach().float(), TAGS, MASK, "mean")
    torch.testing.assert_close(loss, exact)
    assert best == model.crf.decode(emissions.float(), MASK)
    found, expected = gradients(loss, model), gradients(model(words, TAGS, MASK), model)
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own, other, rtol=0.1, atol=0.02)


def test_checkpointing() -> None:
    (model, words), (other, _) = made(), made(checkpointed=True)
    plain, again = model(words, TAGS, MASK), other(words, TAGS, MASK)
    torch.testing.assert_close(again, plain, rtol=0, atol=0)
    torch.testing.assert_close(gradients(again, other), gradients(plain, model), rtol=0, atol=0)


def test_functional_calls() -> None:
    model, words = made()
    doubled = {name: 2 * value.detach() for name, value in model.named_parameters()}

    def value(weights: dict[str, Any]) -> Any:
        return torch.func.functional_call(model, weights, (words, TAGS, MASK))

    found = torch.func.grad(value)(doubled)
    again, _ = made()
    again.load_state_dict(doubled)
    expected = gradients(again(words, TAGS, MASK), again)
    for name, other in zip(doubled, expected, strict=True):
        torch.testing.assert_close(found[name], other)
    with pytest.raises(InputError, match="instead of vmap"):
        torch.func.vmap(lambda given: model.crf.log_partition(given))(torch.randn(2, 4, 6, 5))


def _train_half(rank: int, port: int) -> None:
    """One of two processes, with half of the batch."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model, words = made()
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    own = slice(2 * rank, 2 * rank + 2)
    wrapped(words[own], TAGS[own], MASK[own]).backward()
    whole, _ = made()
    expected = gradients(whole(words, TAGS, MASK), whole)
    for each, other in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(each.grad, other)
    dist.destroy_process_group()


def test_two_processes() -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_train_half, args=(port,), nprocs=2)
