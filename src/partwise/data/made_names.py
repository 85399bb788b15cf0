"""Sentences with names of people, places and firms, made from patterns: data for examples and first steps."""

from __future__ import annotations

import random

from partwise.errors import InputError

FIRST = """
Ada Alan Amara Anna Bela Bruno Chen Clara Diego Dora Edgar Emma Farid Felix Grace Greta Hugo Ida
Ines Jonas Karla Kenji Leo Mia Nadia Nora Omar Petra Rosa Tomas
""".split()  # noqa: SIM905
LAST = """
Adeyemi Bartok Berg Costa Dubois Haddad Holm Keller Kovac Lovelace Lund Moreau Novak Okafor Olsen
Petrov Rossi Silva Stein Tanaka Turing Weber
""".split()  # noqa: SIM905
PLACES = """
Accra Bergen Dublin Geneva Hanoi Krakow Lagos Lima Lisbon Lyon Nairobi Osaka Oslo Porto Prague Quito
Rome Tunis Turin Vienna
""".split()  # noqa: SIM905
FIRMS = """
Arkona Baltex Halden Kelvar Mirabo Norde Omnix Pavona Solvik Tandem Ulmark Verano
""".split()  # noqa: SIM905
PATTERNS = [
    "PER met PER in LOC",
    "PER works for ORG in LOC",
    "yesterday PER left LOC for LOC",
    "shares of ORG fell after PER resigned",
    "ORG opens an office in LOC , says PER",
    "the mayor of LOC , PER , thanked ORG",
    "PER told reporters that ORG will grow",
    "ORG and ORG merge",
    "rain is expected in LOC and LOC",
    "he said so in LOC",
    "the new law was passed on Monday",
    "LOC is older than LOC",
    "PER , who was born in LOC , runs ORG",
]


def make_names(
    n_sentences: int = 200, *, share: float = 1.0, random_state: int = 0
) -> tuple[list[list[str]], list[list[str]]]:
    """Make sentences with names and their labels, to try things out.

    Parameters
    ----------
    n_sentences : int
    share : float in (0, 1]
        Share of each list of names that is used. Training on half of the names and testing on all of them shows how
        a model does on names that it has never seen.
    random_state : int

    Returns
    -------
    X : list of list of str
        The words of each sentence.
    y : list of list of str
        A label for each word: ``B-PER`` begins the name of a person, ``I-PER`` continues it, ``O`` is no name.
        The other types are LOC (places) and ORG (firms).

    Examples
    --------
    >>> from partwise.data import make_names
    >>> X, y = make_names(3)
    >>> print(*X[2])
    Omar Lovelace , who was born in Quito , runs Norde Group
    >>> print(*y[2])
    B-PER I-PER O O O O O B-LOC O O B-ORG I-ORG
    """
    if n_sentences < 1 or not 0 < share <= 1:
        raise InputError(f"n_sentences={n_sentences} must be at least 1, and share={share} in (0, 1]")
    generator = random.Random(random_state)
    pairs = [_sentence(generator, share) for _ in range(n_sentences)]
    return [words for words, _ in pairs], [labels for _, labels in pairs]


def _sentence(generator: random.Random, share: float) -> tuple[list[str], list[str]]:
    def one(names: list[str]) -> str:
        return generator.choice(names[: max(1, int(share * len(names)))])

    words: list[str] = []
    labels: list[str] = []
    for word in generator.choice(PATTERNS).split():
        if word == "PER":
            name = [one(FIRST), one(LAST)]
        elif word == "LOC":
            name = [one(PLACES)]
        elif word == "ORG":
            name = [one(FIRMS), *generator.choice([[], ["AG"], ["Group"]])]
        else:
            name = []
        words += name or [word]
        labels += [f"{'BI'[k > 0]}-{word}" for k in range(len(name))] or ["O"]
    return words, labels
