"""The reader of image files for `tpuc.readers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpuc.api.boundary import Preprocess
from tpuc_driver.api.host import Reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})


class ImageFiles(Reader):
    """Image formats that Pillow reads."""

    reads_pictures = True

    def read(self, file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> NDArray[np.float32]:
        from tpuc_images.images import read_image

        return read_image(file, preprocess, shape)


READER = ImageFiles()
