"""Read label files: labels of files, or of folders and classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import UsageError
from tpuc_driver.api.host import lines_of

IMAGENET = 1000
"""Number of classes in ImageNet label lists."""
HEADINGS = frozenset({"file", "filename", "file_name", "image", "name", "path"})


@dataclass(frozen=True)
class LabelFile:
    """`by_file`: class indices by file name, from lines `FILE INDEX`. `plain`: the other lines, in order."""

    path: Path
    by_file: Mapping[str, int]
    plain: Sequence[str]

    @property
    def indices(self) -> list[int] | None:
        """Return the plain lines as class indices, None if a line is not an index."""
        numbers = [line for line in self.plain if re.fullmatch(r"\d+", line)]
        return [int(line) for line in numbers] if numbers and len(numbers) == len(self.plain) else None


@dataclass(frozen=True)
class IndexRange:
    """The smallest and largest class index in the data, whichever samples are used."""

    source: Path
    lowest: int
    highest: int
    offset: int

    def refuse(self, classes: int) -> str:
        """Return why these cannot be indices of that many classes, as a sentence; empty if they can."""
        if self.highest + self.offset < classes:
            return ""
        if self.offset == 0 and self.lowest > 0 and self.highest == classes:
            return (
                f"{self.source}: its largest class index is {self.highest}, but the network has {classes} classes, "
                "counted from 0; add --label-offset -1."
            )
        return (
            f"a label is {self.highest + self.offset}, but the network has {classes} classes; correct --label-file, "
            "the folders or --label-offset."
        )

    def doubt(self, classes: int) -> str:
        """Return why they may not count from 0, as a sentence; empty if there is no doubt.

        A network whose class 0 is the background has one class more than its data.
        """
        if not self.offset and classes == IMAGENET + 1 and self.highest < IMAGENET:
            return (
                f"the network has {classes} classes, and ImageNet has {IMAGENET}: if class 0 is the background, add "
                "--label-offset 1"
            )
        if self.offset or self.lowest != 1 or self.highest + 1 >= classes:
            return ""
        return (
            f"{self.source}: its smallest class index is 1; if it counts the {classes} classes from 1, add "
            "--label-offset -1"
        )


def index_range(source: Path, indices: Iterable[int], offset: int) -> IndexRange:
    """Return the index range of a data set with at least one sample."""
    found = sorted(set(indices))
    return IndexRange(source, found[0], found[-1], offset)


def read_lines(path: Path) -> list[str]:
    """Return the nonempty lines of a text file; raises UsageError."""
    return lines_of(path, "--label-file lines 'FILE INDEX' or class names")


def read_labels(path: Path) -> LabelFile:
    """Read a label file; columns are separated by tabs, commas, or blanks, and a header line is skipped."""
    by_file: dict[str, int] = {}
    plain: list[str] = []
    lines = read_lines(path)
    if not lines:
        raise UsageError(f"{path}: empty file. --label-file needs lines 'FILE INDEX' or class names.")
    if _columns(lines[0])[0].lower() in HEADINGS and len(_columns(lines[0])) > 1:
        lines = lines[1:]
    for line in lines:
        parts = _columns(line)
        if len(parts) > 1 and re.fullmatch(r"\d+", parts[1]):
            by_file[parts[0]] = int(parts[1])
        else:
            plain.append(line)
    if by_file and plain:
        raise UsageError(
            f"{path}: line '{plain[0]}' has no class index, but other lines do. Write every line as 'FILE INDEX'."
        )
    return LabelFile(path, by_file, plain)


def class_names(path: Path) -> list[str]:
    """Read class names in index order, one per line."""
    return read_lines(path)


def _columns(line: str) -> list[str]:
    separator = next((mark for mark in ("\t", ",") if mark in line), None)
    return [part.strip() for part in line.split(separator)] or [""]
