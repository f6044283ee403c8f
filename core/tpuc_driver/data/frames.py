"""Write the frames of videos as image files, so that every image reader can open them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tpuc.registry import Registry

FRAMES = "tpuc.frames"


class FrameReader(ABC):
    """Reads video files, registered in `tpuc.frames` by file suffix."""

    api_version: ClassVar[int] = 1

    @abstractmethod
    def write_pictures(self, file: Path, folder: Path, every: int) -> Sequence[Path]:
        """Write the first of each `every` consecutive frames losslessly as a picture into `folder`; returns the paths
        in order, named by frame number from 1. Raises CalibrationError for a file without frames.
        """


def with_pictures(files: Sequence[Path], folder: Path, registry: Registry, every: int = 1) -> list[Path]:
    """The files, with each video replaced by a folder of its frames in `folder`, named after it."""
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
