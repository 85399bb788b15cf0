"""Segments from factors as layers: values and gradients are those of the structure, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures.segments.factored import FactoredSemiMarkov  # noqa: E402


def _scores(dtype: object = torch.float64) -> list:
    random = torch.Generator().manual_seed(0)
    shapes = (3, 9, 2), (4, 2), (2, 2), (3, 9, 2)
    return [torch.randn(shape, generator=random, dtype=dtype, requires_grad=True) for shape in shapes]


def test_values_and_gradients() -> None:
    structure, scores, lengths = FactoredSemiMarkov(2, 4), _scores(), torch.tensor([9, 1, 6])
    values = layers.log_partition(structure, *scores, lengths=lengths)
    gradients = torch.autograd.grad(values.sum(), scores)
    arrays = [each.detach().numpy() for each in scores]
    table, between = np.zeros((4, 2)), np.zeros((2, 2))
    for i, n in enumerate(lengths.tolist()):
        own = arrays[0][i, :n], arrays[1], arrays[2], arrays[3][i, :n]
        assert values[i].item() == pytest.approx(structure.log_partition(*own))
        found = structure.marginals(*own)
        np.testing.assert_allclose(gradients[0][i, :n], found.position, atol=1e-12)
        np.testing.assert_allclose(gradients[3][i, :n], found.begin, atol=1e-12)
        assert not gradients[0][i, n:].any()
        table, between = table + found.duration, between + found.transition
    np.testing.assert_allclose(gradients[1], table, atol=1e-12)
    np.testing.assert_allclose(gradients[2], between, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *own: layers.log_partition(structure, *own), scores)
    assert torch.autograd.gradgradcheck(lambda *own: layers.log_partition(structure, *own), scores, atol=1e-4)


def test_answers_are_those_of_the_structure() -> None:
    structure, scores = FactoredSemiMarkov(2, 4), [each.detach() for each in _scores()]
    scores[0][0, 3, 1] = -torch.inf
    arrays = [each.numpy() for each in scores]
    best = layers.argmax(structure, *scores)
    ranked = layers.kbest(structure, *scores, k=3)
    entropy, tokens = layers.entropy(structure, *scores), layers.marginals(structure, *scores)[0]
    for i in range(3):
        own = arrays[0][i], arrays[1], arrays[2], arrays[3][i]
        assert best[i].tolist() == structure.argmax(*own).tolist()
        np.testing.assert_allclose([v for _, v in ranked[i]], [v for _, v in structure.kbest(*own, k=3)])
        assert entropy[i].item() == pytest.approx(structure.entropy(*own))
        np.testing.assert_allclose(tokens[i].sum(1), structure.marginals(*own).position, atol=1e-12)
    drawn = layers.sample(structure, *scores, n_samples=2, generator=torch.Generator().manual_seed(0))
    assert len(drawn) == 2 and all(int(each[-1, 1]) == 8 for each in drawn[0])


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_training_lowers_the_loss(loss: str) -> None:
    structure, lengths = FactoredSemiMarkov(2, 4), torch.tensor([9, 1, 6])
    scores = _scores(torch.float32)
    target = [
        torch.tensor([[0, 3, 1], [4, 8, 0]]),
        torch.tensor([[0, 0, 1]]),
        torch.tensor([[0, 2, 0], [3, 5, 1]]),
    ]
    target[0] = torch.tensor([[0, 3, 1], [4, 6, 0], [7, 8, 1]])
    criterion, optimizer = layers.StructuredLoss(structure, loss), torch.optim.SGD(scores, lr=0.2)
    values = []
    for _ in range(15):
        optimizer.zero_grad()
        value = criterion(*scores, target=target, lengths=lengths)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.7 * values[0]
    assert values[-1] >= 0.0


def test_wrong_scores_are_named() -> None:
    structure, (own, table, between, begin) = FactoredSemiMarkov(2, 4), _scores()
    for wrong, match in (
        ((own, table), "takes position_scores"),
        ((own, table[:3], between), "duration_scores"),
        ((own, table, between, begin[:, :4]), "begin_scores"),
        ((own * torch.nan, table, between), "NaN"),
    ):
        with pytest.raises(InputError, match=match):
            layers.log_partition(structure, *wrong)
    padded = own.detach().clone()
    padded[1, 5:] = torch.nan
    values = layers.log_partition(structure, padded, table, between, lengths=torch.tensor([9, 5, 9]))
    assert bool(values.isfinite().all())
