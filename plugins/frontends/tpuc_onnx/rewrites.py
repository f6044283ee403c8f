"""Expand operators without a function body into simpler ONNX operators (opset 23)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tpuc.api import ForeignNode
from tpuc_importing.finding import importer_key
from tpuc_ops.arrays import Array

from tpuc_onnx.attention import ATTENTION
from tpuc_onnx.contributed import CONTRIBUTED
from tpuc_onnx.dynamic import centered_name, is_quantized_as_it_comes
from tpuc_onnx.graph import Graph, GraphNode, foreign_node
from tpuc_onnx.grids import affine_grid
from tpuc_onnx.learned import LEARNED
from tpuc_onnx.qlinear import QLINEAR, WINDOW, to_float
from tpuc_onnx.recurrence import unroll
from tpuc_onnx.reductions import reduce_log_sum, reduce_log_sum_exp, reduce_sum_square
from tpuc_onnx.script import Script
from tpuc_onnx.sequences import SEQUENCES
from tpuc_onnx.shapes import TypeTable

OPSET = 23
"""The opset in which rewrites are expressed."""


def rewritten(node: GraphNode, types: TypeTable, graph: Graph) -> list[GraphNode] | None:
    """Return the nodes that replace `node` of `graph`; None if there is no rewrite for it, or none is needed."""
    write = REWRITES.get(importer_key(node.foreign))
    if write is None:
        return None
    script = Script(node.foreign, types, graph)
    if write(script) is False:
        return None
    opsets = {"": OPSET}
    return [GraphNode(proto, foreign_node(proto, opsets, node.foreign.source)) for proto in script.nodes]


def is_rewritten(node: ForeignNode) -> bool:
    """True if there is a rewrite that may be needed."""
    return importer_key(node) in REWRITES


def _centered(script: Script, index: int, zero_index: int, axis: int) -> str:
    """Convert a stored tensor to float and subtract its zero point: one number, or one per element of `axis`."""
    name = script.node.inputs[index]
    value = to_float(script, name)
    if not script.has(zero_index):
        return value
    if is_quantized_as_it_comes(script.graph, name, script.node.inputs[zero_index]):
        return centered_name(name)
    zero = to_float(script, script.node.inputs[zero_index])
    shape = script.shape(script.node.inputs[zero_index])
    if math.prod(shape) > 1 and len(shape) == 1:
        dims = [1] * len(script.shape(script.node.inputs[index]))
        dims[axis] = -1
        zero = script("Reshape", zero, script.constant(f"zero{index}_dims", np.array(dims, np.int64)))
    return script("Sub", value, zero)


def dynamic_quantize_lstm(script: Script) -> None:
    """Expand ONNX Runtime's LSTM with 8-bit weights `[direction, in, gates]` to one with floats."""
    x, weights, recurrent, *rest = script.node.inputs
    places = ((weights, "the matrix of weights", 8), (recurrent, "the recurrent matrix", 10))
    floats = [_dequantized(script, name, meaning, scale) for name, meaning, scale in places]
    outputs = list(script.node.outputs)
    script.append("LSTM", [x, *floats, *rest[:5]], outputs, **script.node.attributes)


def _dequantized(script: Script, name: str, meaning: str, scale_index: int) -> str:
    """Dequantize `name: [direction, in, gates]`, with scale and zero point per direction, or per gate of each."""
    array = script.required(script.node.inputs.index(name), meaning).astype(np.float32)
    scale = script.required(scale_index, f"the scale of {meaning}").astype(np.float32)
    zero = script.required(scale_index + 1, f"the zero point of {meaning}").astype(np.float32)
    count = array.shape[0]
    real = (array - zero.reshape(count, 1, -1)) * scale.reshape(count, 1, -1)
    return script.constant(f"{name}_float", np.ascontiguousarray(real.transpose(0, 2, 1)))


def conv_integer(script: Script) -> None:
    """Expand a convolution of stored integers."""
    x, w = _centered(script, 0, 2, 1), _centered(script, 1, 3, 0)
    script("Conv", x, w, result=script.node.outputs[0], **script.attributes(*WINDOW))


def matmul_integer(script: Script) -> None:
    """Expand a product of stored integers; zero points are per row on the left and per column on the right."""
    left, right = _centered(script, 0, 2, -2), _centered(script, 1, 3, -1)
    script("MatMul", left, right, result=script.node.outputs[0])


