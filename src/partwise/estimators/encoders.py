"""From what users give as X to sparse or dense rows: attributes of tokens, template columns, or matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.attribute_codes import UnusualError
from partwise.core.rows import AttributeRows
from partwise.data.conll import Columns
from partwise.data.frames import as_dicts, as_rows, is_frame, unpacked
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, is_sparse
from partwise.estimators.encoded import Encoded, KindSize, ListedNames, OwnRows
from partwise.estimators.lookup import AttributeLookup
from partwise.estimators.matrices import MatrixEncoder, looks_like_matrix
from partwise.estimators.saving import prefixed, unprefixed
from partwise.features.attributes import AttributeExtractor
from partwise.features.one_sentence import SentenceEncoder
from partwise.features.templates import (
    Template,
    load_template,
    looks_like_crfpp,
    parse_crfpp,
    parse_template,
)
from partwise.features.vocabulary import DictVocabulary
from partwise.storage.checks import (
    expect_array,
    expect_number,
    expect_offsets,
    expect_text,
    expect_texts,
)

ALWAYS = "(transition)"  # the edge attribute that every edge has


def choose_encoder(X: Any, template: Any) -> AttributeEncoder | ColumnEncoder | MatrixEncoder:
    """The encoder for this kind of input."""
    if template is not None:
        return ColumnEncoder(read_template(template))
    if isinstance(X, Columns):
        raise InputError("X is Columns: say which features to make of them, for example template='chunking'")
    return MatrixEncoder() if looks_like_matrix(X) else AttributeEncoder()


def as_sequences(X: Any) -> Any:
    """Generators, outer and inner, as lists, and so arrays of tokens and what pandas has; all else as it is."""
    if isinstance(X, Columns):
        return X
    X = _without_arrays_of_objects(unpacked(X))
    if is_frame(X):
        raise InputError(
            f"X is one DataFrame of {X.shape[0]} rows; give one DataFrame a sequence, for example "
            "X = frame.groupby('sentence')[['word', 'pos']] and y = frame.groupby('sentence')['tag']"
        )
    if hasattr(X, "shape"):
        return X
    check_ordered(X, "X", "a list of sequences")
    sequences = X if isinstance(X, (list, tuple)) else list(X)
    if all(map(_has_length, sequences)):
        return sequences
    for i, each in enumerate(sequences):
        if not isinstance(each, Iterable):
            raise InputError(f"X[{i}] is {each!r:.60}; it must be a sequence of tokens, or a matrix")
    return [each if _has_length(each) else list(each) for each in sequences]


def _without_arrays_of_objects(X: Any) -> Any:
    """An array of sequences as a list; NumPy makes one of two axes where all sequences have one length."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "OU":
        return X
    if X.ndim == 2 and X.size and isinstance(X[0, 0], (str, list, tuple, Mapping)):
        return [row.tolist() for row in X]
    return list(X) if X.ndim == 1 else X


def _has_length(sequence: Any) -> bool:
    return hasattr(sequence, "__len__") or hasattr(sequence, "shape")


def _with_dicts(X: Any) -> Any:
    """DataFrames as lists of dicts."""
    return [as_dicts(each) if is_frame(each) else each for each in X] if any(map(is_frame, X)) else X


