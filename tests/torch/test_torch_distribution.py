"""`distribution` against enumeration for every structure, and against torch-struct where both have an answer."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

from test_torch_layers import NAMES, B, T, case, one_by_one  # noqa: E402

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Graph, Multiclass, Projective, SemiMarkov, Spanning  # noqa: E402

MASKS = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 0, 1]], dtype=torch.bool)


def moved(scores: list) -> list:
    """Other scores of the same shapes."""
    random = torch.Generator().manual_seed(9)
    return [
        each + torch.randn(each.shape, generator=random, dtype=each.dtype)
        if each.is_floating_point()
        else each
        for each in scores
    ]


def everything(structure: object, own: list) -> tuple[list, np.ndarray]:
    """All labellings of one example, and their scores; those of some structures by their k best."""
    if isinstance(structure, (Chain, Multiclass, Projective, Spanning)):
        every = list(
            structure.labellings(1 if isinstance(structure, Multiclass) else _length(structure, own))
        )
        return every, np.array([structure.score(y, *own) for y in every])
    ranked = structure.kbest(*own, k=3000)
    assert len(ranked) < 3000
    return [y for y, _ in ranked], np.array([score for _, score in ranked])


def _length(structure: object, own: list) -> int:
    return len(own[0]) - isinstance(structure, (Projective, Spanning))


def key(y: object) -> str:
    return (
        str([np.asarray(each).tolist() for each in y])
        if isinstance(y, (tuple, list))
        else str(np.asarray(y).tolist())
    )


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_enumeration(name: str) -> None:
    structure, scores, lengths = case(name)
    p = layers.distribution(structure, *scores, lengths=lengths)
    q = layers.distribution(structure, *moved(scores), lengths=lengths)
    assert p.batch_shape == (B,) and torch.equal(p.max, layers.max_score(structure, *scores, lengths=lengths))
    assert str(p.mode) == str(p.argmax) == str(layers.argmax(structure, *scores, lengths=lengths))
    best = p.log_prob(p.argmax)
    torch.testing.assert_close(best, p.max - p.partition)
    torch.testing.assert_close(torch.distributions.kl_divergence(p, q), p.kl(q))
    torch.testing.assert_close(p.cross_entropy(p), p.entropy)
    torch.testing.assert_close(p.kl(p), torch.zeros(B, dtype=torch.float64), atol=1e-9, rtol=0)
    one, other = one_by_one(structure, scores, lengths), one_by_one(structure, moved(scores), lengths)
    for i in range(B):
        every, values = everything(structure, one[i])
        labels, others = everything(structure, other[i])
        if not isinstance(structure, (Chain, Multiclass, Projective, Spanning)):  # ranked in their own order
            place = {key(y): k for k, y in enumerate(labels)}
            others = others[[place[key(y)] for y in every]]
        possible = values > -np.inf
        values, others = values[possible], others[possible]
        log_p, log_q = (each - np.logaddexp.reduce(each) for each in (values, others))
        own = np.exp(log_p)
        assert p.partition[i].item() == pytest.approx(np.logaddexp.reduce(values))
        assert p.entropy[i].item() == pytest.approx(-(own @ log_p), abs=1e-9)
        assert p.cross_entropy(q)[i].item() == pytest.approx(-(own @ log_q), abs=1e-9)
        assert p.kl(q)[i].item() == pytest.approx(own @ (log_p - log_q), abs=1e-9)
        assert [score for _, score in p.topk(2)[i]] == pytest.approx(sorted(values)[::-1][:2])


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_their_probabilities(name: str) -> None:
    structure, scores, lengths = case(name)
    p = layers.distribution(structure, *scores, lengths=lengths)
    drawn = p.sample((3,), generator=torch.Generator().manual_seed(0))
    single = p.sample(generator=torch.Generator().manual_seed(0))
    if isinstance(drawn, list):
        assert len(drawn) == 3 and len(single) == B
        values = torch.stack([p.log_prob(each) for each in drawn])
    else:
        values = p.log_prob(drawn)
    assert values.shape == (3, B) and (values < 1e-9).all()
    assert p.log_prob(single).shape == (B,)
    assert str(drawn[0]) == str(p.sample((3,), generator=torch.Generator().manual_seed(0))[0])


@pytest.mark.parametrize("name", NAMES)
def test_relaxed_samples_are_marginals_of_noisy_scores(name: str) -> None:
    structure, scores, lengths = case(name)
    scores = [each.requires_grad_() if each.is_floating_point() else each for each in scores]
    p = layers.distribution(structure, *scores, lengths=lengths)
    found = []
    for temperature in (1e-6, 1.0):
        soft = p.relaxed_sample(temperature, generator=torch.Generator().manual_seed(1))
        first = soft if isinstance(soft, torch.Tensor) else soft[0]
        assert first.shape == scores[0].shape and (first > -1e-9).all() and (first < 1 + 1e-9).all()
        assert torch.isfinite(torch.autograd.grad(first.square().sum(), scores[0])[0]).all()
        found.append(first.detach())
    assert ((found[0] < 1e-3) | (found[0] > 1 - 1e-3)).all()
    assert found[0].sum().item() == pytest.approx(found[1].sum().item()) or isinstance(structure, SemiMarkov)


def test_divergences_are_differentiable() -> None:
    for name in ("chain", "segments", "relations", "graph"):
        structure, scores, lengths = case(name)
        floating = [each.requires_grad_() for each in scores if each.is_floating_point()]

        def apart(
            *own: object, structure: object = structure, scores: list = scores, lengths: object = lengths
        ) -> object:
            left = iter(own)
            given = [next(left) if each.is_floating_point() else each for each in scores]
            p = layers.distribution(structure, *given, lengths=lengths)
            q = layers.distribution(structure, *moved(scores), lengths=lengths)
            return p.kl(q) + q.kl(p) + p.cross_entropy(q)

        assert torch.autograd.gradcheck(apart, floating, fast_mode=True)


def test_what_one_distribution_excludes_is_infinitely_far() -> None:
    node, edge = torch.randn(2, 3, 2), torch.randn(2, 2)
    free, tight = Chain(2), Chain(2, allowed=[[1, 0], [1, 1]])
    p, q = layers.distribution(free, node, edge), layers.distribution(tight, node, edge)
    assert p.kl(q).tolist() == p.cross_entropy(q).tolist() == [np.inf] * 2
    torch.testing.assert_close(q.kl(p), p.partition - q.partition)
    own = layers.distribution(free, node, edge[None, None].expand(2, 2, 2, 2))
    torch.testing.assert_close(own.kl(p), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(p.kl(own), torch.zeros(2), atol=1e-5, rtol=0)


def test_masks_with_holes_hold_in_distributions() -> None:
    structure, (node, edge), _ = case("chain")
    p = layers.distribution(structure, node, edge, mask=MASKS)
    q = layers.distribution(structure, 2 * node, edge, mask=MASKS)
    for i in range(B):
        one = layers.distribution(structure, node[i, MASKS[i]][None], edge)
        other = layers.distribution(structure, 2 * node[i, MASKS[i]][None], edge)
        torch.testing.assert_close(p.kl(q)[i], one.kl(other)[0])
        torch.testing.assert_close(p.entropy[i], one.entropy[0])
        assert p.argmax[i][MASKS[i]].tolist() == one.argmax[0].tolist()
        assert (p.argmax[i][~MASKS[i]] == -1).all()
    torch.testing.assert_close(p.log_prob(p.argmax), p.max - p.partition)
    assert p.log_prob(p.sample((4,))).shape == (4, B)
    assert p.relaxed_sample(0.5)[0][~MASKS].eq(0).all()
    crf = layers.CRF(3, batch_first=True).double()
    torch.testing.assert_close(crf.distribution(node, MASKS).entropy, crf.entropy(node, MASKS))


def test_chains_are_those_of_torch_struct() -> None:
    theirs_of = pytest.importorskip("torch_struct", reason="compares with torch-struct").LinearChainCRF
    random = torch.Generator().manual_seed(0)
    edges = torch.randn(B, T - 1, 3, 3, generator=random, dtype=torch.float64)
    other = torch.randn(B, T - 1, 3, 3, generator=random, dtype=torch.float64)
    lengths = torch.tensor([4, 3, 2])
    node = torch.zeros(B, T, 3, dtype=torch.float64)
    ours = [layers.distribution(Chain(3), node, each, lengths=lengths) for each in (edges, other)]
    # torch-struct has the label after first: φ(n, z_{n+1}, z_n).
    theirs = [theirs_of(each.transpose(2, 3).contiguous(), lengths=lengths) for each in (edges, other)]
    torch.testing.assert_close(ours[0].partition, theirs[0].partition)
    torch.testing.assert_close(ours[0].entropy, theirs[0].entropy)
    torch.testing.assert_close(ours[0].max, theirs[0].max)
    torch.testing.assert_close(ours[0].marginals[1], theirs[0].marginals.transpose(2, 3))
    torch.testing.assert_close(ours[0].kl(ours[1]), theirs[0].kl(theirs[1]))
    torch.testing.assert_close(ours[0].cross_entropy(ours[1]), theirs[0].cross_entropy(theirs[1]))
    torch.testing.assert_close(ours[0].log_prob(ours[0].argmax), theirs[0].log_prob(theirs[0].argmax))


def test_trees_are_those_of_torch_struct() -> None:
    theirs = pytest.importorskip("torch_struct", reason="compares with torch-struct")
    random = torch.Generator().manual_seed(0)
    arcs = torch.randn(B, T + 1, T + 1, generator=random, dtype=torch.float64)
    # torch-struct has the root on the diagonal of (B, n, n); several words may hang on it.
    inner = arcs[:, 1:, 1:].clone()
    inner.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    inner = inner.requires_grad_() * 1.0  # torch-struct changes its input, which may not be a leaf
    for structure, kind in (
        (Projective(single_root=False), theirs.DependencyCRF(inner, multiroot=True)),
        (Spanning(single_root=False), theirs.NonProjectiveDependencyCRF(inner, multiroot=True)),
    ):
        ours = layers.distribution(structure, arcs)
        torch.testing.assert_close(
            ours.partition, kind.partition, rtol=1e-4, atol=1e-4
        )  # torch-struct adds 1e-5
        expected = kind.marginals
        found = ours.marginals[:, 0, 1:]
        torch.testing.assert_close(found, expected.diagonal(dim1=1, dim2=2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.sample((2, 3)), "sample_shape"),
        (lambda p: p.relaxed_sample(0.0), "temperature"),
        (lambda p: p.kl(layers.distribution(Multiclass(3), torch.zeros(B, 3))), "one structure"),
        (lambda p: p.kl(3), "one structure"),
        (
            lambda p: p.kl(layers.distribution(Chain(3), torch.zeros(B, 2, 3), torch.zeros(3, 3))),
            "have scores",
        ),
        (lambda p: p.log_prob(torch.full((B, T), 7)), "labels run from 0 to 2"),
        (lambda p: layers.distribution(Chain(3), torch.zeros(B, 2, 3)), "edge_scores"),
        (lambda p: layers.distribution(Graph(), torch.zeros(B, 2, 3)), "edges"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(call: object, words: str) -> None:
    p = layers.distribution(Chain(3), torch.zeros(B, T, 3), torch.zeros(3, 3))
    with pytest.raises(InputError, match=words) as error:
        call(p)
    assert "\n" not in str(error.value)
