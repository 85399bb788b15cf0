"""The certified last layer: its objective is that of the layers, and sums on a device are those of the host."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise.core.losses import Loss  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.solvers import BMRM, LBFGS, Extragradient, solve  # noqa: E402
from partwise.solvers.base import evaluate_model  # noqa: E402
from partwise.structures import (  # noqa: E402
    Chain,
    FactorKind,
    Grammar,
    Graph,
    Multiclass,
    Projective,
    SemiMarkov,
    Spanning,
)
from partwise.torch import device_problem  # noqa: E402
from partwise.torch import head as head_module  # noqa: E402
from partwise.torch.activations import gather  # noqa: E402
from partwise.torch.device_problem import DeviceProblem  # noqa: E402
from partwise.torch.graph_rows import feed_for  # noqa: E402
from partwise.torch.rows import Feed  # noqa: E402

LENGTHS = torch.tensor([5, 3, 1, 4, 2, 5])
B, T, H, L2 = len(LENGTHS), 5, 7, 0.5
RULES = [(0, 0, 1), (0, 1, 2), (1, 2, 2), (0, 0, 0), (2, 1, 1)]
MASKS = {"allowed": [[1, 1, 0], [1, 1, 1], [0, 1, 1]], "allowed_end": [1, 0, 1]}


@pytest.fixture(autouse=True)
def one_thread() -> object:
    """Threads of several test processes that wait for each other take longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class PassThrough(torch.nn.Module):
    """Gives its inputs as activations."""

    def forward(self, *activations: object) -> object:
        return activations


def case(name: str) -> tuple:
    """A structure, activations, lengths and true labels."""
    random = torch.Generator().manual_seed(3)

    def draw(*size: int) -> object:
        return torch.randn(*size, generator=random)

    structure, activations = {
        "classes": lambda: (Multiclass(4), [draw(B, H)]),
        "chain": lambda: (Chain(3), [draw(B, T, H)]),
        "chain, masks": lambda: (Chain(3, **MASKS), [draw(B, T, H)]),
        "chain, own edges": lambda: (Chain(3, tied=False), [draw(B, T, H), draw(B, T - 1, 2)]),
        "projective": lambda: (Projective(), [draw(B, T + 1, T + 1, H)]),
        "relations": lambda: (
            Spanning(n_relations=3),
            [draw(B, T + 1, T + 1, H), draw(B, T + 1, T + 1, 4)],
        ),
        "segments": lambda: (SemiMarkov(2, 3), [draw(B, T, 3, H)]),
        "grammar": lambda: (Grammar(3, RULES), [draw(B, T, H), draw(B, T, T, 2)]),
    }[name]()
    lengths = None if name == "classes" else LENGTHS
    feed = feed_for(structure)
    scores = [
        draw(*(each.tail if each.tied else size))
        for each, size in zip(feed.tensors, feed.sizes(B, T), strict=True)
    ]
    target = layers.sample(structure, *scores, lengths=lengths, generator=random)[0]
    return structure, activations, lengths, target


NAMES = [
    "classes", "chain", "chain, masks", "chain, own edges", "projective", "relations", "segments", "grammar",
]  # fmt: skip


def objective(head: object, name: str, loss: object) -> object:
    """P by the layers, in double precision, differentiable in the head's weights."""
    structure, activations, lengths, target = case(name)
    head = head.double()
    criterion = layers.StructuredLoss(structure, loss, reduction="sum")
    value = criterion(*head(*(each.double() for each in activations)), target=target, lengths=lengths)
    return value + 0.5 * L2 * sum((each**2).sum() for each in head.parameters())


