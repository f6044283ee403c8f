"""A network of a regression as its TOML file describes it.

files = ["net.onnx", "images"]          # beside the description; the commands find them under these names
steps = [                               # commands of tpuc, in this order, in a folder of the network's own
  "transform --model-name net --model-def net.onnx --mlir net.mlir",
  "deploy --mlir net.mlir --chip {chip} --quantize {mode} --model {chip}_{mode}.out",
]

[each]                                  # a step that names these is run once for each combination
chip = ["newchip"]
mode = ["f16", "bf16"]
"""

from __future__ import annotations

import itertools
import shlex
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tpuc.api import UsageError

SUFFIX = ".toml"
SETTINGS = "tpuc.toml"
KEYS = ("files", "steps", "each")


@dataclass(frozen=True)
class Step:
    """A command: its words, in which `names` stand in braces."""

    words: tuple[str, ...]
    names: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """The words with these values."""
        return [word.format_map(values) for word in self.words]


@dataclass(frozen=True)
class Description:
    """A network: the files that it needs, its commands, and the values that these are run with."""

    path: Path
    files: tuple[Path, ...]
    steps: tuple[Step, ...]
    each: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """As the file is called."""
        return self.path.stem

    def combinations(self, step: Step) -> list[Mapping[str, str]]:
        """The values that a step is run with, one run after the other."""
        lists = [[(name, value) for value in self.each[name]] for name in step.names]
        return [dict(pairs) for pairs in itertools.product(*lists)]


def find(folder: Path, names: Sequence[str]) -> list[Description]:
    """The descriptions in a folder, all or those of these names; raises UsageError."""
    there = {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.name != SETTINGS}
    if not there:
        raise UsageError(f"{folder}: contains no {SUFFIX} files. Give the folder of the descriptions.")
    for name in names:
        if name not in there:
            raise UsageError(f"{folder}: no description of network '{name}'. Choose one of {', '.join(there)}.")
    return [read(there[name]) for name in names or there]


def read(path: Path) -> Description:
    """One description; raises UsageError where it says something else than it should."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML: {error}. Correct it.") from error
    for key in content:
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key '{key}'; the keys are {', '.join(KEYS)}. Correct the name.")
    table = content.get("each", {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: 'each' is not a table of lists. Write [each] above them.")
    each = {name: _texts(path, f"each.{name}", values) for name, values in cast("dict[str, Any]", table).items()}
    files = tuple(path.parent / name for name in _texts(path, "files", content.get("files", [])))
    for file in files:
        if not file.exists():
            raise UsageError(f"{path}: {file} does not exist. Add it, or correct 'files'.")
    steps = tuple(_step(path, text, each) for text in _texts(path, "steps", content.get("steps", [])))
    if not steps:
        raise UsageError(f'{path}: has no steps. Write steps = ["transform ...", "deploy ..."].')
    return Description(path, files, steps, each)


def _texts(path: Path, key: str, value: Any) -> tuple[str, ...]:
    values = cast("list[Any]", value) if isinstance(value, list) else None
    if values is None or not all(isinstance(one, str) for one in values):
        raise UsageError(f'{path}: \'{key}\' is not a list of texts. Write it as ["...", "..."].')
    return tuple(values)


def _step(path: Path, text: str, each: Mapping[str, tuple[str, ...]]) -> Step:
    try:
        words = tuple(shlex.split(text))
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise UsageError(f"{path}: step '{text}' cannot be read: {error}. Correct it.") from error
    if not words:
        raise UsageError(f"{path}: a step is empty. Leave it out.")
    for name in names:
        if name not in each:
            raise UsageError(
                f"{path}: step '{text}' uses {{{name}}}, which 'each' does not define. Double literal braces."
            )
    return Step(words, tuple(dict.fromkeys(names)))
