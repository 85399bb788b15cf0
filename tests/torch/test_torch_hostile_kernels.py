"""Kernels for GPUs under hostile scores, against compiled code on the CPU: by Triton's interpreter, or on a GPU where
there is one. The interpreter runs the same source, and not the code that a card would run."""

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
from partwise.errors import InputError  # noqa: E402
from partwise.structures import Chain, Grammar, Multiclass, Projective, SemiMarkov, Spanning  # noqa: E402
from partwise.torch import functions, sums  # noqa: E402
from partwise.torch.gpu import kernels_for, ranking_for  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HUGE = 2.0**40  # about 1e12; sums of a few are exact, so that ties stay ties
B, T = 4, 4
LENGTHS = [4, 1, 3, 2]
MASKS: dict[str, Any] = {
    "allowed": [[1, 1, 0], [1, 0, 1], [1, 1, 1]],
    "allowed_start": [1, 0, 1],
    "allowed_end": [1, 1, 0],
}
RULES = [(0, 0, 1), (0, 1, 2), (1, 2, 2), (0, 0, 0), (2, 1, 1)]
WIDE = 130  # labels of a chain whose kernels keep no row in registers

STRUCTURES: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "classes": (Multiclass(4), [(B, 4)]),
    "one class": (Multiclass(1), [(B, 1)]),
    "chain": (Chain(3), [(B, T, 3), (3, 3)]),
    "chain, own edges": (Chain(3), [(B, T, 3), (B, T - 1, 3, 3)]),
    "masked chain": (Chain(3, **MASKS), [(B, T, 3), (3, 3)]),
    "one label": (Chain(1), [(B, T, 1), (1, 1)]),
    "wide chain": (Chain(WIDE), [(2, 3, WIDE), (WIDE, WIDE)]),
    "wide chain, own edges": (Chain(WIDE), [(2, 3, WIDE), (2, 2, WIDE, WIDE)]),
    "projective": (Projective(single_root=False), [(B, T + 1, T + 1)]),
    "projective, one root": (Projective(n_relations=2), [(B, T + 1, T + 1), (B, T + 1, T + 1, 2)]),
    "spanning": (Spanning(single_root=False), [(B, T + 1, T + 1)]),
    "spanning, one root": (Spanning(n_relations=2), [(B, T + 1, T + 1), (B, T + 1, T + 1, 2)]),
    "segments": (SemiMarkov(3, [1, 3, 2], **MASKS), [(B, T, 3, 3), (3, 3)]),
    "long segments": (SemiMarkov(2, 20), [(B, T, 20, 2), (B, 2, 2)]),
    "grammar": (Grammar(3, RULES), [(B, T, 3), (5,)]),
    "grammar, spans": (
        Grammar(3, RULES, unaries=[(0, 1), (1, 2)]),
        [(B, T, 3), (B, 7), (B, T, T, 3)],
    ),
}
# What scores are drawn from.
SCORES = {
    "huge": [-HUGE, 0.0, HUGE],
    "huge and small": [-HUGE, -1.0, 0.0, 2.0, HUGE],
    "far apart": [-900.0, -40.0, 0.0, 40.0, 900.0],
    "ties": [0.0],
    "half impossible": [-np.inf, 0.0, 1.0, -2.0],
    "nearly all impossible": [-np.inf, -np.inf, -np.inf, -np.inf, 3.0],
    "impossible and huge": [-np.inf, -HUGE, HUGE],
    "all impossible": [-np.inf],
    "tiny": [5e-39, -5e-39, 0.0],
}
FAST = {("chain", "huge"), ("spanning", "ties"), ("segments", "impossible and huge"), ("grammar", "far apart"),
        ("projective", "half impossible"), ("wide chain", "nearly all impossible"), ("classes", "all impossible"),
        ("one label", "half impossible"), ("chain, own edges", "impossible and huge")}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def drawn(name: str, kind: str, dtype: Any, seed: int) -> tuple[Any, list[Any], Any]:
    structure, shapes = STRUCTURES[name]
    random = np.random.default_rng([seed, list(STRUCTURES).index(name), list(SCORES).index(kind)])
    scores = [torch.from_numpy(random.choice(SCORES[kind], shape)).to(dtype) for shape in shapes]
    if isinstance(structure, Multiclass):
        return structure, scores, None
    lengths = LENGTHS if len(scores[0]) == B else [3, 1]
    return structure, scores, torch.tensor(lengths)