def problems(name: str, loss: object) -> tuple:
    structure, activations, lengths, target = case(name)
    feed = Feed(structure)
    found = gather(PassThrough(), [(tuple(activations), target, lengths)], feed, True, lambda text: None)
    plain = found.problem(feed, Loss.of(loss), L2, "hamming", 1)
    return plain, DeviceProblem.of(plain, feed, torch.device("cpu"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["log", Loss(2.0, 0.5)])
def test_the_optimum_is_that_of_the_layers(name: str, loss: object) -> None:
    structure, activations, lengths, target = case(name)
    loader = [(tuple(activations), target, lengths)]
    head = layers.fit_head(PassThrough(), loader, structure, loss, L2, solver="lbfgs", tol=1e-7)
    assert head.converged and head.certificate.relative_gap <= 1e-7 and head.device == "cpu"
    value = objective(head, name, loss)
    assert value.item() == pytest.approx(head.certificate.primal, rel=1e-6)
    gradients = torch.autograd.grad(value, list(head.parameters()))
    # P is l2-strongly convex: its gradient bounds how far the minimum is, and the certificate says no less
    squared = sum((each**2).sum() for each in gradients).item()
    assert squared / (2.0 * L2) <= 1e-4 * head.certificate.primal


@pytest.mark.parametrize("tied", [True, False])
def test_graphs(tied: bool) -> None:
    """Batches have edges of their own; the objective is that of the layers."""
    random = torch.Generator().manual_seed(2)
    structure = Graph({"vertex": 2}, [FactorKind("edge", ("vertex", "vertex"), tied)])
    loader = []
    for n, n_vertices, pairs in ((5, 3, [(0, 1), (1, 2), (0, 2)]), (4, 4, [(0, 1), (2, 3)])):
        edges = torch.tensor(pairs)
        inputs = [torch.randn(n, n_vertices, 3, generator=random), edges]
        if not tied:
            inputs.append(torch.randn(n, len(pairs), 2, generator=random))
        loader.append((tuple(inputs), torch.randint(2, (n, n_vertices), generator=random)))
    head = layers.fit_head(PassThrough(), loader, structure, "softmax_margin", L2, solver="lbfgs", tol=1e-6)
    assert head.converged
    criterion = layers.StructuredLoss(structure, "softmax_margin", reduction="sum")
    value = sum(criterion(*head(*inputs), target=target) for inputs, target in loader)
    value = value + 0.5 * L2 * sum((each**2).sum() for each in head.parameters())
    assert value.item() == pytest.approx(head.certificate.primal, rel=1e-5)
    assert head.argmax(*loader[0][0]).shape == (5, 3)
    with pytest.raises(InputError, match="edges"):
        layers.fit_head(PassThrough(), [((loader[0][0][0],), loader[0][1])], structure)


@pytest.mark.parametrize("name", NAMES)
def test_sums_on_a_device_are_those_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_problem, "_MOST_ENTRIES", 20)  # several chunks
    for loss in ("softmax_margin", "hinge"):
        plain, on_device = problems(name, loss)
        assert len(on_device.chunks) > 1
        weights = np.random.default_rng(0).standard_normal(plain.n_weights)
        for kind in plain.scorer.kinds:  # padding has no weights
            own = weights[kind.first_weight : kind.first_weight + kind.n_weights]
            own.reshape(-1, kind.stride)[:, kind.width :] = 0.0
        one, other = evaluate_model(plain, weights), evaluate_model(on_device, weights)
        for field in ("v", "entropy", "cost", "log_total", "gold"):
            np.testing.assert_allclose(getattr(other, field), getattr(one, field), rtol=1e-12, atol=1e-12)
        assert on_device.primal(weights) == pytest.approx(plain.primal(weights), rel=1e-12)
        assert on_device.dual(other) == pytest.approx(plain.dual(one), rel=1e-12)
        one, other = (each.at_weights(weights, 0.5, 0.3, 2.0) for each in (plain, on_device))
        for field in ("v", "entropy", "cost", "log_total", "gold"):
            np.testing.assert_allclose(getattr(other, field), getattr(one, field), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["classes", "chain", "relations"])
def test_a_device_reaches_the_certified_optimum_of_the_host(name: str) -> None:
    for solver, loss, tol in (
        (LBFGS(), "log", 1e-6),
        (BMRM(), "hinge", 1e-2),
        (Extragradient(), "hinge", 3e-2),
    ):
        plain, on_device = problems(name, loss)
        one, other = (
            solve(each, solver, tol=tol, max_passes=1000) for each in (plain, on_device.with_l2(L2))
        )
        assert one.converged and other.converged
        assert max(one.certificate.dual, other.certificate.dual) <= min(
            one.certificate.primal, other.certificate.primal
        )
        # the bounds that the device gave hold when the host computes them
        assert plain.primal(other.weights) == pytest.approx(other.certificate.primal, rel=1e-12)


