"""Preprocessing turns pictures into network inputs; it is stored in the attributes of input ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tpuc.ir.op import Op

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIELDS = (
    *("mean", "scale", "pixel_format", "keep_aspect_ratio"),
    *("keep_ratio_mode", "pad_value", "pad_type", "interpolation"),
)
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "area", "linear")
"""Resize filters: Pillow's filters of these names, and OpenCV's `area` and `linear`."""


@dataclass(frozen=True)
class Preprocess:
    """``y = (x - mean) * scale`` per channel in the order of `pixel_format`, after resize and center crop.

    `resize_dims` is (height, width) before the crop, by default the network's own. `keep_aspect_ratio` resizes without
    distortion: with `keep_ratio_mode` letterbox the image fits inside, at the top left (`pad_type` normal) or centered,
    and the rest is filled with `pad_value`; with short_side_scale it covers the whole area and is cropped on both
    sides. `interpolation` is one of `INTERPOLATIONS`; without it, pixels are area means where no side grows, and
    `bilinear` otherwise.
    """

    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    pixel_format: Literal[
        "rgb", "bgr", "gray", "rgba", "rgbd", "yuv420", "nv12", "nv21", "rggb", "grbg", "gbrg", "bggr"
    ] = "bgr"
    resize_dims: tuple[int, int] | None = None
    keep_aspect_ratio: bool = False
    layout: Literal["nchw", "nhwc"] = "nchw"
    keep_ratio_mode: Literal["letterbox", "short_side_scale"] = "letterbox"
    pad_value: int = 0
    pad_type: Literal["center", "normal"] = "center"
    interpolation: str | None = None

    def normalize(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """`[..., c]`: pixels minus mean, times scale, each step rounded to float32, exactly as compiled files
        compute it.
        """
        import numpy as np

        channels = pixels.shape[-1]
        mean, scale = (np.resize(np.array(values, np.float32), channels) for values in (self.mean, self.scale))
        return (pixels.astype(np.float32) - mean) * scale


def preprocess_from(attributes: Mapping[str, Any], shape: tuple[int, ...] = ()) -> Preprocess:
    """The preprocessing described by attributes with these names; missing ones keep their default.

    A one-channel image is gray by default.
    """
    given: dict[str, Any] = {name: attributes[name] for name in _FIELDS if attributes.get(name) not in (None, ())}
    dims, layout, crop = (attributes.get(name) for name in ("resize_dims", "channel_format", "crop"))
    if dims:
        given["resize_dims"] = (dims[0], dims[1])
    elif crop and len(shape) == 4:
        extents = shape[1:3] if layout == "nhwc" else shape[2:]
        given["resize_dims"] = (round(extents[0] / crop), round(extents[1] / crop))
    if layout in ("nchw", "nhwc"):
        given["layout"] = layout
    if len(shape) == 4 and shape[3 if layout == "nhwc" else 1] == 1:
        given.setdefault("pixel_format", "gray")
    return Preprocess(**given)


def preprocess_of(op: Op, shape: tuple[int, ...] = ()) -> Preprocess:
    """The preprocessing described by a network input's attributes."""
    known = {field.name: op.__dict__[field.name] for field in dataclasses.fields(op) if field.name in op.__dict__}  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses
    return preprocess_from(known, shape)


def is_described(op: Op) -> bool:
    """True if a preprocessing is described for this network input."""
    fields = op.__dict__
    said = fields.get("do_preprocess")
    return any(fields.get(name) is not None for name in _FIELDS) if said is None else bool(said)


def rounds_evenly(op: Op) -> bool:
    """True if the integers of a network input are quantized as by ONNX's QuantizeLinear."""
    return getattr(op, "round_mode", None) == "HalfToEven"
