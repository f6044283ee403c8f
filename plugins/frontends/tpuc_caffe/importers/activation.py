"""Unary functions and softmax."""

from __future__ import annotations

import math

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_importing.operands import chain
from tpuc_ops import top

from tpuc_caffe.importers.common import LARGEST, TABLE, arrays_of, axis_of, only_bottom, parameters, unary
from tpuc_caffe.weights import Blob


@TABLE.imports("ReLU")
def relu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a ReLU, with a slope for negative values if stated."""
    slope = parameters(node, "relu_param").get("negative_slope", 0.0)
    return unary(node, build, top.LeakyRelu(alpha=slope) if slope else top.Relu())


@TABLE.imports("ReLU6")
def relu6(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a ReLU with an upper limit of 6."""
    return unary(node, build, top.Relu(relu_limit=6.0))


@TABLE.imports("PReLU")
def prelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a PReLU with one slope per channel, or a single one."""
    x, stated = only_bottom(node, build), parameters(node, "prelu_param")
    filler = stated.get("filler", {"type": "constant", "value": 0.25})
    if stated.get("channel_shared", False):
        (slope,) = arrays_of(node, Blob("slope", (1,), filler))
        return build.build(top.LeakyRelu(alpha=float(slope[0])), [x], node.outputs[0])
    (slope,) = arrays_of(node, Blob("slope", (x.tensor.dims[1],), filler))
    weight = build.weight(f"{node.name}_0", slope.reshape(1, -1, *(1,) * (x.tensor.rank - 2)))
    return build.build(top.PRelu(), [x, weight], node.outputs[0])


@TABLE.imports("ELU")
def elu(node: ForeignNode, build: ImportBuilder) -> Value:
    """``alpha * (exp(x) - 1)`` below 0."""
    return unary(node, build, top.Elu(alpha=parameters(node, "elu_param").get("alpha", 1.0)))


@TABLE.imports("Clip")
def clip(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a clip to two bounds."""
    stated = parameters(node, "clip_param")
    return unary(node, build, top.Clip(min=stated.get("min", -LARGEST), max=stated.get("max", LARGEST)))


@TABLE.imports("Swish")
def swish(node: ForeignNode, build: ImportBuilder) -> Value:
    """``x * sigmoid(beta x)``."""
    x, name = only_bottom(node, build), node.outputs[0]
    beta = parameters(node, "swish_param").get("beta", 1.0)
    if beta == 1.0:
        return build.build(top.SiLU(), [x], name)
    gate = chain(build, x, [top.MulConst(const_val=beta), top.Sigmoid()], f"{name}_gate")
    return build.build(top.Mul(), [x, gate], name)


@TABLE.imports("Threshold")
def threshold(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a threshold: 1 above a number, else 0."""
    number = parameters(node, "threshold_param").get("threshold", 0.0)
    return unary(node, build, top.CompareConst(mode="Greater", const_val=number))


@TABLE.imports("Power")
def power(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ``(shift + scale x) ** power``; steps without effect are omitted."""
    stated = parameters(node, "power_param")
    exponent = stated.get("power", 1.0)
    ops = _affine(stated.get("scale", 1.0), stated.get("shift", 0.0))
    ops += [top.Pow(exponent=exponent)] if exponent != 1.0 else []
    return chain(build, only_bottom(node, build), ops, node.outputs[0])


@TABLE.imports("Exp")
def exp(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ``base ** (shift + scale x)``; base -1 means e."""
    stated = parameters(node, "exp_param")
    factor = _log_of_base(node, build, stated.get("base", -1.0))
    ops = _affine(factor * stated.get("scale", 1.0), factor * stated.get("shift", 0.0))
    return chain(build, only_bottom(node, build), [*ops, top.Exp()], node.outputs[0])


@TABLE.imports("Log")
def log(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ``log(shift + scale x)``; base -1 means e."""
    stated = parameters(node, "log_param")
    factor = _log_of_base(node, build, stated.get("base", -1.0))
    if factor == 0.0:
        raise build.refuse(node, "a logarithm to base 1 does not exist")
    ops = [*_affine(stated.get("scale", 1.0), stated.get("shift", 0.0)), top.Log(), *_affine(1.0 / factor, 0.0)]
    return chain(build, only_bottom(node, build), ops, node.outputs[0])


@TABLE.imports("Softmax")
def softmax(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a softmax along one axis."""
    x = only_bottom(node, build)
    axis = axis_of(x, parameters(node, "softmax_param").get("axis", 1))
    return build.build(top.Softmax(axis=axis), [x], node.outputs[0])


def _affine(scale: float, shift: float) -> list[Op]:
    ops: list[Op] = [top.MulConst(const_val=scale)] if scale != 1.0 else []
    return [*ops, top.AddConst(const_val=shift)] if shift else ops


def _log_of_base(node: ForeignNode, build: ImportBuilder, base: float) -> float:
    if base == -1.0:
        return 1.0
    if not base > 0:
        raise build.refuse(node, f"base {base:g} must be positive, or -1 for e")
    return math.log(base)
