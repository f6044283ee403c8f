"""The commands that install optional dependencies into this installation."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE = "tpuc"


def install_command(extra: str) -> str:
    """The command that installs an extra. A package installed from a folder is named by the folder, since no index may
    have it.
    """
    import importlib.metadata

    try:
        text = importlib.metadata.distribution(PACKAGE).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    direct: dict[str, Any] = json.loads(text) if text else {}
    url = str(direct.get("url", ""))
    if not url.startswith("file://"):
        return f'pip install "{PACKAGE}[{extra}]"'
    path = unquote(urlsplit(url).path)
    is_editable = direct.get("dir_info", {}).get("editable", False)
    return f'pip install {"-e " if is_editable else ""}"{path}[{extra}]"'