def test_hinge_losses_on_a_device_fall_back_where_cutting_planes_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sklearn.exceptions import ConvergenceWarning

    monkeypatch.setattr(head_module, "_has_kernels", lambda feed, where: True)  # the CPU stands for a device
    structure, activations, _, target = case("classes")
    loader = [(activations, target)]
    host = layers.fit_head(PassThrough(), loader, structure, "hinge", L2, solver="crammer-singer", tol=1e-3)
    for first, solver in ((150, "bmrm"), (1, host.solver)):
        monkeypatch.setattr(head_module, "_FIRST_PASSES", first)
        head = layers.fit_head(PassThrough(), loader, structure, "hinge", L2, tol=1e-3)
        assert head.converged and head.solver == solver
        assert head.certificate.dual <= host.certificate.primal
        assert host.certificate.dual <= head.certificate.primal
    with pytest.warns(ConvergenceWarning):  # of runs that end early the one with the smaller gap is kept
        kept = layers.fit_head(PassThrough(), loader, structure, "hinge", L2, tol=1e-12, max_passes=1)
    assert np.isfinite(kept.certificate.relative_gap) and not kept.converged


def test_weights_go_back_into_the_network() -> None:
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(5)
    words, labels = torch.randint(20, (8, 6), generator=random), torch.randint(3, (8, 6), generator=random)
    lengths = torch.tensor([6, 2, 3, 4, 6, 1, 5, 6])

    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.dropout = torch.nn.Embedding(20, 5), torch.nn.Dropout(0.5)
            self.lstm = torch.nn.LSTM(5, 4, batch_first=True, bidirectional=True)
            self.linear, self.transitions = torch.nn.Linear(8, 3), torch.nn.Parameter(torch.zeros(3, 3))

        def features(self, words: object, lengths: object) -> object:
            given = torch.nn.utils.rnn.pack_padded_sequence(
                self.embedding(words), lengths, batch_first=True, enforce_sorted=False
            )
            return self.lstm(given)[0]

        def forward(self, words: object, lengths: object) -> object:
            return self.dropout(
                torch.nn.utils.rnn.pad_packed_sequence(self.features(words, lengths), batch_first=True)[0]
            )

    class Packed(torch.nn.Module):
        def __init__(self, tagger: Tagger):
            super().__init__()
            self.tagger = tagger

        def forward(self, words: object, lengths: object) -> object:
            return self.tagger.features(words, lengths)

    tagger = Tagger().train()
    loader = [((words[:5], lengths[:5]), labels[:5], lengths[:5])]
    loader.append(({"words": words[5:], "lengths": lengths[5:]}, labels[5:], lengths[5:]))
    head = layers.fit_head(tagger, loader, Chain(3), l2=0.1, tol=1e-6)
    assert tagger.training and tagger.dropout.training and not tagger.linear.weight.grad
    packed = [(inputs, target) for inputs, target, _ in loader]
    again = layers.fit_head(Packed(tagger), packed, Chain(3), l2=0.1, tol=1e-6)
    assert again.certificate.primal == pytest.approx(head.certificate.primal, rel=1e-5)
    head.load_into(tagger.linear, tagger.transitions)
    tagger.eval()
    with torch.no_grad():
        activations = tagger(words, lengths)
        own = layers.argmax(Chain(3), tagger.linear(activations), tagger.transitions, lengths=lengths)
        assert torch.equal(own, head.argmax(activations, lengths=lengths))
        packed_too = Packed(tagger)(words, lengths)
        assert torch.equal(own, head.argmax(packed_too))
    for targets in ((tagger.linear,), (torch.nn.Linear(8, 4), tagger.transitions)):
        with pytest.raises(InputError):
            head.load_into(*targets)
    with pytest.raises(InputError, match="bias"):
        head.load_into(torch.nn.Linear(8, 3, bias=False), tagger.transitions)


def test_padding_is_not_read_and_half_precision_is_taken() -> None:
    structure, (activations,), lengths, target = case("chain")
    dirty = activations.clone()
    dirty[torch.arange(T) >= lengths[:, None]] = torch.nan
    first, second, half = (
        layers.fit_head(torch.nn.Identity(), [(each, target, lengths)], structure, l2=L2, solver="lbfgs")
        for each in (activations, dirty, activations.bfloat16())
    )
    assert first.certificate.primal == second.certificate.primal
    assert half.certificate.primal == pytest.approx(first.certificate.primal, rel=0.05)


def test_badly_scaled_activations_are_certified_too() -> None:
    random = torch.Generator().manual_seed(0)
    scales = 10.0 ** torch.linspace(-2, 3, 12)
    activations = torch.randn(60, 8, 12, generator=random) * scales + scales
    target = (activations[:, :, 3] + activations[:, :, 9] > scales[3]).long()
    plain = gather(torch.nn.Identity(), [(activations, target)], Feed(Chain(2)), True, lambda text: None)
    feed = Feed(Chain(2))
    problem = DeviceProblem.of(
        plain.problem(feed, Loss.of("log"), 1e-2, "hamming", 1), feed, torch.device("cpu")
    )
    solution = solve(problem, LBFGS(), tol=1e-4, max_passes=1000)
    assert solution.converged, solution.why


