"""The k best label sequences by the kernel for GPUs against compiled code: by Triton's interpreter, or on a GPU."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

import partwise.torch as layers  # noqa: E402
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain  # noqa: E402
from partwise.torch import functions  # noqa: E402
from partwise.torch.gpu import ranked_chains  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MASKS = {"allowed": [[1, 1, 0], [1, 0, 1], [1, 1, 1]], "allowed_start": [1, 0, 1], "allowed_end": [1, 1, 0]}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's way, also where there is none."""
    monkeypatch.setattr(functions, "device_ranking", lambda batch, k: ranked_chains)


def on_host(structure: Chain, scores: list, lengths: list[int], k: int) -> list:
    node, edge = (each.double().cpu().numpy() for each in scores)
    return [
        structure.kbest(node[i, :n], edge if edge.ndim == 2 else edge[i, : n - 1], k=k)
        for i, n in enumerate(lengths)
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("structure", "length", "k", "size", "dtype"),
    [
        (Chain(3), 4, 5, 1.0, torch.float64),
        (Chain(3, **MASKS), 4, 8, 1e4, torch.float64),
        (Chain(2), 3, 32, 3.0, torch.float32),  # more than there are
        (Chain(4), 1, 3, 1.0, torch.float64),
        (Chain(1), 3, 2, 1.0, torch.float64),
        (Chain(17), 2, 6, 0.0, torch.float64),  # ties
        (Chain(3), 5, 1, 1.0, torch.float64),
    ],
)
@pytest.mark.parametrize("own_edges", [False, True])
def test_k_best(structure: Chain, length: int, k: int, size: float, dtype: object, own_edges: bool) -> None:
    random, L = torch.Generator().manual_seed(1), structure.n_labels
    node = size * torch.randn(3, length, L, generator=random, dtype=dtype)
    edge = size * torch.randn(*((3, length - 1) if own_edges else ()), L, L, generator=random, dtype=dtype)
    if L > 2:
        node[0, 0, 0] = -torch.inf
    lengths = [length, max(1, length - 1), 1]
    found = layers.kbest(
        structure, node.to(DEVICE), edge.to(DEVICE), lengths=torch.tensor(lengths, device=DEVICE), k=k
    )
    for own, expected in zip(found, on_host(structure, [node, edge], lengths, k), strict=True):
        near = 1e-9 if dtype == torch.float64 else 1e-4
        np.testing.assert_allclose([each[1] for each in own], [each[1] for each in expected], rtol=near)
        assert len({tuple(labels) for labels, _ in own}) == len(own)
        for (labels, _), (others, _) in zip(own, expected, strict=True):
            assert labels.dtype == others.dtype and labels.shape == others.shape
            assert not size or labels.tolist() == others.tolist()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("kernels")
def test_an_impossible_example_is_refused_by_its_number() -> None:
    node = torch.zeros(2, 2, 3, device=DEVICE)
    node[1, 1] = -torch.inf
    with pytest.raises(InputError, match="sequence 1"):
        layers.kbest(Chain(3), node, torch.zeros(3, 3, device=DEVICE), k=2)
