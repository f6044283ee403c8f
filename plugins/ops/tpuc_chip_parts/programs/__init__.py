"""Generate the description of a network for programs in C++ and Python: `network.hpp` and `network.py`.

A chip adds `run.cpp` and `run.py`, which are the same for every network: they call its runtime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from math import prod
from typing import Any

from tpuc.api import LoadedModel, ScalarType, TensorInfo, Uniform
from tpuc.api.boundary import Preprocess

PIXELS, VALUES, STORED = "pixels", "values", "stored"
"""The contents of an input file: decoded pixels as bytes, the network's real values as floats, or stored values."""
COLORS = ("rgb", "bgr", "gray")
RANK, ROW = 4, 7
PROGRAMS = ("run.cpp", "run.py")
"""The files in a chip's package."""
COMMON = ("picture.hpp", "resize.hpp", "picture.py", "riscv64-musl.cmake", "aarch64.cmake")
"""The files for all networks and chips."""


@dataclass(frozen=True)
class Runtime:
    """The vendor's runtime for build files: its usual location, one of its headers, and the libraries to link."""

    folder: str
    header: str
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Input:
    """The description of an input for the programs."""

    info: TensorInfo
    form: str
    preprocess: Preprocess
    shows: bool = False
    """True if the input accepts pictures."""

    @staticmethod
    def of(info: TensorInfo, preprocess: Preprocess | None) -> Input:
        """Pixels where preprocessing is described and the file takes its results."""
        if preprocess is not None and _has_colors(info, preprocess):
            if _takes_values(info):
                return Input(info, PIXELS, preprocess, shows=True)
            if _takes_bytes(info):
                return Input(info, STORED, preprocess, shows=True)
        return Input(info, VALUES if _takes_values(info) else STORED, Preprocess())

    @property
    def channels(self) -> int:
        """Number of channels per pixel."""
        return self.info.shape[1 if self.is_planar else 3] if self.shows else 1

    @property
    def is_planar(self) -> bool:
        """True for planar channels."""
        return self.shows and self.preprocess.layout == "nchw"

    @property
    def is_turned(self) -> bool:
        """True if the network takes blue first; the files have red first."""
        return self.shows and self.preprocess.pixel_format == "bgr" and self.channels > 1

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image."""
        rows, columns = (self.info.shape[2:] if self.is_planar else self.info.shape[1:3]) if self.shows else (1, 1)
        return rows, columns

    def per_channel(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Means or scales, one per channel; a single one is repeated."""
        return tuple(values[index % len(values)] for index in range(self.channels))


def programs(
    package: str,
    runtime: Runtime,
    model: str,
    loaded: LoadedModel,
    described: Mapping[str, Preprocess],
    labels: Sequence[str],
) -> Mapping[str, str]:
    """The text of all files by name; `package` contains the chip's `run.cpp` and `run.py`."""
    inputs = [Input.of(info, described.get(info.name)) for info in loaded.inputs]
    about = [f"{place}. {_about(one)}{'; or a picture' * one.shows}" for place, one in enumerate(inputs, 1)]
    cpp = {
        "about": "\n".join(f"// {line}" for line in about),
        "model": _c_string(model),
        "inputs": "\n".join(_cpp_input(one) for one in inputs),
        "outputs": "\n".join(_cpp_output(info) for info in loaded.outputs),
        "labels": "".join(f"\n    {_c_string(name)}," for name in labels),
        "resets": "true" if loaded.reset_input is not None else "false",
    }
    python = {
        "about": "\n".join(f"# {line}" for line in about),
        "model": repr(model),
        "inputs": "\n".join(_python_input(one) for one in inputs),
        "outputs": "\n".join(_python_output(info) for info in loaded.outputs),
        "labels": "".join(f"\n    {name!r}," for name in labels),
        "resets": str(loaded.reset_input is not None),
    }
    build = {
        "sdk": runtime.folder,
        "header": runtime.header,
        "libraries": " ".join(runtime.libraries),
        "link": " ".join(f"-l{name}" for name in runtime.libraries),
        "model": f'"{_cmake_text(model)}"',
    }
    own = {name: resources.files(package).joinpath(f"{name}.in").read_text(encoding="utf-8") for name in PROGRAMS}
    return {
        **own,
        **{name: _filled(f"{name}.in", {}) for name in COMMON},
        **{name: _filled(f"{name}.in", build) for name in ("CMakeLists.txt", "Makefile")},
        "network.hpp": _filled("network.hpp.in", cpp),
        "network.py": _filled("network.py.in", python),
    }


def _cmake_text(text: str) -> str:
    return re.sub(r'([\\"$;])', r"\\\1", text)


def _has_colors(info: TensorInfo, preprocess: Preprocess) -> bool:
    if len(info.shape) != RANK or preprocess.pixel_format not in COLORS:
        return False
    channels = info.shape[1 if preprocess.layout == "nchw" else 3]
    return channels == (1 if preprocess.pixel_format == "gray" else 3)


def _takes_bytes(info: TensorInfo) -> bool:
    """True if the stored values are pixel bytes, which the file normalizes."""
    return info.frame is None and _type(info) == "u8" and _quantization(info) == (1.0, 0)