def test_huge_activations_are_certified_too() -> None:
    random = torch.Generator().manual_seed(0)
    activations = 1e5 * (torch.randn(40, 10, 5, generator=random) + 1.0)
    target = torch.randint(3, (40, 10), generator=random)
    head = layers.fit_head(torch.nn.Identity(), [(activations, target)], Chain(3))
    assert head.converged, head.why


NODE = torch.zeros(2, 4, 3)
TARGET = torch.zeros(2, 4, dtype=torch.long)


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ([], "no batches"),
        ([NODE], "must give"),
        ([(NODE, TARGET, torch.tensor([5, 1]))], "lengths holds 5"),
        ([(NODE * torch.nan, TARGET)], "batch 0: activations of a node contain NaN"),
        ([(NODE, TARGET), (torch.zeros(2, 4, 2), TARGET)], "batch 1: there are 2 activations"),
        ([(NODE, TARGET + 3)], "label 3"),
        ([(NODE, TARGET[:, :2])], "target"),
        ([(NODE.long(), TARGET)], "floating"),
        ([(NODE[0], TARGET)], "expected"),
        ([(NODE[:, :, :0], TARGET)], "expected"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(loader: list, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        layers.fit_head(torch.nn.Identity(), loader, Chain(3), bias=False)
    assert "\n" not in str(error.value)


def test_settings_and_structures_that_do_not_fit() -> None:
    loader = [(NODE, TARGET)]
    for options in (
        {"l2": 0.0}, {"tol": -1.0}, {"loss": "square"}, {"solver": "newton"}, {"device": "no such"},
    ):  # fmt: skip
        with pytest.raises(InputError):
            layers.fit_head(torch.nn.Identity(), loader, Chain(3), **options)
    for structure in (Graph(), Chain(3, order=2), Chain(3, tied=False)):
        with pytest.raises(InputError):
            layers.fit_head(torch.nn.Identity(), loader, structure)
    unary = Grammar(3, RULES, unaries=[(0, 1)])
    spans = (torch.zeros(1, 2, 3), torch.zeros(1, 2, 2, 3))
    tree = layers.sample(unary, torch.zeros(1, 2, 3), torch.zeros(unary.n_rules))[0]
    with pytest.raises(InputError, match="unary"):
        layers.fit_head(PassThrough(), [(spans, tree)], unary)


def test_a_run_that_ends_early_says_so_and_its_gap_holds() -> None:
    from sklearn.exceptions import ConvergenceWarning

    structure, activations, lengths, target = case("chain")
    loader = [(tuple(activations), target, lengths)]
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        early = layers.fit_head(
            PassThrough(), loader, structure, l2=L2, solver="lbfgs", max_passes=2, tol=1e-9
        )
    full = layers.fit_head(PassThrough(), loader, structure, l2=L2, solver="lbfgs", tol=1e-6)
    assert not early.converged and early.certificate.dual <= full.certificate.primal
    assert early.certificate.primal >= full.certificate.dual and early.certificate.relative_gap > 1e-9


def test_heads_are_copied_and_saved_like_any_module(tmp_path: object) -> None:
    structure, activations, lengths, target = case("chain")
    head = layers.fit_head(
        PassThrough(), [(tuple(activations), target, lengths)], structure, l2=L2, solver="lbfgs"
    )
    torch.save(head, tmp_path / "head.pt")
    copies = copy.deepcopy(head), torch.load(tmp_path / "head.pt", weights_only=False)
    for each in copies:
        assert torch.equal(
            each.argmax(*activations, lengths=lengths), head.argmax(*activations, lengths=lengths)
        )
        assert each.certificate.primal == head.certificate.primal


def test_progress_is_told_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from partwise.torch import head

    structure, activations, lengths, target = case("chain")
    loader = [(tuple(activations), target, lengths)]
    layers.fit_head(PassThrough(), loader, structure, solver="lbfgs", verbose=True)
    assert "pass" not in capsys.readouterr().err
    monkeypatch.setattr(head, "_SILENCE", 0.0)
    layers.fit_head(PassThrough(), loader, structure, solver="lbfgs", verbose=True)
    told = capsys.readouterr().err
    assert "activations of 6 examples" in told and "relative gap" in told
    layers.fit_head(PassThrough(), loader, structure, solver="lbfgs", verbose=False)
    assert not capsys.readouterr().err
