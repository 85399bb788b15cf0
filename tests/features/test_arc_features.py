"""Arc features against a plain implementation with strings, on random and real sentences."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.core.arcs import Arcs, all_arcs, gold_arcs
from partwise.core.maps import FeatureMap
from partwise.data import corpus_from_sentences, read_dependencies
from partwise.errors import InputError
from partwise.features.arcs import ARCS, ArcFeatures, GrandparentFeatures, SiblingFeatures
from partwise.features.functions import FUNCTIONS
from partwise.features.spans import Places, Sentences, SpanFeatures
from partwise.features.templates import parse_line, parse_list
from partwise.storage.model_file import load_model, save_model

MIXED = [
    "head.form + modifier.tag + direction",
    "head.tag + modifier.tag + distance + direction",
    "modifier.form",
    "head-1.tag + head+2.form + modifier+1.tag",
    "head.prefix2 + modifier.suffix1",
    "head.lower + modifier.lemma",
    "head.feats + modifier.feats",
    "head.tag + between.tag + modifier.tag",
    "between.form + distance",
    "head.feat + modifier.feat + direction",
    "modifier.feat + between.coarse",
    "direction + distance",
]
FIELDS = ("forms", "lemmas", "coarse_tags", "fine_tags", "feats")


def sentences_of(corpus):
    rows = zip(*(getattr(corpus, name) for name in FIELDS), strict=True)
    words = [dict(zip(FIELDS, row, strict=True)) for row in rows]
    return corpus.split(words)


def plain_values(sentence, place, source):
    """All values of a field at a place of a sentence, as a reader of the documentation would take them."""
    plain = source in ("form", "lower", "lemma", "tag", "coarse")
    if place == 0 or not 0 <= place <= len(sentence):
        return [("<root>" if place == 0 else "<outside>")] if plain else []
    word = sentence[place - 1]
    if source in ("form", "lower"):
        return [word["forms"].lower() if source == "lower" else word["forms"]]
    if source == "feat":
        return [] if word["feats"] == "_" else list(dict.fromkeys(word["feats"].split("|")))
    if source.startswith(("prefix", "suffix")):
        length, form = int(source[6:]), word["forms"]
        return (
            [] if len(form) <= length else [form[:length] if source[0] == "p" else form[len(form) - length :]]
        )
    string = word[{"lemma": "lemmas", "tag": "fine_tags", "coarse": "coarse_tags", "feats": "feats"}[source]]
    return [] if string == "_" else [string]


def plain_features(sentence, head, modifier, templates):
    """Names of all features of an arc, made with strings and products of lists."""
    distance = abs(head - modifier)
    found = []
    for template in templates:
        names = [[]]
        for field in template.split(" + "):
            if field == "direction":
                values = ["right" if head < modifier else "left"]
            elif field == "distance":
                values = [str(distance) if distance <= 5 else "6-10" if distance <= 10 else "11+"]
            else:
                where, source = field.split(".")
                if where == "between":
                    places = range(min(head, modifier) + 1, max(head, modifier))
                    values = sorted({v for place in places for v in plain_values(sentence, place, source)})
                else:
                    offset = int(where.removeprefix("head").removeprefix("modifier") or 0)
                    values = plain_values(sentence, (head if where[0] == "h" else modifier) + offset, source)
            names = [[*name, f"{field}={value}"] for name in names for value in values]
        found += [" & ".join(name) for name in names]
    return found


def check(features, corpus, arcs, known):
    """Rows hold exactly the known features of their arcs, none twice."""
    rows = features.transform(corpus, arcs)
    names = features.names()
    assert rows.row_ptr.dtype == np.int64 and rows.ids.dtype == np.int32 and rows.values is None
    assert len(rows.row_ptr) == len(arcs.head) + 1 and rows.row_ptr[-1] == len(rows.ids)
    for number, sentence in enumerate(sentences_of(corpus)):
        for arc in range(arcs.arc_ptr[number], arcs.arc_ptr[number + 1]):
            row = [names[k] for k in rows.ids[rows.row_ptr[arc] : rows.row_ptr[arc + 1]]]
            expected = plain_features(
                sentence, int(arcs.head[arc]), int(arcs.modifier[arc]), features.templates
            )
            assert sorted(row) == sorted(name for name in expected if name in known)


@st.composite
def corpora(draw):
    words = st.tuples(
        st.sampled_from(["a", "B", "abc", "Abcd", "_"]),
        st.sampled_from(["x", "y", "_"]),
        st.sampled_from(["N", "V"]),
        st.sampled_from(["n1", "n2", "v"]),
        st.sampled_from(["_", "c=1", "c=1|d=2", "d=2|d=2|c=2", "e=3"]),
    )
    sentences = draw(st.lists(st.lists(words, min_size=1, max_size=7), min_size=1, max_size=4))
    columns = [[[word[k] for word in sentence] for sentence in sentences] for k in range(5)]
    heads = [[draw(st.integers(0, word)) for word in range(len(sentence))] for sentence in sentences]
    return corpus_from_sentences(
        columns[0],
        lemmas=columns[1],
        coarse_tags=columns[2],
        fine_tags=columns[3],
        feats=columns[4],
        heads=heads,
    )


@settings(max_examples=60, deadline=None)
@given(corpora(), corpora(), st.sampled_from(["gold", "all"]), st.integers(1, 2))
def test_features_against_strings(train, other, observed, min_count):
    features = ArcFeatures(MIXED, observed, min_count).fit(train)
    arcs = gold_arcs(train.heads, train.sentence_ptr) if observed == "gold" else all_arcs(train.lengths)
    counts = Counter()
    for number, sentence in enumerate(sentences_of(train)):
        for arc in range(arcs.arc_ptr[number], arcs.arc_ptr[number + 1]):
            counts.update(
                plain_features(sentence, int(arcs.head[arc]), int(arcs.modifier[arc]), features.templates)
            )
    known = {name for name, n in counts.items() if n >= min_count}
    names = features.names()
    assert len(names) == len(set(names)) == features.n_attributes and set(names) == known
    frequencies = [counts[name] for name in names]
    assert frequencies == sorted(frequencies, reverse=True)
    check(features, train, all_arcs(train.lengths), known)
    check(features, other, all_arcs(other.lengths), known)


def test_all_arcs():
    arcs = all_arcs(np.array([2, 1, 0, 3]))
    assert arcs.arc_ptr.tolist() == [0, 4, 5, 5, 14]
    pairs = list(zip(arcs.head.tolist(), arcs.modifier.tolist(), strict=True))
    assert pairs[:5] == [(0, 1), (2, 1), (0, 2), (1, 2), (0, 1)]
    assert pairs[5:] == [(h, m) for m in (1, 2, 3) for h in range(4) if h != m]
    for number, (h, m) in enumerate(pairs[5:]):
        assert number == (m - 1) * 3 + h - (h > m)
    assert len(all_arcs(np.zeros(0, int)).head) == 0
    gold = gold_arcs(np.array([2, 0, 0]), np.array([0, 2, 3]))
    assert gold.head.tolist() == [2, 0, 0] and gold.modifier.tolist() == [1, 2, 1]


CORPUS = corpus_from_sentences(
    [["the", "dog", "barks"], ["it", "sleeps"]],
    fine_tags=[["DT", "NN", "VB"], ["PR", "VB"]],
    heads=[[2, 3, 0], [2, 0]],
)


def test_some_arcs_and_sentences_without_any():
    features = ArcFeatures("pos").fit(CORPUS)
    some = Arcs(np.array([0, 0, 2]), np.array([2, 0]), np.array([1, 2]))
    whole = features.transform(CORPUS)
    rows = features.transform(CORPUS, some)
    assert len(rows.row_ptr) == 3
    for row, number in ((0, 9 + 1), (1, 9 + 2)):  # arcs (2, 1) and (0, 2) of a sentence of two words
        ids = whole.ids[whole.row_ptr[number] : whole.row_ptr[number + 1]]
        assert rows.ids[rows.row_ptr[row] : rows.row_ptr[row + 1]].tolist() == ids.tolist()
    rows = features.transform(CORPUS, Arcs(np.array([0, 1, 1]), np.array([0]), np.array([3])))
    assert rows.row_ptr.tolist() == [0, len(rows.ids)] and len(rows.ids) > 0
    empty = features.transform(CORPUS.subset(np.zeros(2, bool)))
    assert empty.row_ptr.tolist() == [0] and len(empty.ids) == 0


def test_columns_without_values_are_left_out():
    features = ArcFeatures("mcdonald").fit(CORPUS)
    assert features.used_templates and not any(
        "lemma" in text or "feat" in text for text in features.used_templates
    )
    assert not any("coarse" in text for text in features.used_templates)
    coarse = corpus_from_sentences([["a", "b"]], coarse_tags=[["X", "Y"]], heads=[[0, 1]])
    features = ArcFeatures(["head.tag + modifier.tag", "head.coarse"]).fit(coarse)
    assert features.used_templates == ["head.tag + modifier.tag"]
    assert set(features.names()) == {"head.tag=<root> & modifier.tag=X", "head.tag=X & modifier.tag=Y"}
    # What the tags are was settled in training: a file with other tags does not change it.
    both = corpus_from_sentences(
        [["a", "b"]], coarse_tags=[["X", "Y"]], fine_tags=[["Y", "X"]], heads=[[0, 1]]
    )
    assert features.transform(both).ids.tolist() == features.transform(coarse).ids.tolist()
    features = ArcFeatures(["head.tag + modifier.tag"]).fit(both)
    assert len(features.transform(coarse).ids) == 0
    with pytest.raises(InputError, match="no arc template is left"):
        ArcFeatures(["head.lemma"]).fit(CORPUS)


@pytest.mark.parametrize(
    ("templates", "words"),
    [
        ("mst", "is not one of mcdonald, pos, labels"),
        ([], "must be a list of strings"),
        ([3], "must be a list of strings"),
        (["head.word"], "cannot read 'head.word'"),
        (["head.tag+modifier.tag"], "a field looks like head.form"),
        (["head.tag + head.tag"], "head.tag is there twice"),
        (["head.tag + direction", "direction + head.tag"], "is there twice"),
        (["between.tag + between.form"], "between.form is there twice"),
        (["between.feat"], "not possible"),
        (["head+1.feat"], "feat belongs to"),
        (["head+112.tag"], "must ascend and lie within ±100"),
        (["head.prefix0"], "cannot read"),
        (["head.tag + "], "cannot read"),
        (["head.tag"] * 2000, "more than 1000"),
    ],
)
def test_wrong_templates_are_refused(templates, words):
    with pytest.raises(InputError, match=words):
        ArcFeatures(templates)


@pytest.mark.parametrize(
    ("templates", "words"),
    [
        (["shout(head.form)"], "unknown function 'shout'"),
        (["suffix(head.form)"], "suffix needs a number, as in suffix"),
        (["lower(head.form, 2)"], "lower takes no number"),
        (["suffix(head.form, 0)"], "must be at least 1"),
        (["lower(head.feat)"], "functions of feat are not possible"),
        (["lower(direction)"], "cannot read 'lower.direction.'"),
        (["lower(head.form) + lower(head.form)"], "is there twice"),
    ],
)
def test_wrong_functions_are_refused(templates, words):
    with pytest.raises(InputError, match=words):
        ArcFeatures(templates)


def test_a_function_works_for_every_kind_of_row(monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "backwards", lambda string, _: string[::-1] or None)
    arcs = ArcFeatures(["backwards(head.form) + suffix(lower(modifier.form), 2)"]).fit(CORPUS)
    assert "backwards(head.form)=skrab & suffix(lower(modifier.form),2)=og" in arcs.names()
    assert not any("root" in name for name in arcs.names())  # a function has no value at the root
    between = ArcFeatures(["head.tag + backwards(between.form)"]).fit(
        corpus_from_sentences([["a", "bc", "d"]], fine_tags=[["A", "B", "C"]], heads=[[3, 1, 0]])
    )
    assert "head.tag=C & backwards(between.form)=cb" in between.names()
    again = ArcFeatures.from_state(arcs.state())
    assert again.names() == arcs.names()
    assert (again.transform(CORPUS).ids == arcs.transform(CORPUS).ids).all()
    siblings = SiblingFeatures(["backwards(sibling+1.form) + modifier.tag"]).fit(CORPUS)
    grandparents = GrandparentFeatures(["backwards(grandparent.form) + modifier.tag"]).fit(CORPUS)
    assert grandparents.names() == ["backwards(grandparent.form)=skrab & modifier.tag=DT"]
    assert all(name.startswith("backwards(sibling+1.form)=") for name in siblings.names())
    sentences = Sentences(["ab", "cd"], None, np.array([0, 2]))
    row = Places(np.array([0, 1]), *(np.array([k], np.int32) for k in (0, 1, 0)))
    assert SpanFeatures("span", ["backwards(last.form)"]).fit(sentences, row).names() == [
        "backwards(last.form)=dc"
    ]


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="min_count is 0"):
        ArcFeatures(min_count=0)
    with pytest.raises(InputError, match="'gold' or 'all'"):
        ArcFeatures(observed="some")
    with pytest.raises(InputError, match="not learnt yet"):
        ArcFeatures("pos").transform(CORPUS)
    with pytest.raises(InputError, match="need all heads"):
        ArcFeatures("pos").fit(corpus_from_sentences([["a"]], fine_tags=[["N"]]))
    features = ArcFeatures("pos").fit(CORPUS)
    for arcs in (
        Arcs(np.array([0, 1]), np.array([0]), np.array([1])),
        Arcs(np.array([0, 0, 2]), np.array([0]), np.array([1])),
        Arcs(np.array([1, 1, 1]), np.array([0]), np.array([1])),
        Arcs(np.array([0, 1, 1]), np.array([4]), np.array([1])),
        Arcs(np.array([0, 1, 1]), np.array([1]), np.array([1])),
        Arcs(np.array([0, 1, 1]), np.array([1]), np.array([0])),
        Arcs(np.array([0, 1, 1]), np.array([-1]), np.array([1])),
    ):
        with pytest.raises(InputError, match="arc"):
            features.transform(CORPUS, arcs)
    fields = [
        f"{side}{offset}.form" for side in ("head", "modifier") for offset in ("-2", "-1", "", "+1", "+2")
    ]
    words = [[f"w{k}" for k in range(100)]]
    wide = corpus_from_sentences(words, heads=[[*range(100)]])
    with pytest.raises(InputError, match="too many combinations"):
        ArcFeatures([" + ".join(fields)]).fit(wide)


def test_presets_are_well_formed():
    for name in ARCS.presets:
        texts = parse_list(name, ARCS)
        assert len({frozenset(parse_line(text, ARCS)[0].fields) for text in texts}) == len(texts)
    assert len(ARCS.presets["mcdonald"]) >= 60 and len(ARCS.presets["pos"]) < 10


def test_saved_and_loaded(tmp_path):
    features = ArcFeatures([*MIXED[:4], "head.tag + between.tag"], min_count=1).fit(CORPUS)
    state = features.state()
    save_model(tmp_path / "m", {k: v for k, v in state.items() if k != "keys"}, {"keys": state["keys"]})
    header, arrays = load_model(tmp_path / "m")
    again = ArcFeatures.from_state({**header, **arrays})
    assert again.names() == features.names() and again.used_templates == features.used_templates
    rows, other = features.transform(CORPUS), again.transform(CORPUS)
    assert (rows.ids == other.ids).all() and (rows.row_ptr == other.row_ptr).all() and len(rows.ids) > 10
    for damage in (
        {"keys": state["keys"] + 10**6},
        {"keys": -state["keys"] - 1},
        {"sources": ["form"], "strings": [["a"]]},
    ):
        with pytest.raises(InputError):
            ArcFeatures.from_state({**state, **damage})


def test_numbers_do_not_depend_on_the_process():
    script = (
        "from partwise.data import corpus_from_sentences as c\n"
        "from partwise.features.arcs import ArcFeatures\n"
        "corpus = c([['the', 'dog', 'barks']], fine_tags=[['D', 'N', 'V']],\n"
        "           feats=[['a|b', 'c', '_']], heads=[[2, 3, 0]])\n"
        "print(ArcFeatures('mcdonald').fit(corpus).names())"
    )
    outputs = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONWARNINGS": "ignore",
        }
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1 and "modifier.tag=N" in outputs.pop()


def test_a_word_that_looks_like_the_root_is_none():
    corpus = corpus_from_sentences([["<root>", "a"]], heads=[[0, 1]])
    features = ArcFeatures(["head.form + modifier.form"]).fit(corpus)
    assert sorted(features.names()) == [
        "head.form=<root> & modifier.form=<root>",
        "head.form=<root> & modifier.form=a",
    ]
    rows = features.transform(corpus, Arcs(np.array([0, 2]), np.array([0, 1]), np.array([2, 2])))
    assert np.diff(rows.row_ptr).tolist() == [0, 1]  # the root has not been seen as head of "a", the word has


def test_very_many_features_of_one_word_are_cut_off():
    feats = "|".join(f"f{k}=1" for k in range(10_000))
    corpus = corpus_from_sentences([["a", "b"]], feats=[[feats, feats]], heads=[[0, 1]])
    features = ArcFeatures(["head.feat + modifier.feat", "modifier.feat"]).fit(corpus)
    assert features.n_attributes == 30 * 30 + 30


@needs_shared
def test_a_real_treebank():
    corpus = read_dependencies(SHARED / "ud-en-ewt" / "dev.conllu.gz").subset(np.arange(400))
    other = read_dependencies(SHARED / "ud-en-ewt" / "test.conllu.gz").subset(np.arange(12))
    features = ArcFeatures("mcdonald")
    rows = features.fit_transform(corpus)
    gold = gold_arcs(corpus.heads, corpus.sentence_ptr)
    counts = Counter()
    for number, sentence in enumerate(sentences_of(corpus)):
        for arc in range(gold.arc_ptr[number], gold.arc_ptr[number + 1]):
            counts.update(
                plain_features(sentence, int(gold.head[arc]), int(gold.modifier[arc]), features.templates)
            )
    assert features.n_attributes == len(counts) > 100_000
    check(features, other, all_arcs(other.lengths), counts.keys())
    # As a feature map: one for every feature, and a score for every arc.
    feature_map = FeatureMap.build(
        1, features.n_attributes, rows=rows, row_labels=np.zeros(len(rows.row_ptr) - 1, int), pairs="observed"
    )
    assert feature_map.n_weights == features.n_attributes
    labels = ArcFeatures("labels").fit(corpus)
    check(labels, other, gold_arcs(other.heads, other.sentence_ptr), set(labels.names()))
