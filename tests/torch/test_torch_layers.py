"""Structures as PyTorch layers against the structures themselves: values, gradients, gradients of gradients, losses."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise.core.losses import Loss  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import (  # noqa: E402
    Chain,
    Grammar,
    Graph,
    Multiclass,
    Projective,
    SemiMarkov,
    Spanning,
)

LENGTHS = (4, 2, 1)
B, T = len(LENGTHS), max(LENGTHS)
RULES = [(0, 0, 1), (0, 1, 2), (1, 2, 2), (0, 0, 0), (2, 1, 1)]
EDGES = [(0, 1), (1, 2), (0, 2)]
ALLOWED = {"allowed": [[1, 1, 0], [1, 1, 1], [0, 1, 1]], "allowed_start": [1, 1, 0], "allowed_end": [1, 0, 1]}


def case(name: str, dtype: object = torch.float64) -> tuple:
    """A structure, the scores of a padded batch, and lengths."""
    random = torch.Generator().manual_seed(3)

    def draw(*size: int) -> object:
        return torch.randn(*size, generator=random, dtype=torch.float64).to(dtype)

    lengths = torch.tensor(LENGTHS)
    return {
        "classes": lambda: (Multiclass(4), [draw(B, 4)], None),
        "chain": lambda: (Chain(3), [draw(B, T, 3), draw(3, 3)], lengths),
        "chain, ends": lambda: (Chain(3), [draw(B, T, 3), draw(3, 3), draw(3), draw(3)], lengths),
        "chain, own edges": lambda: (Chain(3), [draw(B, T, 3), draw(B, T - 1, 3, 3)], lengths),
        "chain, masks": lambda: (Chain(3, **ALLOWED), [draw(B, T, 3), draw(B, 3, 3)], lengths),
        "projective": lambda: (Projective(), [draw(B, T + 1, T + 1)], lengths),
        "relations": lambda: (
            Projective(single_root=False, n_relations=2),
            [draw(B, T + 1, T + 1), draw(B, T + 1, T + 1, 2)],
            lengths,
        ),
        "spanning": lambda: (Spanning(), [draw(B, T + 1, T + 1)], lengths),
        "segments": lambda: (SemiMarkov(2, 3), [draw(B, T, 3, 2), draw(2, 2)], lengths),
        "grammar": lambda: (Grammar(3, RULES), [draw(B, T, 3), draw(5), draw(B, T, T, 3)], lengths),
        "unary rules": lambda: (
            Grammar(3, RULES, unaries=[(0, 1), (1, 2)]),
            [draw(B, T, 3), draw(7), draw(B, T, T, 3)],
            lengths,
        ),
        "graph": lambda: (Graph(), [draw(B, 3, 2), torch.tensor(EDGES), draw(B, 3, 2, 2)], None),
    }[name]()


NAMES = [
    "classes", "chain", "chain, ends", "chain, own edges", "chain, masks", "projective", "relations", "spanning",
    "segments", "grammar", "unary rules", "graph",
]  # fmt: skip


def floats(scores: list) -> list:
    return [each.detach().requires_grad_() for each in scores if each.is_floating_point()]


def of_floats(function: object, structure: object, scores: list, lengths: object) -> object:
    """The function of the floating tensors alone, for checks of gradients."""

    def called(*given: object) -> object:
        left = iter(given)
        return function(
            structure, *[next(left) if each.is_floating_point() else each for each in scores], lengths=lengths
        )

    return called


def one_by_one(structure: object, scores: list, lengths: object) -> list:
    """Scores of each example as the structure's own methods take them."""
    found = []
    for i in range(B):
        n = T if lengths is None else int(lengths[i])
        arrays = [each.double().numpy() for each in scores]
        if isinstance(structure, (Projective, Spanning)):
            found.append([each[i, : n + 1, : n + 1] for each in arrays])
        elif isinstance(structure, Graph):
            found.append([arrays[0][i], np.array(EDGES), arrays[2][i]])
        elif isinstance(structure, Multiclass):
            found.append([arrays[0][i]])
        elif isinstance(structure, Grammar):
            found.append([arrays[0][i, :n], arrays[1], arrays[2][i, :n, :n]])
        else:
            second = arrays[1]
            if isinstance(structure, Chain) and second.ndim > 2:
                second = second[i, : n - 1] if second.ndim == 4 else second[i]
            found.append([arrays[0][i, :n], second, *arrays[2:]])
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_values_are_those_of_the_structure(name: str, dtype: object, near: float) -> None:
    structure, scores, lengths = case(name, dtype)
    each = one_by_one(structure, scores, lengths)
    for function in ("log_partition", "entropy"):
        found = getattr(layers, function)(structure, *scores, lengths=lengths)
        expected = [getattr(structure, function)(*own) for own in each]
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=near, atol=near)
    first = layers.marginals(structure, *scores, lengths=lengths)
    first = first if isinstance(first, torch.Tensor) else first[0]
    for i, own in enumerate(each):
        expected = structure.marginals(*own)
        expected = expected[0] if isinstance(expected, tuple) else expected
        size = np.shape(expected)
        inside = tuple(slice(n) for n in size)
        np.testing.assert_allclose(first[i][inside].numpy(), expected, rtol=near, atol=near)
        outside = first[i].clone()
        outside[inside] = 0
        assert not outside.any()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_their_gradients(name: str) -> None:
    structure, scores, lengths = case(name)
    given = floats(scores)
    for function in (layers.log_partition, layers.entropy):
        assert torch.autograd.gradcheck(
            of_floats(function, structure, scores, lengths), given, fast_mode=True
        )
    assert torch.autograd.gradgradcheck(
        of_floats(layers.log_partition, structure, scores, lengths), given, fast_mode=True
    )


