"""CRFsuite's model files, read and written from the description of their format.

A file starts with a header of 48 bytes: the letters lCRF, the size, the letters FOMC, the version 100, and the numbers
and places of features, labels and attributes. Everything is little-endian. The sections:

- FEAT: features of 20 bytes: type (0 attribute and label, 1 label and next label), source, target, weight (double);
- the names of labels and of attributes, a CQDB each (`quark_database.py`);
- LFRF and AFRF: for every label or attribute the place of a list, which holds the numbers of its features.

Taggers follow the lists, so this reader does. Nothing in a file is taken on trust.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.storage.atomic import write_atomically
from partwise.storage.quark_database import packed_names, read_names, words, words_at

MAGIC = b"lCRF"
_KIND = b"FOMC"
_VERSION = 100
_HEADER = 48
_CHUNK = 12
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_STATE, _TRANSITION = 0, 1
_NAMES = (
    "num_features", "num_labels", "num_attrs", "off_features", "off_labels", "off_attrs", "off_labelrefs",
    "off_attrrefs",
)  # fmt: skip
# Tables of transitions are dense: 134 MB with this many labels.
_MOST_LABELS = 4096


class Features(NamedTuple):
    """Weights of pairs: of an attribute and a label, or of a label and the next one.

    Attributes
    ----------
    source, target : int64 arrays, shape (n,)
        No pair is there twice.
    weight : float64 array, shape (n,)
    """

    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class CrfsuiteModel:
    """What a model file of CRFsuite holds.

    Attributes
    ----------
    labels, attributes : list of str
    transitions, states : Features
    """

    labels: list[str]
    attributes: list[str]
    transitions: Features
    states: Features


def file_header(data: bytes) -> dict[str, str]:
    """The entries of a file's header as CRFsuite prints them."""
    numbers = dict(zip(_NAMES, np.frombuffer(data[16:_HEADER], "<u4").tolist(), strict=True))
    shown = {name: f"0x{n:X}" if name.startswith("off_") else str(n) for name, n in numbers.items()}
    return {"magic": "lCRF", "size": str(len(data)), "type": "FOMC", "version": str(_VERSION), **shown}


def parse_crfsuite_model(data: bytes, encoding: str = "utf-8", path: object = None) -> CrfsuiteModel:
    """Read a model from the bytes of a file.

    Parameters
    ----------
    data : bytes
    encoding : str
        Of the names of labels and attributes.
    path : path, optional
        Only named in errors.
    """
    if data[:4] != MAGIC:
        raise InputError("not a model file of CRFsuite", path)
    try:
        return _parsed(np.frombuffer(data, np.uint8), encoding)
    except InputError as error:
        raise InputError(f"damaged CRFsuite model: {error}", path) from None


def _parsed(data: np.ndarray, encoding: str) -> CrfsuiteModel:
    if len(data) < _HEADER:
        raise InputError("its header is not complete")
    size, version = (int(words(data, first, 1, "")[0]) for first in (4, 12))
    if data[8:12].tobytes() != _KIND or version != _VERSION:
        raise InputError("it is of an unknown kind or version")
    if size != len(data):
        raise InputError(f"it should have {size:,} bytes, and has {len(data):,}")
    numbers = dict(zip(_NAMES, words(data, 16, 8, "").tolist(), strict=True))
    n_labels, n_attributes = numbers["num_labels"], numbers["num_attrs"]
    if n_labels > _MOST_LABELS:
        raise InputError(f"it says that it has {n_labels:,} labels; at most {_MOST_LABELS:,} are read")
    labels = read_names(data, numbers["off_labels"], n_labels, "labels", encoding)
    attributes = read_names(data, numbers["off_attrs"], n_attributes, "attributes", encoding)
    features = _features(data, numbers["off_features"])
    transitions = _listed(data, features, numbers["off_labelrefs"], n_labels, _TRANSITION, n_labels)
    states = _listed(data, features, numbers["off_attrrefs"], n_attributes, _STATE, n_labels)
    return CrfsuiteModel(labels, attributes, transitions, states)


def _features(data: np.ndarray, begin: int) -> np.ndarray:
    _expect_chunk(data, begin, b"FEAT")
    n = int(words(data, begin + 8, 1, "features")[0])
    first = begin + _CHUNK
    if n * _FEATURE.itemsize > len(data) - first:
        raise InputError("features lie outside the file")
    return np.frombuffer(data[first : first + n * _FEATURE.itemsize].tobytes(), _FEATURE)


