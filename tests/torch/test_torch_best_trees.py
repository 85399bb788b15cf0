"""Best trees by kernels for GPUs against compiled code: by Triton's interpreter, or on a GPU where there is one."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="kernels need Triton")

from partwise.errors import InputError  # noqa: E402
from partwise.structures import Projective, Spanning  # noqa: E402
from partwise.torch import functions  # noqa: E402
from partwise.torch.gpu import trees  # noqa: E402
from partwise.torch.layouts.trees import TreeLayout  # noqa: E402
from partwise.torch.sums import host_answer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = {torch.float64: 1e-10, torch.float32: 1e-5}


def scores_of(seed: int, dtype: object, size: float, n_relations: int, n_words: int, gaps: float) -> list:
    """Three sentences; a share `gaps` of the arcs cannot be."""
    random = torch.Generator().manual_seed(seed)
    shape = 3, n_words + 1, n_words + 1
    arcs = size * torch.randn(*shape, generator=random, dtype=dtype)
    arcs[torch.rand(*shape, generator=random) < gaps] = -torch.inf
    more = (
        [] if n_relations == 1 else [size * torch.randn(*shape, n_relations, generator=random, dtype=dtype)]
    )
    return [arcs, *more]


def require_trees(heads: object, lengths: list[int], possible: list[bool], single_root: bool) -> None:
    """Every word's heads lead to the root, by one word only where that is asked for; −1 in the padding."""
    for own, n, can_be in zip(heads.tolist(), lengths, possible, strict=True):
        assert own[n:] == [-1] * (len(own) - n)
        if not can_be:
            continue
        assert not single_root or own[:n].count(0) == 1
        for word in range(1, n + 1):
            above = word
            for _ in range(n):
                above = own[above - 1] if above else 0
            assert above == 0, own


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [Projective, Spanning])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size", "n_relations", "n_words", "gaps"),
    [
        (torch.float64, 1.0, 1, 8, 0.0),
        (torch.float64, 1e4, 2, 5, 0.0),
        (torch.float32, 3.0, 2, 6, 0.3),
        (torch.float64, 0.0, 1, 4, 0.6),  # ties, and sentences without a tree
        (torch.float32, 1.0, 1, 1, 0.0),
    ],
)
def test_best_trees(
    kind: type, single_root: bool, dtype: object, size: float, n_relations: int, n_words: int, gaps: float
) -> None:
    structure = kind(single_root=single_root, n_relations=n_relations)
    for seed, lengths in ((1, None), (2, torch.tensor([n_words, max(1, n_words - 2), 1]))):
        scores = scores_of(seed, dtype, size, n_relations, n_words, gaps)
        host = TreeLayout(structure).batch(tuple(scores), lengths, True)
        there = None if lengths is None else lengths.to(DEVICE)
        batch = TreeLayout(structure).batch(tuple(each.to(DEVICE) for each in scores), there, True)
        value, *counts = (each.cpu() for each in trees.best(batch))
        expected = host_answer(host, "best")[0]
        torch.testing.assert_close(value, expected, rtol=NEAR[dtype], atol=NEAR[dtype])
        labels, again = trees.best_labels(batch)
        assert torch.equal(again.cpu(), value)
        possible = (value > -torch.inf).tolist()
        require_trees(
            labels[0] if n_relations > 1 else labels, host.host_lengths().tolist(), possible, single_root
        )
        # The parts counted have that score, and there are none where there is no tree.
        total = sum(
            torch.where(used > 0, own * used, 0.0).flatten(1).sum(1)
            for own, used in zip(scores, counts, strict=True)
        )
        near = torch.where(value > -torch.inf, value, 0.0)
        torch.testing.assert_close(total, near, rtol=NEAR[dtype], atol=NEAR[dtype])
        for used in counts:
            words = torch.where(value > -torch.inf, torch.from_numpy(host.host_lengths()), 0)
            assert torch.equal(used.flatten(1).sum(1), words.to(used.dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_cycles_within_cycles_are_opened_again() -> None:
    """Pairs of words that prefer each other, and pairs of such pairs, and so on: a merging at every level."""
    arcs = torch.randn(1, 17, 17, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    place = torch.arange(16)
    for level in range(4):
        together = (place[:, None] >> (level + 1)) == (place >> (level + 1))
        arcs[0, 1:, 1:][together] += 10.0
    for single_root in (False, True):
        batch = TreeLayout(Spanning(single_root=single_root)).batch((arcs,), None, True)
        value = trees.best(batch._replace(scores=(arcs.to(DEVICE),)))[0].cpu()
        torch.testing.assert_close(value, host_answer(batch, "best")[0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_argmax_asks_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "device_kernels", lambda batch: trees)
    arcs, relations = scores_of(3, torch.float64, 1.0, 3, 4, 0.0)
    lengths = [3, 2, 1]
    for structure in (Projective(n_relations=3), Spanning(n_relations=3, single_root=True)):
        heads, found = functions.argmax(
            structure, arcs.to(DEVICE), relations.to(DEVICE), lengths=torch.tensor(lengths, device=DEVICE)
        )
        assert heads.shape == found.shape == (3, 3)
        for i, n in enumerate(lengths):
            own = arcs[i, : n + 1, : n + 1].numpy(), relations[i, : n + 1, : n + 1].numpy()
            expected = structure.argmax(*own)
            assert heads[i, :n].tolist() == list(expected[0]) and found[i, :n].tolist() == list(expected[1])
    nothing = torch.full((1, 3, 3), -torch.inf, device=DEVICE)
    for structure in (Projective(), Spanning()):
        with pytest.raises(InputError, match="every labelling"):
            functions.argmax(structure, nothing)
