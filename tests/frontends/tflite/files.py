"""Small TFLite files for tests, written with the flatbuffers builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

Array = NDArray[Any]

KINDS = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "int32": "INT32",
    "int64": "INT64",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "bool": "BOOL",
}
SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4


@dataclass(frozen=True)
class Sparsity:
    """How the values of a sparse constant are laid out; `levels` are sizes, or segments and indices (with their type),
    or nothing at all.

    The constant's data are the stored values alone.
    """

    order: Sequence[int]
    blocks: Sequence[int]
    levels: Sequence[int | tuple[Array, Array] | tuple[()]]


@dataclass(frozen=True)
class Tensor:
    """A tensor; constant when it has data. Quantized when it has scales."""

    name: str
    shape: tuple[int, ...] = ()
    kind: str = "FLOAT32"
    data: Array | None = None
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0
    signature: tuple[int, ...] | None = None
    is_variable: bool = False
    sparsity: Sparsity | None = None


def constant(name: str, data: Any, scales: Sequence[float] = (), zeros: Sequence[int] = (), axis: int = 0) -> Tensor:
    """A constant with the shape and kind of its array."""
    array = np.asarray(data)
    return Tensor(name, array.shape, KINDS[array.dtype.name], array, tuple(scales), tuple(zeros), axis)


@dataclass(frozen=True)
class Node:
    """An operator; `options` are fields of the table of that name: ``("Conv2DOptions", {"Padding": SAME})``."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    options: tuple[str, Mapping[str, Any]] | None = None
    custom: str = field(default="")
    intermediates: Sequence[str] = ()
    custom_options: bytes = b""
    version: int = 1


@dataclass(frozen=True)
class Subgraph:
    """What one graph of a file consists of."""

    tensors: Sequence[Tensor]
    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]


def tflite_file(
    tensors: Sequence[Tensor],
    nodes: Sequence[Node],
    inputs: Sequence[str],
    outputs: Sequence[str],
    version: int = 3,
    more: Sequence[Subgraph] = (),
) -> bytes:
    """The bytes of a file with one subgraph, and those that control flow runs."""
    b = flatbuffers.Builder(1024)
    graphs = [Subgraph(tensors, nodes, inputs, outputs), *more]
    codes = list(dict.fromkeys((node.op, node.custom, node.version) for graph in graphs for node in graph.nodes))
    buffers, subgraphs = [_buffer(b, None)], list[int]()
    for graph in graphs:
        subgraphs.append(_subgraph(b, graph, codes, buffers))
    opcodes = [_code(b, *code) for code in codes]
    model = {
        "Version": version,
        "OperatorCodes": _offsets(b, opcodes),
        "Subgraphs": _offsets(b, subgraphs),
        "Buffers": _offsets(b, buffers),
    }
    b.Finish(_table(b, "Model", model), b"TFL3")
    return bytes(b.Output())


def _subgraph(b: Any, graph: Subgraph, codes: list[tuple[str, str, int]], buffers: list[int]) -> int:
    index = {tensor.name: i for i, tensor in enumerate(graph.tensors)} | {"": -1}
    start = len(buffers)
    buffers += [_buffer(b, tensor.data) for tensor in graph.tensors]
    tables = [_tensor(b, tensor, start + i) for i, tensor in enumerate(graph.tensors)]
    operators = [_operator(b, node, codes.index((node.op, node.custom, node.version)), index) for node in graph.nodes]
    parts = {
        "Tensors": _offsets(b, tables),
        "Inputs": b.CreateNumpyVector(np.array([index[name] for name in graph.inputs], np.int32)),
        "Outputs": b.CreateNumpyVector(np.array([index[name] for name in graph.outputs], np.int32)),
        "Operators": _offsets(b, operators),
        "Name": b.CreateString("main"),
    }
    return _table(b, "SubGraph", parts)


def _table(b: Any, kind: str, fields: Mapping[str, Any]) -> int:
    getattr(tflite, f"{kind}Start")(b)
    for name, value in fields.items():
        getattr(tflite, f"{kind}Add{name}")(b, value)
    return getattr(tflite, f"{kind}End")(b)


