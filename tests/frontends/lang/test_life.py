"""What `compile` takes, networks one after the other, what images become, attention, and files for chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc_lang as tl
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.testing.values import build_exposed
from tpuc_ops import top

from tests.frontends.lang.cases import CASES, SHAPE
from tests.frontends.lang.programs import Array, const, evaluated, floats, integers, numbers
from tests.frontends.lang.test_whole_numbers import filters


def test_several_networks() -> None:
    first = tl.get_default_graph()
    x = tl.Tensor([2], "x")
    tl.reset_default_graph()
    with pytest.raises(tl.LangError, match="belongs to another network"):
        tl.relu(x)
    assert tl.get_default_graph() is not first
    tl.Tensor([2], "x")
    tl.reset_graph()
    assert tl.Tensor([2], "x").name == "x"
    tl.reset_default_graph(first)
    assert tl.relu(x).name == "BMTensor0"


def test_coefficients_are_constants() -> None:
    weight = tl.Tensor([2, 3], ttype="coeff", data=numbers(2, 3))
    assert weight.is_const
    with pytest.raises(tl.LangError, match=r"Tensor: ttype 'weight' is not known; use neuron or coeff\."):
        tl.Tensor([2], ttype="weight")


def test_references(tmp_path: Path) -> None:
    x = tl.Tensor([1, 6], "x")
    y = tl.add(x, 1, out_name="y")
    data = numbers(1, 6)
    tl.compile("net", [x], [y], True, {"x": data, "y": data + 1}, folder=tmp_path)
    with np.load(tmp_path / "net_in_f32.npz") as found:
        np.testing.assert_array_equal(found["x"], data)
    with pytest.raises(tl.LangError, match=r"^compile: output 'y' has a cosine of -1\.000, below 0\.99"):
        tl.compile("net", [x], [y], True, {"x": data, "y": -data - 1}, folder=tmp_path)
    tl.compile("net", [x], [y], True, {"x": data, "y": -data}, mlir_inference=False, folder=tmp_path)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = floats(4)
    tl.compile("net", [x], [tl.relu(x)], no_save=True)
    tl.compile_f32("net", [x], [tl.relu(x)], no_save=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"dynamic": True}, "compile: dynamic shapes are not supported; compile one file for each shape."),
        ({"mode": "f8"}, "compile: mode 'f8' is not known; use one of f32, f16, bf16, int8, all, none."),
        ({"opt": 3}, "compile: opt is 3; use 0, 1 or 2."),
        (
            {"log_level": "loud"},
            "compile: log_level 'loud' is not known; use one of normal, simple, only-layer-group, ",
        ),
        (
            {"embed_debug_info": True},
            "compile: embed_debug_info is not supported; `tpuc profile` says where time goes.",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], wanted: str, tmp_path: Path) -> None:
    x = floats(4)
    with pytest.raises(tl.LangError) as caught:
        tl.compile("net", [x], [tl.relu(x)], folder=tmp_path, **options)
    assert str(caught.value).startswith(wanted)


@pytest.mark.chip("bm1684x")
def test_files_for_the_device(tmp_path: Path) -> None:
    x = floats(1, 3, 8, 8)
    y = tl.relu(tl.conv(x, const(numbers(4, 3, 3, 3))))
    tl.compile_f32("net", [x], [y], mode="all", opt=0, folder=tmp_path)
    names = {path.name for path in tmp_path.glob("*.bmodel")}
    assert names == {"net_f32.bmodel", "net_f16.bmodel", "net_bf16.bmodel"}
    with pytest.raises(tl.LangError, match=r"^compile_f32: mode int8 needs a calibration"):
        tl.compile_f32("net", [x], [y], mode="int8", folder=tmp_path)


def test_images_as_inputs() -> None:
    x = tl.Tensor([1, 3, 8, 8], "x")
    x.preprocess([1, 2, 3], [0.5, 0.25, 0.125], "rgb", resize_dims=[16, 16], keep_aspect_ratio=True)
    module = tl.compile("net", [x], [tl.relu(x)], no_save=True)
    (op,) = [operation.op for operation in module.walk() if isinstance(operation.op, top.Input)]
    assert isinstance(op, top.Input)
    assert (op.mean, op.scale, op.pixel_format) == ((1.0, 2.0, 3.0), (0.5, 0.25, 0.125), "rgb")
    assert (op.resize_dims, op.keep_aspect_ratio, op.channel_format) == ((16, 16), True, "nchw")
    with pytest.raises(tl.LangError, match="pixel_format 'gbrg' is not supported"):
        x.preprocess(pixel_format="gbrg")


# Attention


def linear(x: Array, weight: Array, bias: Array) -> Array:
    return x @ weight + bias


def sampled(image: Array, x: float, y: float) -> Array:
    """The bilinear value of `[c, h, w]` at a place from 0 to 1, where outside lie zeros."""
    height, width = image.shape[1:]
    column, row = x * width - 0.5, y * height - 0.5
    result = np.zeros(len(image))
    for i in (int(np.floor(row)), int(np.floor(row)) + 1):
        for j in (int(np.floor(column)), int(np.floor(column)) + 1):
            if 0 <= i < height and 0 <= j < width:
                result += image[:, i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return result


def test_multi_scale_deformable_attention() -> None:
    sizes, width, heads, points, queries = [(4, 3), (2, 5)], 8, 2, 3, 5
    total, levels = sum(h * w for h, w in sizes), len(sizes)
    query, value = numbers(1, queries, width), numbers(1, total, width, seed=1)
    places = np.random.default_rng(2).uniform(0.2, 0.8, (1, queries, levels, 2)).astype(np.float32)
    mask = (np.arange(total) % 7 == 3).astype(np.float32)[None]
    counts = [heads * levels * points * 2, heads * levels * points, width, width]
    weights = [numbers(width, count, seed=3 + index) for index, count in enumerate(counts)]
    biases = [numbers(count, seed=9 + index) for index, count in enumerate(counts)]
    given = [tl.Tensor(data=one) for one in (query, value, mask, places)]
    parameters = [const(one) for pair in zip(weights, biases, strict=True) for one in pair]
    y = tl.multi_scale_deformable_attention(*given, *parameters, sizes, width, heads, levels, points, "out")
    assert (y.name, y.shape) == ("out", (1, queries, width))

    offsets = linear(query[0], weights[0], biases[0]).reshape(queries, heads, levels, points, 2)
    logits = linear(query[0], weights[1], biases[1]).reshape(queries, heads, levels * points)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    values = linear(value[0], weights[2], biases[2]) * (1 - mask[0])[:, None]
    wanted = np.zeros((queries, heads, width // heads))
    for q, head, level, point in np.ndindex(queries, heads, levels, points):
        start = sum(h * w for h, w in sizes[:level])
        rows, columns = sizes[level]
        image = values[start : start + rows * columns].reshape(rows, columns, heads, -1)[:, :, head].transpose(2, 0, 1)
        x, y0 = places[0, q, level] + offsets[q, head, level, point] / (columns, rows)
        wanted[q, head] += shares[q, head, level * points + point] * sampled(image, x, y0)
    result = linear(wanted.reshape(1, queries, width), weights[3], biases[3])
    np.testing.assert_allclose(evaluated(y, given)[0], result, rtol=1e-4, atol=1e-5)


# Chips


GROUPS = sorted({case.group for case in CASES.values()})
HOST = {"regions", "volumes"}
"""What a chip need not compute itself, or what a colleague's kernels decide: evaluated above, not compiled here."""


