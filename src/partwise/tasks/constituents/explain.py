"""Why a tree: the terms of its score, as they are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from partwise.data.constituents import Tree
from partwise.data.frames import frame_of


class TreeTerm(NamedTuple):
    """One term of a tree's score.

    Attributes
    ----------
    first, end : int
        The words `first` to `end` - 1 that it is about.
    feature : str
        "(rule)" for the weights of rules.
    label : str
        The symbol, or the rule.
    weight, contribution : float
        In a difference the terms of the other tree are subtracted: their contribution is ``-weight``.
    """

    first: int
    end: int
    feature: str
    label: str
    weight: float
    contribution: float


@dataclass(frozen=True)
class TreeExplanation:
    """The score of a tree, or its difference to another, term by term.

    Attributes
    ----------
    tree, against : Tree, and Tree or None
    score : float
        Sum of all contributions.
    terms : list of TreeTerm
        Terms that two trees share are left out of a difference.
    """

    tree: Tree
    against: Tree | None
    score: float
    terms: list[TreeTerm]

    def top(self, n: int = 10) -> list[TreeTerm]:
        """The `n` largest contributions by size."""
        return sorted(self.terms, key=lambda term: -abs(term.contribution))[:n]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "tree": str(self.tree),
            "against": None if self.against is None else str(self.against),
            "score": self.score,
            "terms": [term._asdict() for term in self.terms],
        }

    def to_frame(self) -> Any:
        """The terms as a pandas DataFrame, one row each."""
        return frame_of([term._asdict() for term in self.terms])

    def __str__(self) -> str:
        """The largest contributions, a line each."""
        words = self.tree.words()
        lines = [f"score {self.score:+.4f} of {self.tree}"]
        if self.against is not None:
            lines.append(f"above {self.against}")
        for term in self.top(20):
            shown = " ".join(words[term.first : term.end])
            lines.append(f"  {term.contribution:+9.4f}  {term.feature} → {term.label}  [{shown}]")
        rest = len(self.terms) - 20
        if rest > 0:
            total = math.fsum(term.contribution for term in self.top(len(self.terms))[20:])
            lines.append(f"  {total:+9.4f}  in {rest} smaller terms")
        return "\n".join(lines)
