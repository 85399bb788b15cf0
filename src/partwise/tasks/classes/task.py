"""Rows with classes for the command line, reports and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.report.probabilities import as_text
from partwise.scoring.labelling import labelling_scores
from partwise.tasks.classes.data import is_attributes
from partwise.tasks.classes.options import EncodeOptions
from partwise.tasks.classes.reading import FORMATS, ClassFile, classes_of, read_classes, stream_classes
from partwise.tasks.labels import LabelTask, label_scores
from partwise.tasks.options import DataOptions
from partwise.tasks.page import text_or
from partwise.tasks.task import LabelledData, Scores, SmallProblem, Wanted, add_each, json_lines


class Classes(LabelTask):
    """Classification of rows. A row is one position, so that pages show it as they show a word.

    X is a matrix, or a list of attributes. One example x is a pair of X with one row, and the name of the row.
    """

    command, kind, nouns = "classify", "classes", ("rows",)
    formats = FORMATS

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        if self.options.n_columns == 0:
            n_columns = int(getattr(self.estimator, "n_features_in_", 0))
            self.options = replace(self.options, n_columns=n_columns)

    # -- labels ---------------------------------------------------------------------------------

    def labels(self, X: Any) -> list[list[str]]:
        return [[str(label)] for label in self.estimator.predict(X).tolist()]

    def true_labels(self, truths: Any) -> list[list[str]]:
        return [[str(label)] for label in truths]

    def arrays(self, X: Any) -> list[np.ndarray]:
        return list(self.estimator.predict_proba(X)[:, None])

    def kbest(self, X: Any, k: int) -> list[list[tuple[list[str], float]]]:
        names = self.label_names()
        is_hard = not self.has_probabilities
        values = self.estimator._scores(X) if is_hard else self.estimator.predict_proba(X)
        orders = np.argsort(-values, axis=1, kind="stable")[:, :k]
        return [
            [([names[label]], row[label]) for label in order]
            for row, order in zip(values, orders, strict=True)
        ]

    def tokens(self, x: Any) -> list[str]:
        return [x[1]]

    def alone(self, x: Any) -> Any:
        return x[0]

    def why(self, x: Any) -> dict[str, Any]:
        row = x[0]
        return super().why(row[0] if isinstance(row, list) else row)

    # -- labelled files -------------------------------------------------------------------------

    @classmethod
    def read_labelled(cls, path: str, options: DataOptions, purpose: str) -> LabelledData:
        data = read_classes(path, options)
        return LabelledData(data.x, data.y, data.x.shape[0], data.options)

    def examples(self, X: Any, truths: Any) -> tuple[Any, Any]:
        return X, truths.tolist()

    def pick(self, X: Any, truths: Any, i: int) -> tuple[Any, Any]:
        return (X[i : i + 1], f"row {i + 1}"), truths[i]

    def scores(self, X: Any, truths: Any) -> Scores:
        """All rows are scored as one sequence."""
        predicted = [str(label) for label in self.estimator.predict(X).tolist()]
        found = labelling_scores([[str(label) for label in truths.tolist()]], [predicted])
        return label_scores(found, {"n_rows": found.n_labels})

    @classmethod
    def encode(
        cls, path: str, output: str, options: EncodeOptions, tell: Callable[[str, int], None]
    ) -> tuple[NamedTuple, str, DataOptions]:
        from partwise.tasks.classes.encoding import encode_classes
        from partwise.tasks.classes.streaming import LabelledRows

        stream = LabelledRows(path, options.data())

        def read_labels(labels: list[Any]) -> list[Any]:
            return classes_of(stream.options.format, labels)

        def header() -> dict[str, Any]:
            return {"data": stream.options.as_dict(), "source": path}

        done = encode_classes(stream, output, options.pairs, read_labels, header, tell)  # type: ignore[arg-type]
        sizes = f"{done.n_examples:,} rows, {done.n_labels:,} classes, {done.n_features:,} features, "
        return done, f"{sizes}{done.n_weights:,} weights, {done.storage}", stream.options

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import Classifier, KernelClassifier

        points, classes = np.random.default_rng(0).normal(size=(12, 2)), ["a", "b", "c"] * 4
        return [
            SmallProblem("classes", Classifier, {}, points, classes, ("predict", "predict_proba"), True),
            SmallProblem("kernel classes", KernelClassifier, {}, points, classes, ("predict",)),
        ]

    # -- predictions for files ------------------------------------------------------------------

    def check_wanted(self, wanted: Wanted) -> None:
        super().check_wanted(wanted)
        if wanted.kbest > 1:
            raise InputError("--kbest is for sequences; --marginals gives the probability of every class")

    def batches(self, path: str) -> Iterator[ClassFile]:
        return stream_classes(path, self.options)

    def text(self, batch: ClassFile, wanted: Wanted) -> str:
        n_rows = batch.x.shape[0]
        labels = [label for [label] in self.labels(batch.x)] if n_rows else []
        found = [row for [row] in self.marginals(batch.x)] if wanted.marginals and n_rows else []
        if wanted.json:
            objects: list[dict[str, Any]] = [{"label": label} for label in labels]
            if wanted.marginals:
                add_each(objects, "marginals", map(dict, found))
            return json_lines(objects)
        columns = [labels]
        is_table = batch.options.format == "csv"
        if wanted.marginals:
            columns.append([as_text(row, " " if is_table else ",") for row in found])
        return "".join(line + "\n" for line in _appended(batch, columns, is_table))

    # -- one example ----------------------------------------------------------------------------

    def size(self, x: Any) -> int:
        return 1

    def read(self, request: dict[str, Any]) -> Any:
        return read_row(request, self.estimator), "row"

    def expects(self) -> dict[str, str]:
        return expected_row(self.estimator)


def _appended(batch: ClassFile, columns: list[list[str]], is_table: bool) -> list[str]:
    """The lines of a batch with the columns appended; the columns alone if the batch has no lines."""
    joint = (batch.options.separator or ",") if is_table else " "
    rows = zip(*columns, strict=True)
    appended = _cells(rows, joint) if is_table else [joint.join(row) for row in rows]
    if not batch.lines:
        return appended
    lines = list(batch.lines)
    for place, text in zip(batch.row_lines, appended, strict=True):
        lines[place] += joint + text
    if batch.names_line is not None:
        lines[batch.names_line] += joint + joint.join(("predicted", "marginals")[: len(columns)])
    return lines


def _cells(rows: Iterable[Sequence[str]], separator: str) -> list[str]:
    """Rows of a table as text, with quotes around the cells that need them."""
    import csv
    import io

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator, lineterminator="\0")
    writer.writerows(rows)
    return lines.getvalue().split("\0")[:-1]


def read_row(request: dict[str, Any], estimator: Any) -> Any:
    """X with the one row of a request."""
    value = text_or(request, "row")
    if getattr(estimator, "_encoder", None) is not None:
        value = request["text"].split() if value is None else value
        if not is_attributes([value]):
            raise InputError('"row" must be an object of features, or a list of strings')
        return [value]
    if value is None:
        value = request["text"].replace(",", " ").split()
    try:
        row = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InputError('"row" must be a list of numbers') from None
    n = int(estimator.n_features_in_)
    if row.shape != (n,) or not np.isfinite(row).all():
        raise InputError(f'"row" must be a list of {n} finite numbers')
    return row[None]


def expected_row(estimator: Any) -> dict[str, str]:
    """How a person writes a row, and an example."""
    encoder = getattr(estimator, "_encoder", None)
    if encoder is not None:
        return {"format": "features, with spaces between them", "example": " ".join(encoder.names()[:3])}
    n = int(estimator.n_features_in_)
    return {
        "format": f"{n} numbers, with commas or spaces between them",
        "example": ", ".join(["0.5"] * n),
    }
