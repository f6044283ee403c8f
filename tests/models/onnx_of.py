"""TOP modules of floats written as ONNX, so that other people's quantizers can be let loose on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Module, NoneType, Operation
from tpuc_ops import top

Write = Callable[["Writer", Operation, Sequence[str]], str]


class Writer:
    """Collects the nodes of a graph; a relu that an op has fused becomes a node behind it."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Any] = {}

    def node(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Append a node of one result."""
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, array: Any) -> str:
        """A new initializer."""
        self.weights[name] = np.asarray(array)
        return name


def _window(op: Any) -> dict[str, Any]:
    return {"kernel_shape": list(op.kernel_shape), "strides": list(op.strides), "pads": list(op.pads)}


def _conv(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    op: top.Conv = operation.op
    extra = {"dilations": list(op.dilations), "group": op.group}
    return writer.node("Conv", [name for name in inputs if name], operation.name, **_window(op), **extra)


def _max_pool(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    return writer.node(
        "MaxPool", inputs, operation.name, ceil_mode=int(bool(operation.op.ceil_mode)), **_window(operation.op)
    )


def _avg_pool(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    op: top.AvgPool = operation.op
    flags = {"ceil_mode": int(bool(op.ceil_mode)), "count_include_pad": int(op.count_include_pad)}
    return writer.node("AveragePool", inputs, operation.name, **_window(op), **flags)


def _matmul(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    assert not operation.op.left_transpose
    if len(operation.operands[0].tensor.dims) == 2 and len(inputs) > 2 and inputs[2]:
        return writer.node("Gemm", inputs, operation.name, transB=int(operation.op.right_transpose))
    assert not operation.op.right_transpose
    product = writer.node("MatMul", inputs[:2], f"{operation.name}_p" if inputs[2] else operation.name)
    return writer.node("Add", [product, inputs[2]], operation.name) if inputs[2] else product


def _reshape(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    shape = writer.constant(f"{operation.name}_shape", np.array(operation.result.tensor.dims, np.int64))
    return writer.node("Reshape", [inputs[0], shape], operation.name)


def _pad(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    pads = writer.constant(f"{operation.name}_pads", np.array(operation.op.paddings, np.int64))
    return writer.node("Pad", [inputs[0], pads], operation.name)


def _plain(name: str, **attributes: Any) -> Write:
    return lambda writer, operation, inputs: writer.node(name, inputs, operation.name, **attributes)


_WRITERS: dict[type, Write] = {
    top.Conv: _conv,
    top.MaxPool: _max_pool,
    top.AvgPool: _avg_pool,
    top.MatMul: _matmul,
    top.Reshape: _reshape,
    top.Flatten: _reshape,
    top.Squeeze: _reshape,
    top.Unsqueeze: _reshape,
    top.Pad: _pad,
    top.Add: _plain("Add"),
    top.Mul: _plain("Mul"),
    top.Relu: lambda writer, operation, inputs: _relu(writer, inputs[0], operation.op.relu_limit, operation.name),
    top.Sigmoid: _plain("Sigmoid"),
    top.Permute: lambda w, o, i: w.node("Transpose", i, o.name, perm=list(o.op.order)),
    top.Concat: lambda w, o, i: w.node("Concat", i, o.name, axis=o.op.axis),
    top.Softmax: lambda w, o, i: w.node("Softmax", i, o.name, axis=o.op.axis),
    top.PRelu: _plain("PRelu"),
}


def _relu(writer: Writer, value: str, limit: float, name: str) -> str:
    if limit <= 0:
        return writer.node("Relu", [value], name)
    bounds = [writer.constant(f"{name}_{end}", np.float32(number)) for end, number in (("low", 0), ("high", limit))]
    return writer.node("Clip", [value, *bounds], name)


def onnx_of(module: Module, opset: int = 13) -> onnx.ModelProto:
    """The network as ONNX; raises KeyError for an op that is not written here."""
    writer, names = Writer(module), dict[Any, str]()
    inputs: list[onnx.ValueInfoProto] = []
    for operation in module.main.operations[:-1]:
        value = operation.result
        if isinstance(value.type, NoneType):
            names[value] = ""
        elif isinstance(operation.op, top.Weight):
            names[value] = writer.constant(value.name, module.weights[value.name])
        elif isinstance(operation.op, top.Input):
            names[value] = value.name
            inputs.append(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.tensor.dims))
        else:
            names[value] = _written(writer, operation, [names[operand] for operand in operation.operands])
    outputs = [
        helper.make_tensor_value_info(names[value], TensorProto.FLOAT, value.tensor.dims)
        for value in module.main.outputs
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in writer.weights.items()]
    graph = helper.make_graph(writer.nodes, module.name, inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _written(writer: Writer, operation: Operation, inputs: Sequence[str]) -> str:
    name = _WRITERS[type(operation.op)](writer, operation, inputs)
    if not getattr(operation.op, "do_relu", False):
        return name
    return _relu(writer, name, operation.op.relu_limit, f"{name}_relu")