def clip(script: Script) -> bool:
    """Limits that are computed at run time: the larger of operand and lower limit, then the smaller one."""
    limits = [(index, kind) for index, kind in ((1, "Max"), (2, "Min")) if script.has(index)]
    if all(script.node.inputs[index] in script.types.constants for index, _ in limits):
        return False
    value = script.node.inputs[0]
    for index, kind in limits:
        result = {"result": script.node.outputs[0]} if (index, kind) == limits[-1] else {}
        value = script(kind, value, script.node.inputs[index], **result)
    return True


def lp_pool(script: Script) -> None:
    """Expand the mean of powers, times their number, and its root. Overhang from rounding up counts as zeros."""
    p, kernel = float(script.node.attributes.get("p", 2)), script.node.attributes["kernel_shape"]
    power = script.constant("p", np.array(p, np.float32))
    powers = script("Pow", script("Abs", script.node.inputs[0]), power)
    window = script.attributes("auto_pad", "dilations", "kernel_shape", "pads", "strides")
    if script.node.attributes.get("ceil_mode", 0) and window.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"):
        window["auto_pad"], window["pads"] = "NOTSET", _ceiled_pads(script, kernel)
    mean = script("AveragePool", powers, count_include_pad=1, **window)
    total = script("Mul", mean, script.constant("count", np.array(math.prod(kernel), np.float32)))
    root = script.constant("root", np.array(1 / p, np.float32))
    script("Pow", total, root, result=script.node.outputs[0])


def _ceiled_pads(script: Script, kernel: Sequence[int]) -> list[int]:
    """Return the pads with which windows extend as far as when rounding up; no window begins after the stated pads."""
    attributes, rank = script.node.attributes, len(kernel)
    is_stated = attributes.get("auto_pad", "NOTSET") == "NOTSET"
    pads = list(attributes.get("pads", (0,) * 2 * rank)) if is_stated else [0] * 2 * rank
    strides, dilations = (attributes.get(name, (1,) * rank) for name in ("strides", "dilations"))
    for axis, size in enumerate(script.shape(script.node.inputs[0])[2:]):
        extent = (kernel[axis] - 1) * dilations[axis] + 1
        last = math.ceil((pads[axis] + size + pads[axis + rank] - extent) / strides[axis])
        last -= last * strides[axis] >= size + pads[axis]
        reach = last * strides[axis] + extent
        pads[axis + rank] = max(pads[axis + rank], reach - size - pads[axis])
    return pads


def global_lp_pool(script: Script) -> None:
    """Expand the root of the sum of powers."""
    p, x = float(script.node.attributes.get("p", 2)), script.node.inputs[0]
    powers = script("Pow", script("Abs", x), script.constant("p", np.array(p, np.float32)))
    axes = script.constant("axes", np.arange(2, len(script.shape(x))))
    root = script.constant("root", np.array(1 / p, np.float32))
    script("Pow", script("ReduceSum", powers, axes), root, result=script.node.outputs[0])


