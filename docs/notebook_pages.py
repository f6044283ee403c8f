"""Notebooks as pages of the site: executed when it is built, so that what they print is what this version prints."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT = 600
"""Seconds that a cell may take."""
_BADGE = re.compile(r"\[!\[([^\]]*)\]\([^)]*\)\]\(([^)]*)\)")
"""A link with a picture of another server, which the site does not ask for."""
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def page_of(path: Path, folder: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook, executed in `folder`, as Markdown; and the pictures that it shows, by file name."""
    import nbformat
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    kernel = AsyncKernelManager(transport="ipc" if os.name == "posix" else "tcp")  # a socket of this machine
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel, timeout=TIMEOUT, resources=where).execute(cleanup_kc=True)
    pictures: dict[str, bytes] = {}
    parts: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(_BADGE.sub(r"[\1](\2)", cell.source))
            continue
        parts.append(_fenced("python", cell.source))
        for output in cell.outputs:
            name = f"{path.stem}-{len(pictures)}.png"
            parts.append(_shown(output, name, pictures))
    title, *rest = parts
    download = f'<a href="{path.name}" download>The notebook itself</a>'
    return "\n\n".join([title, download, *rest]) + "\n", pictures


def _shown(output: Mapping[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    """What a cell gave; a picture goes into a file of that name."""
    if output["output_type"] == "stream":
        return _fenced("text", _COLORS.sub("", output["text"]).rstrip())
    data = output["data"]
    if "image/png" in data:
        pictures[name] = base64.b64decode(data["image/png"])
        return f"![{name}]({name})"
    return f"<div>{data['text/html']}</div>" if "text/html" in data else _fenced("text", data["text/plain"])


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
