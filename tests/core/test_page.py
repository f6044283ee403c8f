"""Pages: filled in one pass, escaped by context, and nothing but their own scripts may run."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser

from tpuc_driver.page import Data, Markup, fill_page, policy_of

TEMPLATE = """<!doctype html>
<html><head>
<meta charset="utf-8">
<title>@TITLE@</title>
<style>p { margin: 0; }</style>
</head><body title="@TITLE@">
<p>@ROWS@</p>
<script id="data" type="application/json">@DATA@</script>
<script>
"use strict";
go();
</script>
</body></html>
"""


class Elements(HTMLParser):
    """Tags in order, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.tags[-1] == "script":
            self.scripts[-1] += data


def filled(hostile: str) -> Elements:
    return Elements(
        fill_page(TEMPLATE, {"TITLE": hostile, "ROWS": Markup("<b>bold</b>"), "DATA": Data({"name": hostile})})
    )


def test_a_field_in_a_value_is_text() -> None:
    page = filled("@DATA@ @ROWS@ @TITLE@")
    assert page.tags.count("b") == 1
    assert ("title", "@DATA@ @ROWS@ @TITLE@") in page.attributes
    assert json.loads(page.scripts[0]) == {"name": "@DATA@ @ROWS@ @TITLE@"}


def test_no_value_ends_its_context() -> None:
    sound = filled("x").tags
    for hostile in (
        '"><script>x()</script>',
        "</title><img onerror=x>",
        "</script><script>x()",
        "<!--<script>",
        "\u2028",
    ):
        page = filled(hostile)
        assert page.tags == sound
        assert json.loads(page.scripts[0])["name"] == hostile
        assert "\u2028" not in page.scripts[0]


def test_the_policy_allows_the_scripts_and_styles_of_the_template_alone() -> None:
    policy = policy_of(TEMPLATE)
    for inside in ('\n"use strict";\ngo();\n', "p { margin: 0; }"):
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert ("content", policy) in filled("x").attributes
