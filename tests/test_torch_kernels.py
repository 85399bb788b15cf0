"""Kernels for GPUs against compiled code: by Triton's interpreter on the CPU, or on a GPU where there is one."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

from partwise.structures import Chain, Projective, Spanning  # noqa: E402
from partwise.torch.kernels import chain, trees  # noqa: E402
from partwise.torch.layouts.chains import ChainLayout  # noqa: E402
from partwise.torch.layouts.trees import TreeLayout  # noqa: E402
from partwise.torch.sums import host_answer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = {torch.float64: 1e-10, torch.float32: 1e-5}


def agree(found: list, expected: list, near: float) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = 1.0 + float(other[torch.isfinite(other)].abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one.cpu(), other, rtol=0.0, atol=near * scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("own_edges", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float64, 1.0), (torch.float64, 1e4), (torch.float32, 3.0)]
)
def test_chains(own_edges: bool, masked: bool, dtype: object, size: float) -> None:
    random = torch.Generator().manual_seed(2)
    B, T, L = 4, 5, 3
    lengths = torch.tensor([5, 4, 2, 1])
    structure = Chain(L)
    if masked:
        allowed = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1]], bool)
        structure = Chain(L, allowed=allowed, allowed_start=[1, 0, 1], allowed_end=[1, 1, 0])
    node = size * torch.randn(B, T, L, generator=random, dtype=dtype)
    edge = size * torch.randn(*((B, T - 1) if own_edges else ()), L, L, generator=random, dtype=dtype)
    node[0, 1, 2] = -torch.inf
    batch = ChainLayout(structure).batch((node, edge), lengths, True)
    on_device = ChainLayout(structure).batch((node.to(DEVICE), edge.to(DEVICE)), lengths.to(DEVICE), True)
    for which, kernel in (("sums", chain.sums), ("best", chain.best)):
        agree(kernel(on_device), host_answer(batch, which), NEAR[dtype])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_too_far_apart_for_products_are_done_on_logarithms() -> None:
    """The only way through is one that every local look would have given up."""
    node = torch.zeros(1, 4, 2, dtype=torch.float32)
    edge = torch.tensor([[0.0, -300.0], [-300.0, 0.0]])
    node[0, 0, 1], node[0, 3, 0] = -400.0, -900.0
    batch = ChainLayout(Chain(2)).batch((node, edge), None, True)
    agree(
        chain.sums(batch._replace(scores=tuple(s.to(DEVICE) for s in batch.scores))),
        host_answer(batch, "sums"),
        1e-5,
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [Projective, Spanning])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("n_relations", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float64, 1.0), (torch.float64, 200.0), (torch.float32, 1.0)]
)
def test_trees(kind: type, single_root: bool, n_relations: int, dtype: object, size: float) -> None:
    random = torch.Generator().manual_seed(4)
    N, lengths = 5, torch.tensor([4, 3, 1])
    structure = kind(single_root=single_root, n_relations=n_relations)
    scores = [size * torch.randn(3, N, N, generator=random, dtype=dtype)]
    scores[0][0, 2, 3] = -torch.inf
    if n_relations > 1:
        scores.append(size * torch.randn(3, N, N, n_relations, generator=random, dtype=dtype))
    batch = TreeLayout(structure).batch(tuple(scores), lengths, True)
    on_device = TreeLayout(structure).batch(tuple(s.to(DEVICE) for s in scores), lengths.to(DEVICE), True)
    agree(trees.sums(on_device), host_answer(batch, "sums"), 10 * NEAR[dtype])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradients_of_one_launch_are_the_counts() -> None:
    node = torch.randn(2, 3, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    edge = torch.randn(4, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    batch = ChainLayout(Chain(4)).batch((node, edge), None, True)
    values = chain.LogPartition.apply(batch, *batch.scores)
    found = torch.autograd.grad((values * torch.tensor([1.0, 3.0], device=DEVICE)).sum(), (node, edge))
    plain = ChainLayout(Chain(4)).batch((node.detach().cpu(), edge.detach().cpu()), None, True)
    _, nodes, edges = host_answer(plain, "sums")
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(found[0].cpu(), nodes * weight[:, None, None])
    torch.testing.assert_close(found[1].cpu(), (edges * weight[:, None, None]).sum(0))
