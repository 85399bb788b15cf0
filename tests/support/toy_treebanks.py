"""Small treebanks: constituent trees in brackets, and dependency trees that follow from tags."""

from __future__ import annotations

import itertools

import numpy as np

from partwise.data import corpus_from_sentences

SUBJECTS = [
    "(NP (DT the) (NN dog))",
    "(NP (PRP it))",
    "(NP (NP (DT a) (NN cat)) (PP (IN of) (NP (NNS homes))))",
]
VERBS = [
    "(VP (VBZ barks))",
    "(VP (VBZ sees) (NP (DT the) (NN man)))",
    "(VP (VBZ runs) (PP (IN at) (NP (NN home))))",
]
TREES = [f"( (S {subject} {verb} (. .)))" for subject, verb in itertools.product(SUBJECTS, VERBS)]
TREES += ["( (S (VP (VB run) (ADVP (RB home)) (. !))))", "( (NP (NN home)))"]

# Tag to the tag of its head: every sentence below has one verb at its root.
HEAD_TAGS = {"D": "N", "A": "N", "N": "V", "P": "V", "R": "V"}
RELATIONS = {"D": "det", "A": "amod", "N": "arg", "P": "punct", "R": "adv", "V": "root"}


def toy(n_sentences=40, seed=0, longest=7):
    """Sentences of tags where each word's head is the nearest word of a tag that its own tag asks for."""
    random = np.random.default_rng(seed)
    forms, tags, heads, relations = [], [], [], []
    for _ in range(n_sentences):
        own = [str(t) for t in random.choice(["D", "A", "N", "P", "R"], random.integers(1, longest))]
        own.insert(int(random.integers(len(own) + 1)), "V")
        tree = []
        for place, tag in enumerate(own):
            wanted = [k for k, other in enumerate(own) if other == HEAD_TAGS.get(tag) and k != place]
            verb = own.index("V")
            near = min(wanted, key=lambda k, place=place: (abs(k - place), k)) if wanted else verb
            tree.append(0 if tag == "V" else near + 1)
        forms.append([f"{tag.lower()}{random.integers(4)}" for tag in own])
        tags.append(own)
        heads.append(tree)
        relations.append([RELATIONS[tag] for tag in own])
    return corpus_from_sentences(forms, fine_tags=tags, heads=heads, relations=relations)
