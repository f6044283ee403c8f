"""A reader as somebody else would write it; the how-to page shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CalibrationError
from tpuc.api.boundary import Preprocess
from tpuc_driver.api.host import Reader


class RawFloats(Reader):
    """Files that hold the numbers of one row and nothing else."""

    def read(self, file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> NDArray[np.float32]:
        values = np.fromfile(file, "<f4")
        if values.size != np.prod(shape[1:]):
            raise CalibrationError(f"{file}: {values.size} numbers do not fill an input {shape}. Replace it.")
        return values.reshape(1, *shape[1:])


READER = RawFloats()
