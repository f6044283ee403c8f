"""What `compile` takes and writes, networks one after the other, what images become, and attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc_lang as tl
from tpuc_ops import top

from tests.families import each
from tests.frontends.lang.programs import Array, const, evaluated, floats, numbers


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
    with pytest.raises(tl.LangError, match=r"^compile: output 'y' has a cosine similarity of -1\.000, below 0\.99"):
        tl.compile("net", [x], [y], True, {"x": data, "y": -data - 1}, folder=tmp_path)
    tl.compile("net", [x], [y], True, {"x": data, "y": -data}, mlir_inference=False, folder=tmp_path)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = floats(4)
    tl.compile("net", [x], [tl.relu(x)], no_save=True)
    tl.compile_f32("net", [x], [tl.relu(x)], no_save=True)
    assert not list(tmp_path.iterdir())


@each(
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
            "compile: embed_debug_info is not supported; `tpuc profile` reports where time is spent.",
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
    with pytest.raises(tl.LangError, match="pixel_format 'cmyk' is not supported"):
        x.preprocess(pixel_format="cmyk")
    with pytest.raises(tl.LangError, match="give the black level as `mean`"):
        x.preprocess(pixel_format="rggb", black_level=64)


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
