"""Unary functions, softmax, and related operators."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Op, Uniform
from tpuc_ops import top
from tpuc_ops.quant.lengths import STEPS

from tpuc_tflite.building import NCHW, Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, aligned, axis_of, float_only, images, in_order, unary

_LARGEST = float(np.finfo(np.float32).max)
MOST_NEIGHBORS = 1 << 10
"""Maximum number of channels on one side of a normalization."""

_WITH_LIMITS: dict[str, Op] = {
    "RELU": top.Relu(),
    "RELU6": top.Relu(relu_limit=6.0),
    "RELU_0_TO_1": top.Clip(min=0.0, max=1.0),
    "RELU_N1_TO_1": top.Clip(min=-1.0, max=1.0),
    "SQUARE": top.Pow(exponent=2.0),
}

for _name, _op in _WITH_LIMITS.items():
    TABLE.imports(_name)(unary(lambda _, op=_op: op))

TABLE.imports("LEAKY_RELU")(unary(lambda node: top.LeakyRelu(alpha=float(node.attributes.get("alpha", 0.0)))))


@TABLE.imports("NEG")
def neg(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import the operand times -1."""
    if build.is_quantized():
        raise build.refuse(
            node, "the runtime negates stored integers without regard to scales: export this node as float"
        )
    return unary(lambda _: top.MulConst(const_val=-1.0))(node, build)


@TABLE.imports("GELU")
def gelu(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a GELU, exact or approximated by tanh."""
    mode = "tanh" if node.attributes.get("approximate", False) else "normal"
    return unary(lambda _: top.GELU(approx_mode=mode))(node, build)


@TABLE.imports("PRELU")
def prelu(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a PReLU whose slope broadcasts to the operand."""
    operands, order = aligned(node, build, (0, 1))
    return Arranged(build.build(top.PRelu(), operands, node.outputs[0]), order)


@TABLE.imports("SOFTMAX", "LOG_SOFTMAX")
def softmax(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a softmax along the last foreign dimension."""
    order = build.order(node.inputs[0])
    if not order:
        raise build.refuse(node, "its operand has no dimension")
    log = node.op_type == "LOG_SOFTMAX"
    beta = 1.0 if log else float(node.attributes.get("beta", 1.0))
    op = top.Softmax(axis=order.index(len(order) - 1), beta=beta, log=log)
    return in_order(node, build, op)


@TABLE.imports("L2_NORMALIZATION")
def l2_normalization(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import an L2 normalization of rows; for floats, the runtime bounds the norm below by 1e-6."""
    if build.is_quantized():
        return _quantized_rows(node, build)
    name, order = node.outputs[0], build.order(node.inputs[0])
    axis = order.index(axis_of(node, build, -1))
    x = build.value(node.inputs[0], order)
    norm = build.build(top.Reduce(axes=(axis,), mode="ReduceL2", keepdims=True), [x], f"{name}_norm")
    bounded = build.build(top.Clip(min=1e-6, max=_LARGEST), [norm], f"{name}_bounded")
    inverse = build.build(top.Pow(exponent=-1.0), [bounded], f"{name}_inverse")
    return Arranged(build.build(top.Mul(), [x, inverse], name), order)


def _quantized_rows(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Build one Normalize op, with the last foreign dimension as channels."""
    name, entry = node.outputs[0], build.entry(node.outputs[0])
    rank = axis_of(node, build, -1) + 1
    type = entry.element
    assert isinstance(type, Uniform)
    zero = sum(type.bounds) // 2 + 1
    if (type.scale, type.zero_point) != (1 / STEPS, zero):
        reason = f"its result '{name}' has scale {type.scale} and zero point {type.zero_point}"
        raise build.refuse(node, f"{reason}, but LiteRT uses {1 / STEPS} and {zero}: quantize it that way")
    order = build.order(node.inputs[0])
    if rank == 1 or order.index(rank - 1) != 1:
        order = (0, rank - 1, *range(1, rank - 1)) if rank > 1 else (0,)
    x, one = build.value(node.inputs[0], order), build.weight(f"{name}_scale", np.ones(1, np.float32))
    rows = build.reshape(x, (1, *x.tensor.dims), f"{name}_row") if rank == 1 else x
    result = build.build(
        top.Normalize(), [rows, one], name if rank > 1 else f"{name}_length", [rows.tensor.with_element(type)]
    )
    return Arranged(build.reshape(result, x.tensor.dims, name), order)


@TABLE.imports("LOCAL_RESPONSE_NORMALIZATION")
def lrn(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import an LRN over `radius` channels on each side; alpha applies to each of them."""
    float_only(node, build)
    radius = int(node.attributes.get("radius", 0))
    if not 0 <= radius < MOST_NEIGHBORS:
        raise build.refuse(node, f"its radius is {radius}, but must be below {MOST_NEIGHBORS}")
    size = 2 * radius + 1
    alpha, beta, bias = (float(node.attributes.get(name, 0.0)) for name in ("alpha", "beta", "bias"))
    op = top.LRN(size=size, alpha=alpha * size, beta=beta, bias=bias)
    return Arranged(build.build(op, [images(node, build)], node.outputs[0]), NCHW)
