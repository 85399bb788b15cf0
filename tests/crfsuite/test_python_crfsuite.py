"""What python-crfsuite's documentation and tests do works here; each test also runs with python-crfsuite itself."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from sklearn.exceptions import ConvergenceWarning

import partwise.crfsuite
from partwise import InputError, read_crfsuite
from partwise.crfsuite import BaseTrainer, CRFSuiteError, ItemSequence, Tagger, Trainer, TrainLogParser

X = [
    {"walk": 1, "shop": 0.5},
    {"walk": 1},
    {"walk": 1, "clean": 0.5},
    {"shop": 0.5, "clean": 0.5},
    {"walk": 0.5, "clean": 1},
    {"clean": 1, "shop": 0.1},
    {"walk": 1, "shop": 0.5},
    {},
    {"clean": 1},
    {"солнце": "не светит", "clean": 1},
]
Y = ["sunny", "sunny", "sunny", "rainy", "rainy", "rainy", "sunny", "sunny", "rainy", "rainy"]


@pytest.fixture(params=["partwise", "python-crfsuite"])
def crfsuite(request: pytest.FixtureRequest) -> Any:
    return partwise.crfsuite if request.param == "partwise" else pytest.importorskip("pycrfsuite")


def trained(crfsuite: Any, path: Path, algorithm: str = "lbfgs", **settings: Any) -> str:
    trainer = crfsuite.Trainer(algorithm, settings or None, verbose=False)
    trainer.append(X, Y)
    trainer.train(str(path))
    return str(path)


def test_a_tagger_opens_and_closes(crfsuite: Any, tmp_path: Path) -> None:
    path, tagger = trained(crfsuite, tmp_path / "m"), crfsuite.Tagger()
    with pytest.raises(ValueError):
        tagger.labels()
    with tagger.open(path):
        assert tagger.labels() == ["sunny", "rainy"]
        tagger.set(X)
        with pytest.raises(ValueError):
            tagger.marginal("sunny", 99)
    for ask in (tagger.labels, lambda: tagger.tag(X), lambda: tagger.set(X), lambda: tagger.probability(Y)):
        with pytest.raises(ValueError):
            ask()
    for ask in (tagger.info, lambda: tagger.dump(str(tmp_path / "dump"))):
        with pytest.raises(RuntimeError):
            ask()
    tagger.open_inmemory(Path(path).read_bytes())
    assert tagger.tag(X) == Y
    with pytest.raises(RuntimeError):
        tagger.probability(["cloudy"] * len(X))


@pytest.mark.parametrize(
    "content", [b"", b"foo", b"lCRFfoo", b"a text that is long enough to have a header" * 9]
)
def test_files_that_are_no_models(crfsuite: Any, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError):
        crfsuite.Tagger().open(str(tmp_path / "m"))
    with pytest.raises(ValueError):
        crfsuite.Tagger().open_inmemory(content)
    with pytest.raises(OSError):
        crfsuite.Tagger().open(str(tmp_path / "none"))


def test_a_damaged_model_says_which_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"lCRFfoo" * 100)  # python-crfsuite crashes on this file
    with pytest.raises(InputError, match=f"^{tmp_path / 'm'}: damaged CRFsuite model: "):
        Tagger().open(tmp_path / "m")


def test_items_of_all_forms(crfsuite: Any, tmp_path: Path) -> None:
    path = trained(crfsuite, tmp_path / "m")
    with crfsuite.Tagger().open(path) as tagger:
        assert tagger.tag(X) == Y and tagger.tag() == Y
        marginals = [tagger.marginal("sunny", t) for t in range(len(X))]
        of_bytes = [
            {key.encode(): value.encode() if isinstance(value, str) else value for key, value in x.items()}
            for x in X
        ]
        flags = [{key: bool(v) if v in (0, 1) else v for key, v in x.items()} for x in X]
        for same in (crfsuite.ItemSequence(X), of_bytes, flags):
            tagger.set(same)
            assert [tagger.marginal("sunny", t) for t in range(len(X))] == pytest.approx(marginals)
        assert tagger.tag([x.keys() for x in X]) != Y  # without values, which decide here
        best = tagger.probability(tagger.tag(X))
        assert 1 > best > tagger.probability(["rainy"] * len(X)) > 0
        assert tagger.tag([]) == [] and tagger.probability([]) == 0.0


def test_what_item_sequences_hold(crfsuite: Any) -> None:
    seq = crfsuite.ItemSequence(
        [{"foo": {"bar": "baz", "spam": 0.5, "egg": ["x"]}, "t": True}, ["a", b"b"], {}]
    )
    assert seq.items() == [
        {"foo:bar:baz": 1.0, "foo:spam": 0.5, "foo:egg:x": 1.0, "t": 1.0},
        {"a": 1.0, "b": 1.0},
        {},
    ]
    assert len(seq) == 3 and repr(seq) == "<ItemSequence of size 3>"


def test_wrong_items_are_named() -> None:
    for wrong, words in (
        ("text", "not the text 'text'"),
        (["text"], "not the text 'text'"),
        ([5], "not 5"),
        ([{"a": None}], "'a' has the value None"),
        ([[5]], "the name of an attribute is 5"),
    ):
        with pytest.raises(InputError, match=words):
            ItemSequence(wrong)
        with pytest.raises(InputError, match=words):
            Trainer().append(wrong, ["x"])


def test_weights_are_shown(crfsuite: Any, tmp_path: Path) -> None:
    path = trained(crfsuite, tmp_path / "m")
    with crfsuite.Tagger().open(path) as tagger:
        info = tagger.info()
        tagger.dump(str(tmp_path / "dump"))
    assert info.transitions["sunny", "sunny"] > info.transitions["sunny", "rainy"]
    assert info.state_features["walk", "sunny"] > info.state_features.get(("walk", "rainy"), 0.0)
    assert ("солнце:не светит", "rainy") in info.state_features
    assert info.header["num_labels"] == "2" and info.header["num_attrs"] == "4"
    assert info.labels == {"sunny": "0", "rainy": "1"}
    assert set(info.attributes) == {"walk", "shop", "clean", "солнце:не светит"}
    text = (tmp_path / "dump").read_text(encoding="utf-8")
    assert "LABELS = {" in text and "солнце:не светит --> rainy:" in text


def test_nested_items_train(crfsuite: Any, tmp_path: Path) -> None:
    trainer = crfsuite.Trainer(verbose=False)
    first = {"foo": {"bar": "baz", "spam": 0.5, "egg": ["x", "y"], "ham": {"x": -0.5, "y": -0.1}}}
    trainer.append([first, {"foo": {"bar": "ham", "spam": -0.5, "ham": {"x", "y"}}}], ["first", "second"])
    trainer.train(str(tmp_path / "m"))
    with crfsuite.Tagger().open(str(tmp_path / "m")) as tagger:
        weights = tagger.info().state_features
    for name in ("foo:bar:baz", "foo:spam", "foo:egg:x", "foo:egg:y"):
        assert weights[name, "first"] > 0 >= weights.get((name, "second"), 0)
    for name in ("foo:bar:ham", "foo:ham:x", "foo:ham:y"):
        assert weights[name, "second"] > 0 >= weights.get((name, "first"), 0)


def test_parameters(crfsuite: Any) -> None:
    trainer = crfsuite.Trainer(params={"c2": 100})
    assert trainer.get("c2") == 100 and {"c1", "c2", "num_memories"} <= set(trainer.params())
    assert "L1" in trainer.help("c1") and trainer.get_params()["max_iterations"] > 1e9
    trainer.select("l2sgd")
    assert trainer.get("c2") == 1.0 and "c1" not in trainer.params() and "L2" in trainer.help("c2")
    trainer.set("c2", "0.25")
    trainer.set("feature.possible_states", True)
    assert trainer.get("c2") == 0.25 and trainer.get("feature.possible_states") is True
    trainer.select("averaged-perceptron")
    assert trainer.get("max_iterations") == 100
    for wrong in (lambda: trainer.help("foo"), lambda: trainer.get("c1"), lambda: trainer.set("foo", 1)):
        with pytest.raises(ValueError):
            wrong()
    for wrong in ("foo", "semi"):
        with pytest.raises(ValueError):
            trainer.select(*(("foo",) if wrong == "foo" else ("lbfgs", wrong)))
    with pytest.raises(ValueError):
        trainer.append(X, Y[1:])


@pytest.mark.parametrize("appended", [True, False])
def test_training_without_choices(crfsuite: Any, appended: bool, tmp_path: Path) -> None:
    trainer = crfsuite.Trainer(verbose=False)
    if appended:
        trainer.append(X, Y)
    trainer.train(str(tmp_path / "m"))
    assert (tmp_path / "m").is_file()
    trainer.train("")  # writes nothing
    assert os.listdir(tmp_path) == ["m"]


def test_messages_and_hooks(crfsuite: Any, tmp_path: Path) -> None:
    class Watching(crfsuite.Trainer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:  # without that of Trainer, as in python-crfsuite's own tests
            self.messages: list[str] = []
            self.events: list[Any] = []

        def message(self, message: str) -> None:
            self.messages.append(message)
            self.verbose = True
            super().message(message)

        def on_start(self, log: str) -> None:
            self.events.append("start")

        def on_featgen_progress(self, log: str, percent: int) -> None:
            self.events.append(percent)

        def on_featgen_end(self, log: str) -> None:
            self.events.append("features")

        def on_prepared(self, log: str) -> None:
            self.events.append("prepared")

        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            self.events.append(info["num"])

        def on_optimization_end(self, log: str) -> None:
            self.events.append("optimised")

        def on_end(self, log: str) -> None:
            self.events.append("end")

    trainer = Watching()
    trainer.append(X, Y)
    trainer.append(X[:3], Y[:3], group=1)
    trainer.train(str(tmp_path / "m"), holdout=1)
    assert "type: CRF1d\n" in trainer.messages and trainer.messages[0].startswith("Holdout group: ")
    n = len(trainer.logparser.iterations)
    assert trainer.events == [
        "start", *range(0, 101, 2), "features", "prepared", *range(1, n + 1), "optimised", "end",
    ]  # fmt: skip
    parser, last = trainer.logparser, trainer.logparser.last_iteration
    assert parser.featgen_num_features > 0 and last["loss"] > 0 and last["feature_norm"] > 0
    assert last["item_accuracy"].denominator in (1, 3) and last["scores"]["sunny"].ref == 3
    assert parser.training_seconds >= 0 and "Loss" in "".join(parser.log)


def test_errors_in_message_do_not_end_training(tmp_path: Path) -> None:
    class Bad(Trainer):
        def message(self, message: str) -> None:
            raise RuntimeError("nobody reads this")

    trainer = Bad()
    trainer.append(X, Y)
    with pytest.warns(RuntimeWarning, match="nobody reads this"):
        trainer.train(tmp_path / "m")
    assert read_crfsuite(tmp_path / "m").predict([X])[0] == Y


def test_printed_messages(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in (BaseTrainer, Trainer):
        trainer = kind("lbfgs", {"c2": 1.0})
        trainer.append(X, Y)
        trainer.train("")
        shown = capsys.readouterr().out
        assert (
            "Number of features: " in shown
            and "c2: 1.000000\n" in shown
            and "Training ended: converged" in shown
        )


def test_the_parser_reads_the_log_of_crfsuite(tmp_path: Path) -> None:
    """Same events and numbers as python-crfsuite's own parser, message by message."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    from pycrfsuite._logparser import TrainLogParser as Theirs

    for algorithm in ("lbfgs", "l2sgd", "ap"):
        messages: list[str] = []

        class Keeping(pycrfsuite.BaseTrainer):  # type: ignore[misc, name-defined]
            def message(self, message: str, messages: list[str] = messages) -> None:
                messages.append(message)

        trainer = Keeping(algorithm, {"max_iterations": 5})
        trainer.append(X, Y)
        trainer.append(X[:4], Y[:4], 2)
        trainer.train(str(tmp_path / "m"), 2)
        ours, theirs = TrainLogParser(), Theirs()
        for message in messages:
            assert ours.feed(message) == theirs.feed(message)
            assert not ours.events or ours.last_log == theirs.last_log
        assert [{k: v for k, v in each.items() if k in known} for each, known in zip(
            ours.iterations, theirs.iterations, strict=True
        )] == theirs.iterations  # fmt: skip
        for name in ("featgen_percent", "featgen_num_features", "featgen_seconds", "training_seconds"):
            assert getattr(ours, name) == getattr(theirs, name)


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa"])
def test_algorithms(algorithm: str, tmp_path: Path) -> None:
    """Models that python-crfsuite reads, and which label the training data."""
    settings = {"max_iterations": 30} if algorithm in ("ap", "pa") else {"c2": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = trained(partwise.crfsuite, tmp_path / "m", algorithm, **settings)
    tagger = pytest.importorskip("pycrfsuite").Tagger()
    tagger.open(path)
    assert tagger.tag(X) == Y


def test_the_objective_is_at_least_as_good(tmp_path: Path) -> None:
    """Weights of both libraries, by the objective that both minimise."""
    pycrfsuite = pytest.importorskip("pycrfsuite")

    def objective(path: str) -> float:
        model = read_crfsuite(path)
        weights = model.coef_
        return float(-model.predict_log_proba_of([X], [Y])[0] + 0.1 * weights @ weights)

    settings = {"c2": 0.1, "feature.possible_states": 1, "feature.possible_transitions": 1}
    ours = trained(partwise.crfsuite, tmp_path / "ours", **settings, tol=1e-8)
    theirs = trained(pycrfsuite, tmp_path / "theirs", **settings)
    assert objective(ours) <= objective(theirs) * (1 + 1e-7)


def test_cleared_data_are_gone(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    trainer.append(X, ["x"] * len(X))
    trainer.clear()
    trainer.append(X, Y)
    trainer.train(tmp_path / "m")
    with Tagger().open(tmp_path / "m") as tagger:
        assert tagger.labels() == ["sunny", "rainy"] and repr(tagger) == "<Tagger, 2 labels>"


def test_what_has_no_counterpart_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'arow' has no counterpart here; use 'pa', or 'lbfgs'"):
        Trainer("arow")
    with pytest.raises(CRFSuiteError, match="PA-II"):
        trained(partwise.crfsuite, tmp_path / "m", "pa", type=2)
    with pytest.raises(InputError, match=r"max_iterations must be a whole number, not 2\.5"):
        Trainer(params={"max_iterations": 2.5})
    with pytest.warns(UserWarning, match="settings that have no effect here: num_memories"):
        trained(partwise.crfsuite, tmp_path / "m", num_memories=3)
    with pytest.warns(ConvergenceWarning):
        trained(partwise.crfsuite, tmp_path / "m", max_iterations=1, c2=1e-6, tol=1e-9)
    with pytest.raises(CRFSuiteError, match="there is no directory"):
        trained(partwise.crfsuite, tmp_path / "none" / "m")
    with pytest.raises(InputError, match="labels are strings, and 1 is none"):
        Trainer().append([["a"]], [1])
