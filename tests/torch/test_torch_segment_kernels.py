"""Kernels of segments, and of chains as segments, against compiled code and enumeration: by Triton's interpreter on the
CPU, or on a GPU where there is one."""

from __future__ import annotations

import os
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, SemiMarkov  # noqa: E402
from partwise.torch import functions, sums  # noqa: E402
from partwise.torch.gpu import kernels_for, segments, tied_steps, wide_chain  # noqa: E402
from partwise.torch.gpu.function import LogPartition, sums_by  # noqa: E402
from partwise.torch.gpu.segment_sums import SegmentSums  # noqa: E402
from partwise.torch.layouts.chains import ChainLayout  # noqa: E402
from partwise.torch.layouts.segments import SegmentLayout  # noqa: E402
from partwise.torch.sums import host_answer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = {torch.float64: 1e-10, torch.float32: 1e-5}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MASKED = SemiMarkov(
    3, [1, 3, 2], allowed=[[1, 1, 0], [1, 0, 1], [1, 1, 1]], allowed_start=[1, 0, 1], allowed_end=[1, 1, 0]
)


def both(layout: Any, scores: list, lengths: Any) -> tuple[Any, Any]:
    """The same batch on the CPU and on the device."""
    there = None if lengths is None else lengths.to(DEVICE)
    return (
        layout.batch(tuple(scores), lengths, True),
        layout.batch(tuple(s.to(DEVICE) for s in scores), there, True),
    )


def agree(found: list, expected: list, near: float) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = 1.0 + float(other[torch.isfinite(other)].abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one.cpu(), other, rtol=0.0, atol=near * scale)


@pytest.mark.parametrize("structure", [MASKED, SemiMarkov(18, 1), SemiMarkov(2, 20)], ids=repr)
@pytest.mark.parametrize(
    ("dtype", "size", "own"),
    [(torch.float64, 1.0, False), (torch.float64, 1e4, True), (torch.float32, 3.0, True)],
)
def test_segments(structure: SemiMarkov, dtype: Any, size: float, own: bool) -> None:
    random = torch.Generator().manual_seed(2)
    D, L, lengths = structure.max_length, structure.n_labels, torch.tensor([5, 4, 1])
    shapes = (3, 6, D, L), (*((3,) if own else ()), L, L)
    scores = [size * torch.randn(*shape, generator=random, dtype=dtype) for shape in shapes]
    scores[0][0, 2, 0, 1] = -torch.inf
    batch, on_device = both(SegmentLayout(structure), scores, lengths)
    agree(sums_by(segments.SegmentationSums, on_device), host_answer(batch, "sums"), NEAR[dtype])
    agree(segments.best(on_device), host_answer(batch, "best"), NEAR[dtype])


