"""`CRF` against pytorch-crf number by number, and against enumeration: masks with holes, sets of labels, weights."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise.core.losses import Loss  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Multiclass, Projective  # noqa: E402
from partwise.torch.layouts import kept as kept_positions  # noqa: E402

B, T, L = 4, 5, 3
HOLES = [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0]]
MARKS = torch.tensor(HOLES, dtype=torch.bool)
BIO = ["O", "B-X", "I-X"]


def made(seed: int = 0, n_labels: int = L, size: float = 1.0, **options: object) -> tuple:
    """A double precision CRF with random transitions, emissions (B, T, L) and tags (B, T)."""
    random = torch.Generator().manual_seed(seed)
    crf = layers.CRF(n_labels, batch_first=True, **options).double()
    for each in crf.parameters():
        each.data = size * torch.randn(each.shape, generator=random, dtype=torch.float64)
    emissions = size * torch.randn(B, T, n_labels, generator=random, dtype=torch.float64)
    return crf, emissions.requires_grad_(), torch.randint(n_labels, (B, T), generator=random)


def labellings(length: int) -> list:
    return list(itertools.product(range(L), repeat=length))


def score(crf: object, own: np.ndarray, y: tuple) -> float:
    """The score of labels y of the positions `own` (length, L)."""
    first, last, between = (
        each.detach().numpy() for each in (crf.start_transitions, crf.end_transitions, crf.transitions)
    )
    total = first[y[0]] + last[y[-1]] + sum(own[t, label] for t, label in enumerate(y))
    return total + sum(between[pair] for pair in itertools.pairwise(y))


def kept(emissions: object, mask: object, i: int) -> np.ndarray:
    return emissions[i].detach().numpy()[mask[i].numpy()]


# -- pytorch-crf -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_changing_the_import_changes_no_number(seed: int, batch_first: bool) -> None:
    theirs_of = pytest.importorskip("torchcrf", reason="compares with pytorch-crf").CRF
    random = torch.Generator().manual_seed(seed)
    n, length, n_labels = (int(torch.randint(1, 9, (1,), generator=random)) for _ in range(3))
    theirs = theirs_of(n_labels, batch_first=batch_first).double()
    ours = layers.CRF(n_labels, batch_first=batch_first).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    emissions = 5 * torch.randn(n, length, n_labels, generator=random, dtype=torch.float64)
    tags = torch.randint(n_labels, (n, length), generator=random)
    lengths = torch.randint(1, length + 1, (n,), generator=random)
    lengths[0] = length
    mask = torch.arange(length) < lengths[:, None]
    if not batch_first:
        emissions, tags, mask = emissions.transpose(0, 1), tags.T, mask.T
    for own_mask in (None, mask):
        for reduction in ("none", "sum", "mean", "token_mean"):
            found = []
            for crf in (ours, theirs):
                given = emissions.detach().clone().requires_grad_()
                if own_mask is not None and crf is theirs:
                    own_mask = own_mask.bool()
                value = crf(given, tags, own_mask, reduction)
                inputs = [given, *crf.parameters()]
                slopes = torch.autograd.grad(value.sum(), inputs, allow_unused=True, materialize_grads=True)
                found.append((value, *slopes))
            for one, other in zip(*found, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        assert ours.decode(emissions, own_mask) == theirs.decode(emissions, own_mask)
    torch.testing.assert_close(ours(emissions, tags, mask.to(torch.uint8)), ours(emissions, tags, mask))
    again = theirs_of(n_labels, batch_first=batch_first).double()
    again.load_state_dict(ours.state_dict())


def test_parameters_start_as_those_of_pytorch_crf() -> None:
    theirs_of = pytest.importorskip("torchcrf", reason="compares with pytorch-crf").CRF
    found = []
    for kind in (layers.CRF, theirs_of):
        torch.manual_seed(5)
        found.append(kind(6).state_dict())
    for name, each in found[1].items():
        assert torch.equal(found[0][name], each)


# -- enumeration -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [None, "lengths", "holes"])
@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", "perceptron", Loss(2.5, 0.5)])
def test_losses_are_sums_over_labellings_of_what_a_mask_keeps(loss: object, mask: str | None) -> None:
    crf, emissions, tags = made(loss=loss)
    loss = Loss.of(loss)
    marks = {"holes": MARKS, "lengths": torch.arange(T) < torch.tensor([5, 3, 1, 2])[:, None]}.get(mask)
    found = -crf(emissions, tags, marks, "none")
    marks = torch.ones(B, T, dtype=torch.bool) if marks is None else marks
    for i in range(B):
        own, true = kept(emissions, marks, i), tuple(tags[i][marks[i]].tolist())
        margins = np.array(
            [
                score(crf, own, y) - score(crf, own, true) + loss.gamma * sum(map(int.__ne__, y, true))
                for y in labellings(len(own))
            ]
        )
        top = margins.max()
        soft = 0 if loss.is_hard else math.log(np.exp(loss.beta * (margins - top)).sum()) / loss.beta
        assert found[i].item() == pytest.approx(top + soft, abs=1e-9)
    left_out = torch.autograd.grad(found.sum(), emissions)[0][~marks]
    assert not left_out.any()


def test_answers_with_holes_are_those_of_the_positions_that_are_kept() -> None:
    crf, emissions, _ = made()
    best, padded = crf.decode(emissions, MARKS), crf.decode(emissions, MARKS, pad_tag=-7)
    ranked, drawn = crf.kbest(emissions, MARKS, k=2), crf.sample(emissions, MARKS, n_samples=3)
    marginals, entropy = crf.marginals(emissions, MARKS), crf.entropy(emissions, MARKS)
    transitions = (crf.transitions, crf.start_transitions, crf.end_transitions)
    node, edge = layers.marginals(Chain(L), emissions, *transitions, mask=MARKS)
    torch.testing.assert_close(node, marginals)
    for i in range(B):
        own, where = kept(emissions, MARKS, i), MARKS[i].nonzero()[:, 0].tolist()
        every = labellings(len(own))
        values = np.array([score(crf, own, y) for y in every])
        order = values.argsort()[::-1]
        p = np.exp(values - values.max())
        p /= p.sum()
        assert best[i] == list(every[order[0]])
        assert padded[i, where].tolist() == best[i] and (padded[i][~MARKS[i]] == -7).all()
        assert [labels for labels, _ in ranked[i]] == [list(every[k]) for k in order[:2]]
        assert ranked[i][0][1] == pytest.approx(values.max())
        assert entropy[i].item() == pytest.approx(-(p * np.log(p)).sum())
        assert all(len(each[i]) == len(own) for each in drawn)
        for k, t in enumerate(where):
            expected = [p[[y[k] == label for y in every]].sum() for label in range(L)]
            np.testing.assert_allclose(marginals[i, t].detach().numpy(), expected, atol=1e-12)
        for k, t in enumerate(where[1:]):  # a pair is at its later position
            pairs = [[p[[y[k : k + 2] == (a, b) for y in every]].sum() for b in range(L)] for a in range(L)]
            np.testing.assert_allclose(edge[i, t - 1].detach().numpy(), pairs, atol=1e-12)
            edge = edge.clone()
            edge[i, t - 1] = 0
        assert not marginals[i][~MARKS[i]].any() and not edge[i].any()
    assert torch.autograd.gradcheck(lambda each: crf.marginals(each, MARKS), emissions, fast_mode=True)
    assert torch.autograd.gradcheck(lambda each: crf.entropy(each, MARKS), emissions, fast_mode=True)


def test_without_a_look_at_numbers_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the mask is moved to the front whether or not it has holes, and nothing is checked."""
    marks = MARKS.clone()
    marks[1] = False
    found, looking = [], kept_positions.Kept.of
    for blind in (False, True):
        if blind:
            monkeypatch.setattr(kept_positions.Kept, "of", lambda mask, on_host: looking(mask, False))
        crf, emissions, tags = made(loss="softmax_margin", validate=not blind)
        own = []
        for mask in (marks, torch.arange(T) < torch.tensor([5, 3, 0, 2])[:, None]):
            value = crf(emissions, torch.where(mask, tags, -100), mask, "none")
            own += [value, *torch.autograd.grad(value.sum(), [emissions, *crf.parameters()])]
            own += [crf.marginals(emissions, mask), crf.entropy(emissions, mask)]
            own += [crf.decode(emissions, mask, pad_tag=-1)]
            own += layers.marginals(Chain(L), emissions, crf.transitions, mask=mask)
        found.append(own)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    tags[0, 0] = 7  # no label: no index out of range either
    assert made(validate=False)[0](emissions, tags, reduction="none").isnan().tolist() == [True, *[False] * 3]


