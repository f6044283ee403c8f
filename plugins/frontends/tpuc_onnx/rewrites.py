"""Operators said in simpler operators of ONNX itself (opset 22), where it has no function body for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from tpuc.api import ForeignNode, Unsupported

from tpuc_onnx.expansion import own_prefix
from tpuc_onnx.graph import GraphNode, foreign_node
from tpuc_onnx.shapes import TypeTable

Array: TypeAlias = npt.NDArray[Any]
OPSET = 22


@dataclass
class Script:
    """Collects nodes in place of `node`. Tensors are named inside it."""

    node: ForeignNode
    types: TypeTable
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])

    def __call__(self, op: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Append a node of one result, named `result` or by itself; returns the result's name."""
        result = result or f"{own_prefix(self.node)}{op}_{len(self.nodes)}"
        kept = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=result, **kept))
        return result

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """A new constant."""
        full = f"{own_prefix(self.node)}{name}"
        self.types.constants[full] = np.asarray(array)
        return full

    def shape(self, name: str) -> tuple[int, ...]:
        """The static shape of a tensor that the script does not compute."""
        shape = self.types.shape(name)
        if shape is None:
            raise self.refused(f"the shape of '{name}' depends on the data, and compiled shapes are static")
        return shape

    def known(self, index: int, meaning: str) -> Array | None:
        """The operand at `index`, which must be constant; None when it is absent."""
        if not self.has(index):
            return None
        array = self.types.constants.get(self.node.inputs[index])
        if array is None:
            raise self.refused(f"{meaning} is computed at run time ('{self.node.inputs[index]}'), and must be a constant")
        return array

    def has(self, index: int) -> bool:
        """Is there an operand at `index`?"""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def refused(self, reason: str) -> Unsupported:
        """The error for what cannot be written."""
        return Unsupported(f"{self.node.source}: node '{self.node.name}' ({self.node.op_type}): {reason}.")

    def attributes(self, *names: str) -> dict[str, Any]:
        """Those attributes of the node that are there, to be passed on."""
        return {name: self.node.attributes[name] for name in names if name in self.node.attributes}


def rewritten(node: GraphNode, types: TypeTable) -> list[GraphNode] | None:
    """The nodes that say the same as `node`; None when there is no rewrite for it."""
    write = None if node.foreign.domain else REWRITES.get(node.foreign.op_type)
    if write is None:
        return None
    script = Script(node.foreign, types)
    write(script)
    opsets = {"": OPSET}
    return [GraphNode(proto, foreign_node(proto, opsets, node.foreign.source)) for proto in script.nodes]


def _centred(script: Script, index: int, zero_index: int, axis: int | None = None) -> str:
    """A stored tensor as float, its zero point taken off; a zero point per element of `axis` where that is given."""
    value = _float(script, script.node.inputs[index])
    if not script.has(zero_index):
        return value
    zero = _float(script, script.node.inputs[zero_index])
    shape = script.shape(script.node.inputs[zero_index])
    if axis is not None and math.prod(shape) > 1 and len(shape) == 1:
        dims = [1] * len(script.shape(script.node.inputs[index]))
        dims[axis] = -1
        zero = script("Reshape", zero, script.constant(f"zero{index}_dims", np.array(dims, np.int64)))
    return script("Sub", value, zero)


def _float(script: Script, name: str) -> str:
    return script("Cast", name, to=TensorProto.FLOAT)


def _channelled(script: Script, name: str, rank: int) -> str:
    """A number, or one per channel, in the rank of the result."""
    if math.prod(script.shape(name)) == 1:
        return name
    dims = np.array([1, -1, *(1,) * (rank - 2)], np.int64)
    return script("Reshape", name, script.constant(f"{name}_dims", dims))


_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def conv_integer(script: Script) -> None:
    """A convolution of what was stored."""
    x, w = _centred(script, 0, 2), _centred(script, 1, 3, 0)
    script("Conv", x, w, result=script.node.outputs[0], **script.attributes(*_WINDOW))


def matmul_integer(script: Script) -> None:
    """A product of what was stored; zero points are per row on the left and per column on the right."""
    left, right = _centred(script, 0, 2, -2), _centred(script, 1, 3, -1)
    script("MatMul", left, right, result=script.node.outputs[0])


def qlinear_conv(script: Script) -> None:
    """Exact sums of products, scaled, then quantised."""
    x, x_scale, _, w, w_scale, _, y_scale, y_zero = script.node.inputs[:8]
    rank = len(script.shape(x))
    sums = script("Conv", _centred(script, 0, 2), _centred(script, 3, 5, 0), **script.attributes(*_WINDOW))
    if script.has(8):
        bias = _float(script, script.node.inputs[8])
        dims = script.constant("bias_dims", np.array([1, -1, *(1,) * (rank - 2)], np.int64))
        sums = script("Add", sums, script("Reshape", bias, dims))
    scale = script("Mul", x_scale, _channelled(script, w_scale, rank))
    script("QuantizeLinear", script("Mul", sums, scale), y_scale, y_zero, result=script.node.outputs[0])