@pytest.mark.parametrize("own_edges", [False, True])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e4), (torch.float32, 1.0)])
def test_chains_of_more_labels_than_registers(own_edges: bool, dtype: Any, size: float) -> None:
    random = torch.Generator().manual_seed(3)
    L, lengths = 130, torch.tensor([3, 1])
    allowed = np.arange(L)[:, None] != np.arange(L) - 7
    structure = Chain(L, allowed=allowed, allowed_end=np.arange(L) % 3 > 0)
    node = size * torch.randn(2, 3, L, generator=random, dtype=dtype)
    edge = size * torch.randn(*((2, 2) if own_edges else ()), L, L, generator=random, dtype=dtype)
    batch, on_device = both(ChainLayout(structure), [node, edge], lengths)
    products = not own_edges and dtype == torch.float32
    assert kernels_for(on_device) is (tied_steps if products else wide_chain)
    agree(sums_by(wide_chain.WideChainSums, on_device), host_answer(batch, "sums"), NEAR[dtype])
    agree(wide_chain.best(on_device), host_answer(batch, "best"), NEAR[dtype])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_many_labels_position_by_position() -> None:
    """Also a sequence whose sums are too small for single precision, one that is impossible, and only some lengths."""
    random = torch.Generator().manual_seed(5)
    L, lengths = 131, torch.tensor([7, 6, 2, 1, 5, 4, *range(1, 7), 7, 7, 7, 7, 3])
    allowed = np.arange(L)[:, None] != np.arange(L) - 7
    structure = Chain(L, allowed=allowed, allowed_end=np.arange(L) % 3 > 0)
    node = 3.0 * torch.randn(len(lengths), 7, L, generator=random)
    edge = 2.0 * torch.randn(L, L, generator=random)
    node[4, :2] = -60.0
    node[4, 0, 7] = node[4, 1, 5] = 0.0
    edge[7, 5] = -52.0
    node[5, 2] = -torch.inf
    batch, on_device = both(ChainLayout(structure), [node, edge], lengths)
    assert kernels_for(on_device) is tied_steps
    expected = host_answer(batch, "sums")
    agree(sums_by(tied_steps.TiedChainSums, on_device), expected, 1e-5)
    given = tied_steps.TiedChainSums(on_device, on_device.scores)
    value, weight = given.forward(), torch.rand(len(lengths), generator=random)
    strained = torch.tensor([4, 5])  # on logarithms
    assert (given.whole[strained.to(DEVICE)] == 0.0).all() and (given.whole > 0.0).sum() == len(lengths) - 2
    for _ in range(2):  # what the first leaves does for a second
        node_count, edge_count = given.backward(value, weight.to(DEVICE), together=True)
        parts = [each * weight.reshape(-1, 1, 1) for each in expected[1:]]
        agree([node_count, edge_count], [parts[0], parts[1].sum(0)], 1e-5)


def test_where_nothing_is_possible_counts_are_zero() -> None:
    scores = [torch.zeros(2, 3, 2, 2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)]
    scores[0][1] = -torch.inf
    batch, on_device = both(SegmentLayout(SemiMarkov(2, 2)), scores, None)
    agree(sums_by(segments.SegmentationSums, on_device), host_answer(batch, "sums"), 1e-12)


@pytest.mark.parametrize(
    ("kernels", "layout", "shapes"),
    [
        (segments, SegmentLayout(SemiMarkov(2, 2)), [(3, 3, 2, 2), (2, 2)]),
        (wide_chain, ChainLayout(Chain(2)), [(3, 3, 2), (2, 2)]),
        (wide_chain, ChainLayout(Chain(2)), [(3, 3, 2), (3, 2, 2, 2)]),
    ],
)
def test_gradients(kernels: Any, layout: Any, shapes: list) -> None:
    random = torch.Generator().manual_seed(8)
    lengths = torch.tensor([3, 2, 1], device=DEVICE)
    scores = [torch.randn(*each, generator=random, dtype=torch.float64).to(DEVICE) for each in shapes]

    def values(*given: Any) -> Any:
        batch = layout.batch(given, lengths, False)
        return LogPartition.apply(kernels.SUMS, batch, *batch.unexpanded)

    given = [each.requires_grad_() for each in scores]
    assert torch.autograd.gradcheck(values, given, fast_mode=True)
    if kernels is segments:  # gradients of gradients come from sums in all of them
        assert torch.autograd.gradgradcheck(values, given, fast_mode=True)


def segmentations(n: int, longest: int, n_labels: int) -> list[list[tuple[int, int, int]]]:
    """All of n positions, as rows (first, last, label)."""
    if n == 0:
        return [[]]
    found = []
    for d, label in product(range(min(longest, n)), range(n_labels)):
        found += [[*rest, (n - 1 - d, n - 1, label)] for rest in segmentations(n - 1 - d, longest, n_labels)]
    return found


