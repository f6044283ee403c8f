"""Trained networks against the outputs that LiteRT gave for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_driver.data import quantizer
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.tflite.networks import compute, ops_of
from tests.models.measures import center_crop, load_rgb

Array = NDArray[Any]
FLOAT = {
    "mlperf_tiny/ad01_autoencoder_float32": 0,
    "mlperf_tiny/ic01_resnet8_float32": 0,
    "mlperf_tiny/kws01_dscnn_float32": 0,
    "mlperf_tiny/vww01_mobilenet025_96_float32": 0,
    "face_detection_front": 4,  # its boxes are read from feature maps with channels last
    "hello_world_float": 0,
}
QUANTIZED = [
    "mlperf_tiny/ad01_autoencoder_int8",
    "mlperf_tiny/ic01_resnet8_int8",
    "mlperf_tiny/kws01_dscnn_int8",
    "mlperf_tiny/vww01_mobilenet025_96_int8",
    "hello_world_int8",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v2_1.0_224_quant",
]


def network(model_data: Path, name: str) -> Module:
    return Session().transform(model_data / "tflite" / f"{name}.tflite")


def samples(model_data: Path, name: str) -> list[tuple[Array, list[Array]]]:
    """Input and expected outputs of each sample."""
    with np.load(model_data / "ref" / "tflite" / f"{Path(name).name}.npz") as stored:
        outputs = [stored[f"out{i}"] for i in range(len(stored["out_names"]))]
        return [(x, [output[i] for output in outputs]) for i, x in enumerate(stored["in0"])]


@each("name", FLOAT)
def test_float_networks(name: str, model_data: Path) -> None:
    module = network(model_data, name)
    assert ops_of(module).count("Permute") == FLOAT[name]
    for x, outputs in samples(model_data, name):
        for ours, expected in zip(compute(module, x), outputs, strict=True):
            a, b = ours.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
            assert a @ b / np.sqrt((a @ a) * (b @ b)) >= 0.99999


@each("name", QUANTIZED)
def test_quantized_networks(name: str, model_data: Path) -> None:
    module = network(model_data, name)
    for x, (expected,) in samples(model_data, name):
        (ours,) = compute(module, x)
        assert ours.dtype == expected.dtype
        steps = np.abs(ours.astype(int) - expected.astype(int))
        assert (steps <= 1).mean() >= 0.99
        assert steps.max() <= 2


def best(interpreter: Interpreter, x: Array) -> int:
    (name,) = interpreter.inputs
    (output,) = interpreter.run({name: np.ascontiguousarray(x.transpose(0, 3, 1, 2))}).values()
    return int(output.argmax())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "key", "right"),
    [
        ("ic01_resnet8_int8", "ic01_eval", "x", 161),
        ("kws01_dscnn_int8", "kws01_eval", "x_int8", 176),
        ("vww01_mobilenet025_96_int8", "vww01_eval", "x", 171),
    ],
)
def test_labeled_slices(name: str, data: str, key: str, right: int, model_data: Path) -> None:
    interpreter = Interpreter(network(model_data, f"mlperf_tiny/{name}"))
    with np.load(model_data / "data" / f"{data}.npz") as stored:
        x, labels = stored[key], stored["y"]
    if x.dtype == np.uint8:
        x = (x.astype(np.int16) - 128).astype(np.int8)
    x = x.reshape(len(labels), 1, *x.shape[-3:])
    assert sum(best(interpreter, sample) == label for sample, label in zip(x, labels, strict=True)) == right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "right"),
    [("mobilenet_v2_1.0_224_quant", 224, 54), ("mobilenet_v1_0.25_128_quant", 128, 38)],
)
def test_labeled_photographs(name: str, size: int, right: int, model_data: Path) -> None:
    interpreter = Interpreter(network(model_data, name))
    folder = model_data / "data" / "imagenet_eval"
    rows = [line.split("\t") for line in (folder / "labels.tsv").read_text().splitlines()[1:]]
    crops = [(center_crop(load_rgb(folder / row[0]), size)[None], int(row[1]) + 1) for row in rows]
    found = sum(best(interpreter, x) == label for x, label in crops)
    assert abs(found - right) <= 1  # outputs of two classes one step apart may change places


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")])
@each("name", ["ic01_resnet8_int8", "kws01_dscnn_int8", "vww01_mobilenet025_96_int8"])
def test_quantized_networks_need_no_calibration(name: str, chip: str, model_data: Path) -> None:
    session = Session(chip=chip, quantize="int8")
    top = session.transform(model_data / "tflite" / "mlperf_tiny" / f"{name}.tflite")
    compiled = Interpreter(session.build(top)[0])
    ((input_name, type_),) = compiled.inputs.items()
    store = quantizer(input_name, type_.element, rounds_evenly=True)
    given, made = top.main.inputs[0].tensor.uniform, top.main.outputs[0].tensor.uniform
    for x, (expected,) in samples(model_data, f"mlperf_tiny/{name}"):
        real = (x.astype(np.float64) - given.zero_point) * given.scale
        floats = np.ascontiguousarray(real.transpose(0, 3, 1, 2), np.float32)
        (ours,) = compiled.run({input_name: floats if store is None else store(floats)}).values()
        a = ours.reshape(-1).astype(np.float64)
        b = (expected.reshape(-1).astype(np.float64) - made.zero_point) * made.scale
        assert a @ b / np.sqrt((a @ a) * (b @ b)) >= (0.9999 if chip == "bm1684x" else 0.995)
