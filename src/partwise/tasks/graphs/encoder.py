"""Rows of a graph's kinds: one encoder for every kind of nodes and for every kind of factors that has features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, KindSize, ListedNames, OwnRows
from partwise.estimators.encoders import AttributeEncoder, choose_encoder
from partwise.estimators.matrices import MatrixEncoder
from partwise.storage.checks import expect_text, expect_texts
from partwise.tasks.graphs.data import GraphCorpus, KindOfFactor, names_of

_ENCODERS: dict[str, Any] = {"attributes": AttributeEncoder, "matrix": MatrixEncoder}
_MOST_KINDS = 1000


@dataclass
class GraphEncoder(ListedNames):
    """What training saw of kinds and features.

    Attributes
    ----------
    nodes : list of str
        Kinds of nodes.
    factors : list of KindOfFactor
        Those with features first.
    own : dict of encoders
        By the name of the kind, those of nodes first; none for kinds without features.
    """

    nodes: list[str]
    factors: list[KindOfFactor]
    own: dict[str, Any]

    @classmethod
    def fit(
        cls, corpus: GraphCorpus, min_count: int = 1, hash_size: int | None = None
    ) -> tuple[GraphEncoder, tuple[OwnRows, ...]]:
        """An encoder for the kinds of a corpus, and the corpus' rows."""
        factors = sorted(
            (each.kind for each in corpus.factors.values()), key=lambda kind: (kind.tied, kind.name)
        )
        encoder, rows = cls(list(corpus.kinds), factors, {}), []
        for name, chunks in encoder._chunks(corpus):
            own = encoder.own[name] = choose_encoder(chunks, None)
            # Counts and hashes are for named attributes; a kind whose features are numbers has neither.
            settings = (1, None) if isinstance(own, MatrixEncoder) else (min_count, hash_size)
            rows.append(
                _encoded(name, lambda own=own, chunks=chunks, s=settings: own.fit_transform(chunks, *s))
            )
        return encoder, tuple(rows)

    def transform(self, corpus: GraphCorpus) -> tuple[OwnRows, ...]:
        """Rows of each kind that has features, those of nodes first."""
        self.check(corpus)
        return tuple(
            _encoded(name, lambda name=name, chunks=chunks: self.own[name].transform(chunks))
            for name, chunks in self._chunks(corpus)
        )

    def _chunks(self, corpus: GraphCorpus) -> list[tuple[str, list[Any]]]:
        """Features by kind, of each graph one row a node or factor."""
        nothing: list[Any] = [[] for _ in corpus.lengths]
        found = [(name, corpus.node_features.get(name, nothing)) for name in self.nodes]
        for kind in self.factors:
            if not kind.tied:
                own = corpus.factors.get(kind.name)
                found.append((kind.name, nothing if own is None else own.features))
        return found

    def check(self, corpus: GraphCorpus) -> None:
        """Raise at kinds that were not in training, or were there something else."""
        for name in corpus.kinds:
            if name not in self.nodes:
                raise InputError(
                    f"nodes of kind {name!r:.60} were not in training: {names_of(self.nodes)} were"
                )
        known = {kind.name: kind for kind in self.factors}
        for name, found in corpus.factors.items():
            if name not in known:
                raise InputError(
                    f"factors of kind {name!r:.60} were not in training: {names_of([*known])} were"
                )
            kind = known[name]
            if found.kind.nodes != kind.nodes:
                joined = f"join {' and '.join(found.kind.nodes)}, but {' and '.join(kind.nodes)} in training"
                raise InputError(f"factors of kind {name!r:.60} {joined}")
            if found.kind.tied != kind.tied:
                has = "no features, but had some" if found.kind.tied else "features, but had none"
                raise InputError(f"factors of kind {name!r:.60} have {has} in training")

    # -- what a model asks ----------------------------------------------------------------------

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return tuple(size for own in self.own.values() for size in own.sizes)

    def keep(self, used: list[np.ndarray]) -> tuple[GraphEncoder, list[np.ndarray]]:
        """The same without the attributes that have no weight."""
        pieces = [own.keep([attributes]) for own, attributes in zip(self.own.values(), used, strict=True)]
        smaller = {name: piece[0] for name, piece in zip(self.own, pieces, strict=True)}
        return GraphEncoder(self.nodes, self.factors, smaller), [kept for _, own in pieces for kept in own]

    def names(self, kind: str) -> list[str]:
        """Names of the attributes of a kind, dense ones first."""
        return self.own[kind].names()

    # -- model files ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "nodes": list(self.nodes),
            "factors": [
                {"name": kind.name, "nodes": list(kind.nodes), "tied": kind.tied} for kind in self.factors
            ],
            "own": [{"kind": own.kind, **own.state()[0]} for own in self.own.values()],
        }

    @classmethod
    def from_state(cls, header: Any) -> GraphEncoder:
        """Rebuild one, after checking all that it says."""
        if not isinstance(header, Mapping):
            raise InputError("the kinds of nodes and factors are missing")
        nodes = expect_texts(header, "nodes", distinct=True)
        stored, own = header.get("factors"), header.get("own")
        if not isinstance(stored, list) or not isinstance(own, list) or not 0 < len(nodes) <= _MOST_KINDS:
            raise InputError("the kinds of nodes and factors are missing")
        factors = [_stored_kind(each, nodes) for each in stored]
        names = [*nodes, *(kind.name for kind in factors if not kind.tied)]
        every = [*nodes, *(kind.name for kind in factors)]
        tied = [kind.tied for kind in factors]
        if len(set(every)) != len(every) or tied != sorted(tied) or len(own) != len(names):
            raise InputError("the kinds of nodes and factors do not fit together")
        encoders = {}
        for name, each in zip(names, own, strict=True):
            if not isinstance(each, Mapping):
                raise InputError(f"the features of kind {name!r:.60} are missing")
            encoders[name] = _ENCODERS[expect_text(each, "kind", tuple(_ENCODERS))].from_state(each, {})
        return cls(nodes, factors, encoders)


def _stored_kind(stored: Any, nodes: list[str]) -> KindOfFactor:
    if not isinstance(stored, Mapping) or not isinstance(stored.get("tied"), bool):
        raise InputError("a kind of factors is damaged")
    own = expect_texts(stored, "nodes")
    if not 2 <= len(own) <= 32 or not set(own) <= set(nodes):
        raise InputError("a kind of factors joins kinds of nodes that there are not")
    return KindOfFactor(expect_text(stored, "name"), tuple(own), stored["tied"])


def _encoded(kind: str, make: Any) -> OwnRows:
    """Rows of one kind; errors say of which, and speak of graphs."""
    try:
        encoded: Encoded = make()
    except InputError as error:
        words = str(error).replace("sequence", "graph").replace("position", "row").replace("tokens", "rows")
        raise InputError(f"features of kind {kind!r:.60}: {words.replace('token', 'row')}") from None
    return encoded.own[0]
