"""`network.py` of a bundle makes of a picture what `tpuc run` makes of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tpuc.api import F32, ScalarType, TensorInfo, Uniform
from tpuc.api.boundary import INTERPOLATIONS, Preprocess
from tpuc_chip_parts import programs
from tpuc_images.images import read_image

Read = Callable[[Mapping[str, Any], str], NDArray[Any]]
SHAPES = {"nchw": (1, 3, 12, 20), "nhwc": (1, 12, 20, 3)}
SIZES = ((31, 17), (9, 50), (5, 6), (24, 40))
"""Of pictures: smaller, larger, wide, high, and of the same proportions."""


@contextmanager
def reader(folder: Path) -> Generator[Read]:
    """`read` of a bundle's `network.py`, beside its `picture.py`."""
    parts = dict.fromkeys(("about", "inputs", "outputs", "labels"), "") | {"model": "'net'", "resets": "False"}
    text = resources.files(programs).joinpath("network.py.in").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"@@{name}@@", part)
    (folder / "network.py").write_text(text)
    (folder / "picture.py").write_text(resources.files(programs).joinpath("picture.py.in").read_text("utf-8"))
    sys.path.insert(0, str(folder))
    try:
        yield import_module("network").read
    finally:
        sys.path.remove(str(folder))
        for name in ("network", "picture"):
            sys.modules.pop(name, None)


def described(info: TensorInfo, said: Preprocess) -> Mapping[str, Any]:
    """The row of an input in `network.py`."""
    return ast.literal_eval(programs._python_input(programs.Input.of(info, said)).strip().removesuffix(","))  # pyright: ignore[reportPrivateUsage]


def ways() -> Iterator[dict[str, Any]]:
    """How pictures are placed: each fit in each layout and order, and each filter."""
    fits: list[dict[str, Any]] = [
        {},
        {"keep_aspect_ratio": True, "pad_value": 114},
        {"keep_aspect_ratio": True, "pad_value": 7, "pad_type": "normal"},
        {"keep_aspect_ratio": True, "keep_ratio_mode": "short_side_scale", "resize_dims": (15, 23)},
        {"resize_dims": (14, 26)},
    ]
    for fit, order, layout in product(fits, ("rgb", "bgr"), SHAPES):
        yield {**fit, "pixel_format": order, "layout": layout, "mean": (3.0, 5.0, 9.0), "scale": (0.5, 0.25, 0.1)}
    for name in INTERPOLATIONS:
        yield {"interpolation": name, "pixel_format": "rgb"}
    yield {"pixel_format": "gray", "keep_aspect_ratio": True}


def test_a_picture_becomes_what_tpuc_run_makes_of_it(tmp_path: Path) -> None:
    random, different = np.random.default_rng(4), list[str]()
    paths = [tmp_path / f"{number}.png" for number in range(len(SIZES))] + [tmp_path / "turned.jpg"]
    for path, size in zip(paths, (*SIZES, (31, 17)), strict=True):
        image = Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8))
        exif = Image.Exif()
        exif[274] = 6  # turned to the right
        image.save(path, exif=exif)
    with reader(tmp_path) as read:
        for way, path in product(ways(), paths):
            said = Preprocess(**way)
            shape = (1, 1, 12, 20) if said.pixel_format == "gray" else SHAPES[said.layout]
            row = described(TensorInfo("x", shape, F32, 0), said)
            if (read(row, str(path)).reshape(shape) != read_image(path, said, shape)).any():
                different.append(f"{path.name}: {way}")
    assert different == []


def test_files_that_take_bytes_take_pictures_too(tmp_path: Path) -> None:
    """Stored as they are in the order of the network; several pictures, or one for numbers, are refused."""
    pixels = np.random.default_rng(5).integers(0, 256, (12, 20, 3), np.uint8)
    path = tmp_path / "x.png"
    Image.fromarray(pixels).save(path)
    bytes_ = Uniform(ScalarType("ui8"), F32, 1.0, 0)
    with reader(tmp_path) as read:
        row = described(TensorInfo("x", (1, 3, 12, 20), bytes_, 0), Preprocess(pixel_format="bgr"))
        assert row["form"] == "stored"
        assert (read(row, str(path)) == pixels[..., ::-1].transpose(2, 0, 1)).all()
        for shape, said in (((2, 3, 12, 20), Preprocess(pixel_format="rgb")), ((1, 7), Preprocess())):
            with pytest.raises(SystemExit, match="takes no picture, but a file with its bytes"):
                read(described(TensorInfo("x", shape, F32, 0), said), str(path))
        (tmp_path / "bad.jpg").write_bytes(b"no picture")
        with pytest.raises(SystemExit, match=r"bad\.jpg is no readable picture"):
            read(row, str(tmp_path / "bad.jpg"))
