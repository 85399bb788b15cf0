"""Layers under what users do besides training: transforms, odd inputs, scores that leave nothing possible."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

from test_torch_layers import NAMES, B, T, case, floats, of_floats  # noqa: E402

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Graph, Multiclass, Projective  # noqa: E402
from partwise.torch.layouts import arrangement, base  # noqa: E402
from partwise.torch.layouts.part_map import PartMap  # noqa: E402
from partwise.torch.layouts.trees import TreeLayout  # noqa: E402


def listed(found: object) -> list:
    return [found] if isinstance(found, torch.Tensor) else list(found)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_marginals_and_of_one_tensor_alone(name: str) -> None:
    structure, scores, lengths = case(name)
    given = floats(scores)
    function = of_floats(layers.marginals, structure, scores, lengths)
    assert torch.autograd.gradcheck(lambda *own: tuple(listed(function(*own))), given, fast_mode=True)
    value = of_floats(layers.entropy, structure, scores, lengths)
    expected = torch.autograd.grad(value(*given).sum(), given)
    for k, own in enumerate(expected):
        alone = [each.detach() for each in given]
        alone[k].requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(value(*alone).sum(), alone[k])[0], own)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_function_transforms_differentiate_losses(name: str, loss: str) -> None:
    structure, scores, lengths = case(name)
    criterion = layers.StructuredLoss(structure, loss)
    target = layers.argmax(structure, *scores, lengths=lengths)
    scores = [0.5 * each if each.is_floating_point() else each for each in scores]

    def value(*given: object) -> object:
        left = iter(given)
        return criterion(
            *[next(left) if each.is_floating_point() else each for each in scores],
            target=target,
            lengths=lengths,
        )

    given = floats(scores)
    expected = torch.autograd.grad(value(*given), given)
    plain = [each.detach() for each in given]
    for one, other in zip(torch.func.grad(value, tuple(range(len(plain))))(*plain), expected, strict=True):
        torch.testing.assert_close(one, other)
    one = lambda first: value(first, *plain[1:])  # noqa: E731
    torch.testing.assert_close(torch.func.jacrev(one)(plain[0]), expected[0])
    if loss == "log":
        again = torch.func.grad(lambda first: torch.func.grad(one)(first).square().sum())(plain[0])
        first = plain[0].clone().requires_grad_()
        (slope,) = torch.autograd.grad(one(first), first, create_graph=True)
        torch.testing.assert_close(again, torch.autograd.grad(slope.square().sum(), first)[0])
    with pytest.raises(InputError, match="vmap"):
        torch.func.vmap(value)(*(torch.stack([each, each]) for each in plain))
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(value, tuple(plain), tuple(plain))


def test_forward_mode_is_refused_and_not_taken_for_a_constant() -> None:
    scores, direction = torch.randn(2, 3), torch.ones(2, 3)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        layers.log_partition(Multiclass(3), torch.autograd.forward_ad.make_dual(scores, direction))


def test_labels_that_may_not_stand_first_or_last_are_impossible_there_alone() -> None:
    node, edge = torch.randn(2, 3, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)
    start, end = torch.tensor([0.3, -math.inf]).double(), torch.tensor([-math.inf, 0.2]).double()
    lengths = torch.tensor([3, 2])
    found = layers.log_partition(Chain(2), node, edge, start, end, lengths=lengths)
    for i, n in enumerate(lengths.tolist()):
        own = node[i, :n].numpy(), edge.numpy()
        expected = Chain(2).log_partition(*own, start_scores=start.numpy(), end_scores=end.numpy())
        assert found[i].item() == pytest.approx(expected, abs=1e-12)
    best = layers.argmax(Chain(2), node, edge, start, end, lengths=lengths)
    assert best[:, 0].tolist() == [0, 0] and [best[0, 2], best[1, 1]] == [1, 1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin"])
def test_one_impossible_example_leaves_the_others_as_they_are(name: str, loss: str) -> None:
    structure, scores, lengths = case(name)
    target = layers.argmax(structure, *scores, lengths=lengths)
    criterion = layers.StructuredLoss(structure, loss, reduction="none")
    whole = scores[0].clone().requires_grad_()
    expected = criterion(whole, *scores[1:], target=target, lengths=lengths)
    (wanted,) = torch.autograd.grad(expected[1:].sum(), whole)
    first = scores[0].clone()
    first[0] = -torch.inf
    first.requires_grad_()
    found = criterion(first, *scores[1:], target=target, lengths=lengths)
    assert found[0].item() == math.inf
    torch.testing.assert_close(found[1:], expected[1:])
    (gradient,) = torch.autograd.grad(found[1:].sum(), first)
    torch.testing.assert_close(gradient, wanted)
    assert not gradient[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_memory_that_is_not_contiguous_or_shared(name: str) -> None:
    structure, scores, lengths = case(name)
    turned = [
        each.transpose(-1, -2).contiguous().transpose(-1, -2) if each.ndim > 1 else each for each in scores
    ]
    same = [each[:1].expand_as(each) if len(each) == B and each.ndim > 2 else each for each in scores]
    for given, plain in ((turned, scores), (same, [each.clone() for each in same])):
        for function in (layers.log_partition, layers.marginals, layers.max_score):
            found = listed(function(structure, *given, lengths=lengths))
            expected = listed(function(structure, *plain, lengths=lengths))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ("abc", "lengths must be whole numbers, not str"),
        ([2, None, 1], "lengths must be whole numbers, not list"),
        (torch.tensor([4.0, 2.0, 1.0]), "3 whole numbers, not float32"),
        (torch.tensor([4, 2, 0]), "lengths holds 0"),
        (torch.tensor([5, 2, 1]), "lengths holds 5"),
        (torch.tensor([[4, 2, 1]]), r"not int64 of shape \(1, 3\)"),
    ],
)
def test_lengths_that_are_none(lengths: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        layers.log_partition(Chain(2), torch.zeros(B, T, 2), torch.zeros(2, 2), lengths=lengths)


@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, torch.int16])
def test_lengths_and_targets_of_any_whole_type(kind: object) -> None:
    node, edge = torch.randn(B, T, 2), torch.randn(2, 2)
    lengths, target = torch.tensor([4, 2, 1]), torch.ones(B, T, dtype=torch.int64)
    criterion = layers.StructuredLoss(Chain(2))
    expected = criterion(node, edge, target=target, lengths=lengths)
    assert torch.equal(criterion(node, edge, target=target.to(kind), lengths=lengths.to(kind)), expected)
    assert torch.equal(criterion(node, edge, target=target.numpy(), lengths=lengths.tolist()), expected)
    with pytest.raises(InputError, match="target must be whole numbers"):
        criterion(node, edge, target=target.double(), lengths=lengths)


def test_an_empty_batch_of_graphs_has_no_labellings() -> None:
    scores = torch.zeros(0, 3, 2), torch.tensor([[0, 1]]), torch.zeros(0, 1, 2, 2)
    assert len(layers.argmax(Graph(), *scores)) == 0
    assert [len(each) for each in layers.sample(Graph(), *scores, n_samples=2)] == [0, 0]


def test_shared_transitions_need_no_table_for_each_pair_of_neighbours() -> None:
    n, length, width = 8, 256, 24
    node = torch.randn(n, length, width, dtype=torch.float64, requires_grad=True)
    edge = torch.randn(width, width, dtype=torch.float64, requires_grad=True)
    layers.log_partition(Chain(width), node, edge).sum().backward()  # compiled and arranged
    tracemalloc.start()
    layers.log_partition(Chain(width), node, edge).sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * node.numel() * 8 < 8 * n * length * width**2 / 2


def test_arrangements_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = arrangement.ArrangementCache(30_000)
    monkeypatch.setattr(base, "CACHE", kept)
    layout, arcs = TreeLayout(Projective()), torch.zeros(8, 11, 11)
    plans = []
    for n in (10, 10, 9, 8, 7, 6, 10):
        plans.append(layout.batch((arcs,), torch.full((8,), n), True).arrangement())
        assert kept.n_bytes == sum(each.n_bytes for each in kept.found.values())
        assert kept.n_bytes <= 30_000 and len(kept.found) >= 1
    assert plans[0] is plans[1] and plans[0] is not plans[-1]


def test_part_maps_are_runs_if_these_are_long() -> None:
    part, entry = np.arange(100), np.concatenate([np.arange(50, 100), np.arange(200, 250)])
    runs, single, blocks = PartMap.of(part, entry), PartMap(part, entry), PartMap(part[::5], entry[::5], 5)
    assert runs.lengths is not None and runs.lengths.tolist() == [50, 50]
    scores, found = np.random.default_rng(0).random(300), []
    for own_map in (runs, single, blocks):
        parts = np.zeros(100)
        own_map.to_parts(scores, parts)
        found.append((parts, own_map.to_entries(parts, (3, 100), np.dtype(np.float64)), *own_map.pairs()))
    for one, other, third in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)
    np.testing.assert_array_equal(found[0][0], scores[entry])
    assert PartMap.of(part, entry[::-1]).lengths is None
    empty = PartMap.of(part[:0], entry[:0])
    assert not empty.to_entries(parts, (2, 2), np.dtype(np.float32)).any()


@pytest.mark.parametrize("name", [name for name in NAMES if case(name)[2] is not None])
def test_numbers_behind_the_lengths_are_not_looked_at(name: str) -> None:
    structure, scores, lengths = case(name)
    clean = floats(scores)
    function = of_floats(layers.log_partition, structure, scores, lengths)
    expected = torch.autograd.grad(function(*clean).sum(), clean)
    first = 1 if "chain" not in name and clean[0].shape[1] > T else 0  # trees count words from 1
    behind = torch.arange(clean[0].shape[1]) >= lengths[:, None] + first
    behind = behind.reshape(*behind.shape, *[1] * (clean[0].ndim - 2))
    assert behind.any()
    for bad in (float("nan"), float("inf")):
        dirty = [torch.where(behind, bad, clean[0]), *clean[1:]]
        dirty = [each.detach().requires_grad_() for each in dirty]
        value = function(*dirty)
        torch.testing.assert_close(value, function(*clean))
        for found, wanted in zip(torch.autograd.grad(value.sum(), dirty), expected, strict=True):
            torch.testing.assert_close(found, wanted)
    used = [each.detach().clone() for each in clean]
    used[0][0, -1] = float("nan")
    used[0][int(lengths.argmax()), 1] = float("nan")
    with pytest.raises(InputError, match="NaN"):
        function(*used)


@pytest.mark.parametrize("kind", ["sparse", "float8"])
def test_tensors_that_cannot_be_computed_with(kind: str) -> None:
    scores = torch.zeros(2, 3)
    if kind == "float8" and not hasattr(torch, "float8_e4m3fn"):
        pytest.skip("no such type in this PyTorch")
    given = scores.to_sparse() if kind == "sparse" else scores.to(torch.float8_e4m3fn)
    with pytest.raises(InputError, match="dense tensor of floats"):
        layers.log_partition(Multiclass(3), given)
