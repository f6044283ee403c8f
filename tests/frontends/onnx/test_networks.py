"""Trained networks: TOP on the interpreter against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import ImportOptions, Module, PassContext
from tpuc.interpreter import Interpreter
from tpuc_onnx.frontend import FRONTEND
from tpuc_optimize.canonicalize import Canonicalize
from tpuc_optimize.fold_constants import FoldConstants

from tests.families import each
from tests.frontends.onnx.networks import ops, registry, run_onnx

Array = NDArray[Any]

SPINE = ("digits", "mnist", "resnet8")
TRAINED = (
    "blazeface",
    "mnist",
    "mobilenet_v1_0.25_128_bn",
    "mobilenet_v2_1.0_224_dequant",
    "ultraface_slim_320",
    "yolox_nano_416",
    "yunet_n_320",
)
PASSIVE = {"BatchNorm", "Clip", "Pad", "Relu", "Scale", "Sigmoid"}
"""What canonical networks of this kind have no more."""


def imported(path: Path) -> Module:
    module = FRONTEND.read(path, ImportOptions(), registry())
    module.verify()
    return module


def canonical(module: Module) -> Module:
    context = PassContext(registry())
    Canonicalize().run(module, context)
    FoldConstants().run(module, context)
    module.verify()
    return module


def assert_close(ours: Array, expected: Array) -> None:
    """Cosine at least 0.99999, no error above 1e-4 of the output's range."""
    ours, expected = ours.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    assert ours @ expected / np.sqrt((ours @ ours) * (expected @ expected)) >= 0.99999
    assert np.abs(ours - expected).max() <= 1e-4 * np.ptp(expected)


@pytest.mark.parametrize("name", SPINE)
def test_spine_computes_what_onnx_runtime_does(name: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(f"{name}_onnx")
    module = imported(path)
    random = np.random.default_rng(0)
    high = {"digits": 17, "mnist": 256, "resnet8": 256}[name]
    for stage in (module, canonical(module.clone())):
        interpreter = Interpreter(stage)
        ((source, type),) = interpreter.inputs.items()
        for _ in range(8):
            image = random.integers(0, high, type.dims).astype(np.float32)
            ((result, expected),) = run_onnx(path, {source: image}).items()
            assert_close(interpreter.run({source: image})[result], expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("digits", "Conv Conv MaxPool Conv AvgPool Reshape MatMul Softmax"),
        ("mnist", "Conv MaxPool Conv MaxPool Reshape MatMul"),
        ("resnet8", "Conv Conv Conv Add Conv Conv Conv Add Conv Conv Conv Add AvgPool Reshape MatMul Softmax"),
    ],
)
def test_canonical_spine(name: str, expected: str, request: pytest.FixtureRequest) -> None:
    module = canonical(imported(request.getfixturevalue(f"{name}_onnx")))
    assert sorted(ops(module)) == sorted(expected.split())


@each("name", TRAINED)
def test_trained_network_computes_its_reference(name: str, model_data: Path) -> None:
    module = imported(model_data / "onnx" / f"{name}.onnx")
    with np.load(model_data / "ref" / "onnx" / f"{name}.npz") as reference:
        inputs = {str(key): reference[f"in{index}"][0] for index, key in enumerate(reference["in_names"])}
        outputs = {str(key): reference[f"out{index}"][0] for index, key in enumerate(reference["out_names"])}
    for stage in (module, canonical(module.clone())):
        results = Interpreter(stage).run(inputs)
        assert list(results) == list(outputs)
        for key, expected in outputs.items():
            assert_close(results[key], expected)


@each("name", TRAINED)
def test_canonical_network_is_fused(name: str, model_data: Path) -> None:
    module = canonical(imported(model_data / "onnx" / f"{name}.onnx"))
    left = PASSIVE.intersection(ops(module))
    allowed = {"blazeface": {"Pad"}, "yolox_nano_416": {"Sigmoid"}, "yunet_n_320": {"Sigmoid"}}
    assert left <= allowed.get(name, set())


def test_same_file_same_module(digits_onnx: Path) -> None:
    from tpuc.ir.text import print_module

    assert print_module(canonical(imported(digits_onnx))) == print_module(canonical(imported(digits_onnx)))
