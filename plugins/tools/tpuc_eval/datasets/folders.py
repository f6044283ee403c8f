"""Assign folders of images to classes: by class name, by number, or by order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.labels import IndexRange, index_range

SHOWN_FOLDERS = 3
"""Number of folder names listed in a message; the others are counted."""

NAMES_FILE = "--label-file FILE with the names of the network's classes, one per line in the order of its outputs"


@dataclass(frozen=True)
class Numbering:
    """Class indices that are valid only if the network has this many classes: `count` of them, from `offset`.

    `source` states what was counted, `remedy` what to do if the network has another number.
    """

    source: str
    count: int
    offset: int
    remedy: str

    def refuse(self, classes: int) -> str:
        """Return why these cannot be the classes of a network with that many, as a sentence; empty if they can."""
        if self.count + self.offset == classes:
            return ""
        behind = f" and --label-offset {self.offset}" if self.offset else ""
        return (
            f"{self.source}{behind}, but the network has {classes} classes, so folders cannot be assigned to classes; "
            f"{self.remedy}."
        )

    def doubt(self, classes: int) -> str:
        """Return nothing: the classes have names or an order."""
        return ""


@dataclass(frozen=True)
class FolderClasses:
    """The class index of every folder that has one, the names of the classes, and the assumptions."""

    indices: Mapping[str, int]
    names: Sequence[str]
    numbering: Numbering | IndexRange


def by_own_names(path: Path, folders: Sequence[str], offset: int, remark: Callable[[str], None]) -> FolderClasses:
    """Folders with numeric names use these as indices, others their position in sorted order."""
    if all(re.fullmatch(r"[0-9]+", name) for name in folders):
        numbers = {name: int(name) for name in folders}
        if len(set(numbers.values())) < len(folders):
            raise UsageError(f"{path}: two folders have the same number; add {NAMES_FILE}.")
        remark(f"{path}: folder names are numbers and are used as class indices")
        return FolderClasses(numbers, [], index_range(path, numbers.values(), offset))
    ordered = {name: index for index, name in enumerate(folders)}
    source = f"{path}: {len(folders)} folders of classes"
    return FolderClasses(ordered, folders, Numbering(source, len(folders), offset, f"give {NAMES_FILE}"))


def by_names_file(
    path: Path, folders: Sequence[str], file: Path, lines: Sequence[str], offset: int, remark: Callable[[str], None]
) -> FolderClasses:
    """Match folders to lines of the file by the whole line, its first word (a synset), or the text after a synset.

    Case, blanks, `_`, and `-` are ignored if there is no exact match.
    """
    exact, loose = _named(lines, str), _named(lines, _plain)
    indices: dict[str, int] = {}
    unknown: list[str] = []
    for name in folders:
        found = exact.get(name) or loose.get(_plain(name)) or []
        if len(found) > 1:
            listed = " and ".join(str(index) for index in found)
            raise UsageError(
                f"{path}: folder '{name}' is the name of several classes ({listed}) in {file}; use unique names for "
                "folders and classes, such as synsets."
            )
        if found:
            indices[name] = found[0]
        else:
            unknown.append(name)
    listed = ", ".join(f"'{name}'" for name in unknown[:SHOWN_FOLDERS])
    more = f" and {len(unknown) - SHOWN_FOLDERS} more" if len(unknown) > SHOWN_FOLDERS else ""
    if not indices:
        raise CalibrationError(
            f"{path}: none of its folders ({listed}{more}) has the name of a class in {file}. Rename the folders after "
            "the classes, or give their names with --label-file."
        )
    if unknown:
        remark(f"{path}: no class in {file} is named {listed}{more}; the images there are skipped")
    remedy = "give one name per class in the order of the outputs, or --label-offset if the first outputs have none"
    return FolderClasses(indices, list(lines), Numbering(f"{file}: {len(lines)} names", len(lines), offset, remedy))


def _named(lines: Sequence[str], spelled: Callable[[str], str]) -> dict[str, list[int]]:
    """Map each name to the lines it may mean."""
    found: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        for name in {spelled(name) for name in _names_in(line)}:
            found.setdefault(name, []).append(index)
    return found


def _names_in(line: str) -> list[str]:
    """Return the class names in a line; after a synset, several may follow, separated by commas."""
    first, *rest = re.split(r"[\s,]+", line, maxsplit=1)
    if not rest:
        return [line]
    if re.fullmatch(r"n\d{8}", first):
        return [line, first, rest[0], *(name.strip() for name in rest[0].split(","))]
    return [line, first]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.casefold()).strip()
