"""A headless browser for tests of pages; they are skipped where there is none."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


@contextmanager
def chromium():
    """A browser, started once for all pages of a test module."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium here")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and all that it asks for, complains of and pops up."""

    def __init__(self, browser, width=1000, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page.set_default_timeout(20_000)
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))

    def open(self, address):
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")
        return self.page

    def is_too_wide(self):
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")
