"""Split conformal prediction: sets of answers that hold the truth with a probability that is chosen.

Each labelled calibration example has a score: how far one must go down the list of answers to find the truth. The set
of a new example has all answers up to a quantile of these scores. If calibration and new examples are exchangeable, it
holds the truth with at least the probability asked for, whatever the model is (Vovk, Gammerman and Shafer, Algorithmic
Learning in a Random World, 2005; Angelopoulos and Bates, Foundations and Trends in Machine Learning 16, 2023). Singer,
Sengupta and Pazdernik (arXiv 2601.16999) do this for labellings and entities.

- *Labellings* and *classes* are ordered by probability. The score is the total probability of the better answers
  (Romano, Sesia and Candès 2020), so that the best answer is in every set. Labellings beyond the k best have the score
  infinity.
- *Entities* have the score 1 − probability. A sentence may have several, which are not independent. With
  ``each="entity"``, an entity counts 1 / (number of entities of its sentence): the guarantee is for an entity drawn
  from a new sentence (Lee, Barber and Willett 2023). With ``each="sentence"``, the score of a sentence is that of its
  least probable entity: the set has all true entities of the sentence.

With ``by_type=True``, each type or class has its own quantile (Mondrian conformal prediction), and the guarantee holds
for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.structures.checks import checked_count

KINDS = ("labellings", "entities", "classes")
LEAST = 1e-4  # Sets list no entities that are less probable.
_ROUNDING = 1e-9  # Probabilities computed alone and among others differ by less.


class ConformalSets(NamedTuple):
    """What :meth:`conformal` found.

    Attributes
    ----------
    on : {"labellings", "entities", "classes"}
    coverage : float
    each : {"entity", "sentence", "example"}
        What the coverage is of.
    k : int
        The most labellings of a set.
    groups : list of int
        The group of each type or class.
    quantiles : list of float
        The largest score of a set, for each group.
    n_examples : list of int
        Calibration examples of each group.
    mean_size : float
        Mean size of the sets of the calibration data.
    """

    on: str
    coverage: float
    each: str
    k: int
    groups: list[int]
    quantiles: list[float]
    n_examples: list[int]
    mean_size: float

    def state(self) -> dict[str, Any]:
        """JSON values for a model file."""
        return self._asdict()

    @classmethod
    def from_state(cls, stored: Any) -> ConformalSets:
        """From a file, checked."""
        try:
            found = cls(**stored)
            texts = found.on in KINDS and found.each in ("entity", "sentence", "example")
            groups = [type(k) is int and 0 <= k < len(found.quantiles) for k in found.groups]
            numbers = [float(q) >= 0.0 and math.isfinite(q) for q in found.quantiles]
            counts = [type(n) is int for n in found.n_examples] and len(found.n_examples) == len(numbers)
            whole = (
                type(found.k) is int and found.k > 0 and 0.0 < found.coverage < 1.0 and found.mean_size >= 0
            )
            if texts and all(groups) and numbers and all(numbers) and counts and whole:
                return found
        except (TypeError, ValueError, AttributeError):
            pass
        raise InputError("the conformal sets of this model are damaged")


class SetScores(NamedTuple):
    """How often sets hold the truth, on labelled data.

    Attributes
    ----------
    coverage : float
        Share of the truths that are in their sets, as `conformal` counts them.
    mean_size : float
        Mean number of answers of a set.
    by_type : dict
        Coverage and number of examples of each type or class: {name: (coverage, n)}.
    """

    coverage: float
    mean_size: float
    by_type: dict[Any, tuple[float, int]]


class Truths(NamedTuple):
    """Scores of true answers.

    Attributes
    ----------
    score : float64 array, shape (n,)
        Infinity if no set has the answer.
    example : int64 array, shape (n,)
    kind : int64 array, shape (n,)
        Type or class, −1 if the model does not know it.
    """

    score: np.ndarray
    example: np.ndarray
    kind: np.ndarray

    def take(self, which: np.ndarray) -> Truths:
        return Truths(*(column[which] for column in self))


class ConformalAnswers:
    """Sets with guaranteed coverage.

    A task says which kinds of sets it has (`_set_kinds`, the usual one first), scores truths (`_set_truths`), and makes
    sets (`_sets`).
    """

    conformal_: ConformalSets | None = None
    _set_kinds: tuple[str, ...] = ()

    def _set_names(self, on: str) -> list[Any]:
        """The names of types or classes."""
        raise NotImplementedError

    def _set_truths(self, X: Any, y: Any, on: str, k: int) -> Truths:
        raise NotImplementedError

    def _sets(self, X: Any, sets: ConformalSets) -> list[list[Any]]:
        raise NotImplementedError

    def _guarantee_state(self) -> dict[str, Any]:
        found = super()._guarantee_state()  # type: ignore[misc]
        return found if self.conformal_ is None else found | {"conformal": self.conformal_.state()}

    def _set_guarantees(self, record: Mapping[str, Any]) -> None:
        super()._set_guarantees(record)  # type: ignore[misc]
        if record.get("conformal") is not None:
            self.conformal_ = ConformalSets.from_state(record["conformal"])
            kinds = len(self._set_names(self.conformal_.on)) if self.conformal_.on in self._set_kinds else -1
            if len(self.conformal_.groups) != kinds:
                raise InputError("the conformal sets of this model are damaged")

    def conformal(
        self,
        X_cal: Any,
        y_cal: Any,
        coverage: float = 0.9,
        on: str | None = None,
        by_type: bool = False,
        each: str = "entity",
        k: int = 100,
    ) -> Any:
        """Choose how large sets of answers must be to hold the truth, by labelled data (split conformal prediction).

        The data must be new to training and to `calibrate`. If they and later examples are exchangeable, such as drawn
        from one source in random order, `predict_sets` holds the truth with at least the probability `coverage`, on
        average over calibration data and new examples. `fit` and `calibrate` undo it.

        Parameters
        ----------
        X_cal, y_cal
            As for `fit`.
        coverage : float
            Between 0 and 1.
        on : {"entities", "labellings", "classes"}, optional
            What sets hold: entities or whole labellings of sequences, or classes. None is "entities", or "classes" for
            a classifier.
        by_type : bool
            Guarantee the coverage for each type of entity, or for each class. Types that are too rare in these data
            share one group.
        each : {"entity", "sentence"}
            For entities: whether the coverage is of an entity drawn from a sentence, or of all entities of a sentence
            together.
        k : int
            The most labellings of a set.

        Returns
        -------
        self
            With `conformal_`.
        """
        on = self._set_kinds[0] if on is None else on
        check_choice("on", on, self._set_kinds)
        check_choice("each", each, ("entity", "sentence"))
        if isinstance(coverage, bool) or not isinstance(coverage, (int, float)) or not 0.0 < coverage < 1.0:
            raise InputError(f"coverage must be a number between 0 and 1, not {coverage!r:.40}")
        if by_type and on == "labellings":
            raise InputError("by_type is for entities and classes: a labelling has no type")
        k, names = checked_count(k, "k"), self._set_names(on)
        truths = self._set_truths(X_cal, y_cal, on, k)
        if on == "entities" and each == "sentence":
            truths = least_of_each_sentence(truths, by_type)
        groups = _groups(truths, len(names), coverage) if by_type else [0] * len(names)
        quantiles, counts = [], []
        for group in range(max(groups, default=0) + 1):
            # Without types, entities of types that the model does not know count too: no set has them.
            own = np.isin(truths.kind, np.flatnonzero(np.array(groups) == group)) if by_type else slice(None)
            here = truths.take(own)  # type: ignore[arg-type]
            quantiles.append(conformal_quantile(here.score, here.example, coverage))
            counts.append(len(np.unique(here.example)))
            _require_reached(quantiles[-1], here, coverage, on, counts[-1])
        kind = each if on == "entities" else "example"
        found = ConformalSets(on, float(coverage), kind, k, groups, quantiles, counts, 0.0)
        sizes = [len(own) for own in self._sets(X_cal, found)]
        self.conformal_ = found._replace(mean_size=float(np.mean(sizes)))
        return self

    def predict_sets(self, X: Any) -> list[list[Any]]:
        """For each example a set of answers that holds the truth with the probability that `conformal` was asked for.

        Returns
        -------
        list of lists
            Entities in order of position; or (labelling, probability) or (class, probability), best first.
        """
        if self.conformal_ is None:
            raise InputError(
                "call conformal(X_cal, y_cal) first: sets need labelled data to be calibrated by"
            )
        return self._sets(X, self.conformal_)

    def evaluate_sets(self, X: Any, y: Any) -> SetScores:
        """Coverage and size of sets on labelled data."""
        sizes, sets = [len(own) for own in self.predict_sets(X)], self.conformal_
        assert sets is not None
        truths, names = self._set_truths(X, y, sets.on, sets.k), self._set_names(sets.on)
        quantile = np.array([sets.quantiles[group] for group in sets.groups])
        by_kind = quantile[np.maximum(truths.kind, 0)] if len(quantile) else np.zeros(len(truths.kind))
        inside = (truths.score <= by_kind * (1.0 + _ROUNDING) + _ROUNDING) & np.isfinite(truths.score)
        coverage = mean_of(inside, truths.example, sets.each)
        by_type = {}
        for kind, name in enumerate(names if sets.on != "labellings" else []):
            own = truths.kind == kind
            value = mean_of(inside[own], truths.example[own], sets.each)
            by_type[name] = (value, len(np.unique(truths.example[own])))
        return SetScores(coverage, float(np.mean(sizes)) if sizes else 0.0, by_type)


def conformal_quantile(score: np.ndarray, example: np.ndarray, coverage: float) -> float:
    """The smallest q so that scores up to q have the weight `coverage`, infinity if there is none.

    Each of n examples has the weight 1 / (n + 1), in equal shares for its scores. The new example has the same weight,
    at infinity.
    """
    distinct, index = np.unique(example, return_inverse=True)
    weight = 1.0 / np.bincount(index, minlength=len(distinct))[index]
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(weight[order]) >= coverage * (len(distinct) + 1) - 1e-9
    return float(score[order][reached.argmax()]) if reached.any() else math.inf


def _groups(truths: Truths, n_kinds: int, coverage: float) -> list[int]:
    """A group for each type; types with too few examples for the coverage share the first group."""
    examples = [np.unique(truths.example[truths.kind == kind]) for kind in range(n_kinds)]
    needed = math.ceil(coverage / (1.0 - coverage) - 1e-9)
    rare: list[int] = []
    shared = np.zeros(0, np.int64)
    for kind in sorted(range(n_kinds), key=lambda kind: len(examples[kind])):
        if len(examples[kind]) >= needed and (not rare or len(shared) >= needed):
            break
        rare.append(kind)
        shared = np.union1d(shared, examples[kind])
    own = iter(range(bool(rare), n_kinds + 1))
    return [0 if kind in rare else next(own) for kind in range(n_kinds)]


def least_of_each_sentence(truths: Truths, by_type: bool) -> Truths:
    """The largest score of each sentence, or of each type in a sentence."""
    kind = truths.kind if by_type else np.zeros_like(truths.kind)
    order = np.lexsort((-truths.score, kind, truths.example))
    keys = np.column_stack([truths.example[order], kind[order]])
    _, first = np.unique(keys, axis=0, return_index=True) if len(keys) else (None, np.zeros(0, int))
    return truths.take(order[first])


def _require_reached(quantile: float, truths: Truths, coverage: float, on: str, n: int) -> None:
    """Raise if no set reaches the coverage."""
    most = 1.0 - LEAST if on == "entities" else math.inf
    if quantile < most:
        return
    if n / (n + 1) < coverage:
        needed = math.ceil(coverage / (1.0 - coverage) - 1e-9)
        raise InputError(f"coverage={coverage:g} needs at least {needed} calibration examples, there are {n}")
    listed = float((truths.score < most).mean())
    remedy = "raise k, or lower coverage" if on == "labellings" else "lower coverage"
    where = (
        "the k best labellings" if on == "labellings" else f"what the model gives a probability of {LEAST:g}"
    )
    raise InputError(
        f"coverage={coverage:g} is out of reach: {where} hold {listed:.1%} of the truths; {remedy}"
    )


def mean_of(inside: np.ndarray, example: np.ndarray, each: str) -> float:
    """Share of the truths in sets: of each example first, or of examples that have all."""
    if not len(inside):
        return 1.0
    _, index = np.unique(example, return_inverse=True)
    share = np.bincount(index, inside) / np.bincount(index)
    return float((share == 1.0).mean() if each == "sentence" else share.mean())


def ranked_truth(values: np.ndarray, is_true: np.ndarray) -> float:
    """The score of the true one of some answers, best first: the probability of the better ones."""
    return float(values[: int(is_true.argmax())].sum()) if is_true.any() else math.inf


def within(values: np.ndarray, quantile: Any) -> np.ndarray:
    """Which answers, best first, belong to a set: the better ones have a probability of at most `quantile`."""
    better = np.concatenate([[0.0], np.cumsum(values)[:-1]]) if len(values) else values
    return better <= np.asarray(quantile) + _ROUNDING