def test_own_edges_of_a_hole_are_those_into_the_later_position() -> None:
    _, emissions, _ = made()
    edges = torch.randn(B, T - 1, L, L, dtype=torch.float64, requires_grad=True)
    found = layers.log_partition(Chain(L), emissions, edges, mask=MARKS)
    node, into = emissions[0, [0, 2, 3]][None], edges[0, [1, 2]][None]
    torch.testing.assert_close(found[:1], layers.log_partition(Chain(L), node, into))
    assert torch.autograd.gradcheck(
        lambda *each: layers.log_partition(Chain(L), *each, mask=MARKS), (emissions, edges), fast_mode=True
    )
    both = layers.log_partition(Chain(L), emissions, edges, mask=MARKS, lengths=torch.tensor([3, 5, 5, 4]))
    torch.testing.assert_close(both[0], layers.log_partition(Chain(L), node[:, :2], into[:, :1])[0])


@pytest.mark.parametrize("lengths", [None, [5, 1, 3, 1]])
def test_start_and_end_scores_may_be_given_alone_and_be_infinite(lengths: object) -> None:
    crf, emissions, _ = made()
    start, end = crf.start_transitions.detach(), crf.end_transitions.detach()
    start[0], end[1] = -math.inf, -math.inf
    node = emissions.detach()
    for i, n in enumerate(lengths or [T] * B):
        for first, last in ((start, None), (None, end), (start, end)):
            ends = [None if each is None else each.numpy() for each in (first, last)]
            expected = Chain(L).log_partition(node[i, :n].numpy(), crf.transitions.detach().numpy(), *ends)
            given = (node, crf.transitions, first, last)
            found = layers.log_partition(
                Chain(L), *given, lengths=None if lengths is None else torch.tensor(lengths)
            )
            assert found[i].item() == pytest.approx(expected, abs=1e-9)


