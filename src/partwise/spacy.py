"""A spaCy component that finds entities with exact probabilities: the factory "partwise".

`nlp.add_pipe("partwise")` works if the package is installed, or after ``import partwise.spacy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.entities import DECODERS, Entity, checked_threshold
from partwise.storage.model_file import estimator_as_bytes, estimator_of_bytes, load
from partwise.tasks.sequences.labeler import SequenceLabeler

try:
    import spacy  # noqa: F401
except ImportError as error:
    raise ImportError("partwise.spacy needs spaCy: pip install 'partwise[spacy]'") from error

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span, SpanGroup, Token
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import minibatch

__all__ = ["EntityComponent"]

_MODEL = "model"
# Letters of the first, middle, last and only token of an entity.
_SCHEMES = {"IOB2": "BIIB", "BILOU": "BILU", "IOBES": "BIES"}
_DEFAULTS: dict[str, Any] = {
    "columns": ["text"],
    "features": None,
    "template": "ner",
    "scheme": "BILOU",
    "settings": {},
    "decode": "viterbi",
    "threshold": None,
    "spans_key": "partwise",
    "overwrite": False,
}


class EntityComponent(Pipe):
    """Finds entities by a :class:`~partwise.SequenceLabeler`, and sets ``doc.ents``.

    Each entity has its exact probability in ``ent._.probability``. ``doc.spans[spans_key]`` has the same entities, or
    all candidates above `threshold`, and their probabilities in ``attrs["scores"]``.

    Training is complete when `initialize` or `fit` returns. ``nlp.update`` passes the component by.

    Parameters
    ----------
    name : str
        The name of the component in its pipeline.
    columns : sequence of str
        Attributes of spaCy's tokens that the template reads, for example ``["text", "tag_"]``.
    features : callable, optional
        A function from a Doc to one dict or list of strings for each token. It replaces `columns` and `template`.
    template : str
        As for `SequenceLabeler`.
    scheme : {"BILOU", "IOBES", "IOB2"}
        The labels of the model.
    settings : dict
        More parameters of `SequenceLabeler`, for example ``{"l2": 0.5}``.
    decode : {"viterbi", "marginal", "mbr"}
        As for ``SequenceLabeler.predict_entities``.
    threshold : float, optional
        With it, the group of spans has all entities with at least this probability.
    spans_key : str or None
        The name of the group of spans. None sets no group.
    overwrite : bool
        Whether entities that were set before are removed. Otherwise they stay, and the model's entities that overlap
        with them are left out.

    Attributes
    ----------
    estimator : SequenceLabeler or None
        The model; None before training.
    """

    def __init__(
        self,
        name: str = "partwise",
        *,
        columns: Iterable[str] = ("text",),
        features: Callable[[Doc], Any] | None = None,
        template: str = "ner",
        scheme: str = "BILOU",
        settings: dict[str, Any] | None = None,
        decode: str = "viterbi",
        threshold: float | None = None,
        spans_key: str | None = "partwise",
        overwrite: bool = False,
    ):
        check_choice("scheme", scheme, tuple(_SCHEMES))
        check_choice("decode", decode, DECODERS)
        self.name, self.columns, self.features = name, list(columns), features
        self.template, self.scheme, self.settings = template, scheme, dict(settings or {})
        self.decode, self.spans_key, self.overwrite = decode, spans_key, overwrite
        self.threshold = None if threshold is None else checked_threshold(threshold)
        unknown = [column for column in self.columns if not hasattr(Token, column)]
        if unknown or not self.columns:
            raise InputError(
                f"columns must be attributes of spaCy's tokens, such as 'text', not {unknown!r:.60}"
            )
        self._new_estimator()  # raises if the settings are wrong
        self.estimator: Any = None
        _register_probability()

    def _new_estimator(self) -> SequenceLabeler:
        own: dict[str, Any] = {"scheme": self.scheme, "template": None if self.features else self.template}
        twice = sorted(set(own) & set(self.settings))
        unknown = sorted(set(self.settings) - set(SequenceLabeler._get_param_names()))
        if twice or unknown:
            word = "are options of the component" if twice else "are no parameters of SequenceLabeler"
            raise InputError(f"settings: {', '.join(twice or unknown):.80} {word}")
        return SequenceLabeler(**own, **self.settings)

    # -- training -------------------------------------------------------------------------------

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Train on all examples. ``nlp.initialize`` and ``spacy train`` call this.

        Parameters
        ----------
        get_examples : callable
            Returns the training examples.
        """
        validate_get_examples(get_examples, "EntityComponent.initialize")
        self._fit(list(get_examples()))

    def fit(self, docs: Iterable[Doc]) -> EntityComponent:
        """Train on documents that have entities.

        Parameters
        ----------
        docs : iterable of Doc
            With ``doc.ents``. Tokens without annotation (`doc.set_ents(missing=…)`) count as unknown.

        Returns
        -------
        self
        """
        self._fit([Example(doc, doc) for doc in docs])
        return self

    def _fit(self, examples: list[Example]) -> None:
        X, y = self.data(examples)
        if not {label for own in y for label in own} - {"O", None}:
            raise InputError(f"{self.name}: none of the {len(X)} training examples has an entity")
        for k, column in enumerate(() if self.features else self.columns):
            if not any(row[k] for x in X for row in x):
                raise InputError(
                    f"{self.name}: {column!r} is empty in all examples: train by fit, on docs that have it"
                )
        self.estimator = self._new_estimator().fit(X, y)

    def data(self, examples: Iterable[Example]) -> tuple[list[Any], list[list[str | None]]]:
        """Examples as the model's X and y, for example for ``estimator.calibrate(*component.data(examples))``.

        Parameters
        ----------
        examples : iterable of Example

        Returns
        -------
        X, y : list
            One sequence for each example, without tokens of white space. The label None is unknown.
        """
        X, y = [], []
        for example in examples:
            places = _words(example.predicted)
            if places:
                X.append(self._sequence(example.predicted, places))
                y.append(self._labels(example, places))
        return X, y

    def _labels(self, example: Example, places: list[int]) -> list[str | None]:
        spans, tags = example.get_aligned_ents_and_ner()
        labels = [None if tags[place] in (None, "-") else "O" for place in places]
        first, middle, last, only = list(_SCHEMES[self.scheme])
        for span in spans:
            inside = [k for k, place in enumerate(places) if span.start <= place < span.end]
            letters = [only] if len(inside) == 1 else [first, *[middle] * (len(inside) - 2), last]
            for k, letter in zip(inside, letters, strict=bool(inside)):
                labels[k] = f"{letter}-{span.label_}"
        return labels

    # -- prediction -----------------------------------------------------------------------------

    def _sequence(self, doc: Doc, places: list[int]) -> list[Any]:
        """The features of the tokens at some places."""
        if self.features is None:
            return [tuple(str(getattr(doc[place], column)) for column in self.columns) for place in places]
        rows = list(self.features(doc))
        if len(rows) != len(doc):
            raise InputError(f"{self.name}: features returned {len(rows)} rows for {len(doc)} tokens")
        return [rows[place] for place in places]

    def __call__(self, doc: Doc) -> Doc:
        error_handler = self.get_error_handler()
        try:
            self._annotate([doc])
        except Exception as error:
            error_handler(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the entities of many documents, `batch_size` at a time."""
        error_handler = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                error_handler(self.name, self, docs, error)
            else:
                yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        if self.estimator is None:
            raise InputError(
                f"the component {self.name!r} is not trained: call nlp.initialize(get_examples), or fit"
            )
        places = [_words(doc) for doc in docs]
        X = [self._sequence(doc, own) for doc, own in zip(docs, places, strict=True)]
        best = found = self.estimator.predict_entities(X, decode=self.decode)
        if self.threshold is not None and self.spans_key is not None:
            found = self.estimator.predict_entities(X, threshold=self.threshold)
        for doc, own, entities, candidates in zip(docs, places, best, found, strict=True):
            spans = [_span(doc, own, entity) for entity in entities]
            doc.set_ents(_merged([] if self.overwrite else doc.ents, spans), default="outside")
            if self.spans_key is not None:
                group = [_span(doc, own, entity) for entity in candidates]
                scores = np.array([entity.probability for entity in candidates])
                doc.spans[self.spans_key] = SpanGroup(
                    doc, name=self.spans_key, spans=group, attrs={"scores": scores}
                )

    @property
    def labels(self) -> tuple[str, ...]:
        """The types of entities."""
        return () if self.estimator is None else tuple(self.estimator._entity_types())

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """Precision, recall and F1 of entities, as those of spaCy's `ner`."""
        examples = list(examples)
        validate_examples(examples, "EntityComponent.score")
        return get_ner_prf(examples)

    # -- files ----------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The model as bytes; empty before training."""
        return b"" if self.estimator is None else estimator_as_bytes(self.estimator)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> EntityComponent:
        """Take over a model from bytes."""
        self.estimator = estimator_of_bytes(data) if data else None
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model into a folder, as a file that `partwise.load` reads."""
        Path(path).mkdir(parents=True, exist_ok=True)
        if self.estimator is not None:
            self.estimator.save(Path(path) / _MODEL)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> EntityComponent:
        """Take over a model from a folder."""
        model = Path(path) / _MODEL
        self.estimator = load(model) if model.exists() else None
        return self


def _words(doc: Doc) -> list[int]:
    """The places of tokens that are not white space."""
    return [token.i for token in doc if not token.is_space]


def _span(doc: Doc, places: list[int], entity: Entity) -> Span:
    """An entity as a span, with its probability."""
    span = Span(doc, places[entity.first], places[entity.last] + 1, label=entity.type)
    doc.user_data[_key(span)] = entity.probability
    return span


def _merged(earlier: Iterable[Span], spans: list[Span]) -> list[Span]:
    """Earlier entities, and the spans that do not overlap with them."""
    kept = list(earlier)
    taken = {place for span in kept for place in range(span.start, span.end)}
    return kept + [span for span in spans if taken.isdisjoint(range(span.start, span.end))]


def _key(span: Span) -> tuple[str, str, int, int]:
    """The key of a span's probability in the document's user data.

    spaCy moves keys of this form when it cuts or joins documents.
    """
    return ("._.", f"partwise:{span.label_}", span.start_char, span.end_char)


def _probability(span: Span) -> float | None:
    return span.doc.user_data.get(_key(span))


def _register_probability() -> None:
    if not Span.has_extension("probability"):
        Span.set_extension("probability", getter=_probability)


@Language.factory(
    "partwise",
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type", "span._.probability"],
    default_config=_DEFAULTS,
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make(
    nlp: Language,
    name: str,
    columns: list[str],
    features: Callable[[Doc], Any] | None,
    template: str,
    scheme: str,
    settings: dict[str, Any],
    decode: str,
    threshold: float | None,
    spans_key: str | None,
    overwrite: bool,
) -> EntityComponent:
    """The component of a pipeline, from its configuration."""
    return EntityComponent(
        name,
        columns=columns,
        features=features,
        template=template,
        scheme=scheme,
        settings=settings,
        decode=decode,
        threshold=threshold,
        spans_key=spans_key,
        overwrite=overwrite,
    )
