"""`picture.hpp` of a deployment folder gives the bytes that `tpuc run` gives the network."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tpuc.api.boundary import Preprocess
from tpuc_chip_parts import programs
from tpuc_driver.data.video import VIDEO_FORMATS, rgb_of_frames
from tpuc_images.images import read_image
from tpuc_images.placing import placement

HEADERS = Path(programs.__file__).parent
JPEG = ["-DWITH_JPEG", "-ljpeg"]
DRIVER = """
#include "picture.hpp"
// Each line: picture, result, then the fields of Fit.
int main() {
  char from[4096], to[4096];
  picture::Fit fit;
  int keep, covers, centered, filter;
  while (std::scanf("%4095s %4095s %zu %zu %zu %zu %zu %d %d %d %d %d", from, to, &fit.height, &fit.width,
                    &fit.channels, &fit.rows, &fit.columns, &keep, &covers, &centered, &fit.fill, &filter) == 12) {
    fit.filter = static_cast<picture::Filter>(filter), fit.keep = keep, fit.covers = covers, fit.centered = centered;
    picture::Image image;
    picture::Placement place;
    if (!picture::read(from, image)) continue;
    const picture::Image result = picture::fitted(image, fit, place);
    std::ofstream(to, std::ios::binary).write(reinterpret_cast<const char *>(result.pixels.data()),
                                              static_cast<std::streamsize>(result.pixels.size()));
    std::printf("%.9g %.9g %.9g %.9g\\n", place.across, place.down, place.left, place.top);
  }
}
"""
FILTERS = (None, "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "area", "linear")
"""In the order of `Filter`."""
SIZES = ((48, 64), (37, 91), (120, 33), (7, 5), (24, 32))
"""Of pictures, height and width."""
FITS = (
    Preprocess(),
    Preprocess(keep_aspect_ratio=True, pad_value=114),
    Preprocess(keep_aspect_ratio=True, pad_value=114, pad_type="normal"),
    Preprocess(keep_aspect_ratio=True, keep_ratio_mode="short_side_scale", resize_dims=(27, 37)),
    Preprocess(resize_dims=(31, 40)),
)
SHAPES = ((1, 3, 24, 32), (1, 3, 17, 60), (1, 1, 24, 32))


_BUILT = tempfile.TemporaryDirectory(prefix="tpuc-pictures-")


@functools.cache
def driver() -> Path:
    """The program, with JPEG where libjpeg is installed."""
    folder = Path(_BUILT.name)
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    for name in ("picture.hpp", "resize.hpp"):
        shutil.copy(HEADERS / f"{name}.in", folder / name)
    (folder / "driver.cpp").write_text(DRIVER, "utf-8")
    warnings = ["-Wall", "-Wextra", "-Werror"]
    flags = ["g++", "-std=c++17", "-O2", "-ffp-contract=off", *warnings, "driver.cpp", "-o", "driver"]
    if subprocess.run([*flags, *JPEG], cwd=folder, capture_output=True, check=False).returncode:
        subprocess.run(flags, cwd=folder, check=True)
    return folder / "driver"


def line(picture: Path, target: Path, said: Preprocess, shape: Sequence[int]) -> str:
    rows, columns = said.resize_dims or (shape[2], shape[3])
    numbers = [shape[2], shape[3], shape[1], rows, columns, said.keep_aspect_ratio]
    numbers += [
        said.keep_ratio_mode == "short_side_scale",
        said.pad_type == "center",
        said.pad_value,
        FILTERS.index(said.interpolation),
    ]
    return " ".join(map(str, (picture, target, *map(int, numbers))))


def run(program: Path, lines: Sequence[str]) -> tuple[list[list[float]], str]:
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=False)
    return [[float(number) for number in row.split()] for row in done.stdout.splitlines()], done.stderr


def stored(target: Path, shape: Sequence[int]) -> NDArray[Any]:
    return np.fromfile(target, np.uint8).reshape(shape[2], shape[3], shape[1]).transpose(2, 0, 1)[None]


def test_pictures_are_placed_as_samples_are(tmp_path: Path) -> None:
    program, generator = driver(), np.random.default_rng(1)
    pictures: list[tuple[Path, tuple[int, int]]] = []
    for number, size in enumerate(SIZES):
        pixels = generator.integers(0, 256, (*size, 3), np.uint8)
        gray = number % 2 == 1
        file = tmp_path / f"{number}.{'pgm' if gray else 'ppm'}"
        Image.fromarray(pixels[:, :, 0] if gray else pixels).save(file)
        pictures.append((file, size))
    cases = list(product(pictures, FITS, SHAPES))
    said = [replace(fit, pixel_format="gray" if shape[1] == 1 else "rgb") for _, fit, shape in cases]
    cases = [(one, fit, shape) for (one, _, shape), fit in zip(cases, said, strict=True) if _is_large(fit, shape)]
    lines = [line(file, tmp_path / f"{number}.out", fit, shape) for number, ((file, _), fit, shape) in enumerate(cases)]
    places, complaints = run(program, lines)
    assert not complaints
    for number, ((file, size), fit, shape) in enumerate(cases):
        wanted, place = read_image(file, fit, shape), placement(fit, *size, shape)
        found, what = stored(tmp_path / f"{number}.out", shape), str((file, fit, shape))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=int(_is_mixed(fit, size, shape)), err_msg=what)
        np.testing.assert_allclose(places[number], [*place.scale, *place.offset], rtol=1e-8)


def test_every_filter_gives_the_bytes_of_tpuc(tmp_path: Path) -> None:
    """Growing, shrinking, halving, whole factors, and one axis alone. Where both axes change, versions of Pillow differ
    in which comes first; its own bytes for one of both orders are then the right ones.
    """
    program, generator, lines = driver(), np.random.default_rng(4), list[str]()
    wanted: list[list[NDArray[Any]]] = []
    shapes = ((1, 3, 24, 32), (1, 3, 60, 80), (1, 1, 24, 32), (1, 3, 37, 40), (1, 3, 90, 33))
    for number, (size, shape, name) in enumerate(product(SIZES, shapes, FILTERS)):
        said = Preprocess(interpolation=name, pixel_format="gray" if shape[1] == 1 else "rgb")
        file = tmp_path / f"{number}.{'pgm' if shape[1] == 1 else 'ppm'}"
        picture = Image.fromarray(generator.integers(0, 256, size if shape[1] == 1 else (*size, 3), np.uint8))
        picture.save(file)
        lines.append(line(file, tmp_path / f"{number}.out", said, shape))
        grows = shape[2] > size[0] or shape[3] > size[1]
        if name in ("nearest", "area", "linear") or (name is None and not grows):
            wanted.append([read_image(file, said, shape)])
        else:
            wanted.append([_by_axes(picture, name or "bilinear", shape, first) for first in range(2)])
    run(program, lines)
    found = [stored(tmp_path / f"{number}.out", each[0].shape) for number, each in enumerate(wanted)]
    wrong = [
        text for text, one, each in zip(lines, found, wanted, strict=True) if not any((one == w).all() for w in each)
    ]
    assert not wrong


def _by_axes(picture: Image.Image, name: str, shape: Sequence[int], first: int) -> NDArray[Any]:
    """Resized by Pillow along one axis and then along the other."""
    between = (picture.width, shape[2]) if first else (shape[3], picture.height)
    how = Image.Resampling[name.upper()]
    done = np.asarray(picture.resize(between, how).resize((shape[3], shape[2]), how))
    return done.reshape(shape[2], shape[3], shape[1]).transpose(2, 0, 1)[None]


def test_jpegs_are_turned_as_exif_says(tmp_path: Path) -> None:
    program, lines = driver(), list[str]()
    shapes = [(1, 3, 24, 40)] * 4 + [(1, 3, 40, 24)] * 4
    pixels = np.full((24, 40, 3), 40, np.uint8)
    pixels[:8, :16], pixels[16:, :8] = 200, 120  # no symmetry
    for number, shape in enumerate(shapes):
        for order in (b"MM", b"II"):
            file = tmp_path / f"{number}{order.decode()}.jpg"
            exif = Image.Exif()
            exif.endian = "<" if order == b"II" else ">"
            exif[0x010F], exif[0x0112] = "camera", number + 1
            Image.fromarray(pixels).save(file, quality=100, subsampling=0, exif=exif)
            lines.append(line(file, file.with_suffix(".out"), Preprocess(), shape))
    _, complaints = run(program, lines)
    if "built without libjpeg" in complaints:
        pytest.skip("needs libjpeg's header")
    for text in lines:
        file, target, *numbers = text.split()
        shape = (1, 3, int(numbers[0]), int(numbers[1]))
        wanted = read_image(Path(file), Preprocess(pixel_format="rgb"), shape)
        assert np.abs(stored(Path(target), shape) - wanted).max() <= 2, text


def _is_mixed(fit: Preprocess, size: tuple[int, int], shape: Sequence[int]) -> bool:
    """Does one side shrink and the other grow? Versions of Pillow differ in which comes first, and round between."""
    rows, columns = fit.resize_dims or (shape[2], shape[3])
    return not fit.keep_aspect_ratio and (rows - size[0]) * (columns - size[1]) < 0


def _is_large(fit: Preprocess, shape: Sequence[int]) -> bool:
    """Are pictures resized for at least the input? Others are refused when the network is described."""
    return fit.resize_dims is None or (fit.resize_dims[0] >= shape[2] and fit.resize_dims[1] >= shape[3])


def test_frames_are_converted_as_samples_are(tmp_path: Path) -> None:
    program, shape = driver(), (1, 3, 12, 16)
    frame = np.random.default_rng(2).integers(0, 256, (18, 16), np.uint8)
    luma, u, v = frame[:12], frame[12:].reshape(6, 8, 2)[..., 0], frame[12:].reshape(6, 8, 2)[..., 1]
    (tmp_path / "a_16x12.nv12").write_bytes(frame.tobytes())
    twice = np.empty((12, 8, 4), np.uint8)
    twice[..., 0], twice[..., 2], twice[..., 1], twice[..., 3] = (
        luma[:, ::2],
        luma[:, 1::2],
        u.repeat(2, 0),
        v.repeat(2, 0),
    )
    (tmp_path / "b_16x12.yuyv").write_bytes(twice.tobytes())
    wanted = rgb_of_frames(frame[None, None], VIDEO_FORMATS["nv12"]).transpose(0, 3, 1, 2)
    for name in ("a_16x12.nv12", "b_16x12.yuyv"):
        run(program, [line(tmp_path / name, tmp_path / "out", Preprocess(), shape)])
        np.testing.assert_array_equal(stored(tmp_path / "out", shape), wanted, name)


def test_jpegs_are_decoded(tmp_path: Path) -> None:
    """Smooth ones, which decoders agree on to a step."""
    program, shape = driver(), (1, 3, 40, 56)
    ramp = np.add.outer(np.arange(40), 3 * np.arange(56)).astype(np.uint8)
    pixels = np.stack([ramp, ramp[::-1], 255 - ramp], 2)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95)
    _, complaints = run(program, [line(tmp_path / "a.jpg", tmp_path / "out", Preprocess(), shape)])
    if "built without libjpeg" in complaints:
        pytest.skip("needs libjpeg's header")
    wanted = read_image(tmp_path / "a.jpg", Preprocess(pixel_format="rgb"), shape)
    assert np.abs(stored(tmp_path / "out", shape) - wanted).max() <= 2


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    program = driver()
    (tmp_path / "short.ppm").write_bytes(b"P6 4 4 255\n" + bytes(47))
    (tmp_path / "deep.pgm").write_bytes(b"P5 2 2 65535\n" + bytes(8))
    (tmp_path / "frame.nv12").write_bytes(bytes(24))
    (tmp_path / "frame_4x4.yuyv").write_bytes(bytes(31))
    names = ("short.ppm", "deep.pgm", "frame.nv12", "frame_4x4.yuyv", "none.ppm")
    lines = [line(tmp_path / name, tmp_path / "out", Preprocess(), (1, 3, 4, 4)) for name in names]
    places, complaints = run(program, lines)
    assert not places
    assert [one.replace(f"{tmp_path}/", "") for one in complaints.splitlines()] == [
        "short.ppm: not a binary PPM or PGM with values up to 255",
        "deep.pgm: not a binary PPM or PGM with values up to 255",
        "frame.nv12: not a frame of the size in its name, as in frame_640x480.nv12",
        "frame_4x4.yuyv: not a frame of the size in its name, as in frame_640x480.nv12",
        "none.ppm: no such file",
    ]
