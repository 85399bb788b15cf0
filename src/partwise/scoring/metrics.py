"""How good predicted sequences are: chunk scores as conlleval counts them, and token scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from partwise.data.frames import unpacked
from partwise.errors import InputError

# Tag pairs (previous, current) between which a chunk ends, or starts, whatever the types:
# the table of conlleval.pl (Tjong Kim Sang, 2004).
_ENDS = frozenset(map(tuple, ("BB", "BO", "IB", "IO", "EE", "EI", "EO")))
_STARTS = frozenset(map(tuple, ("BB", "IB", "OB", "OI", "EE", "EI", "OE")))
_IOBES_STARTS = frozenset(map(tuple, ("EB", "SB", "SI", "SE")))
_ONE_TOKEN = ("[", "]")
_OUTSIDE = ("O", ".")


class Rates:
    """Precision, recall and F1 of counts `n_true`, `n_predicted` and `n_correct`; 0 if a denominator is 0."""

    n_true: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        total = self.n_true + self.n_predicted
        return 2 * self.n_correct / total if total else 0.0


@dataclass
class ChunkCounts(Rates):
    """Chunks in the truth, in the prediction, and in both."""

    n_true: int = 0
    n_predicted: int = 0
    n_correct: int = 0


@dataclass
class ChunkScores(ChunkCounts):
    """The numbers that conlleval reports; rates are between 0 and 1.

    Attributes
    ----------
    n_true, n_predicted, n_correct : int
        Chunks in the truth, in the prediction, and in both.
    precision, recall, f1, accuracy : float
        `accuracy` is over tokens.
    n_tokens, n_correct_tokens : int
        All tokens, and those whose predicted label is the true one.
    per_type : dict of str to ChunkCounts
        The same counts and rates for each chunk type, in the order of the types' names.
    """

    n_tokens: int = 0
    n_correct_tokens: int = 0
    per_type: dict[str, ChunkCounts] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        return self.n_correct_tokens / self.n_tokens if self.n_tokens else 0.0

    def report(self) -> str:
        """The scores as conlleval prints them, character for character."""
        text = (
            f"processed {self.n_tokens} tokens with {self.n_true} phrases; "
            f"found: {self.n_predicted} phrases; correct: {self.n_correct}.\n"
        )
        if self.n_tokens:
            text += f"accuracy: {100 * self.n_correct_tokens / self.n_tokens:6.2f}%; {_percentages(self)}\n"
        for name, counts in self.per_type.items():
            text += f"{name:>17}: {_percentages(counts)}  {counts.n_predicted}\n"
        return text


class LabelScores(NamedTuple):
    """One row of `per_label_table`."""

    label: Any
    precision: float
    recall: float
    f1: float
    support: int


def chunks(labels: Sequence[str], *, strict: bool = False) -> list[tuple[str, int, int]]:
    """Find the chunks in one sequence of labels.

    Parameters
    ----------
    labels : sequence of str (length,)
        Such as ``B-NP``: a tag and, after the first hyphen, a type. A label without a hyphen
        has the type "".
    strict : bool
        See `chunk_scores`.

    Returns
    -------
    list of (type, start, end)
        Positions ``start`` to ``end - 1``, in order.
    """
    found: list[tuple[str, int, int]] = []
    start: int | None = None
    previous = "O"
    for position, label in enumerate(chain(labels, ["O"])):
        ends, starts = chunk_boundary(previous, label, strict)
        if start is not None and (ends or starts or position == len(labels)):
            found.append((tag_and_type(previous)[1], start, position))
            start = None
        if starts:
            start = position
        previous = label
    return found


def chunk_scores(y_true: Sequence, y_pred: Sequence, *, strict: bool = False) -> ChunkScores:
    """Score predicted chunks as conlleval does.

    IOB1, IOB2, IOE1, IOE2 and bracket labels are counted by the rules of conlleval.pl, also
    if a sequence breaks its own scheme (``I-NP`` after ``O`` starts a chunk).

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str, or one sequence of str
        Labels; both of the same lengths.
    strict : bool
        The script itself does not know one-token tags, and joins ``E-NP B-NP`` into one
        chunk. By default IOBES and BILOU labels are therefore read as they are meant: S and U
        are a chunk, L is E, a chunk ends after E and starts at B. True counts them as the
        script does.

    Returns
    -------
    ChunkScores
    """
    pairs = _aligned(y_true, y_pred)
    n_true: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_correct: Counter[str] = Counter()
    n_correct_tokens = 0
    agreeing = False  # a chunk began in both at the same place and has been the same since
    last_true = last_predicted = "O"
    for is_token, true, predicted in _with_sentence_breaks(pairs):
        if true == last_true == predicted == last_predicted == "O":
            n_correct_tokens += is_token
            continue
        true_ends, true_starts = chunk_boundary(last_true, true, strict)
        predicted_ends, predicted_starts = chunk_boundary(last_predicted, predicted, strict)
        same_type = tag_and_type(true)[1] == tag_and_type(predicted)[1]
        if agreeing:
            last_type = tag_and_type(last_true)[1]
            if true_ends and predicted_ends and last_type == tag_and_type(last_predicted)[1]:
                agreeing = False
                n_correct[last_type] += 1
            elif true_ends != predicted_ends or not same_type:
                agreeing = False
        if true_starts:
            n_true[tag_and_type(true)[1]] += 1
        if predicted_starts:
            n_predicted[tag_and_type(predicted)[1]] += 1
        if true_starts and predicted_starts and same_type:
            agreeing = True
        n_correct_tokens += is_token and (true == predicted or tag_and_type(true) == tag_and_type(predicted))
        last_true, last_predicted = true, predicted
    n_correct[tag_and_type(last_true)[1]] += agreeing  # a chunk of tags unknown to the rules never ends
    return ChunkScores(
        n_true.total(),
        n_predicted.total(),
        n_correct.total(),
        n_tokens=sum(len(true) for true, _ in pairs),
        n_correct_tokens=n_correct_tokens,
        per_type={
            name: ChunkCounts(n_true[name], n_predicted[name], n_correct[name])
            for name in sorted(n_true.keys() | n_predicted.keys())
        },
    )


def token_accuracy(y_true: Sequence, y_pred: Sequence) -> float:
    """Return the share of tokens whose predicted label is the true one.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences, or one sequence, of labels
    """
    true, predicted = _flat(y_true, y_pred)
    return sum(map(_equal, true, predicted)) / len(true) if true else 0.0


def confusion(y_true: Sequence, y_pred: Sequence) -> tuple[list[Any], np.ndarray]:
    """Count which labels are taken for which.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences, or one sequence, of labels

    Returns
    -------
    labels : list (n_labels,)
        All labels of either side, sorted.
    matrix : ndarray of int64 (n_labels, n_labels)
        ``matrix[i, j]`` tokens have the true label i and the predicted label j.
    """
    true, predicted = _flat(y_true, y_pred)
    labels = _sorted_labels({*true, *predicted})
    index = {label: position for position, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (row, column), count in Counter(zip(true, predicted, strict=True)).items():
        matrix[index[row], index[column]] = count
    return labels, matrix


def per_label_table(y_true: Sequence, y_pred: Sequence) -> list[LabelScores]:
    """Return precision, recall, F1 and support (true tokens) of every label, sorted by label.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences, or one sequence, of labels
    """
    labels, matrix = confusion(y_true, y_pred)
    rows = zip(
        labels, matrix.sum(1).tolist(), matrix.sum(0).tolist(), matrix.diagonal().tolist(), strict=True
    )
    table = []
    for label, n_true, n_predicted, n_correct in rows:
        counts = ChunkCounts(n_true, n_predicted, n_correct)
        table.append(LabelScores(label, counts.precision, counts.recall, counts.f1, n_true))
    return table


@lru_cache(maxsize=65536)
def tag_and_type(label: str) -> tuple[str, str]:
    """Split a label at its first hyphen into tag and type."""
    tag, _, kind = str(label).partition("-")
    return tag, kind


@lru_cache(maxsize=65536)
def chunk_boundary(previous_label: str, label: str, strict: bool) -> tuple[bool, bool]:
    """Tell whether a chunk ends, and whether one starts, between two neighbouring labels."""
    previous, previous_type = tag_and_type(previous_label)
    tag, kind = tag_and_type(label)
    if not strict:
        previous, tag = ({"U": "S", "L": "E"}.get(name, name) for name in (previous, tag))
    type_changes = previous_type != kind
    ends = (previous, tag) in _ENDS or previous in _ONE_TOKEN
    ends = ends or (type_changes and previous not in _OUTSIDE)
    starts = (previous, tag) in _STARTS or tag in _ONE_TOKEN
    starts = starts or (type_changes and tag not in _OUTSIDE)
    if not strict:
        ends = (
            ends
            or previous == "S"
            or (tag == "S" and previous not in _OUTSIDE)
            or (previous, tag) == ("E", "B")
        )
        starts = starts or tag == "S" or (previous, tag) in _IOBES_STARTS
    return ends, starts


def _percentages(counts: ChunkCounts) -> str:
    # In conlleval's own order of operations: the second decimal depends on it.
    precision = 100 * counts.n_correct / counts.n_predicted if counts.n_predicted else 0.0
    recall = 100 * counts.n_correct / counts.n_true if counts.n_true else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def _aligned(y_true: Sequence, y_pred: Sequence) -> list[tuple[list, list]]:
    """Pair the sequences of both sides, refusing different lengths."""
    (one_true, true), (one_predicted, predicted) = _read(y_true, "y_true"), _read(y_pred, "y_pred")
    if one_true != one_predicted and true and predicted:
        raise InputError("one of y_true and y_pred is a list of labels, the other a list of sequences")
    if len(true) != len(predicted):
        raise InputError(f"y_true has {len(true)} sequences and y_pred has {len(predicted)}")
    for index, (left, right) in enumerate(zip(true, predicted, strict=True)):
        if len(left) != len(right):
            raise InputError(f"sequence {index}: y_true has {len(left)} labels and y_pred has {len(right)}")
    return list(zip(true, predicted, strict=True))


def _read(labels: Any, name: str) -> tuple[bool, list[list]]:
    """Whether labels are those of a single sequence, and all sequences as lists."""
    items = _as_list(unpacked(labels), name)
    single = bool(items) and (isinstance(items[0], str) or not isinstance(items[0], Iterable))
    sequences = [items] if single else [_as_list(each, f"{name}[{i}]") for i, each in enumerate(items)]
    for i, sequence in enumerate(sequences):
        try:
            set(sequence)
        except TypeError:
            raise InputError(f"{name}: sequence {i} has a label that is not hashable") from None
    return single, sequences


def _as_list(labels: Any, name: str) -> list:
    wrong = isinstance(labels, (str, bytes, Mapping, set, frozenset)) or not isinstance(labels, Iterable)
    if wrong or getattr(labels, "ndim", 1) == 0:
        raise InputError(f"{name} is {labels!r:.60}; it must be a list of sequences of labels")
    if np.ma.is_masked(labels):
        raise InputError(f"{name} has masked entries; fill them in, or leave them out")
    return list(labels)


def _with_sentence_breaks(pairs: list[tuple[list, list]]) -> Iterator[tuple[bool, str, str]]:
    for true, predicted in pairs:
        for pair in zip(true, predicted, strict=True):
            yield True, *pair
        yield False, "O", "O"


def _flat(y_true: Sequence, y_pred: Sequence) -> tuple[list[Hashable], list[Hashable]]:
    pairs = _aligned(y_true, y_pred)
    return [label for true, _ in pairs for label in true], [label for _, guess in pairs for label in guess]


def _equal(left: object, right: object) -> bool:
    return bool(left == right)


def _sorted_labels(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # labels of different kinds
        return sorted(labels, key=str)
