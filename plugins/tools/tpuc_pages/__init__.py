"""Shared parts of pages: a template is one HTML file that includes the common style and script."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from tpuc_driver.api.page import Data, Markup, fill_page

_STYLE, _SCRIPT = "<!-- style -->", "<!-- script -->"


def template(package: str) -> str:
    """Return a package's `page.html` with the shared parts inserted."""
    own = (files(package) / "page.html").read_text(encoding="utf-8")
    shared = files("tpuc_pages")
    style, script = ((shared / name).read_text(encoding="utf-8") for name in ("shared.css", "shared.js"))
    whole = own.replace(_STYLE, f"<style>\n{style}</style>", 1)
    return whole.replace(_SCRIPT, f"<script>\n{script}</script>", 1)


def page(package: str, fields: Mapping[str, str | Markup | Data]) -> str:
    """Return a package's page, filled in."""
    return fill_page(template(package), fields)