def test_numbers_where_nothing_counts_are_not_looked_at() -> None:
    crf, emissions, tags = made()
    dirty = torch.where(MARKS[:, :, None], emissions.detach(), math.nan).requires_grad_()
    unknown = torch.where(MARKS, tags, -100)
    expected = crf(emissions, tags, MARKS)
    for value in (crf(dirty, unknown, MARKS), crf(dirty, unknown), crf(dirty, unknown, reduction="sum")):
        torch.testing.assert_close(value, expected)
        assert torch.isfinite(torch.autograd.grad(value, dirty)[0]).all()
    torch.testing.assert_close(crf(dirty, unknown, reduction="token_mean"), expected / MARKS.sum())


def test_sequences_without_a_position_have_loss_zero_and_no_labels() -> None:
    crf, emissions, tags = made()
    marks = MARKS.clone()
    marks[1] = False
    values = crf(emissions, tags, marks, "none")
    assert values[1] == 0 and torch.equal(values[[0, 2, 3]], crf(emissions, tags, MARKS, "none")[[0, 2, 3]])
    assert not torch.autograd.grad(values.sum(), emissions)[0][1].any()
    assert crf.decode(emissions, marks)[1] == [] and crf.kbest(emissions, marks)[1] == [([], 0.0)]
    assert crf.log_partition(emissions, marks)[1] == 0 and not crf.marginals(emissions, marks)[1].any()
    nothing = torch.full((B, T), -100)
    assert crf(emissions, nothing, reduction="token_mean") == 0
    assert crf.decode(emissions, torch.zeros(B, T)) == [[]] * B


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", "perceptron", Loss(2.0, 1.0)])
def test_targets_may_be_sets_of_labels(loss: object) -> None:
    crf, emissions, tags = made(loss=loss)
    loss, random = Loss.of(loss), torch.Generator().manual_seed(2)
    single = torch.nn.functional.one_hot(tags, L).bool()
    for marks in (None, MARKS):
        torch.testing.assert_close(crf(emissions, single, marks), crf(emissions, tags, marks))
    sets = single | (torch.rand(B, T, L, generator=random) < 0.3)
    sets[0, 0] = True  # nothing is known
    found = -crf(emissions, sets, MARKS, "none")
    for i in range(B):
        own, allowed = kept(emissions, MARKS, i), sets[i].numpy()[MARKS[i].numpy()]
        every = labellings(len(own))
        wrong = np.array([sum(not allowed[t, label] for t, label in enumerate(y)) for y in every])
        values = np.array([score(crf, own, y) for y in every])
        sums = []
        for each in (values + loss.gamma * wrong, values[wrong == 0]):
            top = each.max()
            sums.append(
                top if loss.is_hard else top + math.log(np.exp(loss.beta * (each - top)).sum()) / loss.beta
            )
        assert found[i].item() == pytest.approx(sums[0] - sums[1], abs=1e-9)
    assert torch.autograd.gradcheck(lambda each: crf(each, sets, MARKS), emissions, fast_mode=True)


