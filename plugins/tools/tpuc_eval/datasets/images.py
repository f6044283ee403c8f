"""Images in a folder, with their placement in the network input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CalibrationError, Registry
from tpuc_driver.api.host import SampleInput, check_described, fingerprint, fit
from tpuc_images.images import image_size, read_image
from tpuc_images.placing import placement
from tpuc_images.reader import SUFFIXES

from tpuc_eval.protocols import LabeledSamples, Sample


@dataclass(frozen=True)
class ImageFiles(LabeledSamples):
    """Image files; subclasses know their labels."""

    files: tuple[Path, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Make paths absolute for another process, whose working directory may differ."""
        return {**self.__dict__, "files": tuple(file.resolve() for file in self.files)}

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        return str(self.files[index])

    def fingerprint(self, index: int) -> str:
        return fingerprint(self.files[index])

    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        return sample_of(self.files[index], inputs)


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and its subfolders by relative path; raises CalibrationError if there is no
    folder.
    """
    if not folder.is_dir():
        raise CalibrationError(f"{folder}: not a folder. Give --dataset a folder of images.")
    found = [file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()]
    return sorted(found, key=lambda file: file.relative_to(folder).as_posix())


def sample_of(file: Path, inputs: Sequence[SampleInput]) -> Sample:
    """Return an image as the only image input; a second input of two values gets the image's height and width."""
    images = [one for one in inputs if len(one.shape) == 4]
    if len(images) != 1:
        shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
        raise CalibrationError(
            f"{file}: {len(images)} inputs of the network take images ({shapes}). A data set of images needs a network "
            "with one image input."
        )
    check_described(file, images[0].name, images[0].is_described, Registry())
    height, width = image_size(file)
    row = {images[0].name: fit(images[0], read_image(file, images[0].preprocess, images[0].shape), file)}
    for other in inputs:
        if other is not images[0]:
            row[other.name] = fit(other, np.array([height, width], np.float32).reshape(_row_shape(other, file)), file)
    return Sample((row,), placement(images[0].preprocess, height, width, images[0].shape))


def _row_shape(one: SampleInput, file: Path) -> tuple[int, ...]:
    if int(np.prod(one.shape)) != 2:
        raise CalibrationError(
            f"{file}: the data set has no values for input {one.name!r} {one.shape}. Cut the network, or give arrays."
        )
    return one.shape
