"""The page itself: one HTML document with its style and script inside, and the policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from spojoin.page.svg import draw


def document(query: str) -> bytes:
    """The page about a query; the same for everyone and at any time, the script asks for what changes."""
    html = _asset("page.html")
    parts = {
        "STYLE": _asset("page.css"),
        "SCRIPT": _asset("page.js"),
        "FLOW": draw(),
        "QUERY": escape(query),
    }
    for name, text in parts.items():
        html = html.replace(f"<!--{name}-->", text)
    return html.encode()


def policy() -> str:
    """The Content-Security-Policy: this style, this script and /state.json of this server, and nothing else."""
    style, script = (_digest(_asset(name)) for name in ("page.css", "page.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _asset(name: str) -> str:
    return (files("spojoin.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