def test_sets_cost_the_least_of_what_is_allowed() -> None:
    cost = np.array([[0, 1, 5.0], [2, 0, 1], [4, 3, 0]])
    criterion = layers.StructuredLoss(Multiclass(3), "hinge", cost, reduction="none")
    scores = torch.zeros(2, 3)
    sets = torch.tensor([[True, True, False], [False, False, True]])
    assert criterion(scores, target=sets).tolist() == [1.0, 4.0]


def test_targets_may_be_likelihoods_of_labels() -> None:
    crf, emissions, tags = made()
    random = torch.Generator().manual_seed(2)
    soft = torch.rand(B, T, L, generator=random, dtype=torch.float64)
    soft[:, :, 0] = 0
    found = -crf(emissions, soft, MARKS, "none")
    for i in range(B):
        own, q = kept(emissions, MARKS, i), soft[i].numpy()[MARKS[i].numpy()]
        every = labellings(len(own))
        p = np.exp([score(crf, own, y) for y in every])
        agreeing = [np.prod([q[t, label] for t, label in enumerate(y)]) for y in every]
        assert found[i].item() == pytest.approx(-math.log(p @ agreeing / p.sum()))
    hard = torch.nn.functional.one_hot(tags, L).double()
    torch.testing.assert_close(crf(emissions, hard), crf(emissions, tags))
    scaled = layers.CRF(L, True, Loss(3.0, 0.0)).double()
    torch.testing.assert_close(scaled(emissions, hard), scaled(emissions, tags))


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [None, MARKS])
@pytest.mark.parametrize("allowed", [None, [[1, 1, 0], [1, 1, 1], [1, 1, 1]]])
def test_weights_multiply_conditional_probabilities(mask: object, allowed: object) -> None:
    weights = [0.5, 1.0, 4.0]
    crf, emissions, tags = made(label_weights=weights)
    plain = made()[0].constrain(allowed=allowed)
    crf.constrain(allowed=allowed)
    tags = plain.decode(emissions * 0 + torch.randn(B, T, L), mask, pad_tag=0)
    own_weights = torch.rand(B, T, dtype=torch.float64)
    found = -crf(emissions, tags, mask, "none", position_weights=own_weights)
    marks = torch.ones(B, T, dtype=torch.bool) if mask is None else mask
    for i in range(B):
        own, true = kept(emissions, marks, i), tags[i][marks[i]].tolist()
        every = [
            y
            for y in labellings(len(own))
            if allowed is None or all(allowed[a][b] for a, b in itertools.pairwise(y))
        ]
        p = np.exp([score(crf, own, y) for y in every])
        before, expected = p.sum(), 0.0
        for t, (label, w) in enumerate(zip(true, own_weights[i][marks[i]].tolist(), strict=True)):
            agreeing = p[[list(y[: t + 1]) == true[: t + 1] for y in every]].sum()
            expected -= w * weights[label] * math.log(agreeing / before)
            before = agreeing
        assert found[i].item() == pytest.approx(expected, abs=1e-9)
    ones = torch.ones(B, T)
    torch.testing.assert_close(
        plain(emissions, tags, mask, position_weights=ones), plain(emissions, tags, mask)
    )
    assert torch.autograd.gradcheck(lambda each: crf(each, tags, mask), emissions, fast_mode=True)


