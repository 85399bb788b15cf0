"""Last layers whose sums are computed by the kernels: on a GPU where there is one, or by Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

import partwise.torch as layers  # noqa: E402
from partwise.core.losses import Loss  # noqa: E402
from partwise.solvers.base import evaluate_model  # noqa: E402
from partwise.structures import Chain, Grammar, Multiclass, Projective, SemiMarkov, Spanning  # noqa: E402
from partwise.torch import sums  # noqa: E402
from partwise.torch.activations import gather  # noqa: E402
from partwise.torch.device_problem import DeviceProblem  # noqa: E402
from partwise.torch.gpu import kernels_for  # noqa: E402
from partwise.torch.rows import Feed  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS = torch.tensor([4, 2, 1, 3])
STRUCTURES = [
    Multiclass(4),
    Chain(3),
    Chain(3, allowed=[[1, 1, 0], [1, 1, 1], [0, 1, 1]], allowed_start=[1, 1, 0]),
    Chain(3, tied=False),
    Projective(),
    Spanning(n_relations=2),
    SemiMarkov(3, [2, 1, 3], allowed_end=[1, 1, 0]),
    Grammar(3, [(0, 0, 1), (0, 1, 2), (1, 2, 2), (0, 0, 0), (2, 1, 1)]),
]


class PassThrough(torch.nn.Module):
    def forward(self, *activations: Any) -> Any:
        return activations


def loader_of(structure: Any) -> tuple[Any, Feed]:
    random, feed = torch.Generator().manual_seed(1), Feed(structure)
    sizes = feed.sizes(len(LENGTHS), 4)
    scores, activations = [], []
    for each, size in zip(feed.tensors, sizes, strict=True):
        scores.append(torch.randn(each.tail if each.tied else size, generator=random))
        if not each.tied:
            activations.append(torch.randn(*size[: len(size) - len(each.tail)], 5, generator=random))
    lengths = () if isinstance(structure, Multiclass) else (LENGTHS,)
    target = layers.sample(structure, *scores, lengths=lengths[0] if lengths else None, generator=random)[0]
    inputs = tuple(each.to(DEVICE) for each in activations)
    return [(inputs, target, *lengths)], feed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
@pytest.mark.parametrize("loss", ["softmax_margin", "hinge"])
def test_sums_by_kernels_are_those_of_the_host(
    structure: Any, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "device_kernels", kernels_for)  # also where there is no device
    loader, feed = loader_of(structure)
    found = gather(PassThrough(), loader, feed, True, lambda text: None)
    plain = found.problem(feed, Loss.of(loss), 0.5, "hamming", 1)
    on_device = DeviceProblem.of(plain, feed, torch.device(DEVICE))
    weights = np.random.default_rng(0).standard_normal(plain.n_weights)
    one, other = evaluate_model(plain, weights), evaluate_model(on_device, weights)
    for field in ("entropy", "cost", "log_total", "gold"):
        np.testing.assert_allclose(getattr(other, field), getattr(one, field), rtol=1e-9, atol=1e-9)
    for kind in plain.scorer.kinds:  # what lies in the padding of a row of weights is nobody's
        own = slice(kind.first_weight, kind.first_weight + kind.n_weights)
        for v in (one.v, other.v):
            v[own].reshape(-1, kind.stride)[:, kind.width :] = 0.0
    np.testing.assert_allclose(other.v, one.v, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no GPU")
def test_a_head_on_a_gpu_is_certified_there() -> None:
    loader, _ = loader_of(STRUCTURES[0])
    for loss, solver, where in (
        ("log", "auto", "cuda"),
        ("hinge", "auto", "cuda"),
        ("hinge", "bmrm", "cuda"),
    ):
        head = layers.fit_head(PassThrough(), loader, STRUCTURES[0], loss, 0.5, solver=solver, tol=1e-2)
        host = layers.fit_head(PassThrough(), loader, STRUCTURES[0], loss, 0.5, device="cpu", tol=1e-2)
        assert head.converged and head.device.startswith(where) and host.device == "cpu"
        assert head.certificate.dual <= host.certificate.primal
        assert host.certificate.dual <= head.certificate.primal
        inputs = loader[0][0]
        assert head.argmax(*inputs, lengths=LENGTHS.to(DEVICE)).device.type == "cuda"
