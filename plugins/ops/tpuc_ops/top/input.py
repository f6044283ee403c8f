"""An input of the network."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import I64, Bool, F64Array, I64Array, NetworkInput, Node, Op, RoundMode, Str, Types, UsageError

from tpuc_ops.arrays import Array

PIXEL_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1, "rgba": 4, "rgbd": 4, "rggb": 4, "grbg": 4, "gbrg": 4, "bggr": 4}


@dataclass(frozen=True)
class Input(Op, NetworkInput):
    """An argument of the function, passed on. The attributes describe how an image becomes this tensor; they are absent
    if nothing is known, and do not affect the value here.

    `customization_format` is present if the compiled file itself does the preprocessing after resizing, `aligned` if it
    takes whole byte frames in a camera's layout, and `round_mode` if the argument holds integers that are not rounded
    half away from zero.
    """

    name = "top.Input"
    aligned: Bool | None = None
    do_preprocess: Bool | None = None
    channel_format: Str | None = None
    customization_format: Str | None = None
    interpolation: Str | None = None
    keep_aspect_ratio: Bool | None = None
    keep_ratio_mode: Str | None = None
    mean: F64Array | None = None
    pad_type: Str | None = None
    pad_value: I64 | None = None
    pixel_format: Str | None = None
    resize_dims: I64Array | None = None
    round_mode: RoundMode | None = None
    scale: F64Array | None = None
    yuv_type: Str | None = None

    def infer(self, operands: Types) -> Types | None:
        (x,) = operands
        if not x.is_quantized and not x.storage.is_float:
            return None  # bytes of an image may be declared as quantized with scale 1
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0]]


def image_input(shape: Sequence[int], said: Mapping[str, Any], name: str) -> Input:
    """Build an image input from the user's options, with every attribute, as TPU-MLIR writes them.

    Defaults: means 0, scales 1, `resize_dims` as in `shape`, pixel format bgr, or gray for one channel. `crop` is the
    fraction of a resized image that the input takes. Raises UsageError for numbers that do not fit the channels.
    """
    layout = said.get("channel_format") or "nchw"
    if layout == "none":
        return Input(do_preprocess=False)
    found, *extents = (shape[1], *shape[2:]) if layout == "nchw" else (shape[3], *shape[1:3])
    pixels = said.get("pixel_format") or ("gray" if found == 1 else "bgr")
    channels = PIXEL_CHANNELS[pixels]
    usual = extents if found == channels and channels > 1 else ()
    if said.get("crop"):
        usual = [round(extent / said["crop"]) for extent in extents]
    dims = tuple(said.get("resize_dims") or usual)
    if dims and len(dims) != 2:
        raise UsageError(
            f"input '{name}': --resize-dims are height and width, such as 256,256, not {len(dims)} values."
        )
    if dims and min(dims) < 1:
        raise UsageError(f"input '{name}': --resize-dims {dims[0]},{dims[1]}: height and width are at least 1.")
    if 0.0 in (said.get("scale") or ()):
        raise UsageError(f"input '{name}': --scale 0 makes all images equal; give a nonzero factor.")
    return Input(
        do_preprocess=True,
        channel_format=layout,
        interpolation=said.get("interpolation"),
        keep_aspect_ratio=bool(said.get("keep_aspect_ratio")),
        keep_ratio_mode=said.get("keep_ratio_mode") or "letterbox",
        mean=_per_channel("--mean", said.get("mean") or (0.0,), pixels, name),
        pad_type=said.get("pad_type") or "center",
        pad_value=said.get("pad_value") or 0,
        pixel_format=pixels,
        resize_dims=dims or None,
        scale=_per_channel("--scale", said.get("scale") or (1.0,), pixels, name),
        yuv_type="",
    )


def _per_channel(option: str, values: Sequence[float], pixels: str, name: str) -> tuple[float, ...]:
    """Return one value per channel, rounded to float32, which is used in computations."""
    channels = PIXEL_CHANNELS[pixels]
    if len(values) not in (1, channels):
        raise UsageError(
            f"input '{name}': {option} has {len(values)} values, and {pixels} has {channels} channels. Give one value, "
            "or one for each channel."
        )
    rounded = tuple(struct.unpack("<f", struct.pack("<f", value))[0] for value in values)
    return rounded * channels if len(values) == 1 else rounded