def test_weights_stand_labels_without_a_successor_and_impossible_sequences() -> None:
    crf, emissions, _ = made(label_weights=[1, 2, 3])
    crf.constrain(allowed=[[0, 0, 0], [1, 1, 1], [1, 1, 1]])
    tags = torch.tensor([[1, 2, 1, 2, 0], [2] * 5, [1] * 5, [1] * 5])
    given = emissions.detach().clone()
    given[2], given[3, 1, 1] = -math.inf, -math.inf
    values = crf(given.requires_grad_(), tags, reduction="none")
    assert torch.isfinite(values[:2]).all() and values[2:].tolist() == [-math.inf] * 2
    for each in torch.autograd.grad(values[:2].sum(), [given, *crf.parameters()]):
        assert torch.isfinite(each).all()


def test_compiled_modules_train_and_decode() -> None:
    crf, emissions, tags = made()
    found = torch.compile(lambda given: crf(2 * given, tags, MARKS), backend="eager")(emissions)
    torch.testing.assert_close(found, crf(2 * emissions, tags, MARKS))
    assert torch.compile(lambda given: crf.decode(2 * given), backend="eager")(emissions) == crf.decode(
        emissions * 2
    )


@pytest.mark.parametrize("loss", ["hinge", "softmax_margin"])
def test_weights_multiply_costs(loss: str) -> None:
    weights = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    crf, emissions, tags = made(loss=loss, label_weights=weights)
    matrix = (1 - torch.eye(L, dtype=torch.float64)) * weights[:, None]
    by_costs = made(loss=loss, cost=matrix.numpy())[0]
    for marks in (None, MARKS):
        torch.testing.assert_close(crf(emissions, tags, marks), by_costs(emissions, tags, marks))
    twice = crf(emissions, tags, position_weights=torch.full((B, T), 2.0))
    doubled = made(loss=loss, cost=2 * matrix.numpy())[0]
    torch.testing.assert_close(twice, doubled(emissions, tags))


def test_weights_of_sequences_and_averages() -> None:
    crf, emissions, tags = made()
    values, own = crf(emissions, tags, MARKS, "none"), torch.tensor([1.0, 0.0, 2.0, 0.5]).double()
    n = MARKS.sum(1)
    for reduction, expected in (
        ("none", own * values),
        ("sum", (own * values).sum()),
        ("mean", (own * values).sum() / own.sum()),
        ("token_mean", (own * values).sum() / (own * n).sum()),
    ):
        torch.testing.assert_close(crf(emissions, tags, MARKS, reduction, sample_weights=own), expected)
    averaged = made(length_average=True)[0]
    torch.testing.assert_close(averaged(emissions, tags, MARKS, "none"), values / n)
    lengths = torch.tensor([5, 3, 2, 4])
    criterion = layers.StructuredLoss(Chain(L), reduction="token_mean")
    summed = layers.StructuredLoss(Chain(L), reduction="sum")
    given = (emissions, crf.transitions)
    found = criterion(*given, target=tags, lengths=lengths)
    torch.testing.assert_close(found, summed(*given, target=tags, lengths=lengths) / 14)


