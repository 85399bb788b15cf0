"""Pages with a script, each one self-contained file: data as JSON, and a content security policy.

The policy names the style and the script by their hashes, so that no other script runs and no other style applies.
Words and labels are data; the script inserts them as text.
"""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from partwise.report import palette
from partwise.report.json_values import json_for_page

SCRIPTS = ("elements.js", "charts.js", "tables.js", "drawings.js", "explorer.js", "page.js")
_FOLDER = "partwise.report"


def scripted_page(title: str, data: dict[str, Any], live: bool = False) -> str:
    """A page that is filled by a script.

    Parameters
    ----------
    title : str
        Plain text.
    data : dict
        JSON values, read by ``static/page.js``.
    live : bool
        Whether the page may send requests to its own server.
    """
    on_paper = " ".join(f"--{name}: {color};" for name, color in palette.LIGHT.items())
    style = f"{palette.variables()}@media print {{ :root {{ {on_paper} }} }}\n{static('page.css')}"
    script = '"use strict";\n' + "".join(static(name) for name in SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, script, live)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        '<body><noscript>This page shows its data by a script: allow it to see them.</noscript><main id="page">'
        f'</main><script type="application/json" id="data">{json_for_page(data)}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def policy(style: str, script: str, live: bool) -> str:
    """The content security policy of a page with this style and this script."""
    connect = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:;{connect} "
        "base-uri 'none'; form-action 'none'"
    )


def static(name: str) -> str:
    """The text of a file of the folder ``static``."""
    return (files(_FOLDER) / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
