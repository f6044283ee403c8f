"""Small trained-looking networks, quantized by ONNX Runtime's own quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tests.frontends.onnx.networks import network, node

Array = NDArray[Any]

SHAPE = (1, 3, 12, 12)


@dataclass(frozen=True)
class Form:
    """How a network is quantized."""

    activations: QuantType
    weights: QuantType
    per_channel: bool
    format: QuantFormat = QuantFormat.QDQ


FORMS: Mapping[str, Form] = {
    "s8s8-channel": Form(QuantType.QInt8, QuantType.QInt8, True),
    "u8s8-tensor": Form(QuantType.QUInt8, QuantType.QInt8, False),
    "u8u8-zero-points": Form(QuantType.QUInt8, QuantType.QUInt8, False),
}


class _Samples(CalibrationDataReader):
    def __init__(self, samples: list[Array]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Any:
        sample = next(self._samples, None)
        return None if sample is None else {"x": sample}


def samples(count: int, seed: int = 0) -> list[Array]:
    """Inputs between -1 and 1."""
    return list(np.random.default_rng(seed).uniform(-1, 1, (count, *SHAPE)).astype(np.float32))


def residual(opset: int) -> onnx.ModelProto:
    """Convolutions, plain and by group, a sum, pools, a function, a joint, and a product with a softmax behind it."""
    rng = np.random.default_rng(1)

    def weight(*shape: int) -> Array:
        fan = int(np.prod(shape[1:]))
        return rng.normal(0, 1 / np.sqrt(fan), shape).astype(np.float32)

    weights = {
        "w1": weight(8, 3, 3, 3) * rng.uniform(0.2, 2, (8, 1, 1, 1)).astype(np.float32),
        "b1": weight(8),
        "w2": weight(8, 1, 3, 3),
        "b2": weight(8),
        "w3": weight(8, 8, 1, 1),
        "b3": weight(8),
        "w4": weight(10, 288),
        "b4": weight(10),
    }
    nodes = [
        node("Conv", "x w1 b1", "c1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8),
        node("HardSigmoid", "c2", "h2", alpha=1 / 6, beta=0.5),
        node("Mul", "c2 h2", "m2"),
        node("Conv", "m2 w3 b3", "c3", kernel_shape=[1, 1]),
        node("Add", "c3 r1", "s3"),
        node("MaxPool", "s3", "p3", kernel_shape=[2, 2], strides=[2, 2]),
        node("Sigmoid", "p3", "g3"),
        node("Concat", "p3 g3", "j3", axis=1),
        node("AveragePool", "j3", "a3", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1]),
        node("Transpose", "a3", "t3", perm=[0, 2, 3, 1]),
        node("Slice", "t3 begin end axes", "u3"),
        node("Flatten", "u3", "f3"),
        node("Gemm", "f3 w4 b4", "y", transB=1),
    ]
    shape_of = {"begin": [0], "end": [8], "axes": [3]}
    constants = {name: np.array(value, np.int64) for name, value in shape_of.items()}
    model = network(nodes, {"x": SHAPE}, ["y"], {**weights, **constants}, opset)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 10]))
    return model


def attention(opset: int) -> onnx.ModelProto:
    """Products of computed tensors, matrix by matrix, with a softmax between them."""
    rng = np.random.default_rng(2)
    weights = {name: rng.normal(0, 1, (12, 12)).astype(np.float32) for name in ("w1", "w2", "w3")}
    nodes = [
        *(node("MatMul", f"x {weight}", result) for weight, result in zip(weights, ("q", "k", "v"), strict=True)),
        node("Transpose", "k", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "q t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p v", "y"),
    ]
    model = network(nodes, {"x": SHAPE}, ["y"], weights, opset)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, SHAPE))
    return model


def quantized(folder: Path, form: Form, opset: int, model: onnx.ModelProto | None = None) -> Path:
    """A network in a file, quantized by its ranges on some samples; the residual one if no other is given."""
    source, result = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(residual(opset) if model is None else model, source)
    quantize_static(
        source,
        result,
        _Samples(samples(6)),
        quant_format=form.format,
        activation_type=form.activations,
        weight_type=form.weights,
        per_channel=form.per_channel,
    )
    return result


def quantized_dynamically(folder: Path, opset: int) -> Path:
    """The network in a file with quantized weights; activations are quantized as they come."""
    source, result = folder / "float.onnx", folder / "dynamic.onnx"
    onnx.save(residual(opset), source)
    quantize_dynamic(source, result)
    return result


def by_onnxruntime(path: Path, x: Array, *, plain: bool = False) -> Array:
    """What ONNX Runtime computes, with its optimizations, which multiply integers, or as the file says it."""
    session = onnxruntime.InferenceSession(path, session_options(plain=plain))
    (result,) = session.run(None, {"x": x})
    return np.asarray(result)


def session_options(*, plain: bool) -> onnxruntime.SessionOptions:
    """Without its remarks. Integers are multiplied as such, signed ones too, which by default only some processors do;
    with `plain`, without optimizations: floats are computed between the casts.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
