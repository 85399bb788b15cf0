"""Model files of CRFsuite: read and written with python-crfsuite's answers; damaged ones are refused in one line."""

from __future__ import annotations

import random
import struct
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from effort import lines_executed

import partwise
from partwise import CRF, InputError, SequenceLabeler, read_crfsuite
from partwise.storage.crfsuite_file import (
    CrfsuiteModel,
    Features,
    packed_crfsuite_model,
    parse_crfsuite_model,
)
from partwise.tasks.sequences.crfsuite_model import model_from

pycrfsuite = pytest.importorskip("pycrfsuite")

NAMES = ["a", "b:c", 'quo"te', "back\\slash", "tab\there", "é", "солнце", "日本", " ", "x" * 300, "{}"]
LABELS = ["B-PER", "I:x", "O", 'l"q', "é", " "]
SETTINGS = {
    "plain": ("lbfgs", {}),
    "all": ("lbfgs", {"feature.possible_transitions": 1, "feature.possible_states": 1}),
    "sparse": ("lbfgs", {"c1": 0.5, "feature.minfreq": 2}),
    "sgd": ("l2sgd", {"c2": 0.1, "max_iterations": 20}),
    "perceptron": ("ap", {"max_iterations": 5}),
    "passive": ("pa", {"max_iterations": 5}),
    "arow": ("arow", {"max_iterations": 5}),
}


def sequences(draw: random.Random, n: int) -> list[list[dict[str, object]]]:
    def item() -> dict[str, object]:
        names = draw.sample(NAMES, draw.randint(0, 4))
        return {name: draw.choice([1.0, True, 0.25, -3.5, "text", "é:", False]) for name in names}

    return [[item() for _ in range(draw.randint(0, 7))] for _ in range(n)]


def trained(path: Path, kind: str, seed: int = 0) -> str:
    draw = random.Random(seed)
    algorithm, parameters = SETTINGS[kind]
    trainer = pycrfsuite.Trainer(algorithm, parameters, verbose=False)
    for x in sequences(draw, 30):
        trainer.append(x, [draw.choice(LABELS) for _ in x])
    trainer.train(str(path))
    return str(path)


def theirs(path: str) -> pycrfsuite.Tagger:
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger


