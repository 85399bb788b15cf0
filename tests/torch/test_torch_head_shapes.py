"""Certified last layers of networks of many shapes; bounds are computed anew, by PyTorch and dense algebra alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Multiclass  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def require_bounds_of_classes(head: object, rows: object, target: object, l2: float) -> None:
    """P at the head's own weights, and D at the distributions that these give, for the log loss of classes:
    D(μ) = Σ_i H(μ_i) − ‖Σ_i x_i (y_i − μ_i)ᵀ‖² / (2 l2), a lower bound for any μ."""
    x = torch.hstack([rows.double(), torch.ones(len(rows), 1, dtype=torch.float64)])
    table = torch.from_numpy(head.weights).view(x.shape[1], -1)[:, : head.structure.n_labels]
    scores, y = x @ table, torch.nn.functional.one_hot(target, head.structure.n_labels).double()
    log_mu = torch.log_softmax(scores, 1)
    primal = -(log_mu * y).sum() + 0.5 * l2 * table.square().sum()
    mu = log_mu.exp()
    dual = -(mu * log_mu).sum() - (x.T @ (y - mu)).square().sum() / (2.0 * l2)
    assert head.certificate.primal == pytest.approx(primal.item(), rel=1e-6)
    assert dual.item() <= head.certificate.primal * (1 + 1e-9)
    assert head.certificate.dual <= primal.item() * (1 + 1e-9)
    assert primal.item() - head.certificate.dual <= 1.01 * 1e-3 * abs(primal.item())


class SmallCNN(torch.nn.Module):
    """Images (B, 1, 8, 8) to activations (B, 12); dropout would make every pass another problem."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.AvgPool2d(3),
            torch.nn.Flatten(), torch.nn.Dropout(0.5),
        )  # fmt: skip
        self.last = torch.nn.Linear(12, 4)

    def forward(self, images: object) -> object:
        return self.last(self.layers(images))


def images() -> tuple:
    random = torch.Generator().manual_seed(0)
    return torch.randn(40, 1, 8, 8, generator=random), torch.randint(4, (40,), generator=random)


def test_classes_of_images_and_a_network_in_training() -> None:
    torch.manual_seed(0)
    network, (pixels, target) = SmallCNN().train(), images()
    network.layers[1].eval()  # somebody's choice
    modes = [each.training for each in network.modules()]
    running = network.layers[1].running_mean.clone()
    loader = ((pixels[k : k + 16], target[k : k + 16]) for k in range(0, 40, 16))  # a generator
    head = layers.fit_head(network.layers, loader, Multiclass(4), l2=0.3)
    assert head.converged and [each.training for each in network.modules()] == modes
    assert torch.equal(network.layers[1].running_mean, running)
    with torch.no_grad():
        rows = network.layers.eval()(pixels)
    require_bounds_of_classes(head, rows, target, 0.3)
    head.load_into(network.last)
    assert torch.equal(network.eval()(pixels).argmax(1), head.argmax(rows))


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_badly_scaled_columns(loss: str) -> None:
    """Scales of 1e-3 to 1e3 side by side."""
    random = torch.Generator().manual_seed(1)
    rows = torch.randn(150, 9, generator=random) * 10.0 ** torch.linspace(-3, 3, 9)
    target = (rows[:, 8] / 1e3 + rows[:, 4] + torch.randn(150, generator=random) > 0).long()
    head = layers.fit_head(torch.nn.Identity(), [(rows, target)], Multiclass(2), loss, l2=1.0)
    assert head.converged, head.why
    if loss == "log":
        require_bounds_of_classes(head, rows, target, 1.0)


