"""`ConstituencyParser`: trees of a grammar read off a treebank, for any loss of the family, with a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.data.binary_form import BinaryForm
from partwise.data.constituents import Tree
from partwise.data.treebank_grammar import TreebankGrammar
from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.explain import Explanations
from partwise.estimators.linear import CompactModel
from partwise.estimators.saving import prefixed, stored_part, unprefixed
from partwise.features.anchored import RuleFeatures
from partwise.features.spans import LANGUAGES, SpanFeatures
from partwise.features.templates import parse_list
from partwise.storage.checks import expect_text, expect_texts
from partwise.structures import Grammar
from partwise.tasks.constituents.data import ROOT, TrainingTrees, training_trees
from partwise.tasks.constituents.derivations import Derivations
from partwise.tasks.constituents.encoder import TEMPLATES, SpanEncoder, gold_places
from partwise.tasks.constituents.predictions import ConstituencyPredictions
from partwise.tasks.constituents.rule_pruning import LEAST, MOST_RULES, RulePruner, most_rules

if TYPE_CHECKING:
    from typing_extensions import Self


COSTS = ("constituents", "rules", "rules_bound")


@dataclass(eq=False, repr=False, kw_only=True)
class ConstituencyParser(ConstituencyPredictions, Explanations, CompactModel):
    """Parser for constituent trees: CRF, max-margin, and all losses between, over a grammar read off the trees.

    Every rule has a weight, and so has every feature of a word, a span or a split together with the symbol there.
    Anchored rules, which are rules at a place, may have features, too.

    Parameters
    ----------
    direction : {"right", "left", "head"}
        How trees become binary, see ``partwise.data.BinaryForm``.
    horizontal : int or None
        How many siblings the symbols that binary form adds remember; None: all.
    vertical : int
        1: symbols are labels; 2: labels with their parent's.
    word_templates, span_templates : "default" or list of str
        Features, see ``partwise.features.templates``.
    split_templates : "default", list of str or None
        Features of the place where a span is cut in two; None: splits have no score of their own.
    rule_templates : "default", list of str or None
        Features of anchored rules ⟨A → B C, first, cut, last⟩; None: they have none.
    rule_threshold : float, None or "auto"
        Which anchored rules are parts, if there are any: those whose nodes have at least this probability under the
        PCFG of the training trees. None: all. "auto": all if the training sentences cannot have more than 1,000,000;
        else 1e-4.
    functions : bool
        Whether function tags (NP-SBJ) are learnt as parts of labels, or stripped from the training trees.
    cost : {"constituents", "rules", "rules_bound"} or dict of costs by kind of parts
        What is charged in losses with γ > 0: wrong constituents, or wrong anchored rules (Bartlett et al. 2004, example
        2), which "rules" makes parts. "rules_bound" is an upper bound of "rules" that needs no such parts.
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
        All weights: of words, spans, splits, anchored rules, rules.

    Examples
    --------
    >>> from partwise import ConstituencyParser
    >>> trees = ["(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", "(S (NP (NN cat)) (VP (VBZ purrs)))"]
    >>> parser = ConstituencyParser().fit([["the", "dog", "barks"], ["cat", "purrs"]], trees)
    >>> print(parser.predict([["the", "cat", "barks"]])[0])
    (S (NP (DT the) (NN cat)) (VP (VBZ barks)))
    """

    _task = "constituents"
    direction: Literal["right", "left", "head"] = "right"
    horizontal: int | None = 0
    vertical: int = 1
    word_templates: str | Sequence[str] = "default"
    span_templates: str | Sequence[str] = "default"
    split_templates: str | Sequence[str] | None = None
    rule_templates: str | Sequence[str] | None = None
    rule_threshold: float | Literal["auto"] | None = "auto"
    functions: bool = False
    cost: Literal["constituents", "rules", "rules_bound"] | Mapping[str, Any] = "constituents"
    min_count: int = 1

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : sequence of sentences, or None for those of the trees, with their tags
            A sentence is a list of words, or of pairs (word, tag): tags then are part of the input.
        y : sequence of trees, or Treebank
            A tree is a ``partwise.data.Tree``, a string of Penn brackets, or nested tuples. Traces are left out.
        sample_weight : array_like (n_sentences,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        if not isinstance(self.cost, Mapping):
            check_choice("cost", self.cost, COSTS)
        self._form()
        for what, parameter in TEMPLATES.items():
            chosen = getattr(self, parameter)
            if what in ("word", "span") or chosen is not None:
                parse_list(chosen, LANGUAGES[what])
        least: Any = self.rule_threshold
        is_number = isinstance(least, (int, float)) and not isinstance(least, bool) and 0 <= least < 1
        if least is not None and least != "auto" and not is_number:
            raise InputError(
                f"rule_threshold must be 'auto', None or a probability from 0 to below 1, not {least!r:.40}"
            )
        return loss

    def _has_anchored(self, loss: Loss) -> bool:
        """Whether anchored rules are parts: if they have features, or costs that count."""
        by_kind = isinstance(self.cost, Mapping)
        has_costs = "anchored" in self.cost if by_kind else self.cost == "rules"
        return self.rule_templates is not None or (has_costs and (by_kind or loss.gamma > 0))

    def _form(self) -> BinaryForm:
        return BinaryForm(self.direction, self.horizontal, self.vertical, "one")

    def _read(self, X: Any, y: Any, sample_weight: Any) -> TrainingTrees:
        self._begin_compiling(Grammar.oracle)
        return training_trees(X, y, sample_weight, self.functions)

    def _build(self, data: TrainingTrees) -> tuple[Problem, SpanEncoder]:
        self.outer_, self.fixed_tags_ = data.outer, data.fixed_tags
        self.has_tags_ = data.sentences.tags is not None
        form = self._form()
        binary = [form.apply(tree) for tree in data.trees]
        self._derivations = Derivations.read(binary, form)
        self.labels_ = list(self._derivations.labels)
        loss = self._check_parameters()
        anchored = self._has_anchored(loss)
        structure = self._derivations.structure(self.split_templates is not None, anchored)
        nodes = self._derivations.nodes_of(binary)
        self._pruner = self._make_pruner(binary, data.sentences.lengths) if anchored else None
        shapes = self._shapes_of(structure, data.sentences, nodes)
        encoder, maps = self._features(structure, data, nodes)
        encoded = encoder.transform(structure, data.sentences, shapes)
        problem = self._bound(
            structure,
            nodes,
            encoded.shapes_for(structure),
            encoded.rows(structure, maps),
            cost="constituents" if self.cost == "rules" and not anchored else self.cost,
            example_weight=data.weights,
        )
        return problem, encoder

    def _make_pruner(self, binary: list[Tree], lengths: np.ndarray) -> RulePruner | None:
        """The grammar that prunes anchored rules, None if all are parts."""
        least: Any = self.rule_threshold
        if least == "auto":
            least = LEAST if most_rules(self._derivations, lengths) > MOST_RULES else None
        if least is None:
            return None
        counts, uses_tags = TreebankGrammar.read(binary), self.has_tags_ and self.fixed_tags_
        return RulePruner(self._derivations, counts, float(least), uses_tags)

    def _features(
        self, structure: Grammar, data: TrainingTrees, nodes: np.ndarray
    ) -> tuple[SpanEncoder, dict[str, FeatureMap]]:
        """The features that true trees have, and which of them have weights for which symbols."""
        gold = gold_places(structure, data.sentences.lengths, nodes)
        features, maps = {}, {}
        for kind, (places, columns) in gold.items():
            templates = getattr(self, TEMPLATES[kind])
            own: SpanFeatures = (
                RuleFeatures(self._derivations.rule_names(), templates, self.min_count)
                if kind == "anchored"
                else SpanFeatures(kind, templates, self.min_count)
            )
            features[kind] = own.fit(data.sentences, places)
            width = next(each.width for each in structure.kinds if each.name == kind)
            rows = own.transform(data.sentences, places)
            maps[kind] = FeatureMap.build(width, own.n_attributes, 0, rows, columns, "observed")
        return SpanEncoder(features), maps

    def top_features(self, n: int = 20, label: str | None = None) -> list[tuple[str, str, float]]:
        """The features and rules with the largest weights, whatever their sign: (feature, symbol, weight).

        Parameters
        ----------
        label : str or None
            Only weights of this symbol.
        """
        return super().top_features(n, label)

    # -- model files ----------------------------------------------------------------------------

    def _label_state(self) -> list[Any]:
        return list(self.labels_)

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        encoder, encoder_arrays = self._encoder.state()
        grammar, grammar_arrays = self._derivations.state()
        structure: Any = self._model.structure
        grammar |= {
            "splits": structure.splits,
            "anchored": structure.anchored,
            "outer": self.outer_,
            "has_tags": self.has_tags_,
            "fixed_tags": self.fixed_tags_,
        }
        arrays = prefixed(encoder_arrays, "encoder.") | prefixed(grammar_arrays, "grammar.")
        found = {"grammar": grammar, "encoder": encoder}
        if self._pruner is not None:
            found["pruner"], own = self._pruner.state()
            arrays |= prefixed(own, "pruner.")
        return found, arrays

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Grammar, SpanEncoder]:
        stored = stored_part(header, "grammar")
        # Older files do not know anchored rules.
        flags = [stored.get(name) for name in ("splits", "has_tags", "fixed_tags")]
        flags.append(stored.get("anchored", False))
        if not all(isinstance(flag, bool) for flag in flags):
            raise InputError("the grammar does not say what its parts and tags are")
        splits, self.has_tags_, self.fixed_tags_, anchored = map(bool, flags)
        self.outer_ = None if stored.get("outer") is None else expect_text(stored, "outer", ("", ROOT))
        self._derivations = Derivations.from_state(stored, unprefixed(arrays, "grammar."), self._form())
        self.labels_ = expect_texts(header, "labels", distinct=True)
        if self.labels_ != self._derivations.labels:
            raise InputError("the labels are not those of the grammar")
        own = unprefixed(arrays, "encoder.")
        self._pruner = None
        if header.get("pruner") is not None:
            arrays = unprefixed(arrays, "pruner.")
            self._pruner = RulePruner.from_state(stored_part(header, "pruner"), arrays, self._derivations)
        kinds = ["word", "span", *["split"] * splits, *["anchored"] * anchored]
        encoder = SpanEncoder.from_state(header.get("encoder"), own, kinds, self._derivations.rule_names())
        return self._derivations.structure(splits, anchored), encoder

    # -- what commands and pages ask ------------------------------------------------------------

    def _known_labels(self) -> list[Any]:
        return list(self.labels_)

    def _shown_settings(self) -> dict[str, Any]:
        siblings = "all" if self.horizontal is None else self.horizontal
        return {
            "binary form": f"{self.direction}, {siblings} siblings, {self.vertical} labels deep",
            "tags": "of the input" if self.has_tags_ else "part of the parse",
            "cost": self.cost,
        }

    def _shown_sizes(self) -> dict[str, Any]:
        names = {kind: f"{kind} features" for kind in ("word", "span", "split")}
        names["anchored"] = "features of anchored rules"
        features = self._encoder.features.items()
        return {
            "labels": len(self.labels_),
            "symbols": len(self._derivations.symbols),
            "rules": len(self._derivations.rules) + len(self._derivations.unaries),
            **{names[kind]: own.n_attributes for kind, own in features},
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _before_training(self, problem: Problem, solver: Any) -> list[str]:
        structure: Any = problem.structure
        size = f"{structure.n_symbols:,} symbols, {structure.n_rules:,} rules, {problem.n_weights:,} weights"
        lines = [f"{problem.n_examples:,} sentences, {size}"]
        if structure.anchored:
            n_rules = int(structure.n_anchored(problem.scorer.shapes).sum())
            which = "all" if self._pruner is None else f"nodes of probability {self._pruner.least:g} or more"
            lines.append(f"{n_rules:,} anchored rules ({which})")
        return [*lines, *super()._before_training(problem, solver)]
