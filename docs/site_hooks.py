"""What the site takes from outside of docs/: the repository's own pages, and folders as parts of its navigation."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

sys.path.append(str(Path(__file__).parent))

from notebook_pages import page_of  # it lies beside this file, which mkdocs loads by its path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
COMMANDS = "commands"
"""The folder of the pages that each describe one command."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for its pages, the first one first."""
    config.nav = [_expanded(entry) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The repository's own pages and its notebooks become pages of the site."""
    from mkdocs.structure.files import File

    for name in PROJECT:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text(encoding="utf-8")))
    for name, content in command_pages().items():
        files.append(File.generated(config, f"{COMMANDS}/{name}.md", content=content))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page, pictures = page_of(path, ROOT)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def command_pages() -> dict[str, str]:
    """A page for every command, from the sections of the page of all commands."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (?=tpuc )", text, flags=re.MULTILINE)[1:]
    found: dict[str, str] = {}
    for section in sections:
        title, _, rest = section.partition("\n")
        body = re.sub(r"^##(#+) ", r"#\1 ", rest, flags=re.MULTILINE)
        found[title.removeprefix("tpuc ")] = f"# {title}\n{body}"
    return found


def _list_of_commands(markdown: str) -> str:
    """The page of all commands without their sections, which have pages of their own."""
    head = re.split(r"^## (?=tpuc )", markdown, maxsplit=1, flags=re.MULTILINE)[0]
    rows = (f"| [tpuc {name}]({COMMANDS}/{name}.md) | {_summary(page)} |" for name, page in command_pages().items())
    return "\n".join((head, "| command | |", "|---|---|", *rows, ""))


def _summary(page: str) -> str:
    """The first sentence below the title."""
    paragraph = page.split("\n\n")[1]
    return re.split(r"(?<=\.)\s", " ".join(paragraph.split()), maxsplit=1)[0]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # mkdocs calls it by name
    """Links to pages and notebooks that the site has lead there, links to sources to the repository."""
    source = page.file.src_uri
    folder = ROOT if source.startswith("project/") else ROOT / "docs" / Path(source).parent

    if source == "cli.md":
        markdown = _list_of_commands(markdown)

    def led(match: re.Match[str]) -> str:
        text, target, anchor = match.group(1), (folder / match.group(2)).resolve(), match.group(3) or ""
        if target == ROOT / "docs" / "cli.md" and anchor.startswith("#tpuc-"):
            target, anchor = target.parent / COMMANDS / f"{anchor.removeprefix('#tpuc-')}.md", ""
        if target.is_dir():
            target /= "README.md"
        if target.suffix == ".ipynb":
            target = target.with_suffix(".md")
        place = _place(target)
        if files.get_file_from_path(place) is None:
            inside = target.exists() and target.is_relative_to(ROOT)
            return f"[{text}]({repository()}/blob/main/{target.relative_to(ROOT).as_posix()})" if inside else text
        up = "../" * source.count("/")
        return f"[{text}]({up}{place}{anchor})"

    return LINK.sub(led, markdown)


def repository() -> str:
    """Where the sources are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"]["Repository"]


def _place(target: Path) -> str:
    """Of a file in the site."""
    if target.parent == ROOT and target.name in PROJECT:
        return f"project/{target.name}"
    docs = ROOT / "docs"
    return target.relative_to(docs).as_posix() if target.is_relative_to(docs) else target.as_posix()


def _expanded(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, inside),) = entry.items()
    if isinstance(inside, list):
        return {title: [_expanded(one) for one in inside]}
    folder = ROOT / "docs" / inside
    if inside == COMMANDS:
        return {title: ["cli.md", *(f"{COMMANDS}/{name}.md" for name in command_pages())]}
    if inside == "project":
        return {title: [f"project/{name}" for name in PROJECT]}
    if not folder.is_dir():
        return entry
    pages = sorted(folder.glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
    return {title: [path.relative_to(ROOT / "docs").as_posix() for path in pages]}
