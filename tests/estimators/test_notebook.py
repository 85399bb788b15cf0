"""What notebooks show: pictures, tables and HTML views of estimators and explanations."""

from __future__ import annotations

import numpy as np
import pytest

import partwise
from partwise import Classifier, DependencyParser, RegularizationPath, SequenceLabeler
from partwise.data import make_names
from partwise.errors import InputError

PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def names():
    X, y = make_names(40, share=0.5)
    return SequenceLabeler(template="ner").fit(X, y), *make_names(20, random_state=1)


def test_pictures(names, tmp_path):
    model, X, y = names
    for picture in (model.plot_convergence(), model.plot_confusion(X, y), model.plot_reliability(X, y)):
        assert picture.startswith(PNG) and picture._repr_png_() == picture
    model.plot_confusion(X, y, tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").read_bytes().startswith(PNG)


def test_pictures_of_other_tasks():
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(x[:, 0] > 0, "a$b$", "<i>")  # labels are text, not formulas or markup
    model = Classifier().fit(x, y)
    assert model.plot_confusion(x, y).startswith(PNG)
    assert model.plot_reliability(x, y).startswith(PNG)
    with pytest.raises(InputError, match="no probabilities"):
        Classifier(loss="hinge").fit(x, y).plot_reliability(x, y)
    words, trees = (
        [["the", "dog", "barks"], ["dogs", "bark"]],
        [([2, 3, 0], ["d", "s", "r"]), ([2, 0], ["s", "r"])],
    )
    assert DependencyParser().fit(words, trees).plot_convergence().startswith(PNG)


def test_a_path_is_a_frame_and_a_picture(names):
    _, X, y = names
    path = RegularizationPath(SequenceLabeler(template="ner"), values=[10.0, 1.0]).fit(X, y, X, y)
    frame = path.to_frame()
    assert list(frame["l2"]) == [10.0, 1.0] and {"objective", "dev_score"} <= set(frame)
    assert path.plot_path()._repr_png_().startswith(PNG)


def test_an_explanation_is_a_frame_and_html(names):
    model, X, _ = names
    found = model.explain(X[0])
    frame = found.to_frame()
    assert frame["contribution"].sum() == pytest.approx(found.score, rel=1e-9)
    assert found._repr_html_().count("<tr>") > len(X[0])


def test_html_is_escaped():
    X = [[["<script>alert(1)</script>"], ["b"]]] * 3
    model = SequenceLabeler().fit(X, [["<img src=x>", "O"]] * 3)
    for html in (model._repr_mimebundle_()["text/html"], model.explain(X[0])._repr_html_()):
        assert "<script" not in html and "<img" not in html and "&lt;img" in html


def test_a_fitted_estimator_shows_its_certificate(names):
    model, *_ = names
    html = model._repr_mimebundle_()["text/html"]
    for words in ("lower bound of the optimum", "relative gap", "B-PER", "attributes"):
        assert words in html
    assert "lower bound" not in SequenceLabeler()._repr_mimebundle_()["text/html"]


def test_probabilities_have_scikit_learns_name(names):
    model, X, _ = names
    for one, other in zip(model.predict_proba(X), model.predict_marginals_array(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_missing_file_is_pythons_own_error(tmp_path):
    for error in (FileNotFoundError, InputError, ValueError):
        with pytest.raises(error, match=r"nowhere\.pw: no such file"):
            partwise.load(tmp_path / "nowhere.pw")
