"""Estimators follow scikit-learn's protocol without deriving from its classes."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import partwise
from partwise import CRF, Classifier, DependencyParser, SequenceLabeler
from partwise.tasks import estimator_names

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("name", estimator_names())
def test_every_parameter_is_described_once(name: str) -> None:
    estimator = getattr(partwise, name)
    parameters = list(inspect.signature(estimator).parameters.values())
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == ["loss", "l2", "solver", "tol", "max_passes", "random_state", "n_jobs", "verbose"]
    section = estimator.__doc__.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = re.findall(r"^(\w[\w, ]*)(?= : |$)", section, re.MULTILINE)
    described = [each for head in heads for each in head.split(", ")]
    assert sorted(described) == sorted(each.name for each in parameters)
    assert described[:8] == positional


def test_repr_shows_what_was_changed() -> None:
    assert repr(SequenceLabeler(l2=0.5, template="pos")) == "SequenceLabeler(l2=0.5, template='pos')"
    assert repr(CRF(c1=0, c2=2)) == "CRF(c1=0, c2=2)"
    assert "Classifier(l2=3)" in repr(make_pipeline(StandardScaler(), Classifier(l2=3)))


def test_parameters_are_set_by_name() -> None:
    model = Classifier().set_params(l2=2.0, tol=0.1)
    assert (model.l2, model.get_params()["tol"]) == (2.0, 0.1)
    with pytest.raises(
        ValueError, match=r"Invalid parameter 'C' for estimator Classifier\(l2=2.0, tol=0.1\)"
    ):
        model.set_params(C=1)
    assert clone(model).get_params() == model.get_params()


def test_notebooks_show_an_estimator() -> None:
    shown = Classifier(l2=3)._repr_mimebundle_()
    assert shown["text/plain"] == "Classifier(l2=3)" and "Classifier" in shown["text/html"]


def test_tags() -> None:
    assert is_classifier(Classifier()) and not is_classifier(SequenceLabeler())
    assert sklearn.utils.get_tags(Classifier()).input_tags.sparse
    assert not sklearn.utils.get_tags(DependencyParser()).target_tags.required


def test_sample_weights_are_routed() -> None:
    weights = np.where(X[:, 1] > 0, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Classifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        assert clone(model).get_metadata_routing().fit.requests == {"sample_weight": True}
        search = GridSearchCV(model, {"l2": [1.0]}, cv=2).fit(X, Y, sample_weight=weights)
    wanted = Classifier().fit(X, Y, sample_weight=weights)
    assert np.array_equal(search.best_estimator_.coef_, wanted.coef_)
    with pytest.raises(TypeError, match="Unexpected args: groups"):
        Classifier().set_fit_request(groups=True)
