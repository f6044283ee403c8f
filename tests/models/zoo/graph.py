"""Writes ONNX graphs with the nodes that exporters write; random weights keep activations near a spread of 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Graph:
    """A graph that grows node by node; every method returns the name of a value."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    # -- values --------------------------------------------------------------------------------------------------------

    def input(self, *shape: int, dtype: int = TensorProto.FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, array: ArrayLike) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def normal(self, *shape: int, spread: float = 1.0) -> str:
        return self.constant(self.random.normal(0, spread, shape).astype(np.float32))

    def between(self, low: float, high: float, *shape: int) -> str:
        return self.constant(self.random.uniform(low, high, shape).astype(np.float32))

    def nodes_of(self, kind: str, inputs: Sequence[str], results: int, **attributes: object) -> list[str]:
        """A node of several results."""
        names = [f"{kind.lower()}{len(self.nodes)}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=names[0], **attributes))
        return names

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def model(self, *outputs: str, whole: Sequence[str] = ()) -> onnx.ModelProto:
        """The finished model, checked. `whole`: further outputs, of int64."""
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        values += [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in whole]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, values, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        return model

    # -- layers --------------------------------------------------------------------------------------------------------

    def conv(
        self,
        x: str,
        source: int,
        target: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        group: int = 1,
        dilation: int = 1,
        pad: int | None = None,
        then: str = "Relu",
        norm: bool = True,
    ) -> str:
        """Convolution, BatchNormalization and an activation; without `norm` a convolution with a bias."""
        around = dilation * (kernel - 1) // 2 if pad is None else pad
        fan = kernel * kernel * source // group
        operands = [x, self.normal(target, source // group, kernel, kernel, spread=(2 / fan) ** 0.5)]
        if not norm:
            operands.append(self.normal(target, spread=0.1))
        y = self.node(
            "Conv",
            *operands,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[around] * 4,
            dilations=[dilation] * 2,
            group=group,
        )
        return self.activate(self.batch_norm(y, target) if norm else y, then)

    def head(self, x: str, source: int, target: int, kernel: int = 1, then: str = "") -> str:
        """A convolution that ends a network."""
        return self.conv(x, source, target, kernel, norm=False, then=then)

    def batch_norm(self, x: str, channels: int) -> str:
        parameters = [
            self.between(0.5, 1.5, channels),
            self.normal(channels, spread=0.2),
            self.normal(channels, spread=0.2),
            self.between(0.5, 1.5, channels),
        ]
        return self.node("BatchNormalization", x, *parameters)

    def activate(self, x: str, kind: str) -> str:
        """An activation as exporters write it; the empty one is none."""
        match kind:
            case "":
                return x
            case "SiLU":
                return self.node("Mul", x, self.node("Sigmoid", x))
            case "Relu6":
                return self.node("Clip", x, self.number(0), self.number(6))
            case "HardSwish":
                clipped = self.node("Clip", self.node("Add", x, self.number(3)), self.number(0), self.number(6))
                return self.node("Div", self.node("Mul", x, clipped), self.number(6))
            case "GELU":
                error = self.node("Erf", self.node("Div", x, self.number(2**0.5)))
                return self.node("Mul", self.node("Mul", x, self.node("Add", error, self.number(1))), self.number(0.5))
            case _:
                return self.node(kind, x)

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0, **attributes: object) -> str:
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("MaxPool", x, **sizes, **attributes)

    def concat(self, *parts: str, axis: int = 1) -> str:
        return self.node("Concat", *parts, axis=axis)

    def linear(self, x: str, source: int, target: int) -> str:
        product = self.node("MatMul", x, self.normal(source, target, spread=source**-0.5))
        return self.node("Add", product, self.normal(target, spread=0.1))

    def written_out_norm(self, x: str, width: int) -> str:
        """LayerNormalization of the last axis as old exporters write it."""
        apart = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", apart, self.number(2)), axes=[-1])
        y = self.node("Div", apart, self.node("Sqrt", self.node("Add", variance, self.number(1e-5))))
        return self.node("Add", self.node("Mul", y, self.between(0.5, 1.5, width)), self.normal(width, spread=0.1))

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.integers(*shape))

    def permute(self, x: str, *order: int) -> str:
        return self.node("Transpose", x, perm=list(order))

    def twice_as_large(self, x: str) -> str:
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", x, "", scales, **how)

    def resized(self, x: str, mode: str, *shape: int) -> str:
        """Bilinear, to a whole shape."""
        how = {"mode": "linear", "coordinate_transformation_mode": mode}
        return self.node("Resize", x, "", "", self.integers(*shape), **how)
