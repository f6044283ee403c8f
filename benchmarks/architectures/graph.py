"""Builds ONNX graphs with deterministic random weights, knowing every shape on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = tuple[int, ...]


class Graph:
    """Each method adds nodes and returns the name of their result; `dims` has the shape of every value.

    The first dimension is the batch, and the spread of products stays near 1.
    """

    def __init__(self, batch: int = 1, seed: int = 3) -> None:
        self.batch = batch
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[str] = []
        self.dims: dict[str, Dims] = {}
        self._random = np.random.default_rng(seed)

    def input(self, *dims: int) -> str:
        """An input of the network, for one sample."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.dims[name] = (self.batch, *dims)
        return name

    def constant(self, value: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        self.dims[name] = np.shape(value)
        return name

    def whole(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def random(self, *shape: int, spread: float = 1.0) -> str:
        return self.constant(self._random.normal(0, spread, shape).astype(np.float32))

    def positive(self, *shape: int) -> str:
        return self.constant(self._random.uniform(0.5, 1.5, shape).astype(np.float32))

    def node(self, kind: str, inputs: Sequence[str], dims: Sequence[int] | None = None, **attributes: object) -> str:
        """`dims`: those of the result; as the first input's if left out."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.dims[name] = self.dims[inputs[0]] if dims is None else tuple(dims)
        return name

    def each(self, kind: str, x: str, **attributes: object) -> str:
        """Elementwise, of one operand."""
        return self.node(kind, [x], **attributes)

    def both(self, kind: str, x: str, z: str | float) -> str:
        """Elementwise, of two operands or of one and a number."""
        other = self.constant(np.array(z, np.float32)) if isinstance(z, float) else z
        return self.node(kind, [x, other], np.broadcast_shapes(self.dims[x], self.dims[other]))

    def conv(
        self,
        x: str,
        target: int,
        kernel: int | Dims = 3,
        stride: int | Dims = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        pads: Sequence[int] | None = None,
    ) -> str:
        """A convolution of any rank, with bias; without `pads` the extents stay (divided by the stride)."""
        n, source, *extents = self.dims[x]
        rank = len(extents)
        kernels = (kernel,) * rank if isinstance(kernel, int) else kernel
        strides = (stride,) * rank if isinstance(stride, int) else stride
        if pads is None:
            pads = [dilation * (size - 1) // 2 for size in kernels] * 2
        fan = source // groups * math.prod(kernels)
        filters = self.random(target, source // groups, *kernels, spread=(1.6 / fan) ** 0.5)
        sides = zip(extents, kernels, strides, pads[:rank], pads[rank:], strict=True)
        results = [(e + a + b - dilation * (k - 1) - 1) // s + 1 for e, k, s, a, b in sides]
        return self.node(
            "Conv", [x, filters, self.random(target, spread=0.1)], (n, target, *results),
            kernel_shape=kernels, strides=strides, pads=pads, group=groups, dilations=[dilation] * rank,
        )  # fmt: skip

    def deconv(self, x: str, target: int, kernel: int = 2, stride: int = 2, pad: int = 0) -> str:
        n, source, *extents = self.dims[x]
        rank = len(extents)
        filters = self.random(source, target, *[kernel] * rank, spread=(1.6 / source) ** 0.5)
        results = [(extent - 1) * stride + kernel - 2 * pad for extent in extents]
        return self.node(
            "ConvTranspose", [x, filters, self.random(target, spread=0.1)], (n, target, *results),
            kernel_shape=[kernel] * rank, strides=[stride] * rank, pads=[pad] * 2 * rank,
        )  # fmt: skip

    def batch_norm(self, x: str) -> str:
        count = self.dims[x][1]
        first = [self.positive(count), self.random(count, spread=0.1), self.random(count, spread=0.1)]
        return self.node("BatchNormalization", [x, *first, self.positive(count)])

    def pool(self, x: str, kind: str = "MaxPool", kernel: int = 2, stride: int = 2, pad: int = 0) -> str:
        n, c, *extents = self.dims[x]
        results = [(extent + 2 * pad - kernel) // stride + 1 for extent in extents]
        rank, more = len(extents), {} if kind == "MaxPool" else {"count_include_pad": 0}
        return self.node(
            kind, [x], (n, c, *results), kernel_shape=[kernel] * rank, strides=[stride] * rank, pads=[pad] * 2 * rank,
            **more,
        )  # fmt: skip

    def mean(self, x: str, *axes: int, keep: bool = True) -> str:
        dims = self.dims[x]
        kept = [1 if axis in axes else extent for axis, extent in enumerate(dims)]
        left = kept if keep else [extent for axis, extent in enumerate(dims) if axis not in axes]
        return self.node("ReduceMean", [x], left, axes=axes, keepdims=int(keep))

    def squeeze_excite(self, x: str, inner: int, gate: str = "Sigmoid") -> str:
        y = self.each("Relu", self.conv(self.node("GlobalAveragePool", [x], (*self.dims[x][:2], 1, 1)), inner, 1))
        return self.both("Mul", x, self.each(gate, self.conv(y, self.dims[x][1], 1)))

    def silu(self, x: str) -> str:
        return self.both("Mul", x, self.each("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """Written out, as exporters do."""
        y = self.both("Add", self.each("Erf", self.both("Div", x, 2**0.5)), 1.0)
        return self.both("Mul", self.both("Mul", x, y), 0.5)

    def linear(self, x: str, target: int) -> str:
        *outer, source = self.dims[x]
        y = self.node("MatMul", [x, self.random(source, target, spread=source**-0.5)], (*outer, target))
        return self.both("Add", y, self.random(target, spread=0.1))

    def product(self, x: str, z: str) -> str:
        return self.node("MatMul", [x, z], (*self.dims[x][:-1], self.dims[z][-1]))

    def norm(self, x: str) -> str:
        """Layer normalization over the last dimension."""
        count = self.dims[x][-1]
        return self.node("LayerNormalization", [x, self.positive(count), self.random(count, spread=0.1)], axis=-1)

    def channel_norm(self, x: str) -> str:
        """Layer normalization over channels, written out."""
        count, centered = self.dims[x][1], self.both("Sub", x, self.mean(x, 1))
        variance = self.mean(self.both("Mul", centered, centered), 1)
        y = self.both("Div", centered, self.each("Sqrt", self.both("Add", variance, 1e-6)))
        return self.both("Add", self.both("Mul", y, self.positive(count, 1, 1)), self.random(count, 1, 1, spread=0.1))

    def group_norm(self, x: str, groups: int = 1) -> str:
        """As exporters write it before opset 18: instances of the groups."""
        dims, ones = self.dims[x], self.constant(np.ones(groups, np.float32))
        y = self.reshape(x, groups, -1)
        y = self.node("InstanceNormalization", [y, ones, self.constant(np.zeros(groups, np.float32))])
        shape = (dims[1], *[1] * (len(dims) - 2))
        y = self.both("Mul", self.reshape(y, *dims[1:]), self.positive(*shape))
        return self.both("Add", y, self.random(*shape, spread=0.1))

    def reshape(self, x: str, *dims: int) -> str:
        """`dims` without the batch."""
        n, *rest = self.dims[x]
        known = math.prod(extent for extent in dims if extent > 0)
        found = [math.prod(rest) // known if extent < 0 else extent for extent in dims]
        return self.node("Reshape", [x, self.whole(n, *found)], (n, *found))

    def turn(self, x: str, *order: int) -> str:
        return self.node("Transpose", [x], [self.dims[x][axis] for axis in order], perm=order)

    def cut(self, x: str, axis: int, first: int, end: int) -> str:
        dims = [*self.dims[x]]
        dims[axis] = end - first
        return self.node("Slice", [x, self.whole(first), self.whole(end), self.whole(axis)], dims)

    def halves(self, x: str, axis: int) -> tuple[str, str]:
        extent = self.dims[x][axis]
        return self.cut(x, axis, 0, extent // 2), self.cut(x, axis, extent // 2, extent)

    def join(self, *parts: str, axis: int = 1) -> str:
        dims = [*self.dims[parts[0]]]
        dims[axis] = sum(self.dims[part][axis] for part in parts)
        return self.node("Concat", parts, dims, axis=axis)

    def resize(self, x: str, *extents: int, mode: str = "linear", corners: str = "pytorch_half_pixel") -> str:
        dims = (*self.dims[x][:2], *extents)
        more = {"nearest_mode": "floor"} if mode == "nearest" else {}
        return self.node(
            "Resize", [x, "", "", self.whole(*dims)], dims, mode=mode, coordinate_transformation_mode=corners, **more
        )

    def pad(self, x: str, before: Sequence[int], after: Sequence[int], mode: str = "constant") -> str:
        """Of the dimensions behind the channels."""
        extents = [e + a + b for e, a, b in zip(self.dims[x][2:], before, after, strict=True)]
        return self.node("Pad", [x, self.whole(0, 0, *before, 0, 0, *after)], (*self.dims[x][:2], *extents), mode=mode)

    def pixel_shuffle(self, x: str, factor: int) -> str:
        n, c, h, w = self.dims[x]
        dims = (n, c // factor**2, h * factor, w * factor)
        return self.node("DepthToSpace", [x], dims, blocksize=factor, mode="CRD")

    def attention(self, x: str, heads: int) -> str:
        """Of tokens `[batch, tokens, width]` among themselves."""
        _, length, width = self.dims[x]
        turns = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (self.turn(self.reshape(self.linear(x, width), length, heads, -1), *turn) for turn in turns)
        scores = self.both("Mul", self.product(q, k), (width // heads) ** -0.5)
        y = self.turn(self.product(self.node("Softmax", [scores], axis=-1), v), 0, 2, 1, 3)
        return self.linear(self.reshape(y, length, width), width)

    def model(self, *outputs: str) -> onnx.ModelProto:
        ends = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.dims[name]) for name in side]
            for side in (self.inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "network", ends[0], ends[1], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