def qlinear_matmul(script: Script) -> None:
    """Exact sums of products, scaled, then quantised."""
    left_scale, right_scale, y_scale, y_zero = (script.node.inputs[index] for index in (1, 4, 6, 7))
    sums = script("MatMul", _centred(script, 0, 2, -2), _centred(script, 3, 5, -1))
    if math.prod(script.shape(left_scale)) > 1:
        left_scale = script("Reshape", left_scale, script.constant("rows", np.array([-1, 1], np.int64)))
    scale = _float(script, script("Mul", left_scale, right_scale))
    script("QuantizeLinear", script("Mul", sums, scale), y_scale, y_zero, result=script.node.outputs[0])


def lp_pool(script: Script) -> None:
    """The mean of powers, times their number, and its root."""
    p, kernel = float(script.node.attributes.get("p", 2)), script.node.attributes["kernel_shape"]
    power = script.constant("p", np.array(p, np.float32))
    powers = script("Pow", script("Abs", script.node.inputs[0]), power)
    window = script.attributes("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    mean = script("AveragePool", powers, count_include_pad=1, **window)
    total = script("Mul", mean, script.constant("count", np.array(math.prod(kernel), np.float32)))
    root = script.constant("root", np.array(1 / p, np.float32))
    script("Pow", total, root, result=script.node.outputs[0])


def global_lp_pool(script: Script) -> None:
    """The root of the sum of powers."""
    p, x = float(script.node.attributes.get("p", 2)), script.node.inputs[0]
    powers = script("Pow", script("Abs", x), script.constant("p", np.array(p, np.float32)))
    axes = script.constant("axes", np.arange(2, len(script.shape(x))))
    root = script.constant("root", np.array(1 / p, np.float32))
    script("Pow", script("ReduceSum", powers, axes), root, result=script.node.outputs[0])


def max_unpool(script: Script) -> None:
    """Zeros, with the values at their indices."""
    x, indices = script.node.inputs[:2]
    shape = _unpooled(script)
    own = _unpooled(script, stated=False)
    flat = script.constant("flat", np.array([-1], np.int64))
    places = script("Reshape", indices, flat)
    if shape != own:
        raise script.refused("an output_shape other than the pooled operand's is not supported")
    zeros = script.constant("zeros", np.zeros(math.prod(shape), np.float32))
    filled = script("ScatterElements", zeros, places, script("Reshape", x, flat), axis=0)
    script("Reshape", filled, script.constant("shape", np.array(shape, np.int64)), result=script.node.outputs[0])


def _unpooled(script: Script, stated: bool = True) -> tuple[int, ...]:
    given = script.known(2, "the shape of the result") if stated else None
    if given is not None:
        return tuple(int(extent) for extent in given)
    dims, kernel = script.shape(script.node.inputs[0]), script.node.attributes["kernel_shape"]
    rank = len(kernel)
    strides = script.node.attributes.get("strides", (1,) * rank)
    pads = script.node.attributes.get("pads", (0,) * 2 * rank)
    spatial = [
        (dims[axis + 2] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + rank] for axis in range(rank)
    ]
    return (*dims[:2], *spatial)


def col2im(script: Script) -> None:
    """A transposed convolution whose filters are single ones: every element goes where its column says."""
    image, block = (script.known(index, "a shape") for index in (1, 2))
    assert image is not None
    assert block is not None
    kernel, size = block.tolist(), image.tolist()
    rank, taps = len(kernel), math.prod(block.tolist())
    n, depth, _ = script.shape(script.node.inputs[0])
    channels = depth // taps
    strides = script.node.attributes.get("strides", (1,) * rank)
    dilations = script.node.attributes.get("dilations", (1,) * rank)
    pads = script.node.attributes.get("pads", (0,) * 2 * rank)
    reach = [(kernel[axis] - 1) * dilations[axis] + 1 for axis in range(rank)]
    counts = [
        (size[axis] + pads[axis] + pads[axis + rank] - reach[axis]) // strides[axis] + 1 for axis in range(rank)
    ]
    rest = [
        size[axis] + pads[axis] + pads[axis + rank] - (counts[axis] - 1) * strides[axis] - reach[axis]
        for axis in range(rank)
    ]
    columns = script("Reshape", script.node.inputs[0], script.constant("columns", np.array([n, depth, *counts])))
    ones = np.tile(np.eye(taps, dtype=np.float32).reshape(taps, 1, *kernel), (channels, 1, *(1,) * rank))
    script(
        "ConvTranspose",
        columns,
        script.constant("ones", ones),
        result=script.node.outputs[0],
        group=channels,
        kernel_shape=kernel,
        strides=list(strides),
        dilations=list(dilations),
        pads=list(pads),
        output_padding=rest,
    )


def dft(script: Script) -> None:
    """A product with the matrix of the transform."""
    node = script.node
    dims = script.shape(node.inputs[0])
    given = script.known(2, "the axis")
    axis = int(node.attributes.get("axis", 1) if node.version < 20 else -2 if given is None else given.reshape(()))
    axis %= len(dims)
    length = script.known(1, "the length")
    count = dims[axis] if length is None else int(length.reshape(()))
    matrix = _dft_matrix(
        dims[axis], count, dims[-1], bool(node.attributes.get("inverse", 0)), bool(node.attributes.get("onesided", 0))
    )
    _transform(script, node.inputs[0], dims, axis, matrix, node.outputs[0])


def _transform(script: Script, x: str, dims: Sequence[int], axis: int, matrix: Array, target: str) -> None:
    """`x` with its axis and the complex pair at the end taken through `matrix`: `[extent, pair, count, pair]`."""
    rank, (extent, pair, count, out_pair) = len(dims), matrix.shape
    order = [*(index for index in range(rank - 1) if index != axis), axis, rank - 1]
    outer = [dims[index] for index in order[:-2]]
    moved = script("Transpose", x, perm=order)
    rows = script("Reshape", moved, script.constant("rows", np.array([*outer, extent * pair])))
    weight = script.constant("matrix", matrix.reshape(extent * pair, count * out_pair).astype(np.float32))
    product = script("MatMul", rows, weight)
    pairs = script("Reshape", product, script.constant("pairs", np.array([*outer, count, out_pair])))
    script("Transpose", pairs, result=target, perm=np.argsort(order).tolist())


def _dft_matrix(extent: int, count: int, pair: int, inverse: bool, onesided: bool) -> Array:
    """`[extent, pair, places, pair]`: what each real and imaginary unit becomes."""
    units = np.eye(extent) if pair == 1 else np.concatenate([np.eye(extent), 1j * np.eye(extent)])
    if inverse and onesided:
        result = np.fft.irfft(units, count, -1)[..., None]
    else:
        spectrum = (np.fft.ifft if inverse else np.fft.fft)(units, count, -1)
        spectrum = spectrum[:, : count // 2 + 1] if onesided else spectrum
        result = np.stack([spectrum.real, spectrum.imag], -1)
    return np.moveaxis(result.reshape(pair, extent, *result.shape[1:]), 0, 1)


def stft(script: Script) -> None:
    """Frames of the signal, times the window, through the matrix of the transform."""
    step, window, given = (
        script.known(index, label) for index, label in ((1, "the frame step"), (2, "the window"), (3, "the length"))
    )
    assert step is not None
    n, total, pair = script.shape(script.node.inputs[0])
    length = int(given.reshape(())) if given is not None else total if window is None else window.size
    starts = np.arange((total - length) // int(step.reshape(())) + 1) * int(step.reshape(()))
    places = script.constant("places", starts[:, None] + np.arange(length))
    framed = script("Gather", script.node.inputs[0], places, axis=1)
    if window is not None:
        framed = script("Mul", framed, script.constant("window", window.astype(np.float32).reshape(1, 1, -1, 1)))
    onesided = bool(script.node.attributes.get("onesided", 1)) and pair == 1
    matrix = _dft_matrix(length, length, pair, False, onesided)
    _transform(script, framed, (n, len(starts), length, pair), 2, matrix, script.node.outputs[0])


def tensor_scatter(script: Script) -> None:
    """A cache with new entries at constant places of one axis per image, behind each other or in a circle."""
    cache, update = script.node.inputs[:2]
    dims, new = script.shape(cache), script.shape(update)
    axis = script.node.attributes.get("axis", -2) % len(dims)
    given = script.known(2, "the list of places")
    starts = np.zeros(dims[0], np.int64) if given is None else given.astype(np.int64)
    places = starts[:, None] + np.arange(new[axis])
    if script.node.attributes.get("mode", "linear") == "circular":
        places %= dims[axis]
    along = [new[index] if index in (0, axis) else 1 for index in range(len(new))]
    indices = np.broadcast_to(places.reshape(along), new)
    script("ScatterElements", cache, script.constant("places", indices), update, result=script.node.outputs[0], axis=axis)


REWRITES: Mapping[str, Callable[[Script], None]] = {
    "Col2Im": col2im,
    "ConvInteger": conv_integer,
    "DFT": dft,
    "GlobalLpPool": global_lp_pool,
    "LpPool": lp_pool,
    "MatMulInteger": matmul_integer,
    "MaxUnpool": max_unpool,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "STFT": stft,
    "TensorScatter": tensor_scatter,
}