def with_kernels(patch: pytest.MonkeyPatch) -> list[Any]:
    """Batches go to the kernels, also where there is no device. Returns the list of the kernels asked from now on."""
    used: list[Any] = []

    def kernels(batch: Any) -> Any:
        used.append(kernels_for(batch))
        return used[-1]

    for module in (functions, sums):
        patch.setattr(module, "device_kernels", kernels)
    patch.setattr(functions, "device_ranking", ranking_for)
    return used


def listed(found: Any) -> list[Any]:
    return [found] if isinstance(found, torch.Tensor) else list(found)


def answers(structure: Any, scores: list[Any], lengths: Any) -> dict[str, Any]:
    """All that can be asked; an error is an answer too."""
    found: dict[str, Any] = {}
    options = {} if lengths is None else {"lengths": lengths}
    given = [each.detach().clone().requires_grad_() for each in scores]

    def gradients() -> list[Any]:
        value = layers.log_partition(structure, *given, **options)
        finite = torch.isfinite(value)
        return [value.detach(), *torch.autograd.grad(value[finite].sum(), given, allow_unused=True)]

    def best() -> list[Any]:
        value = layers.max_score(structure, *given, **options)
        return [value.detach()]

    asked = {
        "sums": gradients,
        "marginals": lambda: listed(layers.marginals(structure, *scores, **options)),
        "best": best,
        "labels": lambda: listed(layers.argmax(structure, *scores, **options)),
    }
    if isinstance(structure, (Multiclass, Chain, SemiMarkov)):  # compiled code draws the others
        asked["drawn"] = lambda: layers.sample(
            structure, *scores, n_samples=2, generator=torch.Generator(), **options
        )
    if isinstance(structure, Chain):
        asked["k best"] = lambda: [
            torch.tensor([value for _, value in own], dtype=torch.float64)
            for own in layers.kbest(structure, *scores, k=4, **options)
        ]
    for name, ask in asked.items():
        try:
            found[name] = [each.cpu() if isinstance(each, torch.Tensor) else each for each in ask()]
        except InputError as error:
            found[name] = str(error)
    return found


def require_equal(name: str, found: Any, expected: Any, near: float) -> None:
    """Equal answers, or errors both. Probabilities are differences of logarithms, so they may be wrong by the rounding
    of the largest logarithm: `near`."""
    if isinstance(expected, str) or isinstance(found, str):
        assert type(found) is type(expected), f"{name}: {found}"  # errors name the example in their own words
        return
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.dtype == other.dtype and one.shape == other.shape, name
        is_value = name in ("best", "k best") or (name == "sums" and k == 0)
        precision = 1e-9 if one.dtype == torch.float64 else 2e-5
        if is_value:
            torch.testing.assert_close(one, other, rtol=precision, atol=precision)
        else:
            assert bool((one >= 0.0).all())
            torch.testing.assert_close(one, other, rtol=near, atol=near)


def require_best(structure: Any, scores: list[Any], labels: Any, value: Any, lengths: Any) -> None:
    """Labels may differ where labellings tie, so their score is compared."""
    if isinstance(labels, str):
        return
    target = labels if isinstance(structure, Grammar) else labels[0] if len(labels) == 1 else tuple(labels)
    options = {} if lengths is None else {"lengths": lengths}
    own = layers.StructuredLoss(structure, "perceptron", reduction="none")(*scores, target=target, **options)
    near = torch.zeros_like(own)
    size = 1.0 + value[0].abs()
    torch.testing.assert_close(own / size, near, rtol=0.0, atol=1e-5 if own.dtype == torch.float32 else 1e-9)


