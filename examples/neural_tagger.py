"""A neural tagger with a chain on top, trained end to end with log and hinge loss, then with a certified last layer.

    python examples/neural_tagger.py                                     # a CNN on handwritten dates, made here
    python examples/neural_tagger.py --train train.txt --test test.txt   # a BiLSTM on files in CoNLL columns

Files have one token a line with the label in the last column and a blank line between sentences, plain or gzipped;
chunks are scored as conlleval does. `--picture` writes what every epoch gave as a picture, and needs matplotlib.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from training import TITLE, Batch, Result, compare, in_batches, padded

from partwise.data import read_conll
from partwise.data.digit_dates import digit_dates
from partwise.metrics import chunk_scores, token_accuracy
from partwise.structures import Chain

UNKNOWN = 0


class Tagger(torch.nn.Module):
    """Activations of an encoder; the last layer has weights of labels and of their transitions."""

    def __init__(self, encoder: torch.nn.Module, n_features: int, n_labels: int):
        super().__init__()
        self.encoder, self.dropout = encoder, torch.nn.Dropout(0.3)
        self.linear = torch.nn.Linear(n_features, n_labels)
        self.transitions = torch.nn.Parameter(torch.zeros(n_labels, n_labels))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Activations (B, T, n_features)."""
        return self.dropout(self.encoder(*inputs))

    def scores(self, activations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(activations), self.transitions

    def last(self) -> tuple[Any, ...]:
        return self.linear, self.transitions


class WordEncoder(torch.nn.Module):
    """A BiLSTM over the embeddings of a token's columns and of the end of its word."""

    def __init__(self, sizes: list[int], width: int):
        super().__init__()
        self.embeddings = torch.nn.ModuleList(torch.nn.Embedding(size, 32) for size in sizes)
        self.lstm = torch.nn.LSTM(32 * len(sizes), width // 2, batch_first=True, bidirectional=True)

    def forward(self, *columns: torch.Tensor) -> torch.Tensor:
        pieces = [own(column) for own, column in zip(self.embeddings, columns, strict=True)]
        return self.lstm(torch.cat(pieces, -1))[0]


class ImageEncoder(torch.nn.Module):
    """A CNN over images (B, T, 8, 8)."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(128, width),
            torch.nn.ReLU(),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images.flatten(0, 1)[:, None]).view(*images.shape[:2], -1)


class Vocabulary:
    """Numbers of the strings that were seen twice; all others have number 0."""

    def __init__(self, words: list[str], least: int = 2):
        counts = Counter(words)
        kept = [word for word, count in counts.items() if count >= least]
        self.numbers = {word: k + 1 for k, word in enumerate(kept)}

    def __len__(self) -> int:
        return len(self.numbers) + 1

    def __call__(self, words: list[str]) -> list[int]:
        return [self.numbers.get(word, UNKNOWN) for word in words]


def read_columns(path: Path, most: int | None) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Per sentence the columns, with the ends of the words behind, and the labels."""
    data = read_conll(path)
    ptr = data.sequence_ptr.tolist()[: None if most is None else most + 1]
    columns = [*data.columns, [word[-3:].lower() for word in data.columns[0]]]
    spans = list(pairwise(ptr))
    return [[own[a:b] for own in columns] for a, b in spans], [data.labels[a:b] for a, b in spans]


def from_files(arguments: argparse.Namespace) -> tuple[Any, ...]:
    """Batches of both files, a network for them, the number of labels, and how the test file is scored."""
    sentences, labels = read_columns(arguments.train, arguments.sentences)
    test, truth = read_columns(arguments.test, arguments.sentences)
    n_columns = len(sentences[0])
    words = [Vocabulary([w for own in sentences for w in own[k]]) for k in range(n_columns)]
    names = sorted({label for own in labels for label in own})
    numbers = {name: k for k, name in enumerate(names)}

    def batches(given: list[Any], known: list[Any], order: list[list[int]]) -> list[Batch]:
        found = []
        for own in order:
            inputs = tuple(padded([words[k](given[i][k]) for i in own]) for k in range(n_columns))
            target = padded([[numbers.get(label, 0) for label in known[i]] for i in own])
            found.append(Batch(inputs, target, torch.tensor([len(known[i]) for i in own])))
        return found

    order = in_batches([len(own) for own in truth], 64)

    def score(found: list[torch.Tensor]) -> float:
        rows = [row for batch in found for row in batch.tolist()]
        which = [i for own in order for i in own]
        predicted = [[names[k] for k in row[: len(truth[i])]] for row, i in zip(rows, which, strict=True)]
        return 100.0 * chunk_scores([truth[i] for i in which], predicted).f1

    train = batches(sentences, labels, in_batches([len(own) for own in labels], arguments.batch))
    sizes = [len(own) for own in words]
    return (
        train, batches(test, truth, order), lambda: WordEncoder(sizes, arguments.width), len(names), score
    )  # fmt: skip


def from_nothing(arguments: argparse.Namespace) -> tuple[Any, ...]:
    """The same of handwritten dates, whose place in the date is part of the label."""
    n = arguments.sentences or 600
    both = digit_dates(n_train=n, n_test=400, noise=0.4)
    names = sorted({label for data in both for own in data.labels() for label in own})
    numbers = {name: k for k, name in enumerate(names)}

    def batches(data: Any) -> list[Batch]:
        images = torch.from_numpy(data.images)
        target = torch.tensor([[numbers[label] for label in own] for own in data.labels()])
        lengths = torch.full((len(data),), target.shape[1])
        cut = [tensor.split(arguments.batch) for tensor in (images, target, lengths)]
        return [Batch((a,), b, c) for a, b, c in zip(*cut, strict=True)]

    def score(found: list[torch.Tensor]) -> float:
        predicted = [[names[k] for k in row] for batch in found for row in batch.tolist()]
        return 100.0 * token_accuracy(both[1].labels(), predicted)

    return batches(both[0]), batches(both[1]), lambda: ImageEncoder(arguments.width), len(names), score


def draw(results: list[Result], path: Path, what: str) -> None:
    """P and score after every epoch, of both last layers, as a PNG image."""
    from partwise.report.palette import SERIES
    from partwise.report.plots import STYLE, finish, load_pyplot

    pyplot = load_pyplot()
    with pyplot.rc_context(STYLE):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.9), layout="constrained")
        for loss, color in zip(dict.fromkeys(each.loss for each in results), SERIES, strict=False):
            own = [each for each in results if each.loss == loss]
            epochs = [each.epoch for each in own]
            for panel, before, after in (
                (left, [r.objective for r in own], [r.head.certificate.primal for r in own]),
                (right, [r.score for r in own], [r.head_score for r in own]),
            ):
                panel.plot(epochs, before, "--", color=color, label=f"{loss}, as trained")
                panel.plot(epochs, after, "o-", color=color, markersize=3.5, label=f"{loss}, certified")
        left.set_yscale("log")
        left.set_title("objective P on the training data")
        right.set_title(what)
        for panel in (left, right):
            panel.set_xlabel("epochs of the network")
        left.legend(frameon=False)
        finish(pyplot, figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, help="training file; without, handwritten dates")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--sentences", type=int, help="the most sentences of either file")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, default=96, help="activations of a token")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--picture", type=Path, help="a PNG file to draw every epoch to")
    arguments = parser.parse_args()
    if (arguments.train is None) != (arguments.test is None):
        parser.error("--train and --test go together")
    read = from_nothing if arguments.train is None else from_files
    train, test, make_encoder, n_labels, score = read(arguments)
    print(TITLE)
    results = []
    for result in compare(
        lambda: Tagger(make_encoder(), arguments.width, n_labels),
        train,
        test,
        Chain(n_labels),
        score,
        epochs=arguments.epochs,
        every_epoch=arguments.picture is not None,
        l2=arguments.l2,
        tol=arguments.tol,
        device=arguments.device,
    ):
        print(result.line(), flush=True)
        results.append(result)
    if arguments.picture is not None:
        draw(
            results, arguments.picture, "test accuracy, %" if arguments.train is None else "test F1 of chunks"
        )


if __name__ == "__main__":
    main()
