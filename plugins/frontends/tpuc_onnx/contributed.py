"""Expand float operators of ONNX Runtime (com.microsoft) into ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tpuc_ops.arrays import Array

from tpuc_onnx.layouts import channels_first, channels_last
from tpuc_onnx.qlinear import WINDOW, with_summand
from tpuc_onnx.script import Script

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""Activations inside other operators, with the names of their parameters in order."""


def _activated(script: Script, value: str, numbers: Sequence[float]) -> None:
    """Write the node's result: its activation of `value`."""
    result, name = script.node.outputs[0], script.node.attributes.get("activation", "")
    if not name:
        script("Identity", value, result=result)
    elif name == "Clip":
        limits = [script.constant(f"limit{index}", np.float32(number)) for index, number in enumerate(numbers[:2])]
        script("Clip", value, *limits, result=result)
    elif name in _PARAMETERS:
        script(name, value, result=result, **dict(zip(_PARAMETERS[name], numbers, strict=False)))
    else:
        raise script.refused(
            f"activation '{name}' is not supported; the supported ones are Clip, {', '.join(sorted(_PARAMETERS))}"
        )


def fused_conv(script: Script) -> None:
    """Expand a convolution with a summand and an activation."""
    sums = script("Conv", *_operands(script), **script.attributes(*WINDOW))
    if script.has(3):
        sums = script("Add", sums, script.node.inputs[3])
    _activated(script, sums, script.node.attributes.get("activation_params", ()))


def nhwc_conv(script: Script) -> None:
    """Expand a convolution with channels last, also in the filter."""
    x, w, *bias = _operands(script)
    rank = len(script.shape(x))
    operands = [channels_first(script, x, rank), channels_first(script, w, rank), *bias]
    result = script("Conv", *operands, **script.attributes(*WINDOW))
    channels_last(script, result, rank, script.node.outputs[0])


def nhwc_max_pool(script: Script) -> None:
    """Expand a maximum pool with channels last."""
    x = script.node.inputs[0]
    rank = len(script.shape(x))
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    result = script("MaxPool", channels_first(script, x, rank), **script.attributes(*names))
    channels_last(script, result, rank, script.node.outputs[0])


def fused_matmul(script: Script) -> None:
    """Expand a product of transposed factors, times a number."""
    factors = [
        _transposed(script, name, *(bool(script.node.attributes.get(f"{kind}{side}", 0)) for kind in _TRANSPOSED))
        for name, side in zip(script.node.inputs, "AB", strict=True)
    ]
    alpha, result = script.node.attributes.get("alpha", 1.0), script.node.outputs[0]
    if alpha == 1.0:
        script("MatMul", *factors, result=result)
        return
    script("Mul", script("MatMul", *factors), script.constant("alpha", np.float32(alpha)), result=result)


_TRANSPOSED = ("transBatch", "trans")


def _transposed(script: Script, name: str, by_batch: bool, last: bool) -> str:
    """Transpose with `transBatch`: move the first dimension before the last one."""
    rank = len(script.shape(name))
    if rank < 2 or not (by_batch or last):
        return name
    order = [*range(1, rank - 1), 0, rank - 1] if by_batch else list(range(rank))
    if last:
        order[-2:] = order[:-3:-1]
    return script("Transpose", name, perm=order)


