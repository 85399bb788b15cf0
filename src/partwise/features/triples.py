"""Features of siblings and grandparents, numbered as those of arcs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from partwise.core.arc_triples import ArcTriples, true_grandparents, true_siblings
from partwise.core.rows import AttributeRows
from partwise.features.arc_templates import arc_templates
from partwise.features.arcs import ArcFeatures
from partwise.features.triple_templates import TRIPLE_PRESETS

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus


class TripleFeatures(ArcFeatures):
    """Numbers the features that templates give to three words; those of true trees get a number.

    Parameters, attributes and methods are those of :class:`ArcFeatures`; rows are those of triples.
    """

    third: ClassVar[str]
    directions: ClassVar[tuple[str, ...]] = ("right-right", "right-left", "left-right", "left-left")

    def _checked_templates(self, templates: str | Sequence[str]) -> list[str]:
        return arc_templates(templates, TRIPLE_PRESETS[self.third], self.third)

    def transform(self, corpus: DependencyCorpus, triples: Any = None) -> AttributeRows:
        """The known features of candidates, a row each.

        Parameters
        ----------
        triples : ArcTriples
        """
        assert isinstance(triples, ArcTriples)
        return self._rows(corpus, triples)


class SiblingFeatures(TripleFeatures):
    """Of a head, one of its modifiers and the next on the same side."""

    third = "sibling"

    def _true_parts(self, corpus: DependencyCorpus) -> ArcTriples:
        return true_siblings(corpus.heads, corpus.sentence_ptr)


class GrandparentFeatures(TripleFeatures):
    """Of a head, its own head and one of its modifiers."""

    third = "grandparent"

    def _true_parts(self, corpus: DependencyCorpus) -> ArcTriples:
        return true_grandparents(corpus.heads, corpus.sentence_ptr)