def built_for(module: Module, mode: str) -> tuple[Session, Module, bytes]:
    """Optimised and compiled, with every value as an output."""
    session = Session(chip="bm1684x", quantize=mode)
    session.manager(session.context()).run_pipeline("top-optimize", module)
    return session, *build_exposed(session, module)


def compare_with_simulator(outputs: list[tl.Tensor], inputs: list[tl.Tensor], mode: str) -> None:
    """Every value of the compiled network is what its evaluation gives; floats but for the last places."""
    module = tl.compile("net", inputs, outputs, no_save=True)
    session, built, data = built_for(module, mode)
    given = {one.name: np.asarray(one.data, np.float32) for one in inputs}
    found, wanted = session.chip.load(data, "net").run(given), Interpreter(built).run(given, "all")
    assert found
    for name, array in found.items():
        if array.dtype.kind in "iu":
            np.testing.assert_array_equal(array, wanted[name], name)
        else:
            spread = float(np.abs(wanted[name]).max())
            assert np.abs(array - wanted[name]).max() <= 1e-4 * spread, name  # exponentials differ between numpy builds


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("group", [group for group in GROUPS if group not in HOST])
def test_networks_of_floats_compile(group: str) -> None:
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    outputs = [case.build(x, y) for case in CASES.values() if case.group == group]
    compare_with_simulator(outputs, [x, y], "f32")


@pytest.mark.chip("bm1684x")
def test_networks_of_whole_numbers_compile() -> None:
    x, y = integers(1, 4, 6, 5), integers(1, 4, 6, 5, seed=1)
    sums = tl.conv_int(x, const(filters(3, 4, 2, 2), "int8"), input_zp=2)
    outputs = [
        tl.requant_int(sums, [1518500249, 1 << 30, 3], [-42, -41, -9], [1, 2, 3], 2),
        tl.mul_shift(x, y, -7, "int8"),
        tl.lut(x, const(np.arange(256) - 128, "int8")),
        tl.add(x, y),
    ]
    compare_with_simulator(outputs, [x, y], "f32")


@pytest.mark.chip("bm1684x")
def test_networks_that_state_their_scales_compute_with_integers() -> None:
    x = integers(1, 4, 6, 5)
    y = tl.conv_quant(
        x, const(filters(3, 4, 2, 2), "int8"), None, input_scale=0.5, weight_scale=0.25, output_scale=32.0
    )
    z = tl.add(y, y, [32.0, 32.0, 64.0])
    module = tl.compile("net", [x], [z], no_save=True)
    session, built, data = built_for(module, "f32")
    names = {operation.op.name for operation in built.main.operations if operation.results}
    assert "tpu.Conv2D" in names
    given = {x.name: np.asarray(x.data, np.float32)}
    found, wanted = session.chip.load(data, "net").run(given), Interpreter(built).run(given, "all")
    integer = [name for name, array in found.items() if array.dtype.kind in "iu"]
    assert len(integer) >= 2
    for name in integer:
        np.testing.assert_array_equal(found[name], wanted[name], name)
