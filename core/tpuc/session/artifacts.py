"""Compiled files on disk: one file, or a folder where the compiled form is source."""

from __future__ import annotations

from pathlib import Path

from tpuc.api.chip import Chip
from tpuc.api.function import FunctionChip
from tpuc.files import write_atomic


def names_folder(chip: Chip, path: Path) -> bool:
    """Does a path name a folder of source? Any name does that does not end as the chip's archives do."""
    return isinstance(chip, FunctionChip) and path.suffix != chip.description.suffix


def write_artifact(chip: Chip, path: Path, data: bytes) -> None:
    """Write what was compiled, each file whole."""
    if not (isinstance(chip, FunctionChip) and names_folder(chip, path)):
        write_atomic(path, data)
        return
    path.mkdir(exist_ok=True)
    for name, content in chip.files(data).items():
        write_atomic(path / name, content)


def is_compiled_folder(chip: Chip, path: Path) -> bool:
    """Is there a folder that the chip may have written?"""
    return isinstance(chip, FunctionChip) and path.is_dir()


def read_artifact(chip: Chip, path: Path) -> bytes:
    """What was written before."""
    return chip.archive(path) if isinstance(chip, FunctionChip) and path.is_dir() else path.read_bytes()
