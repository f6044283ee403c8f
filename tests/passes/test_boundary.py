"""Fused preprocessing and stored inputs on modules built by hand, without any chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import (
    F32,
    Block,
    Function,
    FunctionType,
    Module,
    Operation,
    PassContext,
    Return,
    TensorType,
    Uniform,
    remove_dead,
)
from tpuc.interpreter import Interpreter
from tpuc.ir.builder import Builder
from tpuc.ir.preprocess import Preprocess, preprocess_of
from tpuc.ir.types import ScalarType
from tpuc.registry import Registry
from tpuc_driver.data import SENSOR_FORMATS, from_pixels
from tpuc_lower.boundary.images import ImageTarget
from tpuc_lower.boundary.lines import line_through
from tpuc_lower.boundary.normalizing import fuse_image
from tpuc_lower.boundary.sensor_tables import HIGH_STEPS, sum_of_tables
from tpuc_lower.fuse_preprocess import FusePreprocess
from tpuc_lower.strip_casts import StripCasts
from tpuc_ops import top, tpu
from tpuc_ops.top.input import image_input

from tests.families import each
from tests.sensor_frames import every_value, packed

CONTEXT = PassContext(Registry(offers=[]))
I8 = Uniform(ScalarType("i8"), F32, 0.01)
U8 = Uniform(ScalarType("u8"), F32, 0.013)
SAID: dict[str, Any] = {
    "mean": (100.0, 110.0, 120.0),
    "scale": (0.01, 0.011, 0.012),
    "pixel_format": "rgb",
    "resize_dims": (7, 9),
}


def lowered(op: top.Input, shape: tuple[int, ...], elements: Sequence[Uniform | ScalarType | None]) -> Module:
    """An input whose value is returned in each of these stored forms, None as the float it is."""
    module, body = Module("lowered"), Block([TensorType(shape, F32)])
    build = Builder(module, body, constant=top.Weight())
    x = build.build(op, body.arguments, TensorType(shape, F32), "x")
    outputs = [
        build.build(tpu.Relu(), [x], TensorType(shape, F32), "relu")
        if element is None
        else build.build(tpu.Cast(), [x], TensorType(shape, element), f"x_{TensorType((), element).storage.name}")
        for element in elements
    ]
    body.append(Operation(Return(), outputs))
    function = Function("main", FunctionType((), ()), body)
    function.update_type()
    module.functions.append(function)
    module.verify()
    return module


def ramp(*shape: int) -> NDArray[np.uint8]:
    return np.resize(np.arange(256, dtype=np.uint8), shape)


@each("layout", ["nchw", "nhwc"])
@each("form", ["RGB_PACKED", "BGR_PACKED", "RGB_PLANAR", "BGR_PLANAR"])
def test_every_stored_form_of_an_image_is_made_of_its_bytes(form: str, layout: str) -> None:
    shape = (2, 3, 4, 6) if layout == "nchw" else (2, 4, 6, 3)
    op = image_input(shape, {**SAID, "channel_format": layout}, "x")
    module = lowered(op, shape, (I8, U8, None))
    plain = module.clone()
    assert FusePreprocess(form).run(module, CONTEXT)
    module.verify()
    raw = ramp(2, 7, 9, 3)  # as rgb rows; the crop is rows 1..4, columns 1..6
    floats = (raw[:, 1:5, 1:7].astype(np.float32) - np.float32(SAID["mean"])) * np.array(SAID["scale"], np.float32)
    given = raw if form.startswith("RGB") else raw[..., ::-1]
    given = given if form.endswith("PACKED") else given.transpose(0, 3, 1, 2)
    wanted = Interpreter(plain).run({"x": floats if layout == "nhwc" else floats.transpose(0, 3, 1, 2)})
    got = Interpreter(module).run({"x_raw": np.ascontiguousarray(given)})
    assert list(got) == ["x_i8", "x_u8", "relu"]
    assert all(np.array_equal(got[name], wanted[name]) for name in got)


@each("layout", ["nchw", "nhwc"])
@each("form", ["RGBA_PLANAR", "RGBA_PACKED", "YUV420_PLANAR", "YUV_NV12", "YUV_NV21"])
def test_frames_of_cameras_become_what_the_host_makes_of_them(form: str, layout: str) -> None:
    shape = (2, 3, 4, 6) if layout == "nchw" else (2, 4, 6, 3)
    op = image_input(shape, {**SAID, "resize_dims": (8, 10), "channel_format": layout}, "x")
    module = lowered(op, shape, (I8, None))
    plain = module.clone()
    FusePreprocess(form).run(module, CONTEXT)
    module.verify()
    given: Any = module.main.operations[0].op
    raw = ramp(*module.main.inputs[0].tensor.dims)
    floats = from_pixels(preprocess_of(op, shape), raw, preprocess_of(given, raw.shape), shape)
    wanted = Interpreter(plain).run({"x": floats})
    got = Interpreter(module).run({"x_raw": raw})
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


@each("layout", ["nchw", "nhwc"])
@each("has_f32", [True, False])
@each("form", SENSOR_FORMATS)
def test_mosaics_of_sensors_become_what_the_host_makes_of_them(form: str, has_f32: bool, layout: str) -> None:
    shape = (2, 4, 32, 30) if layout == "nchw" else (2, 32, 30, 4)
    said = {"mean": (240.0, 241.5, 242.0, 243.0), "scale": (0.0003, 0.0004, 0.00031, 0.001), "pixel_format": "rggb"}
    op = image_input(shape, {**said, "resize_dims": (32, 32), "channel_format": layout}, "x")
    kept = None if has_f32 else ScalarType("bf16")
    module = lowered(op, shape, (I8, U8, kept))
    plain = module.clone()
    fuse_image(module, module.main.operations[0], f"{form.upper()}_RAW", ImageTarget(has_f32=has_f32))
    remove_dead(module)
    module.main.update_type()
    module.verify()
    mosaics = np.stack([every_value(64, 64, seed) for seed in range(2)])
    floats = from_pixels(preprocess_of(op, shape), packed(mosaics), Preprocess(pixel_format=form), shape)  # pyright: ignore[reportArgumentType]  # one of the names
    wanted = Interpreter(plain).run({"x": floats})
    got = Interpreter(module).run({"x_raw": packed(mosaics)})
    assert list(got) == list(wanted)
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_values_that_no_sum_of_tables_gives_are_chosen_from_tables() -> None:
    shape, steep = (1, 4, 32, 32), (0.5, -0.9, 0.3, 1.1)
    op = image_input(shape, {"mean": (1000.5,), "scale": steep, "pixel_format": "bggr"}, "x")
    module = lowered(op, shape, (I8, U8))
    plain = module.clone()
    fuse_image(module, module.main.operations[0], "BGGR_RAW", ImageTarget(has_f32=False))
    module.main.update_type()
    module.verify()
    raw = packed(every_value(64, 64)[None])
    floats = from_pixels(preprocess_of(op, shape), raw, Preprocess(pixel_format="bggr"), shape)
    wanted, got = Interpreter(plain).run({"x": floats}), Interpreter(module).run({"x_raw": raw})
    tables = [operation for operation in module.walk() if isinstance(operation.op, tpu.Lut)]
    assert len(tables) == 2 * 4 * (16 + 16 + 1)  # upper bits, lower bits, and from zero to the entry's own range
    assert list(got) == list(wanted)
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


@each("mean", [0.0, 240.0])
@each("threshold", [1.0, 0.37, 0.1037])
def test_tables_of_upper_and_lower_bits_give_every_stored_value(threshold: float, mean: float) -> None:
    scale = threshold / 128
    exact = (np.arange(4096, dtype=np.float32) - np.float32(mean)) * np.float32(1 / 4095)
    entries = np.clip(np.rint(exact / scale), -128, 127).astype(np.int8)
    found = sum_of_tables(entries, 0)
    assert found is not None
    upper = found.high.astype(np.int64) * HIGH_STEPS + found.rest
    total = upper.repeat(16) + np.tile(found.lower, 256)
    halves_up = (total + (1 << found.shift - 1)) >> found.shift
    assert np.array_equal(np.clip(halves_up, -128, 127), entries)


def test_pixels_as_they_are_need_a_cast_only() -> None:
    module = lowered(image_input((1, 3, 4, 6), {"pixel_format": "bgr"}, "x"), (1, 3, 4, 6), (None,))
    FusePreprocess("BGR_PLANAR").run(module, CONTEXT)
    assert [operation.op.name for operation in module.walk()] == ["top.Input", "tpu.Cast", "tpu.Relu", "func.return"]
    assert [operation.name for operation in module.walk()][:2] == ["x_raw", "x"]


def test_the_new_input_says_how_an_image_becomes_it() -> None:
    module = lowered(image_input((1, 3, 4, 6), SAID, "x"), (1, 3, 4, 6), (I8,))
    FusePreprocess("BGR_PACKED").run(module, CONTEXT)
    op: Any = module.main.operations[0].op
    assert (op.channel_format, op.customization_format, op.pixel_format) == ("nhwc", "BGR_PACKED", "bgr")
    assert (op.mean, op.scale, op.resize_dims) == ((0.0,) * 3, (1.0,) * 3, (7, 9))
    assert str(module.main.inputs[0].tensor.element) == "ui8"


def test_casts_at_the_border_go() -> None:
    module = lowered(top.Input(), (1, 3), (I8,))
    assert StripCasts(quant_input=True).run(module, CONTEXT)
    module.verify()
    assert [operation.op.name for operation in module.walk()] == ["top.Input", "func.return"]
    assert module.main.inputs[0].tensor.element == I8
    q = np.array([[-128, 0, 7]], np.int8)
    assert np.array_equal(Interpreter(module).run({"x": q})["x"], q)


def test_a_second_stored_form_keeps_the_casts() -> None:
    from tpuc.errors import Unsupported

    module = lowered(top.Input(), (1, 3), (I8, U8))
    with pytest.raises(Unsupported) as error:
        StripCasts(quant_input=True).run(module, CONTEXT)
    assert str(error.value) == (
        "input 'x' is stored as i8, but 'x_u8' needs it in another form, so the file cannot take it quantized. Choose "
        "other inputs with --quant-input-list"
    )


@each("dtype", [np.int8, np.uint8])
@each("seed", range(12))
def test_products_and_sums_of_integers_give_tables_of_normalized_pixels(dtype: type, seed: int) -> None:
    random = np.random.default_rng(seed)
    mean, slope = random.uniform(0, 255), random.uniform(0.05, 3) * random.choice([-1, 1])
    point = 0 if dtype is np.int8 else int(random.integers(0, 200))
    limits = np.iinfo(dtype)
    exact = (np.arange(256, dtype=np.float32) - np.float32(mean)) * np.float32(slope)
    table = np.clip(np.rint(exact) + point, limits.min, limits.max).astype(dtype)
    line = line_through(table, point)
    assert line is not None
    total = np.arange(256) * line.multiplier + int(line.const_val)
    assert np.abs(total).max() < 2**31
    halves_up = (total + 2 ** (line.rshift - 1)) >> line.rshift
    assert np.array_equal(np.clip(halves_up + point, limits.min, limits.max), table)


@each("power", [2.0, 0.5])
def test_tables_that_lie_on_no_line(power: float) -> None:
    curve = (127 * (np.arange(256) / 255) ** power).astype(np.int8)
    assert line_through(curve, 0) is None
    assert line_through(np.full(256, 3, np.int8), 0) is None
