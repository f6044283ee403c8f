"""Write the files of a new plugin: those of its kind in a tested package, with names replaced."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from tpuc_driver.api.command import write_all

FOLDER = Path(__file__).parent
SECTION = re.compile(r"^\[", re.MULTILINE)

LINT = """

[tool.ruff]
line-length = 120

[tool.ruff.lint]
select = ["B", "E", "F", "UP", "W"]
"""
WORKFLOW = """name: ci
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: pip install -e . pytest ruff
      - run: ruff check .
      - run: pytest -q
"""


@dataclass(frozen=True)
class Kind:
    """A row of kinds.toml: `word` is the plugin's name in the files of `package`, `use` a command line with it."""

    name: str
    package: str
    word: str
    group: str
    files: list[str]
    use: str
    dialect: str | None = None

    def plugin(self, name: str) -> str:
        """Return the registered name of the plugin of a distribution `name`: a dialect is an identifier."""
        return name if self.dialect is None else name.replace("-", "_")


@cache
def kinds() -> Mapping[str, Kind]:
    """Return all kinds by name."""
    rows = tomllib.loads((FOLDER / "kinds.toml").read_text(encoding="utf-8"))
    return {name: Kind(name, **row) for name, row in rows.items()}


def files_of(kind: Kind, name: str) -> dict[str, str]:
    """Return every file of a new distribution by its path. `name` is in lower case with dashes."""
    source = FOLDER / "packages" / kind.package
    head = f"{kind.package}/__init__.py"
    texts = {path: (source / path).read_text(encoding="utf-8") for path in ("pyproject.toml", *kind.files)}
    texts.setdefault(head, f'"""A {kind.name} for tpuc."""\n\nfrom __future__ import annotations\n')
    texts = {path: _without_others(kind, text) for path, text in texts.items()}
    texts["pyproject.toml"] = _project(kind, texts["pyproject.toml"])
    texts["README.md"] = f"# {kind.word}\n\nA {kind.name} for tpuc.\n\n```sh\npip install -e .\n{kind.use}\n```\n"
    texts[f"{kind.package}/py.typed"] = ""
    return {_renamed(kind, name, path): _renamed(kind, name, text) for path, text in texts.items()} | _shared_files()


def _shared_files() -> dict[str, str]:
    """Return the files that every distribution has: CI configuration, and tpuc's own license."""
    found = {".github/workflows/ci.yml": WORKFLOW}
    license_text = distribution("tpuc").read_text("licenses/LICENSE")
    return found if license_text is None else {**found, "LICENSE": license_text}


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write files into a new folder; all of them or none."""
    write_all({folder / path: text for path, text in files.items()})


def _without_others(kind: Kind, text: str) -> str:
    """Remove the lines that register something of a module that is not written."""
    place = re.compile(rf'"{kind.package}\.(\w+):\w+"')
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not (found := place.search(line)) or f"{kind.package}/{found[1]}.py" in kind.files
    )


def _project(kind: Kind, text: str) -> str:
    """Return the pyproject.toml of a package without empty groups."""
    starts = [match.start() for match in SECTION.finditer(text)]
    sections = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    kept = [part for part in sections if not part.startswith("[project.entry-points") or " = " in part]
    described = f'description = "A {kind.name} for tpuc"'
    return re.sub(r"^description = .*$", described, "".join(kept), flags=re.MULTILINE).rstrip() + LINT


def _renamed(kind: Kind, name: str, text: str) -> str:
    """Replace the names of the package and its plugin in a text, in every spelling."""
    module = name.replace("-", "_")
    word = kind.word.replace("-", "_")
    words = {
        f"{kind.package}.{word}": f"{module}.{module}",
        f"{kind.package}/{word}": f"{module}/{module}",
        f"test_{word}": f"test_{module}",
        kind.package: module,
        kind.package.replace("_", "-"): name,
        word: module,
        word.upper(): module.upper(),
        _class_name(kind.word): _class_name(name),
        kind.word: kind.plugin(name),  # last: a single word is a name wherever it is not a module
    }
    if kind.dialect is not None:
        words[kind.dialect] = module
    longest_first = sorted(words, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: words[match[0]], text)


def _class_name(name: str) -> str:
    """Convert `a-name` to `AName`."""
    return "".join(part.capitalize() for part in name.split("-"))