def _takes_values(info: TensorInfo) -> bool:
    """True if floats are accepted. Camera images and unscaled integers must be stored ones."""
    if info.frame is not None:
        return False
    if isinstance(info.element, Uniform):
        return (info.element.scale, info.element.zero_point) != (1.0, 0) and info.element.storage.bits == 8
    return isinstance(info.element, ScalarType) and info.element.name == "f32"


def _has_rows(info: TensorInfo) -> bool:
    """True for rows of detections or classes, as from `DetectionOutput`."""
    return len(info.shape) == RANK and info.shape[1] == 1 and info.shape[3] == ROW and _type(info) == "f32"


def _about(one: Input) -> str:
    extents = "x".join(map(str, one.info.shape))
    name = ascii(one.info.name)
    if one.form == PIXELS:
        order = "gray" if one.channels == 1 else "red, green and blue"
        return f"{name}: pixels of images resized for {extents}, pixel by pixel, a byte for {order}"
    what = "float32 values" if one.form == VALUES else "the bytes as they are stored"
    return f"{name}: {what}, {extents}"


def _quantization(info: TensorInfo) -> tuple[float, int]:
    return (info.element.scale, info.element.zero_point) if isinstance(info.element, Uniform) else (1.0, 0)


def _bounds(info: TensorInfo) -> tuple[int, int]:
    return info.element.bounds if isinstance(info.element, Uniform) else (0, 0)


def _type(info: TensorInfo) -> str:
    """The name of the stored type; raw bits and indices are integers, too."""
    element = info.element
    if isinstance(element, Uniform):
        return f"{'i' if element.bounds[0] < 0 else 'u'}{element.storage.bits}"
    assert isinstance(element, ScalarType)
    return element.name.replace("ui", "u").replace("si", "i")


def _size(info: TensorInfo) -> tuple[int, int]:
    """Elements and bytes."""
    return prod(info.shape), info.size_bytes


def _cpp_input(one: Input) -> str:
    scale, zero_point = _quantization(one.info)
    low, high = _bounds(one.info)
    means, scales = (_braces(one.per_channel(values)) for values in (one.preprocess.mean, one.preprocess.scale))
    flags = ", ".join("true" if flag else "false" for flag in (one.is_planar, one.is_turned, one.info.rounds_evenly))
    pictures = "true" if one.shows else "false"
    return (
        f"    {{{_cpp_tensor(one.info)}, Form::{one.form}, {one.channels}, {prod(one.size)}, "
        f"{flags}, {means}, {scales}, {scale!r}, {zero_point}, {low}, {high}, {pictures}, {_cpp_fit(one)}}},"
    )


def _cpp_fit(one: Input) -> str:
    said = one.preprocess
    whether = (said.keep_aspect_ratio, said.keep_ratio_mode == "short_side_scale", said.pad_type == "center")
    flags = ", ".join("true" if flag else "false" for flag in whether)
    numbers = ", ".join(map(str, (*one.size, one.channels, *(said.resize_dims or one.size))))
    return f"{{{numbers}, {flags}, {said.pad_value}, picture::Filter::{said.interpolation or 'usual'}}}"


def _cpp_output(info: TensorInfo) -> str:
    scale, zero_point = _quantization(info)
    return f"    {{{_cpp_tensor(info)}, {scale!r}, {zero_point}, {'true' if _has_rows(info) else 'false'}}},"


def _cpp_tensor(info: TensorInfo) -> str:
    count, size = _size(info)
    return f"{_c_string(info.name)}, {_braces(info.shape)}, Type::{_type(info)}, {count}, {size}"


def _braces(values: Sequence[float]) -> str:
    return "{" + ", ".join(map(repr, values)) + "}"


def _python_input(one: Input) -> str:
    images = (-1, prod(one.size), one.channels) if one.form == PIXELS else None
    values = {
        **_python_tensor(one.info),
        "form": one.form,
        "images": images,
        "planar": one.is_planar,
        "turned": one.is_turned,
        "evenly": one.info.rounds_evenly,
        "mean": one.per_channel(one.preprocess.mean),
        "factor": one.per_channel(one.preprocess.scale),
        "bounds": _bounds(one.info),
        "fit": _python_fit(one) if one.shows else None,
    }
    return f"    {values!r},"


def _python_fit(one: Input) -> dict[str, Any]:
    said = one.preprocess
    return {
        "size": one.size,
        "resize": tuple(said.resize_dims or one.size),
        "channels": one.channels,
        "keep": said.keep_aspect_ratio,
        "covers": said.keep_ratio_mode == "short_side_scale",
        "centered": said.pad_type == "center",
        "fill": said.pad_value,
        "interpolation": said.interpolation,
    }


def _python_output(info: TensorInfo) -> str:
    return f"    { ({**_python_tensor(info), 'rows': _has_rows(info)})!r},"


def _python_tensor(info: TensorInfo) -> dict[str, Any]:
    (count, size), (scale, zero_point) = _size(info), _quantization(info)
    return {
        "name": info.name,
        "shape": info.shape,
        "type": _type(info),
        "count": count,
        "bytes": size,
        "scale": scale,
        "zero_point": zero_point,
    }


def _c_string(text: str) -> str:
    """A C++ string literal with the bytes of UTF-8 or of a file name, without trigraphs."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", errors="surrogateescape")
    )
    return f'"{"".join(plain)}"'


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """A template with every `@@name@@` replaced."""
    pieces = resources.files(__name__).joinpath(template).read_text(encoding="utf-8").split("@@")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))