def test_second_derivatives_are_covariances() -> None:
    scores = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    p = layers.marginals(Multiclass(5), scores)
    (found,) = torch.autograd.grad(p[:, 1].sum(), scores)
    q = torch.softmax(scores.detach(), 1)
    expected = q[:, 1:2] * (torch.eye(5, dtype=torch.float64)[1] - q)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", Loss(3.0, 0.5)])
def test_losses_are_their_definition(name: str, loss: object) -> None:
    structure, scores, lengths = case(name)
    if name in ("grammar", "unary rules", "graph", "segments"):
        pytest.skip("costs of these are checked where labels and parts are one")
    loss = Loss.of(loss)
    truth = layers.sample(structure, *scores, lengths=lengths, generator=torch.Generator().manual_seed(1))[0]
    found = layers.StructuredLoss(structure, loss, reduction="none")(*scores, target=truth, lengths=lengths)
    for i, own in enumerate(one_by_one(structure, scores, lengths)):
        n = T if lengths is None else int(lengths[i])
        true = tuple(t[i, :n].numpy() for t in truth) if isinstance(truth, tuple) else truth[i]
        true = true if isinstance(true, tuple) else (true[:n].numpy() if true.ndim else int(true))
        heads = true[0] if isinstance(true, tuple) else true
        values = []
        for y in structure.labellings(1 if isinstance(structure, Multiclass) else n):
            wrong = np.sum((y[0] if isinstance(y, tuple) else y) != heads)
            margin = structure.score(y, *own) - structure.score(true, *own) + loss.gamma * wrong
            values.append(margin)
        values = np.array(values)
        if loss.is_hard:
            expected = values.max()
        else:
            top = values.max()
            expected = top + np.log(np.exp(loss.beta * (values - top)).sum()) / loss.beta
        assert float(found[i]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "softmax_margin", Loss(3.0, 0.5)])
@pytest.mark.parametrize(
    ("name", "n_tensors"), [("grammar", 3), ("grammar", 2), ("unary rules", 3), ("unary rules", 2)]
)
def test_losses_of_derivations_are_their_definition(name: str, n_tensors: int, loss: object) -> None:
    """Costs of nodes, ½ for wrong and −½ for true ones, counted from the true derivation."""
    structure, scores, lengths = case(name)
    scores, loss = scores[:n_tensors], Loss.of(loss)
    random = torch.Generator().manual_seed(1)
    truth = layers.sample(structure, *scores, lengths=lengths, generator=random)[0]
    given = floats(scores)
    found = layers.StructuredLoss(structure, loss, reduction="none")(*given, target=truth, lengths=lengths)
    arrays = [each.numpy() for each in scores]
    for i, n in enumerate(LENGTHS):
        own = [arrays[0][i, :n], arrays[1], *([arrays[2][i, :n, :n]] if n_tensors == 3 else [])]
        ranked = structure.kbest(*own, k=5000)
        assert len(ranked) < 5000  # all there are

        def parts(nodes: list) -> set:
            """Nodes with what built them: a word, two nodes or one."""
            built = structure.labels_of(nodes)
            return {(*each[:3], int(each[3] >= 0) + int(each[3] >= len(RULES))) for each in built.tolist()}

        true = parts(truth[i])
        top = next(score for nodes, score in ranked if nodes == truth[i])
        wrong = np.array([0.5 * len(parts(nodes) ^ true) for nodes, _ in ranked])
        margins = np.array([score - top for _, score in ranked]) + loss.gamma * wrong
        expected = margins.max()
        if not loss.is_hard:
            expected += np.log(np.exp(loss.beta * (margins - expected)).sum()) / loss.beta
        assert float(found[i].detach()) == pytest.approx(expected, abs=1e-9)
    assert all(torch.isfinite(each).all() for each in torch.autograd.grad(found.sum(), given))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", "perceptron"])
