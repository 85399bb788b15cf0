"""Why a tree: exact contributions of every feature and rule, and the largest weights of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.data.constituents import Tree
from partwise.data.treebank import rooted, without_cycles, without_functions, without_traces
from partwise.errors import InputError
from partwise.estimators.explain import weight_of
from partwise.estimators.model import LinearModel
from partwise.structures.contract import PartLists
from partwise.tasks.constituents.data import ROOT, as_sentences
from partwise.tasks.constituents.derivations import Derivations
from partwise.tasks.constituents.encoder import SpanEncoder, places_of


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


class ConstituencyExplanations:
    """Explanations of an estimator that has `_encoder`, `_model` and `_derivations`."""

    _encoder: SpanEncoder
    _model: LinearModel
    _derivations: Derivations
    has_tags_: bool
    functions: bool

    def explain(self, x: Any, y: Any = None, against: Any = None) -> TreeExplanation:
        """Contributions to the score of a tree of one sentence; they add up to it.

        Parameters
        ----------
        x : one sentence, as in X
        y : tree, optional
            By default the best one.
        against : "runner-up" or tree, optional
            Explain the difference to the second best tree (the best other than `y`), or to a given one. A positive
            contribution speaks for `y`.
        """
        parser: Any = self
        parser._require_parser()
        tree = parser.predict([x])[0] if y is None else Tree.of(y, "y")
        other = None
        if isinstance(against, str) and against == "runner-up":
            found = [each for each, _ in parser.predict_kbest([x], k=5)[0] if each != tree]
            if not found:
                raise InputError("this sentence has no other tree to compare with")
            other = found[0]
        elif against is not None:
            other = Tree.of(against, "against")
        terms = self._terms(x, tree, "y")
        if other is not None:
            terms = _difference(terms, self._terms(x, other, "against"))
        terms.sort(key=lambda term: (term.first, -term.end))
        return TreeExplanation(tree, other, math.fsum(term.contribution for term in terms), terms)

    def _terms(self, x: Any, tree: Tree, what: str) -> list[TreeTerm]:
        sentences, structure = as_sentences([x], self.has_tags_), self._model.structure
        binary = self._binary(tree, what)
        if binary.words() != sentences.forms:
            raise InputError(f"the words of {what} are not those of x")
        try:
            nodes = self._derivations.nodes_of([binary])
        except KeyError as error:
            raise InputError(f"{what} has a rule that was not in training (symbol or rule {error})") from None
        shapes = structure.shapes(sentences.lengths)
        parts: PartLists = structure.encode_all(nodes, shapes)
        terms, first_part = [], 0
        for kind, count in zip(structure.kinds, structure.row_counts(shapes), strict=False):
            rows = self._encoder.features[kind.name].transform(
                sentences,
                places_of(kind.name, structure, shapes),  # type: ignore[arg-type]
            )
            end = first_part + int(count[0]) * kind.width
            own = parts.part[(parts.part >= first_part) & (parts.part < end)] - first_part
            terms += self._own_terms(kind.name, kind.width, own, rows, shapes)
            first_part = end
        rule_weights = self._model.weights_of("rule")
        for first, last, _, rule in nodes.tolist():
            if rule >= 0 and rule_weights[rule]:
                weight = float(rule_weights[rule])
                name = self._derivations.shown_rule(rule)
                terms.append(TreeTerm(first, last + 1, "(rule)", name, weight, weight))
        return terms

    def _own_terms(self, kind: str, width: int, parts: np.ndarray, rows: Any, shapes: Any) -> list[TreeTerm]:
        """Terms of the rows of one kind that a tree uses."""
        structure: Any = self._model.structure
        places = places_of(kind, structure, shapes)
        features, terms = self._encoder.features[kind], []
        symbols = {
            "word": structure.word_symbols,
            "span": np.concatenate([structure.binary_symbols, structure.unary_symbols]),
        }
        for part in parts.tolist():
            row, column = divmod(part, width)
            ids = rows.ids[rows.row_ptr[row] : rows.row_ptr[row + 1]].tolist()
            label = "split" if kind == "split" else self._derivations.symbols[int(symbols[kind][column])]
            first, end = int(places.first[row]), int(places.last[row]) + 1
            for attribute, name in zip(ids, features.names(ids), strict=True):
                weight = weight_of(self._model.maps[kind], self._model.weights_of(kind), attribute, column)
                if weight:
                    terms.append(TreeTerm(first, end, name, label, weight, weight))
        return terms

    def _binary(self, tree: Tree, what: str) -> Tree:
        """A tree as training sees it."""
        bare = without_traces(tree)
        if bare is None:
            raise InputError(f"{what} has no words")
        bare = bare if self.functions else without_functions(bare)
        return self._derivations.form.apply(without_cycles(rooted(bare, ROOT)))

    def top_features(self, n: int = 20, label: str | None = None) -> list[tuple[str, str, float]]:
        """The features and rules with the largest weights, whatever their sign: (feature, symbol, weight).

        Parameters
        ----------
        label : str or None
            Only weights of this symbol.
        """
        parser: Any = self
        parser._require_parser()
        structure: Any = self._model.structure
        if label is not None and label not in self._derivations.symbols:
            raise InputError(f"label {label!r:.60} is no symbol of the grammar")
        names = self._derivations.symbols
        columns = {
            "word": [names[k] for k in structure.word_symbols.tolist()],
            "span": [
                names[k] for k in (*structure.binary_symbols.tolist(), *structure.unary_symbols.tolist())
            ],
            "split": ["split"],
        }
        found = []
        for kind, features in self._encoder.features.items():
            attribute, column, index = self._model.maps[kind].pairs()
            weights = self._model.weights_of(kind)[index]
            if label is not None:
                chosen = np.array([name == label for name in columns[kind]], bool)[column]
                attribute, column, weights = attribute[chosen], column[chosen], weights[chosen]
            order = np.argsort(-np.abs(weights), kind="stable")[:n]
            shown = features.names(attribute[order].tolist())
            labels = [columns[kind][k] for k in column[order].tolist()]
            found += list(zip(shown, labels, weights[order].tolist(), strict=True))
        rules = self._model.weights_of("rule")[: structure.n_rules]
        for rule in np.argsort(-np.abs(rules), kind="stable").tolist():
            text = self._derivations.shown_rule(rule)
            if label is None or text.startswith(f"{label} →"):
                found.append(("(rule)", text, float(rules[rule])))
        return sorted(found, key=lambda each: -abs(each[2]))[:n]


def _difference(mine: list[TreeTerm], theirs: list[TreeTerm]) -> list[TreeTerm]:
    shared = {term[:4] for term in mine} & {term[:4] for term in theirs}
    negative = [term._replace(contribution=-term.contribution) for term in theirs]
    return [term for term in mine + negative if term[:4] not in shared]