class AttributeEncoder(ListedNames):
    """Tokens given as dicts or lists of strings, numbered by a vocabulary."""

    kind = "attributes"
    n_dense = 0
    tied = True

    def __init__(self, vocabulary: DictVocabulary | None = None) -> None:
        self.vocabulary = vocabulary or DictVocabulary()

    @property
    def n_attributes(self) -> int:
        return self.vocabulary.n_attributes

    def fit_transform(self, X: Any, min_count: int = 1, hash_size: int | None = None) -> Encoded:
        X, lengths = _with_dicts(X), _lengths(X)
        return Encoded(lengths, (OwnRows(self.vocabulary.fit_transform(X, min_count, hash_size)),))

    def transform(self, X: Any) -> Encoded:
        X = X if isinstance(X, Columns) else _with_dicts(X)
        if isinstance(X, Columns) or looks_like_matrix(X):
            kind = "Columns" if isinstance(X, Columns) else "numbers"
            raise InputError(f"X holds {kind}, but training was on tokens that are dicts or lists of strings")
        lengths = _lengths(X)
        rows = None if self.lookup is None else self.lookup.rows(X)
        return Encoded(lengths, (OwnRows(self.vocabulary.transform(X) if rows is None else rows),))

    @cached_property
    def lookup(self) -> AttributeLookup | None:
        """The vocabulary as tables of codes; None if attributes are hashed."""
        return None if self.vocabulary.is_hashed else AttributeLookup(self.vocabulary.index)

    def codes(self, x: Sequence[Any]) -> bytes:
        """Coded attributes of one sequence, see ``core/attribute_codes.py``; UnusualError if it is not of a simple
        kind."""
        if self.lookup is None:
            raise UnusualError
        return self.lookup.codes(x)

    def __getstate__(self) -> dict[str, Any]:
        """Without the lookup, which is made again when it is needed."""
        return {"vocabulary": self.vocabulary}

    def names(self, kind: str = "node") -> list[str]:
        return self.vocabulary.names()

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return (KindSize(0, self.n_attributes),)

    def keep(self, used: list[np.ndarray]) -> tuple[AttributeEncoder, list[np.ndarray]]:
        """The same without the attributes that have no weight; hashed ones stay as they are."""
        state = self.vocabulary.state()
        if state["hash_size"]:
            return self, [np.arange(self.n_attributes)]
        names = state["names"]
        kept = {"names": [names[k] for k in used[0].tolist()], "hash_size": 0}
        return AttributeEncoder(DictVocabulary.from_state(kept)), used

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return self.vocabulary.state(), {}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> AttributeEncoder:
        names = expect_texts(header, "names", distinct=True)
        hash_size = expect_number(header, "hash_size", 0, 2**31 - 1, whole=True)
        return cls(DictVocabulary.from_state({"names": names, "hash_size": hash_size}))