def test_losses_are_never_negative_and_descend(name: str, loss: str) -> None:
    structure, scores, lengths = case(name)
    truth = layers.sample(structure, *scores, lengths=lengths, generator=torch.Generator().manual_seed(5))[0]
    given, criterion = floats(scores), layers.StructuredLoss(structure, loss)
    value = of_floats(
        lambda s, *a, lengths: criterion(*a, target=truth, lengths=lengths), structure, scores, lengths
    )
    first = value(*given)
    assert first.item() >= -1e-9
    gradients = torch.autograd.grad(first, given)
    moved = [a - 1e-3 * g for a, g in zip(given, gradients, strict=True)]
    assert value(*moved).item() <= first.item() + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_best_labellings_sample_and_rank(name: str) -> None:
    structure, scores, lengths = case(name)
    best = layers.argmax(structure, *scores, lengths=lengths)
    top = layers.max_score(structure, *scores, lengths=lengths)
    ranked = layers.kbest(structure, *scores, lengths=lengths, k=2)
    each = one_by_one(structure, scores, lengths)
    for i, own in enumerate(each):
        assert ranked[i][0][1] == pytest.approx(float(top[i]), abs=1e-9)
        n = T if lengths is None else int(lengths[i])
        if isinstance(best, torch.Tensor) and best.ndim == 2 and not isinstance(structure, Graph):
            assert best[i, :n].tolist() == list(structure.argmax(*own)) and (best[i, n:] == -1).all()
    drawn = layers.sample(
        structure, *scores, lengths=lengths, n_samples=3, generator=torch.Generator().manual_seed(0)
    )
    again = layers.sample(
        structure, *scores, lengths=lengths, n_samples=3, generator=torch.Generator().manual_seed(0)
    )
    assert len(drawn) == 3 and str(drawn) == str(again)


def test_extreme_scores_and_impossible_examples() -> None:
    node = torch.full((3, 3, 2), 1e4, dtype=torch.float64)
    node[1, :, 0], node[2] = -1e4, -torch.inf
    node.requires_grad_()
    edge = torch.tensor([[0.0, -math.inf], [1e4, 0.0]], dtype=torch.float64)
    values = layers.log_partition(Chain(2), node, edge)
    assert values[0].item() == pytest.approx(4e4 + math.log(2.0), abs=1e-9) and values[2].item() == -math.inf
    (gradient,) = torch.autograd.grad(values[:2].sum(), node)
    assert torch.isfinite(gradient).all() and not gradient[2].any()
    with pytest.raises(InputError, match="every labelling"):
        layers.argmax(Chain(2), node, edge)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_may_be_empty(name: str) -> None:
    structure, scores, lengths = case(name)
    is_shared = [each.ndim < (3 if name != "classes" else 2) for each in scores]
    batched = [each if shared else each[:0] for each, shared in zip(scores, is_shared, strict=True)]
    none = None if lengths is None else lengths[:0]
    assert layers.log_partition(structure, *batched, lengths=none).shape == (0,)


def test_masks_stand_for_lengths_and_half_precision_is_summed_in_single() -> None:
    structure, scores, lengths = case("chain", torch.float32)
    mask = torch.arange(T) < lengths[:, None]
    expected = layers.log_partition(structure, *scores, lengths=lengths)
    torch.testing.assert_close(layers.log_partition(structure, *scores, lengths=mask), expected)
    half = [each.bfloat16().requires_grad_() for each in scores]
    found = layers.log_partition(structure, *half, lengths=lengths)
    rounded = layers.log_partition(structure, *(each.detach().float() for each in half), lengths=lengths)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, rounded)
    found.sum().backward()
    assert half[0].grad.dtype == torch.bfloat16