def drawn_by_enumeration(segment: np.ndarray, edge: np.ndarray, uniform: np.ndarray) -> list:
    """The label of the last segment, then its length, then the label before, each by its place in [0, 1)."""
    n, longest, n_labels = segment.shape
    left = segmentations(n, longest, n_labels)
    between = np.broadcast_to(edge, (n, n_labels, n_labels)) if edge.ndim == 2 else edge
    scores = [
        sum(segment[a, b - a, j] for a, b, j in y)
        + sum(between[two[0] - 1, one[2], two[2]] for one, two in pairwise(y))
        for y in left
    ]
    weight, k, end = np.exp(scores), 1, n - 1
    while end >= 0:
        for what, chance in ((2, uniform[end, 0]), (0, uniform[end, 1])):
            values = np.array([y[-k][what] for y in left])
            order = np.unique(values) if what == 2 else np.unique(values)[::-1]
            passed = np.cumsum([weight[values == v].sum() for v in order]) / weight.sum()
            chosen = values == order[int(np.argmax(passed > chance))]
            left, weight = [y for y, kept in zip(left, chosen, strict=True) if kept], weight[chosen]
        end, k = left[0][-k][0] - 1, k + 1
    return left[0]


@pytest.mark.parametrize(("longest", "per_position"), [(1, False), (1, True), (3, False)])
def test_random_segmentations_are_those_that_their_numbers_stand_for(
    longest: int, per_position: bool
) -> None:
    random, n, L, n_samples = torch.Generator().manual_seed(5), 4, 3, 6
    segment = torch.randn(2, n, longest, L, generator=random, dtype=torch.float64)
    edge = torch.randn(2, *((n - 1,) if per_position else ()), L, L, generator=random, dtype=torch.float64)
    given = SegmentSums(segment.to(DEVICE), edge.to(DEVICE), torch.tensor([4, 3], device=DEVICE))
    given.forward()
    tags = given.drawn_tags(n_samples, torch.Generator(DEVICE).manual_seed(1)).cpu().numpy()
    size = n_samples, 2, n, 2
    uniform = torch.rand(
        size, generator=torch.Generator(DEVICE).manual_seed(1), dtype=torch.float64, device=DEVICE
    )
    for k, (i, length) in product(range(n_samples), ((0, 4), (1, 3))):
        rows = drawn_by_enumeration(
            segment[i, :length].numpy(), edge[i].numpy(), uniform[k, i, :length].cpu().numpy()
        )
        expected = [2 * label + (t > first) for first, last, label in rows for t in range(first, last + 1)]
        assert tags[k, i].tolist() == [*expected, -1][:n]


def test_labellings_are_drawn_and_found_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (functions, sums):
        monkeypatch.setattr(module, "device_kernels", kernels_for)
    random = torch.Generator().manual_seed(9)
    lengths = torch.tensor([4, 2], device=DEVICE)
    node, edge = torch.randn(2, 5, 3, generator=random), torch.randn(3, 3, generator=random)
    given = Chain(3), node.to(DEVICE), edge.to(DEVICE)
    drawn = [
        layers.sample(*given, lengths=lengths, n_samples=3, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    assert [each.shape for each in drawn[0]] == [(2, 4)] * 3
    assert all((each[1, 2:] == -1).all() and each[0].min() >= 0 for each in drawn[0])
    assert all(torch.equal(a, b) for a, b in zip(*drawn[:2], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))
    structure, scores = SemiMarkov(2, 2), torch.randn(2, 5, 2, 2, generator=random)
    between = torch.randn(2, 2, generator=random)
    found = layers.argmax(structure, scores.to(DEVICE), between.to(DEVICE), lengths=lengths)
    for i, n in enumerate((4, 2)):
        expected = structure.argmax(scores[i, :n].double().numpy(), between.double().numpy())
        np.testing.assert_array_equal(found[i].cpu().numpy(), expected)
    for each in layers.sample(structure, scores.to(DEVICE), between.to(DEVICE), lengths=lengths)[0]:
        structure.score(each.cpu().numpy(), scores[0].numpy(), between.numpy())
    with pytest.raises(InputError, match="every labelling"):
        layers.sample(Chain(3), torch.full((1, 2, 3), -torch.inf, device=DEVICE), edge.to(DEVICE))
