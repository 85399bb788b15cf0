"""Few and long chains, parallel in time, against compiled code: the same PyTorch operations on the CPU and on a GPU."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

from partwise.structures import Chain  # noqa: E402
from partwise.torch.gpu import kernels_for, long_chain, long_paths  # noqa: E402
from partwise.torch.gpu.function import LogPartition, sums_by  # noqa: E402
from partwise.torch.layouts.base import ScoreBatch  # noqa: E402
from partwise.torch.layouts.chains import ChainLayout  # noqa: E402
from partwise.torch.sums import host_answer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def _batch(trial: int) -> ScoreBatch:
    """Sequences of one block or several; masks, lengths, own edges, excluded labels and extreme scores in turn."""
    random, rng = torch.Generator().manual_seed(trial), np.random.default_rng(trial)
    B, T, L = 1 + trial % 3, [2, 32, 40, 129, 300][trial % 5], [3, 1, 7, 2][trial % 4]
    size, dtype = [1.0, 5.0, 30.0, 1e4][trial // 2 % 4], [torch.float32, torch.float64][trial % 2]
    masks = {}
    if trial % 7 > 3:
        masks = {
            "allowed": (rng.random((L, L)) < 0.7) | np.eye(L, dtype=bool),
            "allowed_start": np.arange(L) != 1,
            "allowed_end": np.arange(L) != 2,
        }
    node = size * torch.randn(B, T, L, generator=random, dtype=dtype)
    if trial % 5 == 2:
        node[0, T // 2, 1:] = -torch.inf
    own = (B, T - 1) if trial % 3 == 1 else (B,) * (trial % 3 // 2)
    edge = min(size, 30.0) * torch.randn(*own, L, L, generator=random, dtype=dtype)
    lengths = None if trial % 2 else torch.randint(1, T + 1, (B,), generator=random).to(DEVICE)
    return ChainLayout(Chain(L, **masks)).batch((node.to(DEVICE), edge.to(DEVICE)), lengths, True)


@pytest.mark.parametrize("trial", range(24))
def test_sums_and_best_labellings(trial: int) -> None:
    batch = _batch(trial)
    near = 1e-10 if batch.scores[0].dtype == torch.float64 else 1e-5
    for found, which in (
        (sums_by(long_chain.LongChainSums, batch), "sums"),
        (long_chain.best(batch), "best"),
    ):
        for one, other in zip(found, host_answer(batch, which), strict=True):
            scale = 1.0 + float(other[torch.isfinite(other)].abs().max()) if other.numel() else 1.0
            torch.testing.assert_close(one, other, rtol=0.0, atol=near * scale)


def test_scores_of_ten_thousand_stay_on_the_device() -> None:
    node = 1e4 * torch.randn(1, 500, 5, generator=torch.Generator().manual_seed(3))
    edge = torch.randn(5, 5, generator=torch.Generator().manual_seed(4))
    batch = ChainLayout(Chain(5)).batch((node.to(DEVICE), edge.to(DEVICE)), None, True)
    sums = long_chain.LongChainSums(batch, batch.scores)
    value = sums.forward()
    assert not sums.lost_digits(value)
    torch.testing.assert_close(value, host_answer(batch, "sums")[0])


def test_what_underflows_is_summed_on_the_host() -> None:
    """Label 1 falls behind by 400 nats a block, and only it may end: no row of sums keeps it."""
    node = torch.zeros(1, 200, 2, dtype=torch.float64, device=DEVICE)
    node[0, :, 1] = -10.0
    edge = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64, device=DEVICE)
    edge = edge.expand(1, 199, 2, 2).clone()
    edge[0, 70] = 0.0
    node[0, -1, 0] = -torch.inf
    batch = ChainLayout(Chain(2)).batch((node, edge), None, True)
    for one, other in zip(sums_by(long_chain.LongChainSums, batch), host_answer(batch, "sums"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_gradients_of_shared_edges_and_second_derivatives() -> None:
    random = torch.Generator(DEVICE).manual_seed(0)
    node = torch.randn(2, 70, 3, generator=random, dtype=torch.float64, device=DEVICE, requires_grad=True)
    edge = torch.randn(3, 3, generator=random, dtype=torch.float64, device=DEVICE, requires_grad=True)
    weight = torch.tensor([1.0, -2.0], dtype=torch.float64, device=DEVICE)

    def value(way: object) -> torch.Tensor:
        batch = ChainLayout(Chain(3)).batch((node, edge), None, True)
        if way is None:
            batch = batch._replace(unexpanded=())
            from partwise.torch.sums import answer

            return answer(batch, "sums")[0] @ weight
        return LogPartition.apply(way, batch, *batch.unexpanded) @ weight

    pairs = []
    for way in (long_chain.LongChainSums, None):
        first = torch.autograd.grad(value(way), (node, edge), create_graph=True)
        second = torch.autograd.grad(sum((each**2).sum() for each in first), (node, edge))
        pairs.append((*first, *second))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


def test_equal_calls_give_equal_bits() -> None:
    batch = _batch(11)
    first, second = (sums_by(long_chain.LongChainSums, batch) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_labellings_are_drawn_as_often_as_they_are_likely() -> None:
    random = torch.Generator().manual_seed(0)
    node = torch.randn(2, 70, 3, generator=random, dtype=torch.float64)
    node[0, 5, 1] = -torch.inf
    edge = torch.randn(3, 3, generator=random, dtype=torch.float64)
    chain = Chain(3, allowed=[[1, 1, 0], [1, 1, 1], [1, 0, 1]])
    lengths = torch.tensor([70, 33], device=DEVICE)
    batch = ChainLayout(chain).batch((node.to(DEVICE), edge.to(DEVICE)), lengths, True)
    labels, _ = long_chain.drawn(batch, 400, torch.Generator(DEVICE).manual_seed(1))
    drawn, (_, nodes, edges) = torch.stack(labels).cpu(), host_answer(batch, "sums")
    assert (drawn[:, 1, 33:] == -1).all()
    often = torch.stack([(drawn == k).double().mean(0) for k in range(3)], -1)
    torch.testing.assert_close(often, nodes.cpu(), rtol=0.0, atol=0.12)
    pair = drawn[:, :, :-1] * 3 + drawn[:, :, 1:]
    inside = drawn[:, :, 1:] >= 0
    pairs = [((pair == k) & inside).double().sum(2).mean(0) for k in range(9)]
    torch.testing.assert_close(torch.stack(pairs, -1).view(2, 3, 3), edges.cpu(), rtol=0.0, atol=1.4)


def test_the_best_labelling_in_the_form_of_kbest() -> None:
    batch = _batch(3)
    [[(labels, score)]] = long_paths.kbest(batch, 1)
    node, edge = (each[0].cpu().double().numpy() for each in batch.scores)
    chain = batch.layout.structure
    assert chain.score(labels, node, edge) == pytest.approx(score)
    assert score == pytest.approx(chain.kbest(node, edge, k=1)[0][1])


def test_shapes_decide() -> None:
    def module(n: int, length: int, n_labels: int) -> str:
        scores = torch.zeros(1, 1, 1).expand(n, length, n_labels), torch.zeros(n_labels, n_labels)
        layout = ChainLayout(Chain(n_labels))
        batch = ScoreBatch(layout, (scores[0], scores[1].expand(n, n_labels, n_labels)), None)
        return kernels_for(batch).__name__.rpartition(".")[2]

    assert module(1, 100_000, 24) == module(4, 10_000, 24) == module(16, 10_000, 64) == "long_chain"
    assert module(256, 128, 64) == module(1024, 512, 32) == module(1, 4096, 24) == "chain"
    assert module(256, 20_000, 100) == "chain"