def compare(
    structure: Any,
    scores: list[Any],
    lengths: Any,
    monkeypatch: pytest.MonkeyPatch,
    plain: list[Any] | None = None,
) -> None:
    """Kernels on `scores` give what compiled code gives on `plain`, by default the same scores."""
    plain = scores if plain is None else plain
    expected = answers(structure, plain, lengths)
    there = None if lengths is None else lengths.to(DEVICE)
    with monkeypatch.context() as patch:
        used = with_kernels(patch)
        found = answers(structure, [each.to(DEVICE) for each in scores], there)
    assert not len(scores[0]) or (used and None not in used)
    best = expected["best"][0] if not isinstance(expected["best"], str) else torch.zeros(0)
    largest = best[torch.isfinite(best)].abs().max().item() if torch.isfinite(best).any() else 1.0
    near = 1e-9 if scores[0].dtype == torch.float64 else 2e-5
    near += 8 * torch.finfo(scores[0].dtype).eps * largest
    for name in ("sums", "marginals", "best", *(["k best"] if "k best" in expected else [])):
        require_equal(name, found[name], expected[name], near)
    assert isinstance(found["labels"], str) == isinstance(expected["labels"], str)
    if isinstance(found["labels"], str):
        assert found["labels"] == expected["labels"]
    elif len(plain[0]):
        require_best(structure, plain, found["labels"], expected["best"], lengths)
    if "drawn" in found:
        assert isinstance(found["drawn"], str) == isinstance(expected["drawn"], str)


def cases() -> list[Any]:
    return [
        pytest.param(name, kind, dtype, id=f"{name}: {kind}, {dtype}", marks=marks)
        for name in STRUCTURES
        for kind in SCORES
        for dtype in (torch.float64, torch.float32)
        for marks in [() if (name, kind) in FAST and dtype == torch.float64 else pytest.mark.hostile]
    ]


@pytest.mark.parametrize(("name", "kind", "dtype"), cases())
def test_hostile_scores(name: str, kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(*drawn(name, kind, dtype, 1), monkeypatch)


def behind_lengths(name: str, scores: list[Any], lengths: Any) -> Any:
    """Masks of the scores that no labelling of these lengths has."""
    trees = "projective" in name or "spanning" in name
    for k, each in enumerate(scores):
        mask = torch.zeros(each.shape, dtype=torch.bool)
        for i, n in enumerate(lengths.tolist()):
            if each.ndim < 3 or ("segments" in name and k == 1):
                continue  # the same at all positions
            if trees:
                mask[i, n + 1 :], mask[i, :, n + 1 :] = True, True
            elif "grammar" in name:
                mask[i, n:] = True
                if k == 2:
                    mask[i, :, n:] = True
            else:
                mask[i, n if k == 0 else n - 1 :] = True
        yield mask


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=() if name in ("chain", "spanning, one root", "grammar") else pytest.mark.hostile
        )
        for name in STRUCTURES
        if "class" not in name
    ],
)
def test_nothing_is_read_behind_lengths(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    structure, scores, lengths = drawn(name, "huge and small", torch.float64, 2)
    scores = [torch.where(each.abs() < HUGE, each, 0.5) for each in scores]
    masks = list(behind_lengths(name, scores, lengths))
    assert any(bool(mask.any()) for mask in masks)
    nan = [torch.where(mask, torch.nan, each) for each, mask in zip(scores, masks, strict=True)]
    compare(structure, nan, lengths, monkeypatch, scores)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "segments" else pytest.mark.hostile) for name in STRUCTURES],
)
def test_memory_of_any_layout_and_batches_of_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    structure, scores, lengths = drawn(name, "far apart", torch.float64, 3)
    turned = [each.transpose(0, -1).contiguous().transpose(0, -1) for each in scores]
    compare(structure, turned, lengths, monkeypatch, scores)
    strided = [torch.stack([each, each + 1], -1)[..., 0] for each in scores]
    compare(structure, strided, lengths, monkeypatch, scores)
    none = [each[:0] if each.ndim > 2 or len(scores) == 1 else each for each in scores]
    compare(structure, none, None if lengths is None else lengths[:0], monkeypatch)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("structure", "shapes"),
    [
        (Multiclass(300_000), [(2, 300_000)]),
        (Chain(1500), [(2, 2, 1500), (1500, 1500)]),
        (SemiMarkov(400, 2), [(2, 3, 2, 400), (400, 400)]),
        (Spanning(n_relations=2000), [(2, 4, 4), (2, 4, 4, 2000)]),
        (Chain(5), [(1, 600, 5), (5, 5)]),
        (Projective(), [(1, 60, 60)]),
        (Spanning(), [(1, 60, 60)]),
    ],
    ids=repr,
)
def test_sizes(structure: Any, shapes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    for dtype in (torch.float64, torch.float32):
        scores = [torch.from_numpy(3.0 * random.standard_normal(shape)).to(dtype) for shape in shapes]
        compare(structure, scores, None, monkeypatch)