def _listed(data: np.ndarray, features: np.ndarray, begin: int, n: int, kind: int, n_labels: int) -> Features:
    """The features in the lists of n labels or attributes."""
    what = "transitions" if kind == _TRANSITION else "attributes"
    _expect_chunk(data, begin, b"LFRF" if kind == _TRANSITION else b"AFRF")
    places = words(data, begin + _CHUNK, n, f"the lists of {what}")
    counts = words_at(data, places, f"the lists of {what}")
    if counts.sum() > len(features):
        raise InputError(f"the lists of {what} are longer than the list of features")
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if n else 0) - np.repeat(ends - counts, counts)
    number = words_at(data, np.repeat(places + 4, counts) + 4 * within, f"the lists of {what}")
    if number.size and number.max() >= len(features):
        raise InputError(f"the lists of {what} name features that do not exist")
    own, source = features[number], np.repeat(np.arange(n), counts)
    if (own["type"] != kind).any() or (own["source"] != source).any():
        raise InputError(f"the lists of {what} do not fit the features")
    target, weight = own["target"].astype(np.int64), own["weight"].astype(np.float64)
    if target.size and target.max() >= n_labels:
        raise InputError("a feature is of a label that does not exist")
    # Partwise computes with weights that single precision can hold the size of.
    if not (np.abs(weight) <= np.finfo(np.float32).max).all():
        raise InputError("a weight is not a number of usable size")
    pairs = source * max(n_labels, 1) + target
    if len(np.unique(pairs)) != len(pairs):
        raise InputError(f"a feature of {what} is there twice")
    return Features(source, target, weight)


def _expect_chunk(data: np.ndarray, begin: int, name: bytes) -> None:
    if not 0 <= begin <= len(data) - _CHUNK or data[begin : begin + 4].tobytes() != name:
        raise InputError(f"the section {name.decode()} is missing")


def packed_crfsuite_model(model: CrfsuiteModel, encoding: str = "utf-8") -> bytes:
    """The bytes of a model file."""
    labels, attributes = (
        _encoded(names, what, encoding)
        for names, what in ((model.labels, "label"), (model.attributes, "attribute"))
    )
    transitions, states = _sorted(model.transitions), _sorted(model.states)
    n_transitions = len(transitions.weight)
    parts = [_feature_chunk(transitions, states), packed_names(labels), packed_names(attributes)]
    places = [_HEADER]
    for part in parts:
        places.append(places[-1] + len(part))
    parts.append(b"\0" * (-places[-1] % 4))
    places[-1] += len(parts[-1])
    # CRFsuite keeps two lists more, which are empty, for the start and the end of sequences.
    parts.append(_lists(b"LFRF", transitions.source, len(labels) + 2, 0, places[-1]))
    places.append(places[-1] + len(parts[-1]))
    parts.append(_lists(b"AFRF", states.source, len(attributes), n_transitions, places[-1]))
    size = places[-1] + len(parts[-1])
    if size >= 2**32:
        raise InputError(f"this model takes {size:,} bytes, and CRFsuite's format has room for 4 GB")
    numbers = [_VERSION, 0, len(labels), len(attributes), *places]
    front = MAGIC + size.to_bytes(4, "little") + _KIND + np.array(numbers, "<u4").tobytes()
    return b"".join([front, *parts])


def write_crfsuite_model(path: str | os.PathLike[str], model: CrfsuiteModel, encoding: str = "utf-8") -> None:
    """Write a model file, whole or not at all."""
    data = packed_crfsuite_model(model, encoding)
    write_atomically(path, lambda handle: handle.write(data))


def _encoded(names: list[str], what: str, encoding: str) -> list[bytes]:
    found = []
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"the {what} {name!r:.60} is not a string, and CRFsuite's are")
        try:
            found.append(name.encode(encoding, "surrogateescape"))
        except UnicodeEncodeError:
            raise InputError(f"the {what} {name!r:.60} cannot be written in {encoding}") from None
        if b"\0" in found[-1]:
            raise InputError(f"the {what} {name!r:.60} holds a zero byte, which ends names in CRFsuite")
    return found


def _sorted(features: Features) -> Features:
    order = np.lexsort((features.target, features.source))
    return Features(*(each[order] for each in features))


def _feature_chunk(transitions: Features, states: Features) -> bytes:
    own = np.zeros(len(transitions.weight) + len(states.weight), _FEATURE)
    own["type"][: len(transitions.weight)] = _TRANSITION
    for name in Features._fields:
        own[name] = np.concatenate([getattr(transitions, name), getattr(states, name)])
    sizes = np.array([_CHUNK + own.nbytes, len(own)], "<u4").tobytes()
    return b"FEAT" + sizes + own.tobytes()


def _lists(chunk: bytes, source: np.ndarray, n: int, first: int, begin: int) -> bytes:
    """For each of n sources its list of features, which are numbered from `first` and ordered by source."""
    counts = np.bincount(source, minlength=n)
    before = np.cumsum(counts) - counts
    places = begin + _CHUNK + 4 * n + 4 * (before + np.arange(n))
    lists = np.insert(np.arange(len(source)) + first, before, counts)
    size = _CHUNK + 4 * (n + len(lists))
    return chunk + np.concatenate([[size, n], places, lists]).astype("<u4").tobytes()