def check_equal(tagger: pycrfsuite.Tagger, model: CRF, X: list) -> None:
    """Labels, marginals, and probabilities of the best and of random labellings."""
    labels, draw = tagger.labels(), random.Random(1)
    assert model.classes_.tolist() == labels
    for x, best, marginals in zip(X, model.predict(X), model.predict_marginals_array(X), strict=True):
        assert best == tagger.tag(x)
        found = [[tagger.marginal(label, t) for label in labels] for t in range(len(x))]
        assert np.allclose(marginals, np.reshape(found, (len(x), len(labels))), rtol=1e-6, atol=1e-9)
        for y in (best, [draw.choice(labels) for _ in x]):
            if x:
                ours = np.exp(model.predict_log_proba_of([x], [y])[0])
                assert ours == pytest.approx(tagger.probability(y), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("kind", SETTINGS)
def test_models_of_all_algorithms_answer_alike(kind: str, tmp_path: Path) -> None:
    path = trained(tmp_path / "m", kind)
    tagger, model = theirs(path), read_crfsuite(path)
    X = [*sequences(random.Random(2), 30), [], [{}], [["unknown"], {}], [{"unknown": 2.0}]]
    check_equal(tagger, model, X)
    info = tagger.info()
    assert model.tagger_.info().labels == info.labels
    assert model.state_features_.keys() == info.state_features.keys() - _rounded_to_zero(model)
    assert [model.predict_kbest([x], 1)[0][0][0] for x in X if x] == [tagger.tag(x) for x in X if x]

    model.write_crfsuite(tmp_path / "again")
    check_equal(theirs(str(tmp_path / "again")), model, X)
    again = read_crfsuite(tmp_path / "again")
    assert again.state_features_ == model.state_features_  # to the last bit
    assert (again.transition_coef_ == model.transition_coef_).all()

    model.save(tmp_path / "own")
    loaded = partwise.load(tmp_path / "own")
    assert type(loaded) is CRF and loaded.state_features_ == model.state_features_
    assert partwise.load(path).state_features_ == model.state_features_


def _rounded_to_zero(model: CRF) -> set:
    return {pair for pair, weight in model.state_features_.items() if not weight}


def test_the_dump_is_crfsuites(tmp_path: Path) -> None:
    path = trained(tmp_path / "m", "plain")
    theirs(path).dump(str(tmp_path / "theirs"))
    read_crfsuite(path).tagger_.dump(tmp_path / "ours")
    own, other = ((tmp_path / name).read_text(encoding="utf-8") for name in ("ours", "theirs"))
    assert [line for line in own.split("\n") if "off_" not in line and "size" not in line] == [
        line for line in other.split("\n") if "off_" not in line and "size" not in line
    ]


def test_names_with_colliding_places_are_all_found(tmp_path: Path) -> None:
    """Thousands of names in 256 hash tables: CRFsuite itself finds every one."""
    n = 20_000
    names = [f"{k:x}\n" * (k % 9 + 1) + str(k) for k in range(n)]
    weight = np.arange(1.0, n + 1)
    states = Features(np.arange(n), np.arange(n) % 2, weight)
    model = CrfsuiteModel(["x", "y"], names, Features(*np.zeros((3, 0), np.int64)), states)
    (tmp_path / "m").write_bytes(packed_crfsuite_model(model))
    tagger = theirs(str(tmp_path / "m"))
    assert [tagger.tag([[name]])[0] for name in names] == ["x", "y"] * (n // 2)


def test_other_encodings(tmp_path: Path) -> None:
    states = Features(np.array([0]), np.array([1]), np.array([2.0]))
    model = CrfsuiteModel(["ä", "ö"], ["straße"], Features(*np.zeros((3, 0), np.int64)), states)
    (tmp_path / "m").write_bytes(packed_crfsuite_model(model, "latin-1"))
    assert read_crfsuite(tmp_path / "m", encoding="latin-1").predict([[["straße"]]])[0] == ["ö"]
    as_utf8 = read_crfsuite(tmp_path / "m")
    as_utf8.write_crfsuite(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    with pytest.raises(InputError, match="encoding 'utf-16' is unknown, or not one that has ASCII"):
        read_crfsuite(tmp_path / "m", encoding="utf-16")


def test_what_the_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    X, y = [[["a"], ["b"]]], [["x", "y"]]
    for model, words in (
        (SequenceLabeler(order=2).fit(X, y), "order is 2"),
        (SequenceLabeler(hash_size=8).fit(X, y), "hashed"),
        (SequenceLabeler(transitions="observed").fit(X, y), "may not follow"),
        (SequenceLabeler(template="word[0]").fit([["a", "b"]], y), "makes its features itself"),
        (CRF().fit(X, [[1, 2]]), "not a string"),
        (CRF().fit([[["a\0"], ["b"]]], y), "zero byte"),
    ):
        with pytest.raises(InputError, match=words):
            partwise.tasks.sequences.crfsuite_model.write_crfsuite(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


# -- damage ----------------------------------------------------------------------------------------


def broken(data: bytes, draw: random.Random) -> bytes:
    own, action = bytearray(data), draw.random()
    if action < 0.4:
        for _ in range(draw.choice([1, 1, 2, 8])):
            own[draw.randrange(len(own))] ^= 1 << draw.randrange(8)
    elif action < 0.55:
        del own[draw.randrange(len(own)) :]
        own[4:8] = len(own).to_bytes(4, "little") if draw.random() < 0.5 else own[4:8]
    elif action < 0.65:
        first = draw.randrange(len(own))
        del own[first : first + draw.randrange(1, 64)]
    else:  # a number that says how many, how long or where
        word = 4 * draw.randrange(len(own) // 4) if draw.random() < 0.5 else 4 * draw.randrange(12)
        value = draw.choice(
            [0, 1, 2, len(own), len(own) - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**16, 48, 4096, 4097]
        )
        own[word : word + 4] = value.to_bytes(4, "little")
    return bytes(own)


@pytest.mark.parametrize("kind", ["plain", "sparse"])
def test_damaged_files(kind: str, tmp_path: Path) -> None:
    original, draw = Path(trained(tmp_path / "m", kind)).read_bytes(), random.Random(kind)
    X, accepted = [[["a"], {"b:c": 2.0}, {}], [["unknown"]]], 0
    for _ in range(500):
        data = broken(original, draw)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = model_from(data)
                assert [len(each) for each in model.predict(X)] == [3, 1]
                assert all(np.isfinite(each).all() for each in model.predict_marginals_array(X))
            accepted += 1
        except InputError as error:
            assert "\n" not in str(error)
    assert 0 < accepted < 500  # a bit of a weight or of a name is none that could be noticed


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = Path(trained(tmp_path / "m", "sparse")).read_bytes()
    for end in range(0, len(data), 61):
        (tmp_path / "m").write_bytes(data[:end])
        with pytest.raises(InputError, match=f"^{tmp_path / 'm'}: "):
            read_crfsuite(tmp_path / "m")
        with pytest.raises(InputError, match=f"^{tmp_path / 'm'}: "):
            partwise.load(tmp_path / "m")


def test_no_file_asks_for_much_work_or_memory() -> None:
    """Sizes in headers are believed only as far as the file reaches."""
    states = Features(np.arange(50), np.zeros(50, np.int64), np.ones(50))
    names = [f"{k:04d}" for k in range(50)]
    data = packed_crfsuite_model(CrfsuiteModel(["x"], names, Features(*np.zeros((3, 0), np.int64)), states))
    places = struct.unpack("<8I", data[16:48])
    for word in (20, 24, places[3] + 8, places[6] + 8, places[7] + 8):
        for value in (51, 2**32 - 1):
            own = data[:word] + value.to_bytes(4, "little") + data[word + 4 :]

            def use(own: bytes = own) -> None:
                try:
                    parse_crfsuite_model(own)
                except InputError as error:
                    assert "\n" not in str(error)

            assert lines_executed(use) < 2000
    # Records that overlap, each as long as the file: 50 numbers, but one text.
    lengths = bytearray(data)
    first = places[5] + 24 + 8 * 256
    for k in range(50):
        at = first + k * (8 + 5) + 4
        lengths[at : at + 4] = (len(data) // 2).to_bytes(4, "little")
    with pytest.raises(InputError, match="lie outside the file"):
        parse_crfsuite_model(bytes(lengths))


# -- real models -----------------------------------------------------------------------------------


@needs_shared
def test_a_model_of_chunks(tmp_path: Path) -> None:
    from partwise.data import read_conll

    data = read_conll(SHARED / "conll2000" / "test.txt")
    words, tags = data.columns

    def items(first: int, last: int) -> list[dict[str, str]]:
        return [
            {
                "w": words[t].lower(),
                "p": tags[t],
                "before": tags[t - 1] if t > first else "",
                "end": words[t][-2:],
            }
            for t in range(first, last)
        ]

    ptr = data.sequence_ptr.tolist()
    X = [items(*pair) for pair in pairwise(ptr[:601])]
    trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.2, "c2": 0.1, "max_iterations": 15}, verbose=False)
    for x, y in zip(X[:300], data.label_sequences()[:300], strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "m"))
    check_equal(theirs(str(tmp_path / "m")), read_crfsuite(tmp_path / "m"), X[300:])