def fused_gemm(script: Script) -> None:
    """Expand Gemm and an activation."""
    result = script("Gemm", *_operands(script), **script.attributes("alpha", "beta", "transA", "transB"))
    given = (script.node.attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    _activated(script, result, [number for number in given if number is not None])


def fast_gelu(script: Script) -> None:
    """Expand the tanh approximation of GELU, with an optional bias."""
    script("Gelu", _with_bias(script), result=script.node.outputs[0], approximate="tanh")


def gelu(script: Script) -> None:
    """Expand GELU by the error function, with an optional bias."""
    script("Gelu", _with_bias(script), result=script.node.outputs[0])


def quick_gelu(script: Script) -> None:
    """Expand the sigmoid approximation of GELU."""
    x = script.node.inputs[0]
    alpha = script.constant("alpha", np.float32(script.node.attributes.get("alpha", 1.702)))
    script("Mul", x, script("Sigmoid", script("Mul", x, alpha)), result=script.node.outputs[0])


def bias_split_gelu(script: Script) -> None:
    """Expand the first half of the last dimension times the GELU of the second."""
    left, right = script.many("Split", _with_bias(script), count=2, axis=-1, num_outputs=2)
    script("Mul", left, script("Gelu", right), result=script.node.outputs[0])


def _with_bias(script: Script) -> str:
    x = script.node.inputs[0]
    return script("Add", x, script.node.inputs[1]) if script.has(1) else x


def bias_add(script: Script) -> None:
    """Expand the sum of operand, bias, and skip connection."""
    script("Add", script("Add", *script.node.inputs[:2]), script.node.inputs[2], result=script.node.outputs[0])


def skip_layer_normalization(script: Script) -> None:
    """Expand the layer normalization of a sum, which may be a result too."""
    total, affine = _skipped(script, 4), [script.node.inputs[2]]
    if script.has(3):
        affine.append(script.node.inputs[3])
    outputs = (*script.node.outputs, "", "")[:3]
    script.append("LayerNormalization", [total, *affine], outputs, axis=-1, epsilon=_epsilon(script))


def skip_simplified(script: Script) -> None:
    """As `skip_layer_normalization`, without means."""
    total = _skipped(script, 3)
    script("RMSNormalization", total, script.node.inputs[2], result=script.node.outputs[0], epsilon=_epsilon(script))


def _skipped(script: Script, bias: int) -> str:
    target = script.node.outputs[3] if len(script.node.outputs) > 3 else ""
    if not script.has(bias):
        return script("Add", *script.node.inputs[:2], result=target)
    return script("Add", script("Add", *script.node.inputs[:2]), script.node.inputs[bias], result=target)


def _epsilon(script: Script) -> float:
    return script.node.attributes.get("epsilon", 1e-12)


def simplified_layer_normalization(script: Script) -> None:
    """Expand RMSNormalization under ONNX Runtime's name."""
    x, scale = script.node.inputs[:2]
    script("RMSNormalization", x, scale, result=script.node.outputs[0], **script.attributes("axis", "epsilon"))


def embed_layer_normalization(script: Script) -> None:
    """Expand the normalized sum of word, position, and segment embeddings, and the number of words in each mask."""
    ids, segments, words, places, kinds, gamma, beta = script.node.inputs[:7]
    count, length = script.shape(ids)
    positions = script.node.inputs[8] if script.has(8) else script.constant("positions", np.arange(length)[None])
    total = script("Add", script("Gather", words, ids), script("Gather", places, positions))
    outputs = (*script.node.outputs, "", "")[:3]
    if segments:
        total = script("Add", total, script("Gather", kinds, segments))
    if outputs[2]:
        total = script("Identity", total, result=outputs[2])
    script("LayerNormalization", total, gamma, beta, result=outputs[0], axis=-1, epsilon=_epsilon(script))
    if outputs[1] and script.has(7):
        script("ReduceSum", script.node.inputs[7], script.constant("last", [1]), result=outputs[1], keepdims=0)
    elif outputs[1]:
        script.types.constants[outputs[1]] = np.zeros(count, np.int32)


def matmul_nbits(script: Script) -> None:
    """Expand a product with a constant matrix `[columns, rows]` whose rows share scales in blocks."""
    if script.has(4):
        raise script.refused("rows in an order other than that of their blocks (g_idx) are not supported")
    attributes = script.node.attributes
    rows, columns, size, bits = attributes["K"], attributes["N"], attributes["block_size"], attributes.get("bits", 4)
    blocks = -(-rows // size)
    stored = _unpacked(script.required(1, "the matrix").reshape(columns, -1), bits)
    scale = script.required(2, "the list of scales").astype(np.float32).reshape(columns, blocks)
    zero = script.known(3, "the list of zero points")
    if zero is None:
        zero = np.full((columns, blocks), 1 << bits - 1, np.float32)
    elif zero.dtype == np.uint8:
        zero = _unpacked(zero.reshape(columns, -1), bits)[:, :blocks]
    zero = zero.reshape(columns, blocks)
    stored, scale, zero = (np.ascontiguousarray(array.T) for array in (stored[:, :rows], scale, zero))
    kind = helper.tensor_dtype_to_np_dtype(_KINDS[bits]) if bits in _KINDS else None
    if kind is not None and zero.dtype == np.float32 and (zero == zero.astype(np.uint8)).all():
        parts = [script.constant(f"part{i}", array) for i, array in enumerate((stored.astype(kind), scale))]
        parts.append(script.constant("zero", zero.astype(kind)))
        matrix = script("DequantizeLinear", *parts, axis=0, block_size=size)
    else:
        spread = (np.repeat(array.astype(np.float32), size, 0)[:rows] for array in (scale, zero))
        matrix = script.constant("matrix", _scaled(stored, *spread))
    with_summand(script, "MatMul", [script.node.inputs[0], matrix], 5)


_KINDS = {4: TensorProto.UINT4, 8: TensorProto.UINT8}
"""Types of stored integers by their bits."""


def _scaled(stored: Array, scale: Array, zero: Array) -> Array:
    return (stored - zero) * scale


def _unpacked(array: Array, bits: int) -> Array:
    """Unpack numbers of `bits`, lowest bits first, to floats."""
    places = np.unpackbits(array, axis=-1, bitorder="little")
    places = places[:, : places.shape[1] // bits * bits].reshape(len(array), -1, bits)
    weights: Array = 1 << np.arange(bits)
    return (places * weights).sum(-1).astype(np.float32)


def _operands(script: Script) -> list[str]:
    """Return both factors and the summand, if there is one."""
    return [name for name in script.node.inputs[:3] if name]


CONTRIBUTED: Mapping[str, Callable[[Script], Any]] = {
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "com.microsoft::BiasAdd": bias_add,
    "com.microsoft::BiasGelu": gelu,
    "com.microsoft::BiasSplitGelu": bias_split_gelu,
    "com.microsoft::EmbedLayerNormalization": embed_layer_normalization,
    "com.microsoft::FastGelu": fast_gelu,
    "com.microsoft::FusedConv": fused_conv,
    "com.microsoft::FusedGemm": fused_gemm,
    "com.microsoft::FusedMatMul": fused_matmul,
    "com.microsoft::Gelu": gelu,
    "com.microsoft::MatMulNBits": matmul_nbits,
    "com.microsoft::NhwcConv": nhwc_conv,
    "com.microsoft::NhwcMaxPool": nhwc_max_pool,
    "com.microsoft::QuickGelu": quick_gelu,
    "com.microsoft::SimplifiedLayerNormalization": simplified_layer_normalization,
    "com.microsoft::SkipLayerNormalization": skip_layer_normalization,
    "com.microsoft::SkipSimplifiedLayerNormalization": skip_simplified,
    "com.microsoft::TransposeMatMul": fused_matmul,
}
