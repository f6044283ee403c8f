"""Preprocessing presets of common families of networks; pixels are bytes, scales are applied after means."""

from __future__ import annotations

from tpuc_driver.api.host import Preset

_MIDDLE = {"keep_aspect_ratio": True, "keep_ratio_mode": "short_side_scale", "crop": 0.875}
"""Center crop of an image whose short side is 8/7 of the input's: 256 for 224."""
_WHOLE = {"keep_aspect_ratio": True, "keep_ratio_mode": "letterbox", "pad_value": 114}

IMAGENET_TORCH = Preset(
    {
        "pixel_format": "rgb",
        "mean": (123.675, 116.28, 103.53),
        "scale": (1 / 58.395, 1 / 57.12, 1 / 57.375),
        **_MIDDLE,
    }
)
IMAGENET_TF = Preset({"pixel_format": "rgb", "mean": (127.5,), "scale": (1 / 127.5,), **_MIDDLE})
CAFFE = Preset({"pixel_format": "bgr", "mean": (104.0, 117.0, 123.0), "scale": (1.0,), **_MIDDLE})
SSD = Preset({"pixel_format": "bgr", "mean": (104.0, 117.0, 123.0), "scale": (1.0,)})
YOLO = Preset({"pixel_format": "rgb", "mean": (0.0,), "scale": (1 / 255,), "pad_type": "center", **_WHOLE})
YOLOX = Preset({"pixel_format": "bgr", "mean": (0.0,), "scale": (1.0,), "pad_type": "normal", **_WHOLE})
NONE = Preset({"mean": (0.0,), "scale": (1.0,)})
