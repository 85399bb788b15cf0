"""Kernels for GPUs against compiled code: by Triton's interpreter on the CPU, or on a GPU where there is one."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Grammar, Multiclass, Projective, Spanning  # noqa: E402
from partwise.torch import functions  # noqa: E402
from partwise.torch.gpu import chain, classes, grammar, trees  # noqa: E402
from partwise.torch.gpu.function import LogPartition, sums_by  # noqa: E402
from partwise.torch.layouts.chains import ChainLayout  # noqa: E402
from partwise.torch.layouts.classes import ClassLayout  # noqa: E402
from partwise.torch.layouts.grammars import GrammarLayout  # noqa: E402
from partwise.torch.layouts.trees import TreeLayout  # noqa: E402
from partwise.torch.sums import host_answer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = {torch.float64: 1e-10, torch.float32: 1e-5}


def agree(found: list, expected: list, near: float) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = 1.0 + float(other[torch.isfinite(other)].abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one.cpu(), other, rtol=0.0, atol=near * scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e4), (torch.float32, 3.0)])
def test_classes(dtype: object, size: float) -> None:
    scores = size * torch.randn(5, 4, generator=torch.Generator().manual_seed(1), dtype=dtype)
    scores[0, 1], scores[3] = -torch.inf, -torch.inf
    batch = ClassLayout(Multiclass(4)).batch((scores,), None, True)
    on_device = ClassLayout(Multiclass(4)).batch((scores.to(DEVICE),), None, True)
    agree(sums_by(classes.ClassSums, on_device), host_answer(batch, "sums"), NEAR[dtype])
    agree(classes.best(on_device), host_answer(batch, "best"), NEAR[dtype])


def test_classes_are_drawn_as_often_as_they_are_likely() -> None:
    scores = torch.tensor([[0.0, 1.0, -torch.inf], [2.0, 0.0, 1.0]], device=DEVICE)
    batch = ClassLayout(Multiclass(3)).batch((scores,), None, True)
    labels, _ = classes.drawn(batch, 4000, torch.Generator(DEVICE).manual_seed(0))
    found = torch.nn.functional.one_hot(torch.stack(labels), 3).double().mean(0)
    torch.testing.assert_close(found, torch.softmax(scores.double(), 1), rtol=0.0, atol=0.04)


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
    agree(sums_by(chain.ChainSums, on_device), host_answer(batch, "sums"), NEAR[dtype])
    agree(chain.best(on_device), host_answer(batch, "best"), NEAR[dtype])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_too_far_apart_for_products_are_done_on_logarithms() -> None:
    """The only way through is one that every local look would have given up."""
    node = torch.zeros(1, 4, 2, dtype=torch.float32)
    edge = torch.tensor([[0.0, -300.0], [-300.0, 0.0]])
    node[0, 0, 1], node[0, 3, 0] = -400.0, -900.0
    batch = ChainLayout(Chain(2)).batch((node, edge), None, True)
    agree(
        sums_by(chain.ChainSums, batch._replace(scores=tuple(s.to(DEVICE) for s in batch.scores))),
        host_answer(batch, "sums"),
        1e-5,
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [Projective, Spanning])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size", "n_relations"),
    [(torch.float64, 1.0, 1), (torch.float64, 30.0, 2), (torch.float64, 200.0, 1), (torch.float32, 1.0, 2)],
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
    agree(sums_by(trees.TreeSums, on_device), host_answer(batch, "sums"), 10 * NEAR[dtype])


RULES = [(0, 0, 1), (0, 1, 2), (1, 2, 2), (0, 0, 0), (2, 1, 1)]
UNARIES = [(0, 1), (1, 2), (2, 0)]


def grammar_batches(structure: Grammar, scores: list, lengths: object) -> tuple:
    """The same on the CPU and on the device."""
    layout = GrammarLayout(structure)
    there = None if lengths is None else lengths.to(DEVICE)
    return (
        layout.batch(tuple(scores), lengths, True),
        layout.batch(tuple(s.to(DEVICE) for s in scores), there, True),
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("unaries", [(), UNARIES])
@pytest.mark.parametrize(
    ("dtype", "size", "own_rules"),
    [(torch.float64, 1.0, False), (torch.float64, 1e4, True), (torch.float32, 3.0, True)],
)
def test_grammars(
    unaries: list, dtype: object, size: float, own_rules: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(6)
    structure, T = Grammar(3, RULES, unaries=unaries, word_symbols=[1, 2]), 4
    lengths = torch.tensor([4, 2, 1])
    shapes = [(3, T, 3), (*((3,) if own_rules else ()), structure.n_rules), (3, T, T, 3)]
    scores = [size * torch.randn(*shape, generator=random, dtype=dtype) for shape in shapes]
    scores[0][0, 1, 2] = scores[2][0, 1, 2, 0] = -torch.inf
    batch, on_device = grammar_batches(structure, scores, lengths)
    agree(sums_by(grammar.GrammarSums, on_device), host_answer(batch, "sums"), NEAR[dtype])
    batch, on_device = grammar_batches(
        structure, [each[:1] for each in scores[:1]] + [scores[1].reshape(-1)[: structure.n_rules]], None
    )
    monkeypatch.setattr(grammar, "_MOST_NUMBERS", 10)  # matrices are computed again
    agree(sums_by(grammar.GrammarSums, on_device), host_answer(batch, "sums"), NEAR[dtype])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_dense_grammar_of_more_symbols_than_a_tile() -> None:
    random = torch.Generator().manual_seed(7)
    rules = [(a, b, c) for a in range(20) for b in range(70) for c in range(70) if (a + b + c) % 3 == 0]
    structure = Grammar(70, rules)
    scores = [torch.randn(1, 3, 70, generator=random), torch.randn(len(rules), generator=random)]
    batch, on_device = grammar_batches(structure, scores, None)
    agree(sums_by(grammar.GrammarSums, on_device), host_answer(batch, "sums"), 1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rules_that_are_all_but_forbidden_are_found_out_where_they_are_needed() -> None:
    """Rules of −1e4 beside others of 0 stay on the device, unless there is no other way."""
    structure = Grammar(2, [(0, 1, 1), (0, 0, 1), (1, 1, 1)])
    word, rule = (
        torch.zeros(1, 3, 2, dtype=torch.float64),
        torch.tensor([0.0, -1e4, 0.0], dtype=torch.float64),
    )
    for needed in (False, True):
        word[..., 0], word[..., 1] = (0.0, -torch.inf) if needed else (-torch.inf, 0.0)
        word[:, 1:, 1] = 0.0
        batch, on_device = grammar_batches(structure, [word, rule], None)
        given = grammar.GrammarSums(on_device, on_device.scores)
        assert given.lost_digits(given.forward()) == needed
        agree(sums_by(grammar.GrammarSums, on_device), host_answer(batch, "sums"), 1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("single_root", [False, True])
def test_spanning_trees_lose_no_digits_where_scores_are_far_apart(single_root: bool) -> None:
    """Words that prefer each other as heads: a determinant would cancel all but 1e-26 of its terms."""
    arcs = torch.zeros(1, 19, 19, dtype=torch.float64)
    for m in range(1, 19):
        arcs[0, (m - 2) % 18 + 1 if m % 2 else m - 1, m] = 60.0
    batch = TreeLayout(Spanning(single_root=single_root)).batch((arcs,), None, True)
    on_device = batch._replace(scores=(arcs.to(DEVICE),))
    given = trees.TreeSums(on_device, on_device.scores)
    value = given.forward()
    assert not given.lost_digits(value)
    counts = given.backward(value, torch.ones_like(value))
    agree([value, *counts], host_answer(batch, "sums"), 1e-10)
    torch.testing.assert_close(counts[0].sum(1)[:, 1:].cpu(), torch.ones(1, 18, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradients_of_shared_scores_are_those_of_scores_spread_over_the_batch() -> None:
    structure = Grammar(3, RULES)
    word = torch.randn(2, 3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    rule = torch.randn(structure.n_rules, dtype=torch.float64, device=DEVICE, requires_grad=True)
    found = []
    for given in (rule, rule.expand(2, -1)):
        batch = GrammarLayout(structure).batch((word, given), None, False)
        values = LogPartition.apply(grammar.GrammarSums, batch, *batch.unexpanded)
        found.append(torch.autograd.grad(values.square().sum(), (word, rule)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradients_of_one_launch_are_the_counts() -> None:
    node = torch.randn(2, 3, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    edge = torch.randn(4, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    batch = ChainLayout(Chain(4)).batch((node, edge), None, True)
    values = LogPartition.apply(chain.ChainSums, batch, *batch.unexpanded)
    found = torch.autograd.grad((values * torch.tensor([1.0, 3.0], device=DEVICE)).sum(), (node, edge))
    plain = ChainLayout(Chain(4)).batch((node.detach().cpu(), edge.detach().cpu()), None, True)
    _, nodes, edges = host_answer(plain, "sums")
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(found[0].cpu(), nodes * weight[:, None, None])
    torch.testing.assert_close(found[1].cpu(), (edges * weight[:, None, None]).sum(0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kernels", "layout", "shapes"),
    [
        (chain, ChainLayout(Chain(2)), [(2, 3, 2), (2, 2)]),
        (chain, ChainLayout(Chain(2)), [(2, 3, 2), (2, 2, 2, 2)]),
        (trees, TreeLayout(Spanning()), [(2, 4, 4)]),
        (grammar, GrammarLayout(Grammar(3, RULES)), [(2, 3, 3), (5,)]),
    ],
)
def test_gradients_and_their_gradients(kernels: object, layout: object, shapes: list) -> None:
    random = torch.Generator().manual_seed(8)
    lengths = torch.tensor([3, 2], device=DEVICE)
    scores = [torch.randn(*each, generator=random, dtype=torch.float64).to(DEVICE) for each in shapes]

    def values(*given: object) -> object:
        batch = layout.batch(given, lengths, False)
        return LogPartition.apply(kernels.SUMS, batch, *batch.unexpanded)

    given = [each.requires_grad_() for each in scores]
    assert torch.autograd.gradcheck(values, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(values, given, fast_mode=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_best_label_sequences_are_found_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "device_kernels", lambda batch: chain)
    random = torch.Generator().manual_seed(9)
    node, edge = torch.randn(2, 5, 3, generator=random), torch.randn(3, 3, generator=random)
    found = functions.argmax(
        Chain(3), node.to(DEVICE), edge.to(DEVICE), lengths=torch.tensor([4, 2], device=DEVICE)
    )
    assert found.shape == (2, 4) and found[1, 2:].tolist() == [-1, -1]
    for i, n in enumerate((4, 2)):
        expected = Chain(3).argmax(node[i, :n].double().numpy(), edge.double().numpy())
        assert found[i, :n].tolist() == list(expected)
    with pytest.raises(InputError, match="every labelling"):
        functions.argmax(Chain(3), torch.full((1, 2, 3), -torch.inf, device=DEVICE), edge.to(DEVICE))
