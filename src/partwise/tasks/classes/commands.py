"""Classes for the commands: predictions as they arrive, scores of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from partwise.errors import InputError
from partwise.report.output import write_lines
from partwise.report.probabilities import Distribution, as_text, distributions
from partwise.scoring.labelling import LabellingScores, labelling_scores
from partwise.tasks.classes.reading import ClassFile, read_classes, stream_classes
from partwise.tasks.task import Evaluation, Task, Wanted, Write


class ClassifiedRows(Task):
    """Classification of rows of numbers."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        if self.options.n_columns == 0:
            n_columns = int(getattr(self.estimator, "n_features_in_", 0))
            self.options = replace(self.options, n_columns=n_columns)

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        pieces = super().answers(path, wanted)
        if wanted.kbest > 1:
            raise InputError("--kbest is for sequences; --marginals gives the probability of every class")
        if wanted.marginals and not hasattr(self.estimator, "predict_proba"):
            raise InputError(
                "this model's loss has beta = inf and so no probabilities; train with --loss log", self.model
            )
        return pieces

    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        for batch in stream_classes(path, self.options):
            yield partial(write_lines, lines=self._lines(batch, wanted))

    def _lines(self, batch: ClassFile, wanted: Wanted) -> list[str]:
        n_rows = batch.x.shape[0]
        labels = self._predicted(batch.x) if n_rows else []
        columns = [labels]
        found: list[Distribution] = []
        if wanted.marginals and n_rows:
            names = [str(name) for name in self.estimator.classes_.tolist()]
            found = distributions(names, self.estimator.predict_proba(batch.x))
            glue = " " if batch.options.format == "csv" else ","
            columns.append([as_text(each, glue) for each in found])
        if wanted.json:
            objects: list[dict[str, Any]] = [{"label": label} for label in labels]
            for each, distribution in zip(objects, found, strict=False):
                each["marginals"] = dict(distribution)
            return [json.dumps(each, ensure_ascii=False) for each in objects]
        is_table = batch.options.format == "csv"
        joint = (batch.options.separator or ",") if is_table else " "
        rows = zip(*columns, strict=True)
        appended = _cells(rows, joint) if is_table else [joint.join(row) for row in rows]
        if not batch.lines:
            return appended
        lines = list(batch.lines)
        for place, text in zip(batch.row_lines, appended, strict=True):
            lines[place] += joint + text
        if batch.names_line is not None:
            lines[batch.names_line] += joint + joint.join(("predicted", "marginals")[: 1 + wanted.marginals])
        return lines

    def _predicted(self, x: Any) -> list[str]:
        return [str(label) for label in self.estimator.predict(x).tolist()]

    def _scores(self, x: Any, y: Any) -> LabellingScores:
        """All rows are scored as one sequence."""
        return labelling_scores([[str(label) for label in y.tolist()]], [self._predicted(x)])

    def evaluation(self, path: str) -> Evaluation:
        from partwise.report.score_tables import print_label_scores

        rows = read_classes(path, self.options)
        scores = self._scores(rows.x, rows.y)
        return Evaluation(
            scores.as_dict() | {"n_rows": scores.n_labels}, partial(print_label_scores, scores=scores)
        )

    def labelled(self, path: str) -> tuple[Any, Any]:
        rows = read_classes(path, self.options)
        return rows.x, rows.y.tolist()  # type: ignore[union-attr]

    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        return self._scores(x, y).in_short()


def _cells(rows: Iterable[Sequence[str]], separator: str) -> list[str]:
    """Rows of a table as text, with quotes around the cells that need them."""
    import csv
    import io

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator, lineterminator="\0")
    writer.writerows(rows)
    return lines.getvalue().split("\0")[:-1]
