"""What pages show of single examples: answers of every kind of model, evidence of labelled data, what people type."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import partwise
from partwise.data import corpus_from_sentences, parse_conll
from partwise.data.brackets import parse_brackets
from partwise.data.graph_jsonl import parse_graphs
from partwise.errors import InputError
from partwise.report.json_values import json_for_page
from partwise.tasks import task_of
from partwise.web.sections import example_section, score_section

CHUNKS = """the D B-NP
man N I-NP
saw V B-VP
a D B-NP
dog N I-NP

dogs N B-NP
saw V B-VP
the D B-NP
saw N I-NP

a D B-NP
man N I-NP
runs V B-VP
"""
TREES = [
    "(S (NP (D the) (N man)) (VP (V saw) (NP (D a) (N dog))))",
    "(S (NP (N dogs)) (VP (V saw) (NP (D the) (N saw))))",
    "(S (NP (D a) (N man)) (VP (V runs)))",
    "(S (NP (N dogs)) (VP (V saw) (NP (NP (D the) (N man)) (PP (P with) (NP (D a) (N saw))))))",
    "(S (NP (N dogs)) (VP (V saw) (NP (D the) (N man)) (PP (P with) (NP (D a) (N dog)))))",
]
FORMS = [["the", "man", "saw", "a", "dog"], ["dogs", "saw", "the", "saw"], ["a", "man", "runs"]]
TAGS = [["D", "N", "V", "D", "N"], ["N", "V", "D", "N"], ["D", "N", "V"]]
HEADS = [[2, 3, 0, 5, 3], [2, 0, 4, 2], [2, 3, 0]]
RELATIONS = [["det", "subj", "root", "det", "obj"], ["subj", "root", "det", "obj"], ["det", "subj", "root"]]
GRAPH = {
    "nodes": [
        {"features": {"w": word}, "label": label} for word, label in (("a", "X"), ("b", "Y"), ("a", "X"))
    ],
    "edges": [[0, 1], [1, 2]],
}


def sequences():
    columns = parse_conll(CHUNKS)
    model = partwise.SequenceLabeler(template="chunking", l2=0.1).fit(columns)
    return model, columns.row_sequences(), columns.label_sequences()


def segments():
    columns = parse_conll(CHUNKS)
    model = partwise.SegmentLabeler(template="chunking", l2=0.1).fit(columns)
    return model, columns.row_sequences(), columns.label_sequences()


def classes():
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 60)
    x = random.normal(size=(60, 4)) + 2.0 * np.eye(3, 4)[y]
    return partwise.Classifier(l2=1.0).fit(x, y), x, y.tolist()


def trees(order=1):
    corpus = corpus_from_sentences(FORMS, coarse_tags=TAGS, fine_tags=TAGS, heads=HEADS, relations=RELATIONS)
    structure = "projective" if order == 2 else "spanning"
    model = partwise.DependencyParser(l2=0.1, order=order, structure=structure, prune=None).fit(corpus)
    return model, corpus, corpus.heads


def constituents():
    bank = parse_brackets("\n".join(TREES))
    sentences = [tree.tagged_words() for tree in bank.trees]
    return partwise.ConstituencyParser(l2=0.1).fit(None, bank.trees), sentences, bank.trees


def graphs():
    data = parse_graphs("\n".join([json.dumps(GRAPH)] * 3))
    return partwise.GraphLabeler(l2=0.1).fit(data.graphs, data.labels), data.graphs, data.labels


MAKERS = {
    "sequences": sequences, "segments": segments, "classes": classes, "trees": trees,
    "constituents": constituents, "graphs": graphs,
}  # fmt: skip


def task_for(model):
    return task_of(model)(model)


@pytest.fixture(scope="module")
def made():
    """Models with their data, made when first asked for."""
    found = {}

    def get(kind):
        if kind not in found:
            found[kind] = MAKERS[kind]()
        return found[kind]

    return get


@pytest.mark.parametrize("kind", list(MAKERS))
def test_an_answer_is_whole_and_its_numbers_agree(made, kind):
    model, inputs, truths = made(kind)
    task = task_for(model)
    assert task.kind == kind
    x, truth = task.pick(inputs, truths, 3 if kind == "constituents" else 0)  # which is ambiguous
    answer = task.answer(x, truth, kbest=4)
    assert json.loads(json_for_page(answer)) == json.loads(json.dumps(answer))
    n = len(answer["tokens"])
    assert len(answer["labels"]) == n and answer["kind"] == kind
    values = [each["probability"] for each in answer["kbest"]]
    assert values == sorted(values, reverse=True) and 0 < sum(values) <= 1 + 1e-9
    # The lead over the next best is what the ratio of the two probabilities says.
    assert answer["against"]["score"] == pytest.approx(math.log(values[0] / values[1]), abs=1e-4)
    for first, end, name, label, contribution in answer["terms"]:
        assert 0 <= first < end <= n and isinstance(name, str) and isinstance(label, str)
        assert math.isfinite(contribution)
    for row in answer.get("marginals", []):
        assert row and sum(p for _, p in row) == pytest.approx(1.0, abs=0.02)
    if kind == "segments":
        for first, last, label, p in answer["segments"]:
            assert 0 <= first <= last < n and 0 < p <= 1 and label in ("NP", "VP")
    if kind == "constituents":
        assert [node[1] for node in answer["nodes"] if node[1] is not None] == answer["tokens"]
        assert answer["nodes"][0][3:5] == [0, n] and all(
            0 <= node[2] < k for k, node in enumerate(answer["nodes"]) if k
        )


@pytest.mark.parametrize("kind", list(MAKERS))
def test_threads_get_the_answers_that_one_gets(made, kind):
    model, inputs, truths = made(kind)
    task = task_for(model)
    asked = [task.pick(inputs, truths, i % 3)[0] for i in range(24)]
    expected = [task.answer(x) for x in asked[:3]]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(task.answer, asked)) == expected * 8


@pytest.mark.parametrize("kind", list(MAKERS))
def test_evidence_of_labelled_data(made, kind):
    model, inputs, truths = made(kind)
    task = task_for(model)
    evidence = task.evidence(inputs, truths)
    section = score_section(evidence)
    assert section["scores"] and section["labels"] and not section["notes"]
    matrix = np.array(section["confusion"]["matrix"])
    assert matrix.shape == (len(section["confusion"]["labels"]),) * 2 and matrix.sum() > 0
    for name in ("predicted", "every"):
        assert 0 <= section["reliability"][name]["expected_error"] <= 1
        assert section["reliability"][name]["n_parts"] == sum(
            each["count"] for each in section["reliability"][name]["bins"]
        )
    evidence.errors = np.arange(len(evidence.errors))
    shown = example_section(task, inputs, truths, evidence, 2)
    total = len(evidence.errors)
    assert [each["number"] for each in shown["examples"]] == [total, total - 1] and shown["total"] == total


@pytest.mark.parametrize("kind", list(MAKERS))
def test_what_a_form_is_filled_with_can_be_read(made, kind):
    task = task_for(made(kind)[0])
    answer = task.answer(task.read({"text": task.expects()["example"]}))
    assert answer["labels"] and "truth" not in answer
    for bad in ({}, {"text": 3}, {"text": "a", "more": 1}, {"text": ""}, {"row": None, "text": "x"}):
        with pytest.raises(InputError):
            task.read(bad)


def test_requests_name_what_is_wrong(made):
    task = task_for(made("sequences")[0])
    assert task.read({"tokens": [["the", "D"], ["dog", "N"]]}) == [("the", "D"), ("dog", "N")]
    with pytest.raises(InputError, match=r"text:2: 1 columns; the model needs 2: word, pos"):
        task.read({"text": "the D\ndog"})
    with pytest.raises(InputError, match=r'"tokens"\[1\] has 1 columns'):
        task.read({"tokens": [["the", "D"], "dog"]})
    with pytest.raises(InputError, match="4 finite numbers"):
        task_for(made("classes")[0]).read({"row": [1, 2, 3]})
    parser = task_for(made("trees")[0])
    assert parser.read({"text": "the D\ndog N"}).coarse_tags == ["D", "N"]
    lines = "1\tthe\t_\tD\tD\t_\t_\t_\t_\t_\n2\tdog\t_\tN\tN\t_\t_\t_\t_\t_\n"
    assert parser.read({"text": lines}).forms == ["the", "dog"]
    with pytest.raises(InputError, match="one sentence at a time"):
        parser.read({"text": lines + "\n" + lines})


@pytest.mark.parametrize("order", [1, 2])
def test_a_parsers_terms_add_up_to_its_trees_score(order):
    model, corpus, _ = trees(order)
    first = corpus.subset(np.array([0]))
    (best, p), (second, q) = model.predict_kbest(first, 2)[0]
    lead = model.explain(first, best, second)
    assert lead.score == pytest.approx(math.log(p / q), abs=1e-4)
    assert lead.score == pytest.approx(model.explain(first).score - model.explain(first, second).score)
    assert lead.labels == [(int(head), name) for head, name in zip(*best, strict=True)]
    assert not {term[:4] for term in lead.contributions if term.contribution != term.weight * term.value} & {
        term[:4] for term in lead.contributions if term.contribution == term.weight * term.value
    }
    with pytest.raises(InputError, match="one sentence"):
        model.explain(corpus)
    with pytest.raises(InputError, match="runner-up"):
        model.explain(first, against="other")
    with pytest.raises(InputError, match="relations"):
        model.explain(first, ([2, 3, 0, 5, 3], ["odd"] * 5))


def test_a_classifiers_terms_add_up_to_its_score():
    model, x, _ = classes()
    scores = model.decision_function(x[:1])[0]
    order = np.argsort(-scores)
    assert model.explain(x[0]).score == pytest.approx(scores[order[0]], rel=1e-5)
    lead = model.explain(x[0], against="runner-up")
    assert lead.score == pytest.approx(scores[order[0]] - scores[order[1]], rel=1e-5)
    assert lead.against == [model.classes_[order[1]]]
    assert model.explain(x[0], y=2, against=0).score == pytest.approx(scores[2] - scores[0], rel=1e-5)
    with pytest.raises(InputError, match="not in training"):
        model.explain(x[0], y=9)
    features = partwise.Classifier(l2=0.1).fit([{"a": 1.0}, {"b": True}], ["x", "y"])
    assert features.explain({"a": 1.0}).labels == ["x"]


def test_hinge_has_scores_in_place_of_probabilities():
    columns = parse_conll(CHUNKS)
    model = partwise.SequenceLabeler(template="chunking", loss="hinge", tol=0.01).fit(columns)
    task = task_for(model)
    answer = task.answer(columns.row_sequences()[0])
    assert "marginals" not in answer and "score" in answer["kbest"][0]
    section = score_section(task.evidence(columns.row_sequences(), columns.label_sequences()))
    assert "reliability" not in section and "no reliability diagram" in section["notes"][0]


def test_many_labels_are_taken_together():
    x = np.eye(50)
    model = partwise.Classifier(tol=0.1).fit(x, np.arange(50))
    small = score_section(task_for(model).evidence(x, [*range(1, 50), 0]))["confusion"]
    assert np.sum(small["matrix"]) == 50 and len(small["labels"]) == 31 and "(others)" in small["labels"]


def test_data_in_a_page_cannot_leave_its_script():
    text = json_for_page({"a": "</script><!--\u2028\ud800&", "b": float("nan"), "c": [float("inf"), 1.5]})
    assert text.isascii() and not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028\ud800&", "b": None, "c": [None, 1.5]}


def test_examples_of_graphs_fit_their_kinds_and_features():
    numbers = {"nodes": [{"features": [1.0, 0.5], "kind": kind, "label": kind} for kind in "ab"]}
    edge = {"nodes": [0, 1], "features": [2.0], "kind": "near"}
    data = parse_graphs("\n".join([json.dumps({**numbers, "edges": [edge]})] * 3))
    task = task_for(partwise.GraphLabeler(l2=0.1).fit(data.graphs, data.labels))
    example = json.loads(task.expects()["example"])
    assert [node["features"] for node in example["nodes"]] == [[0.5, 0.5]] * 2
    assert [node["kind"] for node in example["nodes"]] == ["a", "b"]
    assert example["edges"] == [{"nodes": [0, 1], "kind": "near", "features": [0.5]}]
    assert task.answer(task.read({"graph": example}))["labels"] == ["a", "b"]


def test_sentences_that_a_grammar_does_not_know_are_told(made):
    task = task_for(made("constituents")[0])
    other_tags = task.answer([("the", "DT"), ("dog", "NN"), ("saw", "VBD")])
    assert other_tags["note"].startswith("not explained: ") and "terms" not in other_tags
    outside = task.answer([("the", "D")] * 3)
    assert "substitute" in outside["note"] and outside["labels"] == ["D"] * 3
