"""`--interpolation` resizes as the filters of Pillow and as OpenCV do, bit for bit, and every file remembers it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from tpuc.errors import CalibrationError, UsageError
from tpuc.ir.preprocess import INTERPOLATIONS, Preprocess
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.data import described
from tpuc_driver.session import Session
from tpuc_images.images import read_image
from tpuc_images.resize import resize

OF_OPENCV = {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR}
OF_PILLOW = [name for name in INTERPOLATIONS if name not in OF_OPENCV]


def sizes(count: int, seed: int = 1) -> list[tuple[int, int, int, int]]:
    """Heights and widths before and after: any, halves, and whole multiples."""
    random, found = np.random.default_rng(seed), list[tuple[int, int, int, int]]()
    for place in range(count):
        old_rows, old_columns, rows, columns = (int(one) for one in random.integers(1, 70, 4))
        if place % 5 == 0:
            old_rows, old_columns = 2 * rows, 2 * columns
        if place % 7 == 0:
            old_rows, old_columns = rows * int(random.integers(1, 6)), columns * int(random.integers(1, 6))
        found.append((old_rows, old_columns, rows, columns))
    return [*found, (333, 500, 256, 384), (375, 500, 224, 299), (100, 90, 224, 224)]


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_area_and_linear_are_those_of_opencv(count: int) -> None:
    random, wrong = np.random.default_rng(2), list[str]()
    for old_rows, old_columns, rows, columns in sizes(count):
        channels = int(random.choice([1, 3, 4]))
        pixels = random.integers(0, 256, (old_rows, old_columns, channels), np.uint8)
        for name, flag in OF_OPENCV.items():
            wanted = cv2.resize(pixels, (columns, rows), interpolation=flag).reshape(rows, columns, channels)
            if not np.array_equal(resize(pixels, rows, columns, name), wanted):
                wrong.append(f"{name}: {pixels.shape} to {rows}x{columns}")
    assert not wrong, wrong


def test_other_names_are_those_of_pillow(tmp_path: Path) -> None:
    random, wrong, file = np.random.default_rng(3), list[str](), tmp_path / "image.png"
    for old_rows, old_columns, rows, columns in sizes(10, seed=4)[:-1]:
        picture = Image.fromarray(random.integers(0, 256, (old_rows, old_columns, 3), np.uint8))
        picture.save(file)
        for name in OF_PILLOW:
            said = Preprocess(pixel_format="rgb", layout="nhwc", interpolation=name)
            wanted = np.asarray(picture.resize((columns, rows), Image.Resampling[name.upper()]))
            if not np.array_equal(read_image(file, said, (1, rows, columns, 3))[0], wanted):
                wrong.append(f"{name}: {old_rows}x{old_columns} to {rows}x{columns}")
    assert not wrong, wrong


def test_the_option_takes_each_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Its names are written out there: the help of commands loads no part of the compiler."""
    assert main(["compile", "--help"]) == 0
    assert f"[{'|'.join(INTERPOLATIONS)}]" in re.sub(r"\s+", "", capsys.readouterr().out)


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    sentence = r"no interpolation is named 'cubic'\. Choose one of nearest, box, bilinear, .*, area, linear\."
    with pytest.raises(UsageError, match=sentence):
        described({"interpolation": "cubic"}, Registry(), print)
    file = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(file)
    with pytest.raises(CalibrationError, match=f"^{re.escape(str(file))}: {sentence}"):
        read_image(file, Preprocess(pixel_format="rgb", interpolation="cubic"), (1, 3, 2, 2))


def test_module_compiled_file_and_description_say_it(digits_onnx: Path, tmp_path: Path) -> None:
    """Files of networks without it stay as they were, byte for byte."""
    texts = list[str]()
    for options in ((), ("--interpolation", "lanczos")):
        model, folder = tmp_path / f"net{len(options)}.bmodel", tmp_path / f"folder{len(options)}"
        arguments = [str(digits_onnx), "--chip=bm1684x", "--quantize=f32", "--preprocess=none", *options]
        assert main(["compile", *arguments, "-o", str(model), "--bundle", str(folder)]) == 0
        entry: dict[str, Any] = json.loads((folder / "network.json").read_text())["inputs"][0]["preprocess"]
        assert entry["interpolation"] == (options[1] if options else None)
        (said,) = Session().open_described(model)[2].values()
        assert said.interpolation == entry["interpolation"]
        texts.append(model.read_bytes().decode("latin-1"))
    assert "interpolation" not in texts[0]
    assert '"interpolation":"lanczos"' in texts[1]
