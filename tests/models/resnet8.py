"""Float networks of MLPerf Tiny in ONNX form, rewritten from their TFLite files: NCHW. ResNet-8 takes pixels 0..255."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tflite
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SOURCE = Path("tflite") / "mlperf_tiny" / "ic01_resnet8_float32.tflite"

OPTIONS = {
    tflite.BuiltinOperator.CONV_2D: tflite.Conv2DOptions,
    tflite.BuiltinOperator.DEPTHWISE_CONV_2D: tflite.DepthwiseConv2DOptions,
    tflite.BuiltinOperator.ADD: tflite.AddOptions,
    tflite.BuiltinOperator.AVERAGE_POOL_2D: tflite.Pool2DOptions,
    tflite.BuiltinOperator.RESHAPE: tflite.ReshapeOptions,
    tflite.BuiltinOperator.FULLY_CONNECTED: tflite.FullyConnectedOptions,
    tflite.BuiltinOperator.SOFTMAX: tflite.SoftmaxOptions,
}


def from_tflite(path: Path) -> onnx.ModelProto:
    """A network as ONNX, opset 13; the input keeps the name `input_1`, the output `Identity`."""
    model = tflite.Model.GetRootAsModel(path.read_bytes(), 0)
    graph = model.Subgraphs(0)
    rewrite = _Rewrite(model, graph)
    for index in range(graph.OperatorsLength()):
        rewrite.operator(graph.Operators(index))

    (source,), (result,) = graph.InputsAsNumpy(), graph.OutputsAsNumpy()
    n, *size, c = rewrite.shape(source)
    image = helper.make_tensor_value_info(rewrite.values[source], TensorProto.FLOAT, [n, c, *size])
    classes = helper.make_tensor_value_info(rewrite.values[result], TensorProto.FLOAT, rewrite.shape(result))
    network = helper.make_graph(rewrite.nodes, "resnet8", [image], [classes], rewrite.weights)
    rewritten = helper.make_model(network, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(rewritten, full_check=True)
    return rewritten


@dataclass
class _Rewrite:
    """ONNX nodes and weights so far; `values` names what each TFLite tensor has become."""

    model: tflite.Model
    graph: tflite.SubGraph
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index in (*self.graph.InputsAsNumpy(), *self.graph.OutputsAsNumpy()):
            self.values[index] = self.graph.Tensors(index).Name().decode()

    def operator(self, op: tflite.Operator) -> None:
        """Add the nodes of one operator, its fused activation as a node of its own."""
        kind = self.model.OperatorCodes(op.OpcodeIndex()).BuiltinCode()
        options = OPTIONS[kind]()
        if op.BuiltinOptions() is not None:
            options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        operands = [int(index) for index in op.InputsAsNumpy()]
        (result,) = op.OutputsAsNumpy()

        match kind:
            case tflite.BuiltinOperator.CONV_2D:
                weight, bias = self.constant(operands[1]).transpose(0, 3, 1, 2), self.constant(operands[2])
                kernel, strides = weight.shape[2:], (options.StrideH(), options.StrideW())
                pads = self.pads(options.Padding(), operands[0], kernel, strides)
                attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
                self.node("Conv", self.layer(operands[1]), operands[:1], result, [weight, bias], **attributes)
            case tflite.BuiltinOperator.DEPTHWISE_CONV_2D:
                weight, bias = self.constant(operands[1]).transpose(3, 0, 1, 2), self.constant(operands[2])
                kernel, strides = weight.shape[2:], (options.StrideH(), options.StrideW())
                pads = self.pads(options.Padding(), operands[0], kernel, strides)
                attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": len(weight)}
                self.node("Conv", f"depthwise_{len(self.nodes)}", operands[:1], result, [weight, bias], **attributes)
            case tflite.BuiltinOperator.ADD:
                self.node("Add", self.layer(result), operands, result)
            case tflite.BuiltinOperator.AVERAGE_POOL_2D:
                kernel = options.FilterHeight(), options.FilterWidth()
                strides = options.StrideH(), options.StrideW()
                pads = self.pads(options.Padding(), operands[0], kernel, strides)
                attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
                self.node("AveragePool", self.layer(result), operands, result, **attributes)
            case tflite.BuiltinOperator.RESHAPE:  # one row and one column by now, so the order of axes is gone
                assert self.shape(operands[0])[1:3] == [1, 1]
                self.node("Flatten", self.layer(result), operands[:1], result, axis=1)
            case tflite.BuiltinOperator.FULLY_CONNECTED:
                arrays = [self.constant(index) for index in operands[1:]]
                self.node("Gemm", self.layer(operands[1]), operands[:1], result, arrays, transB=1)
            case _:
                self.node("Softmax", "softmax", operands, result, axis=-1)

        if hasattr(options, "FusedActivationFunction") and options.FusedActivationFunction():
            assert options.FusedActivationFunction() == tflite.ActivationFunctionType.RELU
            self.node("Relu", f"{self.values[result]}_relu", [result], result)

    def node(
        self, kind: str, name: str, operands: list[int], result: int, arrays: Any = (), **attributes: object
    ) -> None:
        inputs = [self.values[index] for index in operands]
        for key, array in zip(("weight", "bias"), arrays, strict=False):
            self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"{name}.{key}"))
            inputs.append(f"{name}.{key}")
        output = self.values[result] if result in self.graph.OutputsAsNumpy() else name
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        self.values[result] = output

    def layer(self, index: int) -> str:
        """The Keras layer a tensor belongs to: `model/conv2d_3/Conv2D` is of `conv2d_3`."""
        return self.graph.Tensors(index).Name().decode().split(";")[-1].split("/")[1]

    def shape(self, index: int) -> list[int]:
        return self.graph.Tensors(index).ShapeAsNumpy().tolist()

    def constant(self, index: int) -> NDArray[np.float32]:
        tensor = self.graph.Tensors(index)
        data = self.model.Buffers(tensor.Buffer()).DataAsNumpy()
        if tensor.Type() == tflite.TensorType.INT8:  # a file may hold weights of float networks in bytes
            quantized, scales = data.view(np.int8).reshape(self.shape(index)), tensor.Quantization().ScaleAsNumpy()
            axis = tensor.Quantization().QuantizedDimension()
            extents = [-1 if place == axis else 1 for place in range(quantized.ndim)]
            return quantized.astype(np.float32) * (scales if scales.size == 1 else scales.reshape(extents))
        return data.view(np.float32).reshape(self.shape(index))

    def pads(self, padding: int, index: int, kernel: Any, strides: Any) -> list[int]:
        """Top, left, bottom, right; TFLite's SAME gives the odd row or column to the end."""
        if padding == tflite.Padding.VALID:
            return [0, 0, 0, 0]
        sizes = self.shape(index)[1:3]
        totals = [max((-(-i // s) - 1) * s + k - i, 0) for i, k, s in zip(sizes, kernel, strides, strict=True)]
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
