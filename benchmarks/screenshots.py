"""The pictures of docs/report.md and docs/serving.md: pages of models trained on sentences that are made up here.

    python benchmarks/screenshots.py [FOLDER]

needs playwright and chromium. Sentences come from a small grammar whose phrases are attached at random, so that no
model can be always right; the same sentences serve as chunks, dependency trees and constituent trees.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from partwise.data import make_names

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
WORDS = {
    "DT": "the a this every",
    "JJ": "old small green light early quiet",
    "NN": "man dog garden saw light letter river train duck watch",
    "NNP": "Ada Turing Lisbon Oslo",
    "VBD": "saw found light watched left duck wrote crossed",
    "IN": "in with near from",
    "RB": "slowly early again",
}
UNIVERSAL = {"DT": "DET", "JJ": "ADJ", "NN": "NOUN", "NNP": "PROPN", "VBD": "VERB", "IN": "ADP", "RB": "ADV"}


class Word(NamedTuple):
    """A word of a sentence, with its head (from 1; 0 is the root)."""

    form: str
    tag: str
    head: int
    relation: str
    chunk: str


class Sentence(NamedTuple):
    """Words and the brackets around them."""

    words: list[Word]
    brackets: str


class Maker:
    """Makes sentences; what it builds are nested lists [label, children…] with words (form, tag) as leaves."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def sentence(self) -> Sentence:
        object_phrase = self._noun_phrase("object")
        verb_phrase = ["VP", self._word("VBD"), object_phrase]
        if self.random.random() < 0.6:
            phrase = ["PP", self._word("IN"), self._noun_phrase("inner")]
            if self.random.random() < 0.5:
                verb_phrase[2] = ["NP", object_phrase, phrase]
            else:
                verb_phrase.append(phrase)
        if self.random.random() < 0.3:
            verb_phrase.append(["ADVP", self._word("RB")])
        return _flat(["S", self._noun_phrase("subject"), verb_phrase])

    def _noun_phrase(self, _: str) -> list:
        if self.random.random() < 0.3:
            return ["NP", self._word("NNP")]
        adjectives = [self._word("JJ") for _ in range(self.random.choice((0, 0, 1, 1, 2)))]
        return ["NP", self._word("DT"), *adjectives, self._word("NN")]

    def _word(self, tag: str) -> tuple[str, str]:
        return self.random.choice(WORDS[tag].split()), tag


def _flat(tree: list) -> Sentence:
    words: list[Word] = []

    def walk(node: list | tuple, relation: str, chunk: str) -> int:
        """Add the words under a node; returns the number of the word that heads it."""
        if isinstance(node, tuple):
            words.append(Word(*node, 0, relation, chunk))
            return len(words)
        label, *children = node
        leaves = all(isinstance(child, tuple) for child in children)
        kind = label if leaves or label in ("PP", "VP") else ""
        numbers, begun = [], False
        for child in children:
            own = ""
            if isinstance(child, tuple) and kind:
                own = ("I-" if begun else "B-") + kind
                begun = True
            numbers.append(walk(child, "", own))
        place = {"S": -1, "VP": 0, "PP": 0, "NP": -1 if leaves else 0, "ADVP": 0}[label]
        head = numbers[place]
        for number, child in zip(numbers, children, strict=True):
            if number != head:
                name = _relation(label, child, words[number - 1].tag, number > head)
                words[number - 1] = words[number - 1]._replace(head=head, relation=name)
        return head

    root = walk(tree, "root", "")
    words[root - 1] = words[root - 1]._replace(head=0, relation="root")
    return Sentence(words, f"( {_brackets(tree)})")


def _relation(label: str, child: list | tuple, tag: str, behind: bool) -> str:
    if isinstance(child, tuple):
        return {"DT": "det", "JJ": "amod"}.get(tag, "dep")
    names = {"S": "nsubj", "PP": "pobj", "VP": "obj", "NP": "nmod"}
    return {"PP": "prep", "ADVP": "advmod"}.get(child[0], names[label]) if behind else names[label]


def _brackets(node: list | tuple) -> str:
    if isinstance(node, tuple):
        return f"({node[1]} {node[0]})"
    return f"({node[0]} {' '.join(map(_brackets, node[1:]))})"


def chunk_text(sentences: list[Sentence]) -> str:
    """Columns word and chunk."""
    blocks = ("".join(f"{w.form} {w.chunk or 'O'}\n" for w in each.words) for each in sentences)
    return "\n".join(blocks)


