"""Long chains on two threads: both halves meet in the middle, and answers are those of one pass."""

import numpy as np
import pytest

import partwise.structures.chain.halves as halves
from partwise import InputError, SequenceLabeler
from partwise.structures import Chain

_NEVER = 2**62


def _random_chain(trial, generator):
    """A chain and its scores: with and without masks, one block of edges or many, small to huge scores."""
    length, n_labels = int(generator.integers(4, 30)), int(generator.integers(1, 7))
    scale, tied = [0.1, 3.0, 40.0, 1e4][trial % 4], trial % 3 > 0
    node = scale * generator.normal(size=(length, n_labels))
    edge = scale * generator.normal(size=(n_labels,) * 2 if tied else (length - 1, n_labels, n_labels))
    masks = {}
    if trial % 5 > 2:
        diagonal = np.eye(n_labels, dtype=bool)
        masks = {
            "allowed": (generator.random((n_labels, n_labels)) < 0.7) | diagonal,
            "allowed_start": np.arange(n_labels) != 1,
            "allowed_end": np.arange(n_labels) != 2,
        }
    if trial % 7 == 0:
        node[generator.random(node.shape) < 0.1] = -np.inf
        node[:, 0] = 0.0
    return Chain(n_labels, **masks), node, edge


def _answers(chain, node, edge):
    return chain.log_partition(node, edge), chain.expected_counts(node, edge), chain.argmax(node, edge)


def test_two_halves_answer_as_one_pass_does(monkeypatch):
    generator = np.random.default_rng(0)
    n_halved = 0
    for trial in range(70):
        chain, node, edge = _random_chain(trial, generator)
        monkeypatch.setattr(halves, "FEWEST_PAIRS", _NEVER)
        total, counts, best = _answers(chain, node, edge)
        monkeypatch.setattr(halves, "FEWEST_PAIRS", 1)
        own_total, own_counts, own_best = _answers(chain, node, edge)
        assert own_total == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(own_counts.node, counts.node, atol=1e-11)
        np.testing.assert_allclose(own_counts.edge, counts.edge, atol=1e-11)
        assert chain.score(own_best, node, edge) == pytest.approx(chain.score(best, node, edge), rel=1e-12)
        packed = chain._pack(chain._read(node, edge, None, None))
        shape = packed.shapes.values
        found = chain.long_answer("sums", packed.specification, shape, packed.scores, None, 2)
        n_halved += found == pytest.approx(total, rel=1e-12)
    assert n_halved > 40  # the others underflow, or are one position short, and are summed on logarithms


def test_answers_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(halves, "FEWEST_PAIRS", 1000)
    generator = np.random.default_rng(1)
    chain, lengths = Chain(5), [3, 900, 7, 500, 39, 40]
    nodes = [generator.integers(-2, 3, size=(n, 5)).astype(float) for n in lengths]  # many ties
    edge = generator.integers(-2, 3, size=(5, 5)).astype(float)
    packed = chain._pack(chain._read(nodes, edge, None, None))
    for question in (("sums", 0), ("sums", 1), ("best", 1)):
        found = [packed.answers(*question, n) for n in (1, 2, 5)]
        for values, counts in found[1:]:
            np.testing.assert_array_equal(values, found[0][0])
            np.testing.assert_array_equal(counts, found[0][1])
    alone = [chain.argmax(node, edge) for node in nodes]
    assert [each.tolist() for each in alone] == [each.tolist() for each in chain.argmax(nodes, edge)]


def test_no_labelling_is_possible_in_a_long_chain(monkeypatch):
    monkeypatch.setattr(halves, "FEWEST_PAIRS", 1)
    node = np.zeros((40, 3))
    node[30] = -np.inf
    with pytest.raises(InputError, match="every labelling scores −inf"):
        Chain(3).argmax(node, np.zeros((3, 3)))
    assert Chain(3).log_partition(node, np.zeros((3, 3))) == -np.inf
    with pytest.raises(InputError, match="every labelling scores −inf"):
        Chain(3).kbest(node, np.zeros((3, 3)), k=1)
    crossing = np.full((39, 3, 3), -np.inf)
    crossing[np.arange(39) != 19] = 0.0
    assert Chain(3).log_partition(np.zeros((40, 3)), crossing) == -np.inf


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_estimators_answer_about_one_long_sequence(monkeypatch, kind):
    generator = np.random.default_rng(2)
    X = generator.normal(size=(6000, 4))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.5 * np.roll(X[:, 1:], 1, axis=0), axis=1)]
    if kind == "sparse":
        X = [{"x": float(row[0]), "y": f"{row[1]:.0f}"} for row in X]
    model = SequenceLabeler(l2=0.1).fit([X[:400], X[400:800]], [list(y[:400]), list(y[400:800])])
    fixed = [["c" if t % 100 == 7 else None for t in range(len(X))]]
    found = {}
    for fewest in (_NEVER, 1000):
        for n_jobs in (1, 2):
            monkeypatch.setattr(halves, "FEWEST_PAIRS", fewest)
            model.set_params(n_jobs=n_jobs)
            both = [X, X[:50]]
            found[fewest, n_jobs] = (
                model.predict(both),
                model.predict([X], fixed=fixed),
                model.predict_kbest([X], k=1)[0][0][0],
                np.concatenate(model.predict_marginals_array(both)),
                model.predict_log_proba_of([X], [list(y)]),
            )
    before = found.pop((_NEVER, 1))
    for after in found.values():
        assert after[:3] == before[:3]
        np.testing.assert_allclose(after[3], before[3], atol=1e-12)
        np.testing.assert_allclose(after[4], before[4], rtol=1e-12)


def test_the_first_sequence_of_a_fresh_model_may_be_long():
    X = [[{"w": f"{k % 7}"} for k in range(n)] for n in (60, 1500)]
    y = [["ab"[k % 7 > 2] for k in range(60)]]
    for ask in ("predict", "predict_marginals_array"):
        model = SequenceLabeler().fit(X[:1], y)
        assert len(getattr(model, ask)(X[1:])[0]) == 1500
