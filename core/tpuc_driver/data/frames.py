"""Write the frames of videos as image files, so that every image reader can open them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tpuc.registry import Registry

FRAMES = "tpuc.frames"


class FrameReader(ABC):
    """Reads files of moving pictures. `tpuc.frames` names it by the suffixes of its files."""

    api_version: ClassVar[int] = 1

    @abstractmethod
    def write_pictures(self, file: Path, folder: Path, every: int) -> Sequence[Path]:
        """Write the first of `every` frames that follow each other, without loss, as a picture into `folder`; the paths
        in their order, named after their numbers from 1. Raises CalibrationError for a file without frames.
        """


def with_pictures(files: Sequence[Path], folder: Path, registry: Registry, every: int = 1) -> list[Path]:
    """The files, those of moving pictures replaced by a folder of their frames in `folder`, which is named after
    them.
    """
    found: list[Path] = []
    for number, file in enumerate(files):
        suffix = file.suffix.lower().removeprefix(".")
        if file.is_file() and registry.has(FRAMES, suffix):
            reader: FrameReader = registry.get(FRAMES, suffix)
            target = folder / str(number) / file.name
            target.mkdir(parents=True)
            reader.write_pictures(file, target, every)
            found.append(target)
        else:
            found.append(file)
    return found
