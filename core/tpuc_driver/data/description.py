"""Preprocessing options: expand presets, and convert means and deviations of any pixel range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.errors import InputNotDescribed, UsageError
from tpuc.ir.preprocess import INTERPOLATIONS

from tpuc_driver.data.sample_input import SampleInput

if TYPE_CHECKING:
    from tpuc.registry import Registry

PRESETS = "tpuc.presets"
LARGEST_PIXEL = 255.0
CHANNELS = {"gray": 1, "rgb": 3, "bgr": 3, "rgba": 4, "rgbd": 4, "rggb": 4, "grbg": 4, "gbrg": 4, "bggr": 4}
"""Number of channels by pixel format."""
SAYINGS = (
    *("preset", "resize_dims", "keep_aspect_ratio", "keep_ratio_mode", "pad_value", "pad_type", "interpolation"),
    *("mean", "std", "scale", "pixel_format", "channel_format", "crop"),
)
"""The names of the preprocessing options."""


@dataclass(frozen=True)
class Preset:
    """Preprocessing of a family of networks, registered in `tpuc.presets`; `options` are options by name."""

    api_version: ClassVar[int] = 1
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])


def described(options: Mapping[str, Any], registry: Registry, remark: Callable[[str], None]) -> dict[str, Any]:
    """Normalize the options to means and scales of bytes: a `preset` is expanded where no other option overrides it,
    and `std` becomes a scale. Raises UsageError for unknown names and contradictory numbers.
    """
    for name in options:
        if name not in SAYINGS:
            raise UsageError(f"no preprocessing setting is named '{name}'. Settings: {', '.join(sorted(SAYINGS))}.")
    given = {name: value for name, value in options.items() if value not in (None, False, ()) and name != "preset"}
    if given.get("interpolation", "area") not in INTERPOLATIONS:
        raise UsageError(
            f"no interpolation is named '{given['interpolation']}'. Choose one of {', '.join(INTERPOLATIONS)}."
        )
    if "std" in given:
        given |= _of_deviations(given.get("mean", (0.0,)), given.pop("std"), has_scale="scale" in given, remark=remark)
    elif _is_share(given.get("mean", (0.0,))):
        raise UsageError(
            f"--mean {_shown(given['mean'])} is for pixels from 0 to 1, and --mean expects pixels from 0 to 255. Give "
            f"--mean {_shown(_times(given['mean'], LARGEST_PIXEL))} and --scale, or --mean and --std as they "
            "are."
        )
    if not options.get("preset"):
        return given
    preset: Preset = registry.get(PRESETS, options["preset"])
    usual = dict(preset.said)
    if "resize_dims" in given:
        usual.pop("crop", None)
    return usual | given


def check_channels(inputs: Sequence[SampleInput]) -> None:
    """Raise UsageError if preprocessing is described but no input can be a picture."""
    described = [one for one in inputs if one.is_described and len(one.shape) == 4]
    if not described or any(_found(one) == CHANNELS.get(one.preprocess.pixel_format) for one in described):
        return
    first = described[0]
    pixels, layout = first.preprocess.pixel_format, first.preprocess.layout
    raise UsageError(
        f"input '{first.name}': pixels in {pixels} have {CHANNELS[pixels]} channels, but its shape "
        f"{'x'.join(map(str, first.shape))} ({layout}) has {_found(first)}. Choose another --pixel-format or "
        "--channel-format."
    )


def _found(one: SampleInput) -> int:
    return one.shape[1 if one.preprocess.layout == "nchw" else 3]


def check_described(file: Path, name: str, is_described: bool, registry: Registry) -> None:
    """Raise InputNotDescribed for a picture as the input `name` without a preprocessing description."""
    if is_described:
        return
    presets = sorted(registry.names(PRESETS))
    raise InputNotDescribed(
        f"{file}: input '{name}' has no preprocessing for images. Give it with --preprocess PRESET "
        f"({', '.join(presets)}), or with --pixel-format, --mean and --scale, when you transform or compile the "
        "network."
    )


def _of_deviations(
    mean: Sequence[float], std: Sequence[float], *, has_scale: bool, remark: Callable[[str], None]
) -> dict[str, Any]:
    """Mean and scale of bytes from mean and standard deviation of bytes, or of pixels from 0 to 1."""
    numbers = f"--mean {_shown(mean)} --std {_shown(std)}"
    if has_scale:
        raise UsageError("--std and --scale set the same value; give one of them.")
    if min(std) <= 0:
        raise UsageError(f"--std {_shown(std)}: standard deviations must be above 0.")
    if not any(mean) and set(std) == {1.0}:
        raise UsageError(
            f"{numbers} may be meant for pixels from 0 to 255, or from 0 to 1. Add --scale 1 for 0 to 255, or --scale "
            f"{1 / LARGEST_PIXEL:.8g} for 0 to 1."
        )
    if (_is_share(std) and max(mean) > 1) or (_is_share(mean) and max(std) > 1):
        raise UsageError(
            f"{numbers}: one is for pixels from 0 to 1, the other for pixels from 0 to 255. Give both for the same "
            "range."
        )
    if max(*mean, *std) > 1:
        return {"scale": _inverse(std)}
    bytes_mean, scale = _times(mean, LARGEST_PIXEL), _inverse(_times(std, LARGEST_PIXEL))
    remark(
        f"{numbers} is for pixels from 0 to 1; for pixels from 0 to 255 this is --mean {_shown(bytes_mean)} --scale "
        f"{_shown(scale)}"
    )
    return {"mean": bytes_mean, "scale": scale}


def _is_share(values: Sequence[float]) -> bool:
    """True if the numbers can only refer to pixels from 0 to 1."""
    return any(values) and all(0 <= value < 1 for value in values)


def _times(values: Sequence[float], factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in values)


def _inverse(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(1 / value for value in values)


def _shown(values: Sequence[float]) -> str:
    return ",".join(f"{value:.6g}" for value in values)