# -- the module ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU"])
def test_constraints_make_labels_well_formed(scheme: str) -> None:
    from partwise.structures import transition_mask

    names = ["O", *(f"{p}-{k}" for k in "XY" for p in {"IOBES": "BIES", "BILOU": "BILU"}.get(scheme, "BI"))]
    crf, emissions, _ = made(n_labels=len(names))
    mask, free = transition_mask(names, scheme), crf.decode(emissions)
    assert crf.constrain(scheme, dict(enumerate(names))) is crf and list(crf.state_dict()) == list(
        made()[0].state_dict()
    )
    for best in (crf.decode(emissions), *crf.sample(emissions, n_samples=3)):
        for y in best:
            assert mask.allowed_start[y[0]] and mask.allowed_end[y[-1]]
            assert all(mask.allowed[pair] for pair in itertools.pairwise(y))
    assert any(crf(emissions[i : i + 1], torch.tensor(best[i : i + 1])).item() < 0 for i in range(B))
    crf.constrain(scheme, names, training=False)
    assert crf.decode(emissions) == best or all(
        mask.allowed[pair] for y in crf.decode(emissions) for pair in itertools.pairwise(y)
    )
    crf(emissions, torch.tensor(free))  # labels that violate the constraint may be trained on
    assert crf.constrain().decode(emissions) == free


def test_masks_of_users_hold_beside_a_scheme() -> None:
    crf, emissions, _ = made(size=5.0)
    crf.constrain("IOB2", BIO, allowed=[[1, 0, 1], [1, 1, 1], [1, 1, 1]])
    for y in crf.decode(emissions):
        assert (0, 1) not in itertools.pairwise(y) and (0, 2) not in itertools.pairwise(y) and y[0] != 2


def test_a_forbidden_true_label_is_said_with_its_place() -> None:
    crf, emissions, tags = made()
    crf.constrain("IOB2", BIO)
    tags[:], tags[1, 3] = 0, 2
    with pytest.raises(InputError, match="example 1, position 3: label 2 may not follow label 0"):
        crf(emissions, tags)
    marks = torch.ones(B, T, dtype=torch.bool)
    marks[1, 1] = False
    with pytest.raises(InputError, match="example 1, position 3"):
        crf(emissions, tags, marks)
    marks[1, 3] = False
    assert torch.isfinite(crf(emissions, tags, marks))
    unchecked = copy.deepcopy(crf)
    unchecked.validate = unchecked.criterion.validate = False
    assert unchecked(emissions, tags) == -math.inf


def test_transitions_may_be_fixed() -> None:
    crf = layers.CRF(L, True, learn_transitions=False)
    assert not any(each.requires_grad or each.any() for each in crf.parameters())
    emissions, tags = torch.randn(B, T, L, requires_grad=True), torch.randint(L, (B, T))
    expected = torch.log_softmax(emissions, 2).gather(2, tags[:, :, None]).sum()
    torch.testing.assert_close(crf(emissions, tags), expected)
    crf(emissions, tags).backward()
    assert emissions.grad is not None


def test_length_comes_first_by_default() -> None:
    crf, emissions, tags = made()
    other = layers.CRF(L).double()
    other.load_state_dict(crf.state_dict())
    turned = emissions.transpose(0, 1)
    torch.testing.assert_close(other(turned, tags.T, MARKS.T), crf(emissions, tags, MARKS))
    assert other.decode(turned, MARKS.T) == crf.decode(emissions, MARKS)
    assert torch.equal(other.decode(turned, MARKS.T, -1).T, crf.decode(emissions, MARKS, -1))
    torch.testing.assert_close(
        other.marginals(turned, MARKS.T), crf.marginals(emissions, MARKS).transpose(0, 1)
    )
    sets = torch.rand(B, T, L) < 0.9
    sets[:, :, 0] = True
    torch.testing.assert_close(other(turned, sets.transpose(0, 1)), crf(emissions, sets))