def _offsets(b: Any, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _buffer(b: Any, data: Array | None) -> int:
    if data is None:
        return _table(b, "Buffer", {})
    raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
    return _table(b, "Buffer", {"Data": b.CreateNumpyVector(raw)})


def _tensor(b: Any, tensor: Tensor, buffer: int) -> int:
    fields = {
        "Shape": b.CreateNumpyVector(np.array(tensor.shape, np.int32)),
        "Type": getattr(tflite.TensorType, tensor.kind),
        "Buffer": buffer,
        "Name": b.CreateString(tensor.name),
    }
    if tensor.is_variable:
        fields["IsVariable"] = True
    if tensor.signature is not None:
        fields["ShapeSignature"] = b.CreateNumpyVector(np.array(tensor.signature, np.int32))
    if tensor.scales:
        parts = {
            "Scale": b.CreateNumpyVector(np.array(tensor.scales, np.float32)),
            "ZeroPoint": b.CreateNumpyVector(np.array(tensor.zeros or (0,) * len(tensor.scales), np.int64)),
            "QuantizedDimension": tensor.axis,
        }
        fields["Quantization"] = _table(b, "QuantizationParameters", parts)
    if tensor.sparsity is not None:
        fields["Sparsity"] = _sparsity(b, tensor.sparsity)
    return _table(b, "Tensor", fields)


def _sparsity(b: Any, sparsity: Sparsity) -> int:
    levels: list[int] = []
    for level in sparsity.levels:
        fields: dict[str, Any] = {"Format": int(not isinstance(level, int))}
        if isinstance(level, int):
            fields["DenseSize"] = level
        else:
            for name, array in zip(("ArraySegments", "ArrayIndices"), level, strict=bool(level)):
                kind = {"int32": "Int32Vector", "uint16": "Uint16Vector", "uint8": "Uint8Vector"}[array.dtype.name]
                fields[f"{name}Type"] = getattr(tflite.SparseIndexVector, kind)
                fields[name] = _table(b, kind, {"Values": b.CreateNumpyVector(array)})
        levels.append(_table(b, "DimensionMetadata", fields))
    parts = {
        "TraversalOrder": b.CreateNumpyVector(np.array(sparsity.order, np.int32)),
        "BlockMap": b.CreateNumpyVector(np.array(sparsity.blocks, np.int32)),
        "DimMetadata": _offsets(b, levels),
    }
    return _table(b, "SparsityParameters", parts)


def _operator(b: Any, node: Node, code: int, index: Mapping[str, int]) -> int:
    fields = {
        "OpcodeIndex": code,
        "Inputs": b.CreateNumpyVector(np.array([index[name] for name in node.inputs], np.int32)),
        "Outputs": b.CreateNumpyVector(np.array([index[name] for name in node.outputs], np.int32)),
    }
    if node.intermediates:
        fields["Intermediates"] = b.CreateNumpyVector(np.array([index[name] for name in node.intermediates], np.int32))
    if node.custom_options:
        fields["CustomOptions"] = b.CreateNumpyVector(np.frombuffer(node.custom_options, np.uint8))
    if node.options is not None:
        kind, values = node.options
        made = {name: _option(b, value) for name, value in values.items()}
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
        fields["BuiltinOptions"] = _table(b, kind, made)
    return _table(b, "Operator", fields)


def _option(b: Any, value: Any) -> Any:
    if isinstance(value, str):
        return b.CreateString(value)
    return b.CreateNumpyVector(np.array(value, np.int32)) if isinstance(value, (list, tuple)) else value


def _code(b: Any, op: str, custom: str, version: int) -> int:
    number = tflite.BuiltinOperator.CUSTOM if custom else getattr(tflite.BuiltinOperator, op)
    fields = {"DeprecatedBuiltinCode": min(number, 127), "BuiltinCode": number, "Version": version}
    if custom:
        fields["CustomCode"] = b.CreateString(custom)
    return _table(b, "OperatorCode", fields)