def max_unpool(script: Script) -> None:
    """Expand zeros with the values at their indices."""
    x, indices = script.node.inputs[:2]
    shape = _unpooled(script)
    own = _unpooled(script, stated=False)
    flat = script.constant("flat", np.array([-1], np.int64))
    places = script("Reshape", indices, flat)
    zeros = script.constant("zeros", np.zeros(math.prod(own), np.float32))
    filled = script("ScatterElements", zeros, places, script("Reshape", x, flat), axis=0)
    dims = script.constant("shape", np.array(own, np.int64))
    target = script.node.outputs[0]
    if shape == own:
        script("Reshape", filled, dims, result=target)
        return
    rest = [extent - inner for extent, inner in zip(shape, own, strict=True)]
    pads = script.constant("pads", np.array([0] * len(own) + rest, np.int64))
    script("Pad", script("Reshape", filled, dims), pads, result=target)


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
    """Expand to a transposed convolution with unit filters, which move every element to the position that its column
    states.
    """
    image, block = script.required(1, "the shape of the image"), script.required(2, "the shape of a block")
    kernel, size = block.tolist(), image.tolist()
    rank, taps = len(kernel), math.prod(block.tolist())
    n, depth, _ = script.shape(script.node.inputs[0])
    channels = depth // taps
    strides = script.node.attributes.get("strides", (1,) * rank)
    dilations = script.node.attributes.get("dilations", (1,) * rank)
    pads = script.node.attributes.get("pads", (0,) * 2 * rank)
    reach = [(kernel[axis] - 1) * dilations[axis] + 1 for axis in range(rank)]
    counts = [(size[axis] + pads[axis] + pads[axis + rank] - reach[axis]) // strides[axis] + 1 for axis in range(rank)]
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
    """Expand to a product with the matrix of the transform."""
    node = script.node
    dims = script.shape(node.inputs[0])
    given = script.known(2, "the axis")
    axis = int(node.attributes.get("axis", 1) if node.version < 20 else -2 if given is None else given.reshape(()))
    axis %= len(dims)
    length = script.known(1, "the length")
    back = bool(node.attributes.get("inverse", 0)) and bool(node.attributes.get("onesided", 0))
    count = (2 * dims[axis] - 2 if back else dims[axis]) if length is None else int(length.reshape(()))
    matrix = _dft_matrix(
        dims[axis], count, dims[-1], bool(node.attributes.get("inverse", 0)), bool(node.attributes.get("onesided", 0))
    )
    _transform(script, node.inputs[0], dims, axis, matrix, node.outputs[0])


def _transform(script: Script, x: str, dims: Sequence[int], axis: int, matrix: Array, target: str) -> None:
    """Multiply `x`, with its axis and the complex pair last, by `matrix`: `[extent, pair, count, pair]`."""
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
    """Return `[extent, pair, places, pair]`: the transform of each real and imaginary unit."""
    units = np.eye(extent) if pair == 1 else np.concatenate([np.eye(extent), 1j * np.eye(extent)])
    if inverse and onesided:
        result = np.fft.irfft(units, count, -1)[..., None]
    else:
        spectrum = (np.fft.ifft if inverse else np.fft.fft)(units, count, -1)
        spectrum = spectrum[:, : count // 2 + 1] if onesided else spectrum
        result = np.stack([spectrum.real, spectrum.imag], -1)
    return np.moveaxis(result.reshape(pair, extent, *result.shape[1:]), 0, 1)


def stft(script: Script) -> None:
    """Expand to frames of the signal, times the window, times the matrix of the transform."""
    step, window, given = script.required(1, "the step"), script.known(2, "the window"), script.known(3, "the length")
    n, total, pair = (*script.shape(script.node.inputs[0]), 1)[:3]  # real signals need not say so
    length = int(given.reshape(())) if given is not None else total if window is None else window.size
    starts = np.arange((total - length) // int(step.reshape(())) + 1) * int(step.reshape(()))
    places = script.constant("places", starts[:, None] + np.arange(length))
    signal = script("Reshape", script.node.inputs[0], script.constant("signal", np.array([n, total, pair])))
    framed = script("Gather", signal, places, axis=1)
    if window is not None:
        framed = script("Mul", framed, script.constant("window", window.astype(np.float32).reshape(1, 1, -1, 1)))
    onesided = bool(script.node.attributes.get("onesided", 1)) and pair == 1
    matrix = _dft_matrix(length, length, pair, False, onesided)
    _transform(script, framed, (n, len(starts), length, pair), 2, matrix, script.node.outputs[0])


def tensor_scatter(script: Script) -> None:
    """Expand a cache update at constant positions of one axis per image, linear or circular."""
    cache, update = script.node.inputs[:2]
    dims, new = script.shape(cache), script.shape(update)
    axis: int = script.node.attributes.get("axis", -2) % len(dims)
    given = script.known(2, "the list of places")
    starts = np.zeros(dims[0], np.int64) if given is None else given.astype(np.int64)
    places: Array = starts[:, None] + np.arange(new[axis])
    if script.node.attributes.get("mode", "linear") == "circular":
        places %= dims[axis]
    along = [new[index] if index in (0, axis) else 1 for index in range(len(new))]
    indices = np.broadcast_to(places.reshape(along), new)
    script(
        "ScatterElements", cache, script.constant("places", indices), update, result=script.node.outputs[0], axis=axis
    )


REWRITES: Mapping[str, Callable[[Script], bool | None]] = {
    **ATTENTION,
    **CONTRIBUTED,
    **LEARNED,
    **QLINEAR,
    **SEQUENCES,
    "AffineGrid": affine_grid,
    "Clip": clip,
    "Col2Im": col2im,
    "ConvInteger": conv_integer,
    "DFT": dft,
    "GRU": unroll,
    "GlobalLpPool": global_lp_pool,
    "LSTM": unroll,
    "LpPool": lp_pool,
    "MatMulInteger": matmul_integer,
    "MaxUnpool": max_unpool,
    "RNN": unroll,
    "ReduceLogSum": reduce_log_sum,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceSumSquare": reduce_sum_square,
    "STFT": stft,
    "TensorScatter": tensor_scatter,
    "com.microsoft::DynamicQuantizeLSTM": dynamic_quantize_lstm,
}