def test_extreme_scores_keep_their_digits() -> None:
    crf, emissions, tags = made(size=1e4)
    for marks in (None, MARKS):
        value = crf(emissions, tags, marks, "none")
        assert torch.isfinite(value).all() and (value <= 1e-6).all()
        best = crf.decode(emissions, marks, pad_tag=-100)
        assert crf(emissions, best, reduction="none").abs().max() < 1e-6 or marks is None
    weighted = made(size=1e4, label_weights=[1, 2, 3])[0]
    value = weighted(emissions, tags)
    assert torch.isfinite(value) and all(
        map(torch.isfinite, torch.autograd.grad(value, emissions)[0].flatten())
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda crf, e, y: crf(e[0], y), "emissions must be a tensor"),
        (lambda crf, e, y: crf(e, y[:, :3]), "target has 3 positions"),
        (lambda crf, e, y: crf(e, y[:2]), "target must be whole numbers of shape"),
        (lambda crf, e, y: crf(e, y + 2), "but labels run from 0 to 2"),
        (lambda crf, e, y: crf(e, y, MARKS[:, :4]), "mask has shape"),
        (lambda crf, e, y: crf(e, y, MARKS.int() * 2), "1 and 0"),
        (lambda crf, e, y: crf(e, y, reduction="median"), "reduction must be"),
        (lambda crf, e, y: crf(e, y, sample_weights=[1.0]), "sample_weights has shape"),
        (lambda crf, e, y: crf(e, y, sample_weights=[1.0, -1, 1, 1]), "sample_weights must be finite"),
        (lambda crf, e, y: crf(e, y, position_weights=torch.ones(B, 2)), "position_weights has shape"),
        (lambda crf, e, y: crf(e, torch.zeros(B, T, L).bool()), "example 0, position 0 allows no label"),
        (lambda crf, e, y: crf(e, -torch.ones(B, T, L)), "likelihoods"),
        (lambda crf, e, y: crf(e, torch.ones(B, T, 2).bool()), "target has shape"),
        (lambda crf, e, y: crf.constrain("IOB2"), "scheme and the names"),
        (lambda crf, e, y: crf.constrain("IOB9", BIO), "scheme must be one of"),
        (lambda crf, e, y: crf.constrain("IOB2", BIO[:2]), "2 names for 3 labels"),
        (lambda crf, e, y: crf.constrain("IOB2", {1: "O", 2: "B-X", 3: "I-X"}), "numbers 0 to 2"),
        (lambda crf, e, y: layers.CRF(0), "num_tags"),
        (lambda crf, e, y: layers.CRF(3, label_weights=[1, 2]), "label_weights has shape"),
        (lambda crf, e, y: layers.CRF(3, loss="perceptron", label_weights=[1, 2, 3]), "perceptron"),
        (lambda crf, e, y: layers.CRF(3, loss="huber"), "loss must be one of"),
        (lambda crf, e, y: layers.CRF(3, loss="hinge")(e, torch.ones(B, T, L)), "likelihoods of labels"),
        (lambda crf, e, y: crf.decode(e, k=3), "unexpected keyword"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(call: object, words: str) -> None:
    crf, emissions, tags = made()
    with pytest.raises((InputError, TypeError), match=words) as error:
        call(crf, emissions, tags)
    assert "\n" not in str(error.value)


def test_masks_of_other_structures_keep_the_first_positions() -> None:
    arcs, lengths = torch.randn(2, 4, 4), torch.tensor([3, 2])
    mask = torch.arange(3) < lengths[:, None]
    expected = layers.log_partition(Projective(), arcs, lengths=lengths)
    assert torch.equal(layers.log_partition(Projective(), arcs, mask=mask), expected)
    mask[0, 1] = False
    with pytest.raises(InputError, match="chains take masks with holes"):
        layers.log_partition(Projective(), arcs, mask=mask)


def test_labels_that_arcs_may_have_are_sets_too() -> None:
    arcs = torch.randn(2, 4, 4, dtype=torch.float64)
    allowed = torch.rand(2, 4, 4) < 0.7
    allowed[:, 0] = True
    criterion = layers.StructuredLoss(Projective(single_root=False), reduction="none")
    found = criterion(arcs, target=allowed)
    restricted = arcs.masked_fill(~allowed, -torch.inf)
    sums = [layers.log_partition(Projective(single_root=False), each) for each in (arcs, restricted)]
    torch.testing.assert_close(found, sums[0] - sums[1])
