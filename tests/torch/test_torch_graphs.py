"""Chains within graphs of torch.compile and torch.export: no breaks, and the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise import InputError  # noqa: E402
from partwise.structures import Chain, SemiMarkov  # noqa: E402

NAMES = ["O", "B-A", "I-A", "B-B", "I-B"]
TAGS = torch.tensor([[0, -100, 1, 2, 2, 0], [1, 2, 0, 0, 0, 0], [3, 4, 0, 0, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]).bool()


class Tagger(torch.nn.Module):
    """An encoder, a linear layer and a CRF."""

    def __init__(self, encoder: Any, **options: Any) -> None:
        super().__init__()
        self.encoder, self.linear = encoder, torch.nn.Linear(6, 5)
        self.crf = layers.CRF(5, batch_first=True, **options)

    def scores(self, words: Any) -> Any:
        found = self.encoder(words)
        return self.linear(found[0] if isinstance(found, tuple) else found)

    def forward(self, words: Any, tags: Any, mask: Any) -> Any:
        return -self.crf(self.scores(words), tags, mask, "mean")

    def best(self, words: Any, mask: Any) -> Any:
        return self.crf.decode(self.scores(words), mask, pad_tag=-1)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.compiler.reset()
    torch.manual_seed(0)


def same_as_eager(model: Tagger, words: Any, backend: str) -> None:
    weights = list(model.parameters())
    expected = model(words, TAGS, MASK)
    gradient = torch.autograd.grad(expected, weights)
    found = torch.compile(model, backend=backend, fullgraph=True)(words, TAGS, MASK)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, weights), gradient)
    best = torch.compile(model.best, backend=backend, fullgraph=True)(words, MASK)
    assert torch.equal(best, model.best(words, MASK))


def test_a_bilstm_crf_without_graph_breaks() -> None:
    import torch._dynamo

    if not hasattr(torch._dynamo.config, "allow_rnn"):
        pytest.skip("this PyTorch keeps LSTMs out of graphs")
    model = Tagger(torch.nn.LSTM(4, 3, batch_first=True, bidirectional=True))
    with torch._dynamo.config.patch(allow_rnn=True):
        same_as_eager(model, torch.randn(3, 6, 4), "eager")


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "hinge"}, {"loss": "softmax_margin", "length_average": True}, {"constrain": True}],
)
def test_losses_and_best_labels(options: dict[str, Any]) -> None:
    constrain = options.pop("constrain", False)
    model = Tagger(torch.nn.Linear(4, 6), **options)
    if constrain:
        model.crf.constrain("IOB2", NAMES, training=False)
    same_as_eager(model, torch.randn(3, 6, 4), "aot_eager")


def test_answers_and_derivatives_of_marginals() -> None:
    chain = Chain(3, allowed=torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1]]).bool().numpy())
    scores = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    own = torch.randn(2, 4, 3, 3, dtype=torch.float64)
    lengths, weight = torch.tensor([5, 3]), torch.randn(2, 5, 3, dtype=torch.float64)

    def value(node: Any, edge: Any) -> Any:
        chances = layers.marginals(chain, node, edge, lengths=lengths)[0]
        entropy = layers.entropy(chain, node, edge, lengths=lengths)
        return (
            (chances * weight).sum()
            + entropy.sum()
            + layers.max_score(chain, node, edge, lengths=lengths).sum()
        )

    for edge in (scores[1], own):
        given = [scores[0].requires_grad_(), edge.requires_grad_()]
        compiled = torch.compile(value, backend="aot_eager", fullgraph=True)(*given)
        torch.testing.assert_close(compiled, value(*given))
        found, expected = (torch.autograd.grad(each, given) for each in (compiled, value(*given)))
        torch.testing.assert_close(found, expected)


def test_numbers_are_checked_when_the_graph_runs() -> None:
    def value(node: Any, edge: Any, lengths: Any) -> Any:
        return layers.log_partition(Chain(3), node, edge, lengths=lengths)

    compiled = torch.compile(value, backend="eager", fullgraph=True)
    node, edge = torch.randn(2, 4, 3), torch.zeros(3, 3)
    torch.testing.assert_close(
        compiled(node, edge, torch.tensor([4, 2])), value(node, edge, torch.tensor([4, 2]))
    )
    with pytest.raises(InputError, match="lengths holds 9"):
        compiled(node, edge, torch.tensor([4, 9]))
    node[1, 0, 0] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        compiled(node, edge, torch.tensor([4, 2]))


def test_other_structures_run_between_compiled_pieces() -> None:
    scores = torch.randn(2, 4, 2, 3), torch.zeros(3, 3)

    def value(*given: Any) -> Any:
        return layers.log_partition(SemiMarkov(3, 2), *given)

    torch.testing.assert_close(torch.compile(value, backend="eager")(*scores), value(*scores))


@pytest.mark.parametrize("is_constrained", [True, False])
def test_export(is_constrained: bool) -> None:
    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tagger = Tagger(torch.nn.Linear(4, 6))
            if is_constrained:
                self.tagger.crf.constrain("IOB2", NAMES)

        def forward(self, words: Any, mask: Any) -> Any:
            scores = self.tagger.scores(words)
            return self.tagger.crf.decode(scores, mask, pad_tag=-1), self.tagger.crf.marginals(scores, mask)

    model, words = Decoder(), torch.randn(3, 6, 4)
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=64)}
    exported = torch.export.export(
        model, (words, MASK), dynamic_shapes={"words": sizes, "mask": sizes}, strict=not is_constrained
    )
    for given in ((words, MASK), (torch.randn(2, 9, 4), torch.rand(2, 9) < 0.7)):
        for found, expected in zip(exported.module()(*given), model(*given), strict=True):
            torch.testing.assert_close(found, expected)


def test_operators_are_well_defined() -> None:
    node, edge = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    for given in ((node, edge, None), (node, edge[None].repeat(2, 1, 1), torch.tensor([4, 2]))):
        for name in ("chain_sums", "chain_labels"):
            checks = ("test_schema", "test_faketensor")
            torch.library.opcheck(getattr(torch.ops.partwise, name).default, given, test_utils=checks)
