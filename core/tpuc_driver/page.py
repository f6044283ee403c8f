"""Fill HTML templates in one pass: escape by context, and set a policy that blocks all other scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_FIELD = re.compile(r"@([A-Z]+)@")
_SCRIPT, _STYLE = (re.compile(rf"<{tag}>(.*?)</{tag}>", re.DOTALL) for tag in ("script", "style"))
_HEAD = '<meta charset="utf-8">\n'
# Inside a script, `<` could end the element or begin a comment, and the separators end a line of JavaScript.
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Markup:
    """HTML that is made of parts which are escaped already."""

    html: str


@dataclass(frozen=True)
class Data:
    """Values that stand as JSON in a `<script type="application/json">`."""

    value: Any


def fill_page(template: str, fields: Mapping[str, str | Markup | Data]) -> str:
    """The template with every `@NAME@` replaced once; plain strings are shown as text, whatever is in them.

    The page gets the Content-Security-Policy of its template.
    """
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy_of(template))}">\n'
    template = template.replace(_HEAD, _HEAD + policy, 1)
    return _FIELD.sub(lambda match: _shown(fields[match.group(1)]), template)


def policy_of(template: str) -> str:
    """Only the scripts and styles of the template itself are allowed, by their hashes, and requests to its server."""
    scripts, styles = (_hashes(pattern, template) for pattern in (_SCRIPT, _STYLE))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'"
    )


def _hashes(pattern: re.Pattern[str], template: str) -> str:
    found = (hashlib.sha256(text.encode("utf-8")).digest() for text in pattern.findall(template))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in found) or "'none'"


def _shown(field: str | Markup | Data) -> str:
    match field:
        case Markup(html=text):
            return text
        case Data(value=value):
            text = json.dumps(value, ensure_ascii=False)
            return re.sub("[<>&\u2028\u2029]", lambda match: _IN_SCRIPT[match.group()], text)
        case str():
            return html.escape(field)
