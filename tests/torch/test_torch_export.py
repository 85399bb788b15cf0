"""Trained models as modules: the same answers, and weights that can be trained on."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

import partwise.torch as layers  # noqa: E402
from partwise import Classifier, DependencyParser, InputError, SegmentLabeler, SequenceLabeler  # noqa: E402
from partwise.data import corpus_from_sentences  # noqa: E402

RANDOM = np.random.default_rng(0)
WORDS = [[f"w{RANDOM.integers(30)}" for _ in range(RANDOM.integers(1, 7))] for _ in range(40)]
SEQUENCES = [[{"word": word, "size": 0.1 * len(word)} for word in each] for each in WORDS]
LABELS = [[f"B-{int(word[1:]) % 3}" for word in each] for each in WORDS]


def trees(n: int, seed: int) -> object:
    random = np.random.default_rng(seed)
    forms, tags, heads, relations = [], [], [], []
    for _ in range(n):
        length = int(random.integers(1, 8))
        own = random.integers(4, size=length)
        forms.append([f"f{k}" for k in own])
        tags.append([f"T{k}" for k in own])
        root = int(random.integers(length)) + 1
        heads.append([0 if i + 1 == root else root for i in range(length)])
        relations.append(
            [("root" if h == 0 else ("left", "right")[h < i + 1]) for i, h in enumerate(heads[-1])]
        )
    return corpus_from_sentences(forms, fine_tags=tags, heads=heads, relations=relations)


@pytest.mark.parametrize("options", [{}, {"loss": "hinge"}, {"transitions": "observed"}])
def test_sequence_labelers(options: dict) -> None:
    model = SequenceLabeler(l2=0.3, tol=1e-2, **options).fit(SEQUENCES, LABELS)
    module = layers.to_module(model)
    unseen = [*SEQUENCES[:7], [], [{"word": "never seen"}, {"other": 1.0}]]
    assert module.predict(unseen) == model.predict(unseen)
    if not options:
        features = module.encode(SEQUENCES)
        node = module.marginals(features)[0].detach()
        for own, expected in zip(node, model.predict_marginals_array(SEQUENCES), strict=True):
            np.testing.assert_allclose(own[: len(expected)].numpy(), expected, atol=1e-10)


def test_sequences_without_positions() -> None:
    model = SequenceLabeler(l2=0.1).fit([[{"w": "a"}, {"w": "b"}], [{"w": "a"}]], [["x", "y"], ["x"]])
    module = layers.to_module(model)
    for given in ([], [[]], [[], [{"w": "b"}], []]):
        assert module.predict(given) == model.predict(given)
    with pytest.raises(InputError, match="no example with a position"):
        module.encode([[]])


def test_features_of_pairs_of_labels() -> None:
    columns = [[(word,) for word in each] for each in WORDS]
    template = "U00:%x[0,0]\nB00:%x[0,0]"
    model = SequenceLabeler(l2=0.3, tol=1e-2, template=template).fit(columns, LABELS)
    module = layers.to_module(model)
    assert not module.structure.tied and module.predict(columns) == model.predict(columns)


def test_dense_inputs() -> None:
    rows = [RANDOM.standard_normal((int(RANDOM.integers(1, 6)), 4)) for _ in range(20)]
    labels = [["x" if a > 0 else "y" for a in each[:, 0]] for each in rows]
    model = SequenceLabeler(l2=0.3, tol=1e-2).fit(rows, labels)
    assert layers.to_module(model).predict(rows) == model.predict(rows)


def test_classifiers() -> None:
    X = RANDOM.standard_normal((50, 4))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    model = Classifier(l2=1.0, tol=1e-2).fit(X, y)
    module = layers.to_module(model)
    assert np.array_equal(module.predict(X), model.predict(X))
    np.testing.assert_allclose(module.dense["node"].weight.detach().numpy(), model.coef_)
    first, labels = [each[0] for each in SEQUENCES], [each[0] for each in LABELS]
    model = Classifier(l2=1.0, tol=1e-2).fit(first, labels)
    assert np.array_equal(layers.to_module(model).predict(first), model.predict(first))


@pytest.mark.parametrize("options", [{}, {"labelled": False, "structure": "spanning"}, {"prune": 2}])
def test_parsers(options: dict) -> None:
    model = DependencyParser(l2=0.1, tol=1e-2, **options).fit(trees(30, 1))
    unseen = trees(12, 2)
    found, expected = layers.to_module(model).predict(unseen), model.predict(unseen)
    assert len(found) == len(expected) == 12
    for one, other in zip(found, expected, strict=True):
        heads = (one, other) if isinstance(other, np.ndarray) else (one.heads, other.heads)
        assert np.array_equal(*heads)
        assert isinstance(other, np.ndarray) or list(one.relations) == list(other.relations)


def test_training_goes_on_where_the_model_ended() -> None:
    model = SequenceLabeler(l2=1.0, tol=1e-4).fit(SEQUENCES, LABELS)
    module = layers.to_module(model)
    features = module.encode(SEQUENCES)
    codes = {label: k for k, label in enumerate(model.classes_.tolist())}
    target = torch.full((len(LABELS), max(map(len, LABELS))), -1)
    for i, own in enumerate(LABELS):
        target[i, : len(own)] = torch.tensor([codes[label] for label in own])
    loss = module.loss(features, target)
    penalty = 0.5 * sum((each**2).sum() for each in module.parameters())
    assert (loss + penalty).item() == pytest.approx(model.objective_, rel=1e-5)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        module.loss(features, target).backward()
        optimizer.step()
    assert module.loss(features, target).item() < loss.item()
    again = layers.to_module(model)
    again.load_state_dict(module.state_dict())
    assert again.predict(SEQUENCES) == module.predict(SEQUENCES)


def test_what_no_module_can_be_made_of() -> None:
    with pytest.raises(InputError, match="SegmentLabeler"):
        layers.to_module(SegmentLabeler())
    with pytest.raises(InputError, match="order 1"):
        layers.to_module(SequenceLabeler(order=2, tol=0.1).fit(SEQUENCES[:5], LABELS[:5]))
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        layers.to_module(SequenceLabeler())
    module = layers.to_module(SequenceLabeler(tol=0.1).fit(SEQUENCES[:5], LABELS[:5]))
    with pytest.raises(InputError, match="no example"):
        module.encode([[]])