class ColumnEncoder(ListedNames):
    """Columns of strings through a template; edge attributes where the template has them."""

    kind = "columns"
    n_dense = 0

    def __init__(self, template: Template) -> None:
        self.template = template
        self.node = AttributeExtractor(template, "node")
        # A template with neither edge lines nor a plain B has no transition weights at all.
        self.tied = template.tied_transitions and not template.edges
        self.edge = None if self.tied else AttributeExtractor(template, "edge")

    @property
    def n_attributes(self) -> int:
        return self.node.n_attributes

    @property
    def always(self) -> bool:
        """Whether every edge has one attribute more, the last, for tied transitions."""
        return self.edge is not None and self.template.tied_transitions

    @property
    def n_edge_attributes(self) -> int:
        return 0 if self.edge is None else self.edge.n_attributes + int(self.always)

    def fit_transform(self, X: Any, min_count: int = 1, hash_size: int | None = None) -> Encoded:
        columns, ptr = read_columns(X)
        node_rows = self.node.fit_transform(columns, ptr, min_count, hash_size)
        edges = None if self.edge is None else self.edge.fit_transform(columns, ptr, min_count, hash_size)
        return Encoded(np.diff(ptr), (OwnRows(node_rows), *self.edge_rows(edges)))

    def transform(self, X: Any) -> Encoded:
        columns, ptr = read_columns(X)
        edges = None if self.edge is None else self.edge.transform(columns, ptr)
        node_rows = self.node.transform(columns, ptr)
        return Encoded(np.diff(ptr), (OwnRows(node_rows), *self.edge_rows(edges)))

    @cached_property
    def sentence_encoders(self) -> list[SentenceEncoder]:
        """Encoders of one sentence for each kind of rows; none if the vocabulary is not plain."""
        extractors = [self.node] if self.edge is None else [self.node, self.edge]
        if not all(each.is_plain for each in extractors):
            return []
        always = self.n_edge_attributes - 1 if self.always else -1
        return [SentenceEncoder(*each) for each in zip(extractors, (-1, always), strict=False)]

    def codes(self, x: Sequence[Any]) -> bytes:
        """Coded attributes of one sequence, see ``core/attribute_codes.py``; UnusualError if it is not of a simple
        kind."""
        types = set(map(type, x))
        if not self.sentence_encoders or not (types <= {list, tuple} or types == {str}):
            raise UnusualError
        try:
            columns = [x] if types == {str} else list(zip(*x, strict=True))
            return b"".join([each.codes(columns) for each in self.sentence_encoders])
        except (ValueError, IndexError, TypeError):
            raise UnusualError from None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "sentence_encoders"}

    def edge_rows(self, rows: AttributeRows | None) -> tuple[OwnRows, ...]:
        """With the attribute that every edge has, numbered behind all others; nothing where edges are tied."""
        if rows is None or self.edge is None:
            return ()
        if not self.always:
            return (OwnRows(rows),)
        n_rows = len(rows.row_ptr) - 1
        ids = np.insert(rows.ids, rows.row_ptr[1:], self.edge.n_attributes).astype(np.int32)
        values = None if rows.values is None else np.insert(rows.values, rows.row_ptr[1:], 1.0)
        return (OwnRows(AttributeRows(rows.row_ptr + np.arange(n_rows + 1), ids, values)),)

    def names(self, kind: str = "node") -> list[str]:
        if kind == "node":
            return _names(self.node)
        return [] if self.edge is None else _names(self.edge) + [ALWAYS] * self.always

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        nodes = KindSize(0, self.n_attributes)
        return (nodes,) if self.edge is None else (nodes, KindSize(0, self.n_edge_attributes))

    def keep(self, used: list[np.ndarray]) -> tuple[ColumnEncoder, list[np.ndarray]]:
        """The same without the attributes that have no weight; hashed ones stay as they are, and so does the
        attribute of every edge."""
        smaller = ColumnEncoder.__new__(ColumnEncoder)
        smaller.template, smaller.tied, smaller.edge = self.template, self.tied, None
        smaller.node, nodes = _keep(self.node, used[0])
        if self.edge is None:
            return smaller, [nodes]
        named = self.edge.n_attributes
        smaller.edge, edges = _keep(self.edge, used[1][used[1] < named])
        return smaller, [nodes, np.append(edges, [named] * self.always).astype(np.int64)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header: dict[str, Any] = {"path": self.template.path}
        arrays: dict[str, np.ndarray] = {}
        for part in ("node", "edge"):
            extractor = getattr(self, part)
            if extractor is not None:
                state = extractor.state()
                for name in _EXTRACTOR_ARRAYS:
                    arrays[f"{part}.{name}"] = smallest(state.pop(name))
                header[part] = state
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ColumnEncoder:
        node = _extractor(header, arrays, "node")
        encoder = cls.__new__(cls)
        path = header.get("path")
        encoder.template = replace(node.template, path=path if isinstance(path, str) else None)
        encoder.node = node
        encoder.tied = node.template.tied_transitions and not node.template.edges
        encoder.edge = None if encoder.tied else _extractor(header, arrays, "edge")
        return encoder


_EXTRACTOR_ARRAYS = ("keys", "group_of", "squeezed_places", "squeezed_ptr", "squeezed_keys")
_WHOLE = tuple(np.dtype(kind) for kind in ("u1", "u2", "u4", "i4", "i8"))


def _keep(extractor: AttributeExtractor, ids: np.ndarray) -> tuple[AttributeExtractor, np.ndarray]:
    if extractor.is_hashed or len(ids) == extractor.n_attributes:
        return extractor, np.arange(extractor.n_attributes)
    return extractor.keep(ids), ids


def _extractor(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], part: str) -> AttributeExtractor:
    """Rebuild one, after checking all that its code takes on trust."""
    state = header.get(part)
    if not isinstance(state, dict):
        raise InputError(f"the {part} template is missing")
    expect_text(state, "template")
    expect_text(state, "template_syntax", ("partwise", "crf++"))
    expect_text(state, "part", (part,))
    expect_number(state, "n_columns", 0, 10_000, whole=True)
    expect_number(state, "hash_size", 0, 2**31 - 1, whole=True)
    values = {name: arrays.get(f"{part}.{name}") for name in _EXTRACTOR_ARRAYS}
    named = {f"{part}.{name}": value for name, value in values.items() if value is not None}
    keys = expect_array(named, f"{part}.keys", _WHOLE, low=0)
    expect_array(named, f"{part}.group_of", _WHOLE, shape=(len(keys),), low=0)
    squeezed = expect_array(named, f"{part}.squeezed_keys", _WHOLE, low=0)
    places = expect_array(named, f"{part}.squeezed_places", _WHOLE, shape=(None, 2), low=0)
    named[f"{part}.squeezed_ptr"] = np.asarray(values["squeezed_ptr"], np.int64)
    expect_offsets(named, f"{part}.squeezed_ptr", len(places), len(squeezed))
    strings = state.get("strings")
    if not isinstance(strings, list) or not all(isinstance(s, str) for space in strings for s in space):
        raise InputError("the strings of the vocabulary are missing")
    wide = {name: np.asarray(value, np.int64) for name, value in values.items()}
    return AttributeExtractor.from_state({**state, **wide})


