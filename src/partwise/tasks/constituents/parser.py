"""`ConstituencyParser`: trees of a grammar read off a treebank, for any loss of the family, with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.data.binary_form import BinaryForm
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import check_choice, real_numbers
from partwise.estimators.encoded import Encoded
from partwise.features.place_templates import checked_templates
from partwise.features.spans import LANGUAGES, SpanFeatures
from partwise.structures import Grammar
from partwise.tasks.constituents.answers import ConstituencyAnswers
from partwise.tasks.constituents.data import TrainingTrees, training_trees
from partwise.tasks.constituents.derivations import Derivations
from partwise.tasks.constituents.encoder import SpanEncoder, gold_places
from partwise.tasks.constituents.explain import ConstituencyExplanations
from partwise.tasks.constituents.files import ConstituencyFileMixin
from partwise.tasks.constituents.predictions import ConstituencyMixin

if TYPE_CHECKING:
    pass

COSTS = ("constituents", "rules")


@dataclass(eq=False, repr=False, kw_only=True)
class ConstituencyParser(
    ConstituencyMixin, ConstituencyExplanations, ConstituencyAnswers, ConstituencyFileMixin
):
    """Parser for constituent trees: CRF, max-margin, and all losses between, over a grammar read off the trees.

    Every rule has a weight, and so has every feature of a word, a span or a split together with the symbol there.

    Parameters
    ----------
    direction : {"right", "left", "head"}
        How trees become binary, see ``partwise.data.BinaryForm``.
    horizontal : int or None
        How many siblings the symbols that binary form adds remember; None: all.
    vertical : int
        1: symbols are labels; 2: labels with their parent's.
    word_templates, span_templates : "default" or list of str
        Features, see ``partwise.features.place_templates``.
    split_templates : "default", list of str or None
        Features of the place where a span is cut in two; None: splits have no score of their own.
    functions : bool
        Whether function tags (NP-SBJ) are learnt as parts of labels, or stripped from the training trees.
    cost : {"constituents", "rules"}
        What is charged in losses with γ > 0: wrong constituents, or wrong rules (Bartlett et al., examples 4 and 2).
    min_count : int
        Features seen less often in true trees are dropped.

    Attributes
    ----------
    labels_ : list of str
        Labels of constituents.
    has_tags_ : bool
        Whether tags are part of the input; else they are part of the parse.
    fixed_tags_ : bool
        Whether input tags were those of the trees in training; predicted trees then have the tags given.
    coef_ : ndarray (n_weights,)
        All weights: of words, spans, splits, rules.

    Examples
    --------
    >>> from partwise import ConstituencyParser
    >>> trees = ["(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", "(S (NP (NN cat)) (VP (VBZ purrs)))"]
    >>> parser = ConstituencyParser().fit([["the", "dog", "barks"], ["cat", "purrs"]], trees)
    >>> print(parser.predict([["the", "cat", "barks"]])[0])
    (S (NP (DT the) (NN cat)) (VP (VBZ barks)))
    """

    direction: Literal["right", "left", "head"] = "right"
    horizontal: int | None = 0
    vertical: int = 1
    word_templates: str | Sequence[str] = "default"
    span_templates: str | Sequence[str] = "default"
    split_templates: str | Sequence[str] | None = None
    functions: bool = False
    cost: Literal["constituents", "rules"] = "constituents"
    min_count: int = 1

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConstituencyParser:
        """Train.

        Parameters
        ----------
        X : sequence of sentences, or None for those of the trees, with their tags
            A sentence is a list of words, or of pairs (word, tag): tags then are part of the input.
        y : sequence of trees, or Treebank
            A tree is a ``partwise.data.Tree``, a string of Penn brackets, or nested tuples. Traces are left out.
        sample_weight : array_like (n_sentences,), optional
        """
        with self._refitting():
            problem, encoder = self._build_problem(X, y, sample_weight)
            self._fit_problem(problem, encoder)
        self._warn_unless_converged()
        return self

    def _problem_for(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Problem, SpanEncoder]:
        """What `fit` solves, and the features' numbering; parameters are those of `fit`.

        For solvers called by hand; the parser itself is not fitted afterwards.
        """
        with self._refitting():
            return self._build_problem(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        check_choice("cost", self.cost, COSTS)
        self._form()
        for what in ("word", "span", "split"):
            chosen = getattr(self, f"{what}_templates")
            if what != "split" or chosen is not None:
                checked_templates(chosen, LANGUAGES[what])
        return loss

    def _form(self) -> BinaryForm:
        return BinaryForm(self.direction, self.horizontal, self.vertical, "one")

    def _build_problem(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, SpanEncoder]:
        self._check_parameters()
        self._begin_compiling(Grammar.oracle)
        data = training_trees(X, y, self.functions)
        if sample_weight is not None:
            sample_weight = real_numbers(sample_weight, "sample_weight")
            if not sample_weight.any():
                raise InputError("sample_weight is zero for all sentences")
        self.outer_, self.fixed_tags_ = data.outer, data.fixed_tags
        self.has_tags_ = data.sentences.tags is not None
        form = self._form()
        binary = [form.apply(tree) for tree in data.trees]
        self._derivations = Derivations.read(binary, form)
        self.labels_ = list(self._derivations.labels)
        structure = self._derivations.structure(self.split_templates is not None)
        nodes = self._derivations.nodes_of(binary)
        encoder, maps = self._features(structure, data, nodes)
        encoded = encoder.transform(structure, data.sentences, structure.shapes(data.sentences.lengths))
        return self._problem(structure, encoded, maps, nodes, sample_weight), encoder

    def _features(
        self, structure: Grammar, data: TrainingTrees, nodes: np.ndarray
    ) -> tuple[SpanEncoder, dict[str, FeatureMap]]:
        """The features that true trees have, and which of them have weights for which symbols."""
        gold = gold_places(structure, data.sentences.lengths, nodes)
        features, maps = {}, {}
        for kind, (places, columns) in gold.items():
            own = SpanFeatures(kind, getattr(self, f"{kind}_templates"), self.min_count)
            features[kind] = own.fit(data.sentences, places)
            width = next(each.width for each in structure.kinds if each.name == kind)
            rows = own.transform(data.sentences, places)
            maps[kind] = FeatureMap.build(width, own.n_attributes, 0, rows, columns, "observed")
        return SpanEncoder(features), maps

    def _problem(
        self,
        structure: Grammar,
        encoded: Encoded,
        maps: dict[str, FeatureMap],
        nodes: np.ndarray,
        sample_weight: Any,
    ) -> Problem:
        return Problem.build(
            structure,
            nodes,
            encoded.shapes_for(structure),
            encoded.rows(structure, maps),
            loss=self.loss,
            l2=self._l2,
            l1=self.l1,
            cost=self.cost,
            example_weight=sample_weight,
            n_jobs=n_threads(self.n_jobs),
        )

    @classmethod
    def _parameters_in_file(cls) -> list[str]:
        return ConstituencyParser._get_param_names()

    @property
    def coef_(self) -> np.ndarray:
        if not hasattr(self, "_model"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._model.weights
