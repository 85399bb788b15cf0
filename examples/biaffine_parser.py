"""A graph-based dependency parser with a biaffine scorer, trained end to end with log and hinge loss, then with a
certified last layer.

    python examples/biaffine_parser.py                                       # trees of a small grammar, made here
    python examples/biaffine_parser.py --train train.conllu --test dev.conllu --longest 20

Files are CoNLL-U, CoNLL-X or .dp, plain or gzipped. The scores of an arc and of its relations are biaffine in the
vectors of head and modifier, u = W (P h ⊙ Q m): forms h'Um whose matrices U = P' diag(w) Q share P and Q. So the last
layer W is linear in the activations P h ⊙ Q m of an arc, and that is what is certified.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from neural_tagger import Vocabulary
from training import TITLE, Batch, compare, in_batches, padded

from partwise.data import corpus_from_sentences, read_dependencies
from partwise.structures import Projective, Spanning

ROOT = "<root>"


class Parser(torch.nn.Module):
    """Activations of arcs; the last layer has weights for arcs and for relations."""

    def __init__(self, n_words: int, n_tags: int, n_relations: int, width: int):
        super().__init__()
        self.words, self.tags = torch.nn.Embedding(n_words, 48), torch.nn.Embedding(n_tags, 32)
        self.lstm = torch.nn.LSTM(80, 64, num_layers=2, batch_first=True, bidirectional=True)
        self.head, self.modifier = torch.nn.Linear(128, width), torch.nn.Linear(128, width)
        self.dropout = torch.nn.Dropout(0.2)
        self.arc, self.relation = torch.nn.Linear(width, 1), torch.nn.Linear(width, n_relations)

    def forward(self, words: torch.Tensor, tags: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Activations (B, n + 1, n + 1, width) by [head, modifier], for arcs and for relations."""
        vectors = self.lstm(torch.cat([self.words(words), self.tags(tags)], -1))[0]
        head, modifier = (self.dropout(own(vectors)) for own in (self.head, self.modifier))
        both = head[:, :, None] * modifier[:, None]
        return both, both

    def scores(self, arc: torch.Tensor, relation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.arc(arc)[..., 0], self.relation(relation)

    def last(self) -> tuple[Any, ...]:
        return self.arc, self.relation


def toy_corpus(n: int, seed: int) -> Any:
    """Sentences of noun phrases around a verb, with their trees."""
    random = np.random.default_rng(seed)
    forms, tags, heads, relations = [], [], [], []

    def phrase(own: list[tuple[str, int, str]], relation: str) -> None:
        """Heads are counted from the phrase's noun, which comes last; −1 stands for the verb."""
        n_before = int(random.integers(0, 3))
        for kind, name in (("DET", "det"), ("ADJ", "amod"))[:n_before]:
            own.append((kind, -2, name))
        own.append(("NOUN", -1, relation))

    for _ in range(n):
        own: list[tuple[str, int, str]] = []
        phrase(own, "subj")
        own.append(("VERB", 0, "root"))
        phrase(own, "obj")
        if random.random() < 0.5:
            own.append(("ADP", -2, "case"))
            phrase(own, "obl")
        kinds = [kind for kind, _, _ in own]
        verb = kinds.index("VERB") + 1
        found = []
        for i, (_, code, _) in enumerate(own):
            noun = kinds.index("NOUN", i) + 1 if code == -2 else 0
            found.append({0: 0, -1: verb, -2: noun}[code])
        forms.append([f"{kind.lower()}{random.integers(30)}" for kind in kinds])
        tags.append(kinds)
        heads.append(found)
        relations.append([relation for _, _, relation in own])
    return corpus_from_sentences(forms, fine_tags=tags, heads=heads, relations=relations)


def chosen(corpus: Any, longest: int, most: int | None) -> Any:
    """The first sentences that are short enough."""
    short = np.flatnonzero((corpus.lengths <= longest) & (corpus.lengths > 0))
    return corpus.subset(short[: most or len(short)])


def tags_of(corpus: Any) -> list[str]:
    """Coarse tags, or fine ones where the file has no others."""
    return corpus.coarse_tags if any(tag != "_" for tag in corpus.coarse_tags) else corpus.fine_tags


def batches_of(corpus: Any, words: Vocabulary, tags: Vocabulary, names: list[str], size: int) -> Any:
    """Batches, and the sentences of each."""
    numbers = {name: k for k, name in enumerate(names)}
    columns = [corpus.split(each) for each in (corpus.forms, tags_of(corpus), corpus.heads.tolist())]
    relations = corpus.split(corpus.relations or ["_"] * corpus.n_words)
    order, found = in_batches(corpus.lengths.tolist(), size), []
    for own in order:
        inputs = (
            padded([words([ROOT, *columns[0][i]]) for i in own]),
            padded([tags([ROOT, *columns[1][i]]) for i in own]),
        )
        heads = padded([list(columns[2][i]) for i in own])
        kinds = padded([[numbers.get(name, 0) for name in relations[i]] for i in own])
        lengths = torch.tensor([len(columns[0][i]) for i in own])
        found.append(Batch(inputs, (heads, kinds), lengths))
    return found, order


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, help="training treebank; without, trees made here")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--sentences", type=int, help="the most sentences of either file")
    parser.add_argument("--longest", type=int, default=20, help="words of a sentence")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, default=64, help="activations of an arc")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--projective", action="store_true", help="projective trees only")
    parser.add_argument("--l2", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    if (arguments.train is None) != (arguments.test is None):
        parser.error("--train and --test go together")
    print(TITLE)
    for result in results(arguments):
        print(result.line(), flush=True)


def results(arguments: argparse.Namespace) -> Any:
    """Read or make the data, train, certify."""
    if arguments.train is None:
        corpora = [toy_corpus(arguments.sentences or 200, seed) for seed in (1, 2)]
    else:
        corpora = [read_dependencies(path) for path in (arguments.train, arguments.test)]
    train, test = (chosen(each, arguments.longest, arguments.sentences) for each in corpora)
    names = sorted(set(train.relations or ["_"]))
    words = Vocabulary([ROOT, ROOT, *train.forms])
    tags = Vocabulary([ROOT, ROOT, *tags_of(train)], least=1)
    known, _ = batches_of(train, words, tags, names, arguments.batch)
    unseen, order = batches_of(test, words, tags, names, 64)
    n_relations = max(len(names), 2)
    kind = Projective if arguments.projective else Spanning
    structure = kind(single_root=True, n_relations=n_relations)
    heads, truth = test.split(test.heads.tolist()), test.split(test.relations or ["_"] * test.n_words)

    def score(found: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """Labelled attachment, punctuation included, in percent."""
        right = 0
        for own, (own_heads, own_kinds) in zip(order, found, strict=True):
            for row, i in enumerate(own):
                pairs = zip(own_heads[row].tolist(), own_kinds[row].tolist(), strict=True)
                right += sum(
                    h == head and names[min(k, len(names) - 1)] == name
                    for (h, k), head, name in zip(pairs, heads[i], truth[i], strict=False)
                )
        return 100.0 * right / test.n_words

    return compare(
        lambda: Parser(len(words), len(tags), n_relations, arguments.width),
        known,
        unseen,
        structure,
        score,
        epochs=arguments.epochs,
        l2=arguments.l2,
        tol=arguments.tol,
        device=arguments.device,
    )


if __name__ == "__main__":
    main()