def _names(extractor: AttributeExtractor) -> list[str]:
    try:
        return extractor.names()
    except (LookupError, ArithmeticError):
        raise InputError("the vocabulary of this model is damaged") from None


ENCODERS: dict[str, Any] = {each.kind: each for each in (AttributeEncoder, ColumnEncoder, MatrixEncoder)}


def encoder_state(encoder: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of an encoder in a model file or a dataset."""
    header, arrays = encoder.state()
    return {"kind": encoder.kind, **header}, prefixed(arrays, "encoder.")


def encoder_from(stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The encoder that a header and the arrays named "encoder." describe."""
    kind = expect_text(stored, "kind", tuple(ENCODERS))
    return ENCODERS[kind].from_state(stored, unprefixed(arrays, "encoder."))


def read_template(template: Any) -> Template:
    """A template from a preset's name, a file, or its own text."""
    if isinstance(template, Template):
        return template
    if isinstance(template, Path):
        return load_template(template)
    if not isinstance(template, str):
        raise InputError(f"template must be a preset's name, a path or a text, not {template!r:.60}")
    if "\n" not in template and "[" not in template:
        return load_template(template)
    return parse_crfpp(template) if looks_like_crfpp(template) else parse_template(template)


def read_columns(X: Any) -> tuple[list[list[str]], np.ndarray]:
    """Flat columns and offsets from `Columns`, or from sequences of rows; a plain string is a row of one."""
    if isinstance(X, Columns):
        return X.columns, X.sequence_ptr
    lengths = _lengths(X)
    X = [as_rows(each, f"X[{i}]") if is_frame(each) else each for i, each in enumerate(X)]
    rows = [row if not isinstance(row, str) else (row,) for row in chain.from_iterable(X)]
    width = len(rows[0]) if rows and hasattr(rows[0], "__len__") else 0
    ptr = offsets(lengths)
    for at, row in enumerate(rows):
        if isinstance(row, Mapping) or not hasattr(row, "__len__") or len(row) != width:
            i = int(np.searchsorted(ptr, at, side="right")) - 1
            raise InputError(
                f"X: sequence {i}, position {at - ptr[i]}: with a template a token is a row of strings, as "
                f"many as the first token has ({width}), not {row!r:.60}"
            )
    return [list(column) for column in zip(*rows, strict=True)], ptr


def smallest(array: np.ndarray) -> np.ndarray:
    """Whole numbers ≥ 0 in the smallest type that holds them."""
    top = int(array.max(initial=0))
    for kind in (np.uint8, np.uint16, np.uint32):
        if top <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.int64)


def _lengths(sequences: Any) -> np.ndarray:
    try:
        return np.fromiter(map(len, sequences), np.int64, len(sequences))
    except TypeError:
        at = next(i for i, each in enumerate(sequences) if is_sparse(each) or not hasattr(each, "__len__"))
        raise InputError(f"X[{at}] is {sequences[at]!r:.60}; it must be a sequence of tokens") from None