@pytest.mark.parametrize(("n", "width"), [(5, 300), (1, 3), (1, 1)])
def test_more_features_than_examples_and_a_single_example(n: int, width: int) -> None:
    random = torch.Generator().manual_seed(2)
    rows, target = torch.randn(n, width, generator=random), torch.randint(3, (n,), generator=random)
    head = layers.fit_head(torch.nn.Identity(), [(rows, target)], Multiclass(3), l2=0.5)
    assert head.converged
    require_bounds_of_classes(head, rows, target, 0.5)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_bounds_of_a_chain_by_enumeration(loss: str) -> None:
    """All labellings of three positions: P and D of the solver's own weights without any of the package's sums."""
    random = torch.Generator().manual_seed(3)
    n, length, width, n_labels, l2, tol = 6, 3, 4, 2, 0.4, 1e-4
    rows = torch.randn(n, length, width, generator=random)
    target = torch.randint(n_labels, (n, length), generator=random)
    head = layers.fit_head(
        torch.nn.Identity(), [(rows, target)], Chain(n_labels), loss, l2, bias=False, tol=tol, max_passes=5000
    )
    everything = torch.tensor(list(itertools.product(range(n_labels), repeat=length)))
    hot = torch.nn.functional.one_hot(everything, n_labels).double()  # (Y, T, L)
    pairs = torch.einsum("yti,ytj->yij", hot[:, :-1], hot[:, 1:])
    own = torch.einsum("btd,ytl->bydl", rows.double(), hot).reshape(n, len(hot), -1)
    features = torch.cat([own, pairs.reshape(1, len(hot), -1).expand(n, -1, -1)], 2)
    weights = torch.cat([head.linear["node"].weight.T.reshape(-1), head.shared["transition"].reshape(-1)])
    weights = weights.detach().double()
    cost = (everything[None] != target[:, None]).sum(2).double()
    true = cost.argmin(1)  # cost 0
    scores = features @ weights
    margins = scores - scores.gather(1, true[:, None])
    losses = torch.logsumexp(margins, 1) if loss == "log" else (margins + cost).amax(1)
    primal = losses.sum() + 0.5 * l2 * weights.square().sum()
    assert head.certificate.primal == pytest.approx(primal.item(), rel=1e-5)
    # No weights have a smaller P than D says: try those of many directions from here.
    assert head.converged and head.certificate.dual <= primal.item()
    for _ in range(200):
        moved = weights + 0.05 * torch.randn(len(weights), generator=random, dtype=torch.float64)
        scores = features @ moved
        margins = scores - scores.gather(1, true[:, None])
        losses = torch.logsumexp(margins, 1) if loss == "log" else (margins + cost).amax(1)
        assert losses.sum() + 0.5 * l2 * moved.square().sum() >= head.certificate.dual


@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, np.int16, list])
def test_targets_of_any_whole_type_and_loaders_that_are_read_once(kind: object) -> None:
    rows = torch.randn(12, 3, generator=torch.Generator().manual_seed(4))
    target = torch.arange(12) % 3
    told = (
        target.tolist()
        if kind is list
        else target.numpy().astype(kind)
        if kind is np.int16
        else target.to(kind)
    )
    head = layers.fit_head(torch.nn.Identity(), iter([(rows, told)]), Multiclass(3), l2=1.0)
    require_bounds_of_classes(head, rows, target, 1.0)
    with pytest.raises(InputError, match="whole numbers"):
        layers.fit_head(torch.nn.Identity(), [(rows, target.double())], Multiclass(3))


def test_weights_shared_with_the_network_stay_as_they_are() -> None:
    """An embedding tied to the last layer: fitting reads it, loading writes both."""
    embedding = torch.nn.Embedding(5, 4)
    last = torch.nn.Linear(4, 5, bias=False)
    last.weight = embedding.weight
    before = embedding.weight.detach().clone()
    words = torch.arange(5).repeat(4)
    head = layers.fit_head(embedding, [(words, (words + 1) % 5)], Multiclass(5), bias=False, l2=0.1)
    assert torch.equal(embedding.weight, before) and embedding.weight.grad is None
    head.load_into(last)
    assert torch.equal(embedding.weight, head.linear[next(iter(head.linear))].weight)


def test_a_state_dict_restores_a_head() -> None:
    rows, target = torch.randn(10, 3, generator=torch.Generator().manual_seed(5)), torch.arange(10) % 2
    one, other = (
        layers.fit_head(torch.nn.Identity(), [(rows, target)], Multiclass(2), l2=l2) for l2 in (1.0, 5.0)
    )
    assert not torch.equal(one(rows)[0], other(rows)[0])
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(rows)[0], other(rows)[0])
