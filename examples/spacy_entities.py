"""A spaCy pipeline whose entities partwise finds: train, look at probabilities, evaluate, save and load.

Run ``python examples/spacy_entities.py``. It needs spaCy and no downloads.
"""

from __future__ import annotations

import tempfile

import spacy
from spacy.tokens import Doc
from spacy.training import Example

import partwise.spacy  # noqa: F401  registers the factory, also where the package is not installed
from partwise.data import make_names


def as_doc(nlp, words, labels):
    """A document with entities. Corpora in spaCy's own format (DocBin) hold such documents."""
    return Doc(nlp.vocab, words=words, ents=labels)


def main() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("partwise", config={"threshold": 0.1, "settings": {"l2": 0.3}})

    train = [as_doc(nlp, *pair) for pair in zip(*make_names(200, share=0.6), strict=True)]
    test = [as_doc(nlp, *pair) for pair in zip(*make_names(100, random_state=1), strict=True)]
    nlp.get_pipe("partwise").fit(train)

    doc = nlp("Ada Lovelace works for Norde Group in Quito.")
    for entity in doc.ents:
        print(entity.text, entity.label_, f"{entity._.probability:.2f}")
    candidates = doc.spans["partwise"]
    print(len(candidates), "candidates")

    examples = [Example(nlp.make_doc(doc.text), doc) for doc in test]
    print(f"F1 {nlp.evaluate(examples)['ents_f']:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        again = spacy.load(folder)
    print([entity.text for entity in again(doc.text).ents])


if __name__ == "__main__":
    main()
