"""`DependencyParser`: dependency trees of first and second order for any loss of the family, with a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.arcs import Arcs, all_arcs, gold_arcs
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import check_choice
from partwise.estimators.explain import Explanations
from partwise.estimators.linear import CompactModel
from partwise.estimators.saving import prefixed, stored_part, unprefixed
from partwise.storage.checks import expect_number, expect_text, expect_texts
from partwise.structures import Projective, SecondOrderProjective, SecondOrderSpanning, Spanning
from partwise.tasks.dependencies.arc_encoder import FEATURES, ArcEncoder, arc_kinds
from partwise.tasks.dependencies.arc_pruning import BEAM, ArcPruner, PruningRecord
from partwise.tasks.dependencies.data import TrainingTrees, training_trees
from partwise.tasks.dependencies.lifting import ArcLabels
from partwise.tasks.dependencies.predictions import ParserPredictions

if TYPE_CHECKING:
    from typing_extensions import Self


STRUCTURES: dict[tuple[str, int], Any] = {
    ("spanning", 1): Spanning,
    ("projective", 1): Projective,
    ("projective", 2): SecondOrderProjective,
    ("spanning", 2): SecondOrderSpanning,
}
INFERENCE = ("auto", "loopy")
_HEADS_KEPT = 10
_WORTH_PRUNING = 400_000  # arcs; with fewer, training on all of them takes no time


@dataclass(eq=False, repr=False, kw_only=True)
class DependencyParser(ParserPredictions, Explanations, CompactModel):
    """Dependency parser: CRF, max-margin, and all losses between, trained in the dual.

    Parameters
    ----------
    structure : {"spanning", "projective"}
        All trees (matrix-tree theorem, Chu-Liu-Edmonds), or those without crossing arcs (Eisner).
    order : {1, 2}
        1 scores arcs by themselves; 2 also siblings and grandparents, pairs of arcs that pruning has left: exactly
        for projective trees, by `inference` for all.
    inference : {"auto", "loopy"}
        How sums over trees are made. "auto": exactly, or for all trees of second order by a convex relaxation, which
        has a certificate. "loopy", for all trees of second order: by loopy belief propagation (Smith and Eisner
        2008), as Martins et al. (2010) trained parsers. It has no certificate; training reports how many losses it
        took for negative.
    single_root : bool or "auto"
        Whether exactly one word depends on the root; "auto" asks the training trees.
    labelled : bool
        Whether arcs get relations, chosen together with the heads.
    templates : "mcdonald", "pos" or list of str
        Features of arcs, see ``partwise.features.templates``.
    relation_templates : "labels" or list of str
        Features of relations.
    sibling_templates, grandparent_templates : "siblings", "grandparents" or list of str
        Features of pairs of arcs, see ``partwise.features.templates``.
    prune : int, None or "auto"
        Heads that a pruner leaves each word, in training and in prediction; None keeps all. The pruner is a
        first-order model with features of tags. `fit` trains it before the parser, at most 20 passes, and
        ``pruning_`` says what it left. "auto" prunes to 10 heads if there are more than 400,000 arcs or order=2.
    cost : {"auto", "heads", "labelled"} or dict of costs by kind of parts
        What a word costs in losses with γ > 0: 1 for a wrong head, or also for the right one with a wrong relation.
        "auto" is "labelled" where arcs have relations.
    non_projective : {"lift", "skip", "error"}
        What to do with training trees that have crossing arcs, where structure="projective". "lift" trains on trees
        whose crossing arcs are moved up, and puts arcs back after parsing if `labelled`; without relations the
        parser's arcs never cross. "skip" leaves these sentences out.
    min_count : int
        Features seen less often on true arcs are dropped.

    Attributes
    ----------
    relations_ : list of str
        Empty for trees without relations.
    single_root_ : bool
    pruning_ : PruningRecord or None
        How many arcs pruning left in training, and its recall.
    skipped_ : ProjectiveCount or None
        How many sentences were left out, where structure="projective" and non_projective="skip".
    lifted_ : LiftCount or None
        How many arcs were lifted, where structure="projective" and non_projective="lift".
    coef_ : ndarray (n_weights,)
        All weights: of arcs, relations, siblings, grandparents.

    Examples
    --------
    >>> from partwise import DependencyParser
    >>> X = [["dogs", "bark"], ["cats", "purr", "loudly"]]
    >>> parser = DependencyParser(templates=["head.form + modifier.form", "direction"])
    >>> parser.fit(X, [[2, 0], [2, 0, 2]]).predict([["dogs", "bark"]])
    [array([2, 0])]
    """

    _task = "dependencies"
    structure: Literal["spanning", "projective"] = "spanning"
    order: int = 1
    inference: Literal["auto", "loopy"] = "auto"
    single_root: bool | Literal["auto"] = "auto"
    labelled: bool = True
    templates: str | Sequence[str] = "mcdonald"
    relation_templates: str | Sequence[str] = "labels"
    sibling_templates: str | Sequence[str] = "siblings"
    grandparent_templates: str | Sequence[str] = "grandparents"
    prune: int | Literal["auto"] | None = "auto"
    cost: Literal["auto", "heads", "labelled"] | Mapping[str, Any] = "auto"
    non_projective: Literal["lift", "skip", "error"] = "lift"
    min_count: int = 1

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : DependencyCorpus, or sequence of sentences
            A sentence is a list of words, a word a string or a dict with ``form`` and perhaps ``lemma``,
            ``coarse_tag``, ``fine_tag`` and ``feats``.
        y : sequence of trees, or None
            A tree is a list of heads, counted from 1 with 0 for the root, or a pair of heads and relations.
            None takes the trees of the corpus.
        sample_weight : array_like (n_sentences,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        check_choice("structure", self.structure, ("spanning", "projective"))
        if self.order not in (1, 2) or isinstance(self.order, bool):
            raise InputError(f"order must be 1 or 2, not {self.order!r:.40}")
        check_choice("inference", self.inference, INFERENCE)
        if self.inference == "loopy" and (self.structure, self.order) != ("spanning", 2):
            raise InputError(
                "inference='loopy' is for order=2 with structure='spanning': sums over other trees are exact"
            )
        if self.order == 2 and self.structure == "spanning" and loss.is_hard:
            raise InputError(
                f"order=2 with structure='spanning' needs a loss with finite beta, and {loss.name!r} has none, since "
                "its best trees are not proved best: use 'log' or 'softmax_margin', or structure='projective'"
            )
        if not isinstance(self.cost, Mapping):
            check_choice("cost", self.cost, ("auto", "heads", "labelled"))
        if self.cost == "labelled" and not self.labelled:
            raise InputError("cost='labelled' needs labelled=True")
        prune: Any = self.prune
        whole = isinstance(prune, (int, np.integer)) and not isinstance(prune, bool)
        named = prune is None or (isinstance(prune, str) and prune == "auto")
        if not named and not (whole and prune >= 1):
            raise InputError(f"prune must be None, 'auto' or a number of heads >= 1, not {self.prune!r:.40}")
        return loss

    def _read(self, X: Any, y: Any, sample_weight: Any) -> TrainingTrees:
        projective = self.structure == "projective"
        return training_trees(X, y, sample_weight, self.single_root, projective, self.non_projective)

    def _build(self, data: TrainingTrees) -> tuple[Problem, ArcEncoder]:
        trees, self.single_root_, self.skipped_, self.lifted_, weights = data
        corpus = trees.corpus
        has_relations = self.labelled and corpus.relations is not None
        self._labels = ArcLabels.of(trees) if has_relations else ArcLabels([], [])
        self.relations_ = self._labels.relations
        self._begin_compiling(self._structure(1, self.order).oracle)
        arcs = self._pruned(corpus)
        structure = self._structure(len(self._labels), self.order)
        encoder = self._fitted_encoder(structure, corpus)
        encoded = encoder.transform(structure, corpus, arcs)
        shapes, labels = encoded.shapes_for(structure), corpus.heads.astype(np.int64)
        maps = {name: FeatureMap.build(1, own.n_attributes) for name, own in encoder.features.items()}
        if structure.labelled:
            codes = self._labels.codes(trees)
            labels = labels * len(self._labels) + codes
            relations = encoder.features["relation"]
            true = relations.transform(corpus, gold_arcs(corpus.heads, corpus.sentence_ptr))
            maps["relation"] = FeatureMap.build(
                structure.n_relations, relations.n_attributes, 0, true, codes, "observed"
            )
        problem = self._bound(
            structure,
            labels,
            shapes,
            encoded.rows(structure, maps),
            cost=self._cost(structure),
            example_weight=weights,
            gold=structure.parts_of_trees(labels, shapes),
        )
        return problem, encoder

    def _cost(self, structure: Any) -> Any:
        if self.cost == "auto":
            return "labelled" if structure.labelled else "heads"
        return self.cost if structure.labelled or self.cost != "labelled" else "heads"

    def _pruned(self, corpus: DependencyCorpus) -> Arcs:
        """The arcs that the parser is trained on, after a pruner has been trained if there is one."""
        self._pruner, self.pruning_ = None, None
        arcs, n_heads = all_arcs(corpus.lengths), self.prune
        if n_heads == "auto":
            worth = len(arcs.head) > _WORTH_PRUNING or self.order > 1
            n_heads = _HEADS_KEPT if worth else None
        if n_heads is None:
            return arcs
        jobs, first_order = n_threads(self.n_jobs), self._structure(1, 1)
        self._begin_compiling(first_order.oracle, ("sums", "best"))
        if self.verbose:
            print(f"training the pruner, a first-order model that leaves each word at most {n_heads} heads")
        self._pruner = ArcPruner.fit(corpus, first_order, int(n_heads), BEAM[self.order], jobs)
        arcs, self.pruning_ = self._pruner.prune(corpus, keep_true=True, n_jobs=jobs)
        if self.verbose:
            print(self.pruning_)
        return arcs

    def _structure(self, n_relations: int, order: int) -> Any:
        kind = STRUCTURES[self.structure, order]
        more = {"engine": "loopy"} if self.inference == "loopy" and order == 2 else {}
        return kind(single_root=self.single_root_, n_relations=max(n_relations, 1), **more)

    def _fitted_encoder(self, structure: Any, corpus: DependencyCorpus) -> ArcEncoder:
        """Features of every kind of rows."""
        templates = {
            "arc": self.templates, "relation": self.relation_templates,
            "sibling": self.sibling_templates, "grandparent": self.grandparent_templates,
        }  # fmt: skip
        return ArcEncoder(
            {
                kind: FEATURES[kind](templates[kind], min_count=self.min_count).fit(corpus)
                for kind in arc_kinds(structure.labelled, structure.order)
            }
        )

    def top_features(self, n: int = 20, label: str | None = None) -> list[tuple[str, str, float]]:
        """The features with the largest weights, whatever their sign.

        Parameters
        ----------
        label : str or None
            Only weights of this relation.

        Returns
        -------
        list of (feature, relation, weight)
            The relation is "arc" for features of arcs alone, "sibling" and "grandparent" for those of pairs.
        """
        return super().top_features(n, label)

    # -- model files ----------------------------------------------------------------------------

    def _label_state(self) -> list[Any]:
        return list(self.relations_)

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        encoder, arrays = self._encoder.state()
        arrays, pruner = prefixed(arrays, "encoder."), None
        if self._pruner is not None:
            pruner, pruner_arrays = self._pruner.state()
            arrays |= prefixed(pruner_arrays, "pruner.")
        header = {
            "structure": {"name": self.structure, "single_root": self.single_root_},
            "encoder": encoder,
            "pruner": pruner,
            "pruning": None if self.pruning_ is None else list(self.pruning_),
            "lifts": [list(pair) for pair in self._labels.lifts],
        }
        return header, arrays

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Any, ArcEncoder]:
        shape, stored = stored_part(header, "structure"), stored_part(header, "encoder")
        if not isinstance(shape.get("single_root"), bool):
            raise InputError("the structure does not say how many roots a tree has")
        self.structure = expect_text(shape, "name", ("spanning", "projective"))  # type: ignore[assignment]
        self.single_root_ = shape["single_root"]
        self.relations_ = expect_texts(header, "labels", distinct=True)
        self._labels = ArcLabels.from_state(header, self.relations_)
        self.order = expect_number({"order": self.order}, "order", 1, 2, whole=True)
        self.inference = expect_text({"inference": self.inference}, "inference", INFERENCE)  # type: ignore[assignment]
        structure = self._structure(len(self._labels), self.order)
        self._pruner, self.skipped_, self.lifted_ = None, None, None
        if header.get("pruner") is not None:
            own = unprefixed(arrays, "pruner.")
            self._pruner = ArcPruner.from_state(header["pruner"], own, self._structure(1, 1))
        self.pruning_ = PruningRecord.from_state(header.get("pruning"))
        own = unprefixed(arrays, "encoder.")
        return structure, ArcEncoder.from_state(stored, own, structure.labelled, self.order)

    # -- what commands and pages ask ------------------------------------------------------------

    def _known_labels(self) -> list[Any]:
        return list(self.relations_)

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        return set(getattr(X, "relations", None) or ()) if self.relations_ else set()

    def _shown_settings(self) -> dict[str, Any]:
        return {
            "structure": self.structure,
            "order": self.order,
            **({} if self.inference == "auto" else {"inference": self.inference}),
            "single root": self.single_root_,
            "cost": self.cost,
            "heads left by pruning": None if self._pruner is None else self._pruner.n_heads,
        }

    def _shown_sizes(self) -> dict[str, Any]:
        sizes: dict[str, Any] = {"relations": len(self.relations_)}
        if self._labels.lifts:
            sizes["lifted relations"] = len(self._labels.lifts)
        for name, features in self._encoder.features.items():
            sizes[f"{name} features"] = features.n_attributes
        if self.pruning_ is not None:
            sizes["pruning recall"] = self.pruning_.recall
        return sizes | {"non-zero weights": int(np.count_nonzero(self.coef_))}

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.pruning_ is not None:
            facts["pruning"] = self.pruning_.as_dict()
        if self.skipped_ is not None:
            facts["skipped_sentences"] = self.skipped_.n_skipped
        if self.lifted_ is not None:
            facts["lifted_arcs"] = self.lifted_.n_lifted
            facts["lifted_sentences"] = self.lifted_.n_lifted_sentences
        return facts

    def _training_notes(self) -> list[str]:
        return [str(each) for each in (self.skipped_, self.lifted_, self.pruning_) if each is not None]