def test_compiled_and_autocast_modules_agree() -> None:
    structure, scores, lengths = case("chain", torch.float32)

    class Tagger(torch.nn.Module):
        def forward(self, node: object, edge: object) -> object:
            return layers.log_partition(structure, torch.tanh(node), edge, lengths=lengths).sum() * 2

    plain = Tagger()
    expected = plain(*scores)
    torch.testing.assert_close(torch.compile(plain, backend="eager")(*scores), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(plain(*scores), expected)
    replicas = torch.nn.ModuleList(
        [layers.StructuredLoss(structure), layers.StructuredLoss(structure, "hinge")]
    )
    assert "hinge" in repr(replicas)


def test_packed_sequences_are_batches() -> None:
    structure, (node, edge), lengths = case("chain")
    truth = layers.sample(structure, node, edge, lengths=lengths)[0]
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed = pack(node.requires_grad_(), lengths, batch_first=True, enforce_sorted=False)
    criterion = layers.StructuredLoss(structure, "softmax_margin")
    expected = criterion(node, edge, target=truth, lengths=lengths)
    target = pack(truth, lengths, batch_first=True, enforce_sorted=False)
    for given in (truth, target):
        torch.testing.assert_close(criterion(packed, edge, target=given), expected)
    (one,) = torch.autograd.grad(expected, node, retain_graph=True)
    (other,) = torch.autograd.grad(criterion(packed, edge, target=target), node)
    torch.testing.assert_close(one, other)
    best = layers.argmax(structure, node, edge, lengths=lengths)
    assert torch.equal(layers.argmax(structure, packed, edge), best)
    with pytest.raises(InputError, match="lengths"):
        layers.log_partition(structure, packed, edge, lengths=lengths)
    with pytest.raises(InputError, match="packed"):
        layers.log_partition(structure, node, packed)


@pytest.mark.parametrize("name", ["chain", "relations", "segments"])
def test_replicas_in_threads_and_other_copies_agree(name: str) -> None:
    """As data-parallel training makes them: one copy a thread, each with a part of the batch."""
    structure, scores, lengths = case(name)
    truth = layers.sample(structure, *scores, lengths=lengths)[0]
    criterion = layers.StructuredLoss(structure, "softmax_margin", reduction="none")
    expected = criterion(*scores, target=truth, lengths=lengths)
    replicas = [copy.deepcopy(criterion) for _ in range(3)] + [pickle.loads(pickle.dumps(criterion))]

    def gradient(replica: object) -> tuple:
        given = floats(scores)
        values = replica(*given, target=truth, lengths=lengths)
        return values, torch.autograd.grad(values.sum(), given)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(gradient, replicas * 4))
    for values, gradients in found:
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)
        for one, other in zip(gradients, found[0][1], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_criterion_trains(name: str) -> None:
    structure, scores, lengths = case(name, torch.float32)
    truth = layers.sample(structure, *scores, lengths=lengths)[0]
    criterion = layers.StructuredLoss(structure)

    def value(*given: object) -> object:
        left = iter(given)
        moved = [next(left) * 2.0 if each.is_floating_point() else each for each in scores]
        return criterion(*moved, target=truth, lengths=lengths)

    given = floats(scores)
    expected = torch.autograd.grad(value(*given), given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(torch.compile(value, backend="eager")(*given), given)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ((torch.zeros(2, 3, 3), torch.zeros(2, 2)), {}, "edge_scores"),
        ((torch.zeros(2, 3, 2), torch.zeros(3, 3)), {}, "node_scores"),
        ((torch.zeros(2, 3, 3), torch.zeros(3, 3)), {"lengths": torch.tensor([3, 4])}, "lengths holds 4"),
        ((torch.zeros(2, 3, 3), torch.zeros(3, 3)), {"lengths": torch.tensor([3])}, "whole numbers"),
        ((torch.zeros(2, 3, 3), torch.full((3, 3), math.nan)), {}, "NaN"),
        ((torch.zeros(2, 3, 3), torch.zeros(3, 3), None, torch.zeros(2)), {}, "end_scores"),
        ((torch.zeros(2, 3, 3),), {}, "edge_scores"),
        ((torch.zeros(2, 3, 3, dtype=torch.long), torch.zeros(3, 3)), {}, "floating"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(scores: tuple, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        layers.log_partition(Chain(3), *scores, **options)
    assert "\n" not in str(error.value)


def test_targets_and_structures_that_do_not_fit() -> None:
    criterion = layers.StructuredLoss(Chain(3))
    node, edge = torch.zeros(2, 4, 3), torch.zeros(3, 3)
    for target in (torch.zeros(2, 3, dtype=torch.long), torch.full((2, 4), 3), torch.zeros(2, 4)):
        with pytest.raises(InputError):
            criterion(node, edge, target=target)
    with pytest.raises(InputError, match="order 1"):
        layers.log_partition(Chain(3, order=2), node, edge)
    with pytest.raises(InputError, match="reduction"):
        layers.StructuredLoss(Chain(3), reduction="median")


def test_labellings_of_single_examples_are_the_same_on_any_number_of_threads() -> None:
    random, threads = torch.Generator().manual_seed(2), torch.get_num_threads()
    node, edge = torch.randn(5, 4, 3, generator=random), torch.randn(3, 3, generator=random)
    found = []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        drawn = layers.sample(Chain(3), node, edge, n_samples=3, generator=torch.Generator().manual_seed(7))
        best = layers.kbest(Chain(3), node, edge, k=3)
        found.append(([each.tolist() for each in drawn], [[(y.tolist(), s) for y, s in own] for own in best]))
    torch.set_num_threads(threads)
    assert found[0] == found[1]
    assert found[0][1][4] == [
        (y.tolist(), s) for y, s in Chain(3).kbest(node[4].double(), edge.double(), k=3)
    ]
