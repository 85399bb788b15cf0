"""Features of candidate arcs of dependency trees, and of siblings and grandparents, numbered by templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from partwise.core.arc_triples import ArcTriples, true_grandparents, true_siblings
from partwise.core.arcs import Arcs, all_arcs, checked_arcs, gold_arcs
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features import presets as sets
from partwise.features.engine import NO_VALUE
from partwise.features.listed import ListedFeatures
from partwise.features.templates import BETWEEN, Column, Kind, affixes

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

DISTANCES = ("1", "2", "3", "4", "5", "6-10", "11+")
_OF_DISTANCE = np.array(
    [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 6]
)  # by distance from 1; the last for all further ones


def _given(string: str) -> str | None:
    return None if string == NO_VALUE else string


_COLUMNS = {
    "form": Column("form"),
    "lower": Column("form", str.lower),
    "lemma": Column("lemma", _given),
    "tag": Column("tag", _given),
    "coarse": Column("coarse", _given),
    "feats": Column("feats", _given, outside=False),
    **affixes("form"),
}


def _kind(third: str, presets: Mapping[str, Sequence[str]]) -> Kind:
    """Templates of a head and a modifier, and perhaps of a third word.

    With a third word, the direction is that from the third word to the head and on to the modifier, and the distance
    is between the third word and the modifier. A first modifier has no sibling and a last one has no next modifier:
    both are "<outside>".
    """
    sides = ("right", "left")
    return Kind(
        name=third or "arc",
        parameter=f"{third}_templates" if third else "templates",
        places=("head", "modifier", *[third] * bool(third)),
        examples=f"head.form, {third or 'modifier'}+1.tag, {'modifier.lemma' if third else 'between.tag'}, direction",
        # A word has several morphological features; pairs of them are features of arcs.
        columns=_COLUMNS if third else {**_COLUMNS, "feat": Column("feats", outside=False)},
        relations={
            "direction": tuple(f"{a}-{b}" for a in sides for b in sides) if third else sides,
            "distance": DISTANCES,
        },
        several="" if third else BETWEEN,
        presets=presets,
        reserved=("<outside>", "<root>"),
        n_places=3 if third else 2,
    )


ARCS = _kind("", {"mcdonald": sets.MCDONALD, "pos": sets.TAGS_ONLY, "labels": sets.LABELS})


class ArcFeatures(ListedFeatures):
    """Numbers the features of arcs by templates.

    Parameters
    ----------
    templates : {"mcdonald", "pos", "labels"} or list of str
        See `partwise.features.templates`. Templates with a field that the training corpus has no values for
        are left out.
    observed : {"gold", "all"}
        Whether only features of the true arcs get a number, or those of all candidate arcs.
    min_count : int
        Features with fewer occurrences, among the arcs that `observed` names, are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    kind = ARCS
    subject: ClassVar[str] = "arc features"
    direct_keys: ClassVar[int] = 0  # most candidates have few of the features of true arcs
    _fine_tags: bool

    def __init__(
        self,
        templates: str | Sequence[str] = "mcdonald",
        observed: Literal["gold", "all"] = "gold",
        min_count: int = 1,
    ):
        super().__init__(templates, min_count)
        if observed not in ("gold", "all"):
            raise InputError(f"observed={observed!r} is not 'gold' or 'all'")
        self.observed = observed

    def fit(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> ArcFeatures:
        """Learn which features there are.

        Parameters
        ----------
        corpus : DependencyCorpus
            With all heads, unless ``observed="all"``.
        arcs : Arcs, or None for all
            The candidates; needed for ``observed="all"`` only.

        Returns
        -------
        self
        """
        if self.observed == "gold" and not corpus.has_heads:
            word = int(np.flatnonzero(corpus.heads < 0)[0])
            raise InputError(
                "a word without a head: features of true arcs need all heads", **corpus.where(word)
            )
        self._fine_tags = corpus.fine_tags.count(NO_VALUE) < len(corpus.fine_tags)
        self._fit(corpus, self._true_rows(corpus) if self.observed == "gold" else _arcs_for(corpus, arcs))
        return self

    def _true_rows(self, corpus: DependencyCorpus) -> Any:
        """The rows of the true trees, whose features are learnt with ``observed="gold"``."""
        return gold_arcs(corpus.heads, corpus.sentence_ptr)

    def fit_transform(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> AttributeRows:
        """`fit`, and the features of all candidate arcs."""
        return self.fit(corpus, arcs).transform(corpus, arcs)

    def transform(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> AttributeRows:
        """The known features of arcs, one row per arc.

        Parameters
        ----------
        corpus : DependencyCorpus
            Heads are not used.
        arcs : Arcs, or None for all

        Returns
        -------
        AttributeRows
        """
        return self._rows(corpus, _arcs_for(corpus, arcs))

    def known_values(self, source: str) -> list[str]:
        """The values of "form", "tag", "coarse" … that training saw; none if no template uses it."""
        return list(self._spaces.get(source, ()))

    def _relations(self) -> dict[str, np.ndarray]:
        """Directions one after another, each with all distances."""
        n_directions = len(self.kind.relations["direction"])
        return {
            "direction": np.arange(n_directions).repeat(len(_OF_DISTANCE)),
            "distance": np.tile(_OF_DISTANCE, n_directions),
        }

    def _column(self, data: DependencyCorpus, column: str) -> Sequence[str]:
        """Without fine tags, the coarse tags are the tags."""
        if column == "tag":
            return data.fine_tags if self._fine_tags else data.coarse_tags
        if column == "coarse":
            return data.coarse_tags if self._fine_tags else [NO_VALUE] * data.n_words
        return {"form": data.forms, "lemma": data.lemmas, "feats": data.feats}[column]

    def state(self) -> dict[str, Any]:
        return super().state() | {"observed": self.observed, "fine_tags": self._fine_tags}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ArcFeatures:
        """Rebuild from what `state` returned."""
        features = cls(state["templates"] or ["direction"], state["observed"], int(state["min_count"]))
        features._fine_tags = bool(state["fine_tags"])
        features._set_state(state)
        return features


class TripleFeatures(ArcFeatures):
    """Numbers the features that templates make of three words; only features of true trees get a number.

    Parameters, attributes and methods are those of :class:`ArcFeatures`; there is one row per triple.
    """

    def transform(self, corpus: DependencyCorpus, triples: Any = None) -> AttributeRows:
        """The known features of candidates, one row per triple.

        Parameters
        ----------
        triples : ArcTriples
        """
        assert isinstance(triples, ArcTriples)
        return self._rows(corpus, triples)


class SiblingFeatures(TripleFeatures):
    """Features of a head, one of its modifiers and the next one on the same side."""

    kind = _kind("sibling", {"siblings": sets.SIBLINGS})

    def _true_rows(self, corpus: DependencyCorpus) -> ArcTriples:
        return true_siblings(corpus.heads, corpus.sentence_ptr)


class GrandparentFeatures(TripleFeatures):
    """Features of a head, its own head and one of its modifiers."""

    kind = _kind("grandparent", {"grandparents": sets.GRANDPARENTS})

    def _true_rows(self, corpus: DependencyCorpus) -> ArcTriples:
        return true_grandparents(corpus.heads, corpus.sentence_ptr)


def _arcs_for(corpus: DependencyCorpus, arcs: Arcs | None) -> Arcs:
    """The candidates, checked; all arcs if they are None."""
    return all_arcs(corpus.lengths) if arcs is None else checked_arcs(corpus.lengths, arcs)
