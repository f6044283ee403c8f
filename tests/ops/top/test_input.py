"""What is said about images ends in the attributes of top.Input exactly as TPU-MLIR writes them."""

from __future__ import annotations

from typing import Any

import pytest
from tpuc.api import F32, Block, Function, FunctionType, Location, Module, Operation, Return, TensorType, print_module
from tpuc.errors import UsageError
from tpuc_ops import top
from tpuc_ops.top.input import image_input

from tests.families import each

# Lines that TPU-MLIR 1.30.2 wrote for these options.
WRITTEN = [
    (
        (1, 3, 128, 128),
        {
            "mean": (127.5, 127.5, 127.5),
            "scale": (0.0078, 0.0079, 0.008),
            "pixel_format": "rgb",
            "keep_aspect_ratio": True,
            "pad_value": 114,
            "pad_type": "normal",
            "resize_dims": (140, 150),
        },
        (
            '{channel_format = "nchw", do_preprocess = true, keep_aspect_ratio = true, keep_ratio_mode = "letterbox", '
            'mean = [1.275000e+02, 1.275000e+02, 1.275000e+02], pad_type = "normal", pad_value = 114 : i64, '
            'pixel_format = "rgb", resize_dims = [140, 150], '
            'scale = [0.007799999788403511, 0.0078999996185302734, 0.0080000003799796104], yuv_type = ""}'
        ),
    ),
    (
        (4, 3, 128, 128),
        {"pixel_format": "bgr"},
        (
            '{channel_format = "nchw", do_preprocess = true, keep_aspect_ratio = false, keep_ratio_mode = "letterbox", '
            'mean = [0.000000e+00, 0.000000e+00, 0.000000e+00], pad_type = "center", pad_value = 0 : i64, '
            'pixel_format = "bgr", resize_dims = [128, 128], '
            'scale = [1.000000e+00, 1.000000e+00, 1.000000e+00], yuv_type = ""}'
        ),
    ),
    (
        (1, 1, 28, 28),
        {"pixel_format": "gray", "mean": (1.0,), "scale": (0.5,)},
        (
            '{channel_format = "nchw", do_preprocess = true, keep_aspect_ratio = false, keep_ratio_mode = "letterbox", '
            'mean = [1.000000e+00], pad_type = "center", pad_value = 0 : i64, pixel_format = "gray", '
            'scale = [5.000000e-01], yuv_type = ""}'
        ),
    ),
    (
        (1, 1, 28, 28),
        {"resize_dims": (30, 30), "channel_format": "none"},
        "{do_preprocess = false}",
    ),
]


def printed(op: top.Input, shape: tuple[int, ...]) -> str:
    """The line of the op in a module."""
    type_ = TensorType(shape, F32)
    body = Block([type_])
    operation = body.append(Operation(op, body.arguments, [type_], Location(("x",))))
    body.append(Operation(Return(), operation.results))
    function = Function("main", FunctionType((), ()), body)
    function.update_type()
    module = Module("m", {})
    module.functions.append(function)
    (line,) = [line for line in print_module(module).splitlines() if "top.Input" in line]
    return line


@each(("shape", "said", "attributes"), WRITTEN)
def test_attributes_are_those_of_the_peer(shape: tuple[int, ...], said: dict[str, Any], attributes: str) -> None:
    assert attributes in printed(image_input(shape, said, "x"), shape)


def test_one_number_counts_for_every_channel_and_one_channel_is_gray() -> None:
    rgb = image_input((1, 3, 8, 9), {"mean": (2.0,), "pixel_format": "rgb"}, "x")
    assert (rgb.mean, rgb.scale, rgb.resize_dims) == ((2.0,) * 3, (1.0,) * 3, (8, 9))
    gray = image_input((1, 1, 8, 9), {"mean": (2.0,)}, "x")
    assert (gray.pixel_format, gray.mean) == ("gray", (2.0,))
    last = image_input((1, 8, 9, 3), {"channel_format": "nhwc"}, "x")
    assert (last.channel_format, last.resize_dims) == ("nhwc", (8, 9))


@each(
    ("said", "sentence"),
    [
        (
            {"mean": (1.0, 2.0)},
            "input 'x': --mean has 2 values, and bgr has 3 channels. Give one value, or one for each channel.",
        ),
        (
            {"scale": (1.0, 2.0, 3.0), "pixel_format": "gray"},
            "input 'x': --scale has 3 values, and gray has 1 channels. Give one value, or one for each channel.",
        ),
        (
            {"resize_dims": (256,)},
            "input 'x': --resize-dims are height and width, such as 256,256, not 1 values.",
        ),
        (
            {"resize_dims": (-1, 256)},
            "input 'x': --resize-dims -1,256: height and width are at least 1.",
        ),
        (
            {"scale": (0.0,)},
            "input 'x': --scale 0 makes all images equal; give a nonzero factor.",
        ),
    ],
)
def test_numbers_that_do_not_fit(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        image_input((1, 3, 8, 9), said, "x")
    assert str(error.value) == sentence