def dependency_text(sentences: list[Sentence]) -> str:
    """CoNLL-U."""
    blocks = []
    for sentence in sentences:
        rows = (
            f"{k}\t{w.form}\t{w.form.lower()}\t{UNIVERSAL[w.tag]}\t{w.tag}\t_\t{w.head}\t{w.relation}\t_\t_\n"
            for k, w in enumerate(sentence.words, 1)
        )
        blocks.append("".join(rows))
    return "\n".join(blocks) + "\n"


def bracket_text(sentences: list[Sentence]) -> str:
    """Penn brackets."""
    return "".join(each.brackets + "\n" for each in sentences)


def write_data(folder: Path, n_train: int = 300, n_dev: int = 60) -> None:
    """Files to train on and to look at, of every kind."""
    maker = Maker(7)
    parts = {
        "train": [maker.sentence() for _ in range(n_train)],
        "dev": [maker.sentence() for _ in range(n_dev)],
    }
    names = {"train": make_names(40, share=0.4), "dev": make_names(60, share=0.4, random_state=1)}
    for name, (words, labels) in names.items():
        rows = [
            "".join(f"{a} {b}\n" for a, b in zip(*each, strict=True))
            for each in zip(words, labels, strict=True)
        ]
        (folder / f"{name}.names").write_text("\n".join(rows))
    for name, sentences in parts.items():
        (folder / f"{name}.conll").write_text(chunk_text(sentences))
        (folder / f"{name}.conllu").write_text(dependency_text(sentences))
        (folder / f"{name}.mrg").write_text(bracket_text(sentences))


def run(folder: Path, *arguments: str) -> None:
    """One command of partwise."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(
        [sys.executable, "-m", "partwise.cli", *arguments], cwd=folder, env=environment, check=True
    )


def train(folder: Path) -> None:
    """The models of the pictures."""
    run(folder, "train", "sequence", "train.names", "-m", "names.model", "-q")
    run(folder, "train", "segments", "train.conll", "-m", "segments.model", "-q")
    run(folder, "train", "dependency", "train.conllu", "-m", "trees.model", "-q")
    run(folder, "train", "constituency", "train.mrg", "-m", "constituents.model", "-q")


def make_pages(folder: Path) -> None:
    """The reports."""
    run(folder, "report", "names.model", "--data", "dev.names", "-o", "names.html")
    run(folder, "report", "trees.model", "--data", "dev.conllu", "-o", "trees.html")
    run(folder, "report", "constituents.model", "--data", "dev.mrg", "-o", "constituents.html")


def picture(page: Any, where: str, target: Path, height: int | None = None) -> None:
    """A picture of an element, or of its upper part."""
    page.evaluate("scrollTo(0, 0)")  # where places in the window are places on the page
    box = page.locator(where).first.bounding_box()
    if height is not None:
        box["height"] = min(height, box["height"])
    page.screenshot(path=target, clip=box, full_page=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def section(name: str) -> str:
    return f"section[aria-labelledby=section-{name}]"


def report_pictures(browser: Any, folder: Path, images: Path) -> None:
    """Of docs/report.md."""
    page = browser.new_page(viewport={"width": 960, "height": 900})
    page.goto((folder / "names.html").as_uri())
    picture(page, "main", images / "report_errors.png", 900)
    page.goto((folder / "trees.html").as_uri())
    page.locator(".token.wrong").first.click()
    picture(page, section("examples"), images / "report_tree.png", 900)
    phone = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
    phone.goto((folder / "constituents.html").as_uri())
    picture(phone, section("examples"), images / "report_phone.png", 800)


@contextmanager
def served(folder: Path, model: str) -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    command = [sys.executable, "-m", "partwise.cli", "serve", model, "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[3]
        server.terminate()


def serving_picture(browser: Any, folder: Path, images: Path) -> None:
    """Of docs/serving.md."""
    with served(folder, "segments.model") as address:
        page = browser.new_page(viewport={"width": 820, "height": 900})
        page.goto(address)
        page.locator("#text").fill("Ada saw the light duck in every garden")
        page.locator(".token", has_text="garden").click()
        picture(page, section("try-it"), images / "serve.png", 720)


def main() -> None:
    from playwright.sync_api import sync_playwright

    images = ROOT / "docs" / "images"
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise SystemExit("no chromium here")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else name)
        folder.mkdir(exist_ok=True)
        write_data(folder)
        train(folder)
        make_pages(folder)
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        report_pictures(browser, folder, images)
        serving_picture(browser, folder, images)
        browser.close()


if __name__ == "__main__":
    main()
