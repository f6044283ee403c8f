"""The reader of videos for `tpuc.frames`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tpuc.api import CalibrationError, install_command
from tpuc_driver.api.host import FrameReader


class VideoFiles(FrameReader):
    """Video formats that OpenCV decodes."""

    def write_pictures(self, file: Path, folder: Path, every: int) -> Sequence[Path]:
        try:
            import cv2
        except ImportError as error:
            raise CalibrationError(
                f"{file}: reading videos needs OpenCV, which is not installed: {install_command('video')}, or extract "
                f"the frames with `ffmpeg -i {file.name} frames/%05d.png` and give their folder."
            ) from error
        film = cv2.VideoCapture(str(file))
        pictures: list[Path] = []
        number = 0
        while film.grab():
            number += 1
            if (number - 1) % every:
                continue
            decoded, pixels = film.retrieve()
            path = folder / f"{number:05d}.png"
            if not decoded or not cv2.imwrite(str(path), pixels):
                raise CalibrationError(f"{file}: frame {number} cannot be decoded; is the video damaged?")
            pictures.append(path)
        if not pictures:
            raise CalibrationError(f"{file}: no frame in it can be decoded; is it a video?")
        return pictures


READER = VideoFiles()
