"""Arithmetic of several tensors, and of a tensor with weights along some of its axes."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_caffe.importers.common import (
    TABLE,
    Parameters,
    Shape,
    arrays_of,
    axis_of,
    check_bottoms,
    only_bottom,
    parameters,
)
from tpuc_caffe.weights import Blob

ONE = {"type": "constant", "value": 1.0}


@TABLE.imports("Eltwise")
def eltwise(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an element-wise op on bottoms of one shape."""
    stated = parameters(node, "eltwise_param")
    values = [build.value(name) for name in node.inputs]
    coefficients: Sequence[float] = stated.get("coeff", ())
    operation = stated.get("operation", "SUM")
    if len(values) < 2:
        raise build.refuse(node, "it needs two bottoms or more")
    if len({value.tensor.dims for value in values}) > 1:
        raise build.refuse(node, "its bottoms have different shapes")
    if coefficients and (operation != "SUM" or len(coefficients) != len(values)):
        raise build.refuse(node, f"{len(coefficients)} coefficients do not fit {len(values)} bottoms of a {operation}")
    if operation in ("DIV", "SUB") and len(values) != 2:
        raise build.refuse(node, f"{operation} needs two bottoms")
    plain = all(factor == 1.0 for factor in coefficients)
    ops: dict[str, Op] = {
        "SUM": top.Add() if plain else top.Add(coeff=tuple(coefficients)),
        "PROD": top.Mul(),
        "MAX": top.Max(),
        "MIN": top.Min(),
        "DIV": top.Div(),
        "SUB": top.Sub(),
    }
    return build.build(ops[operation], values, node.outputs[0])


@TABLE.imports("Scale")
def scale(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a multiplication by weights or by a second bottom, and a bias if stated."""
    check_bottoms(node, build, 1, 2)
    stated, x, name = parameters(node, "scale_param"), build.value(node.inputs[0]), node.outputs[0]
    has_bias = stated.get("bias_term", False)
    if len(node.inputs) == 2:
        factors = build.value(node.inputs[1])
        shape = _aligned(x, stated, factors.tensor.dims)
        wide = _covered(x, stated, len(factors.tensor.dims))
        wanted = [Blob("bias", wide, stated.get("bias_filler", {}))] if has_bias else []
        biases = [_spread(x, stated, array) for array in (arrays_of(node, *wanted) if wanted else [])]
        factors = reshape(build, factors, shape, f"{name}_factors")
        result = build.build(top.Mul(), [x, factors], f"{name}_product" if biases else name)
        return _plus(build, result, [build.weight(f"{node.name}_0", bias) for bias in biases], name)
    covered = _covered(x, stated, stated.get("num_axes", 1))
    wanted = [Blob("scale", covered, stated.get("filler", ONE))]
    if has_bias:
        wanted.append(Blob("bias", covered, stated.get("bias_filler", {})))
    arrays = arrays_of(node, *wanted)
    if axis_of(x, stated.get("axis", 1)) == 1 and len(covered) == 1:
        operands = [build.weight(f"{node.name}_{index}", _spread(x, stated, one)) for index, one in enumerate(arrays)]
        return build.build(top.Scale(), [x, *operands, *([build.none()] if len(operands) == 1 else [])], name)
    factor, *biases = (
        build.weight(f"{node.name}_{index}", _spread(x, stated, array)) for index, array in enumerate(arrays)
    )
    result = build.build(top.Mul(), [x, factor], f"{name}_product" if biases else name)
    return _plus(build, result, biases, name)


@TABLE.imports("Bias")
def bias(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the addition of weights or of a second bottom."""
    check_bottoms(node, build, 1, 2)
    stated, x, name = parameters(node, "bias_param"), build.value(node.inputs[0]), node.outputs[0]
    if len(node.inputs) == 2:
        other = build.value(node.inputs[1])
        other = reshape(build, other, _aligned(x, stated, other.tensor.dims), f"{name}_biases")
        return build.build(top.Add(), [x, other], name)
    (array,) = arrays_of(node, Blob("bias", _covered(x, stated, stated.get("num_axes", 1)), stated.get("filler", {})))
    return build.build(top.Add(), [x, build.weight(f"{node.name}_0", _spread(x, stated, array))], name)


@TABLE.imports("Axpy")
def axpy(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ``a * x + y`` with one factor per sample and channel."""
    check_bottoms(node, build, 3)
    factors, x, y = (build.value(name) for name in node.inputs)
    name = node.outputs[0]
    shape = (*x.tensor.dims[:2], *(1,) * (x.tensor.rank - 2))
    factors = reshape(build, factors, shape, f"{name}_factors")
    return build.build(top.Add(), [build.build(top.Mul(), [x, factors], f"{name}_product"), y], name)


@TABLE.imports("Dropout")
def dropout(node: ForeignNode, build: ImportBuilder) -> Value:
    """Identity in the test phase, unless the file leaves the scaling to that phase."""
    x, stated = only_bottom(node, build), parameters(node, "dropout_param")
    if stated.get("scale_train", True):
        return x
    kept = 1.0 - stated.get("dropout_ratio", 0.5)
    return build.build(top.MulConst(const_val=kept), [x], node.outputs[0])


def _covered(x: Value, stated: Parameters, count: int) -> Shape:
    """Return the extents of the axes that a weight covers; empty for a scalar."""
    axis = axis_of(x, stated.get("axis", 1))
    count = x.tensor.rank - axis if count == -1 else count
    if not 0 <= count <= x.tensor.rank - axis:
        raise ValueError(f"{count} axes from axis {axis} on are more than the operand has")
    return x.tensor.dims[axis : axis + count]


def _aligned(x: Value, stated: Parameters, shape: Shape) -> Shape:
    """Return `shape`, which begins at the stated axis, with extent 1 for all other axes."""
    axis = axis_of(x, stated.get("axis", 1)) if shape else 0
    if x.tensor.dims[axis : axis + len(shape)] != shape:
        raise ValueError(f"extents {list(shape)} do not lie along the operand's {list(x.tensor.dims)} from axis {axis}")
    return (1,) * axis + tuple(shape) + (1,) * (x.tensor.rank - axis - len(shape))


def _spread(x: Value, stated: Parameters, array: Array) -> Array:
    return array.reshape(_aligned(x, stated, array.shape))


def _plus(build: ImportBuilder, value: Value, biases: Sequence[Value], name: str) -> Value:
    return build.build(top.Add(), [value, biases[0]], name) if biases else value
