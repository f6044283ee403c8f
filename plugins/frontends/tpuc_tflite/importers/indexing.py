"""Selection by index, and one-hot vectors."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, ForeignNode, TensorType, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Quantize

from tpuc_tflite.building import Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, axis_of

MOST_CLASSES = 1 << 20
"""Maximum length of a one-hot vector; a greater depth is a damaged number."""


@TABLE.imports("GATHER")
def gather(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a selection along an axis; a single index keeps the order of the other dimensions."""
    if node.attributes.get("batch_dims", 0):
        raise build.refuse(node, "batch_dims other than 0 is not supported: export it with GATHER_ND")
    return _rows(node, build, 0, 1, axis_of(node, build, int(node.attributes.get("axis", 0))))


@TABLE.imports("EMBEDDING_LOOKUP")
def embedding_lookup(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a selection of table rows; the indices come first."""
    return _rows(node, build, 1, 0, 0)


def _rows(node: ForeignNode, build: TfliteBuilder, table: int, which: int, axis: int) -> Value:
    indices = build.constant(node.inputs[which])
    extent = build.shape(node.inputs[table])[axis]
    if indices is None:
        index = build.value(node.inputs[which])
    else:
        _check_range(node, build, indices, extent)
        index = build.weight(f"{node.inputs[which]}_indices", indices if indices.ndim else indices.reshape(1))
    one = indices is not None and indices.ndim == 0
    operands = [build.value(node.inputs[table]), index]
    return build.build(top.Gather(axis=axis, keepdims=not one), operands, node.outputs[0])


@TABLE.imports("GATHER_ND")
def gather_nd(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import a selection; the last dimension of the indices holds one index for each leading dimension."""
    dims, places = build.shape(node.inputs[0]), build.shape(node.inputs[1])
    if not places or not 0 < places[-1] <= len(dims):
        raise build.refuse(node, f"indices of {list(places)} do not fit an operand of {list(dims)}")
    return build.build(top.GatherND(), [build.value(node.inputs[0]), _places(node, build, 1, dims)], node.outputs[0])


@TABLE.imports("SCATTER_ND")
def scatter_nd(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import updates of zeros; several updates of one position are added."""
    if build.is_quantized():
        raise build.refuse(node, "quantized updates are not supported: export this node as float")
    dims = integers(required_constant(node, build, 2, "the result's shape"))
    places = build.shape(node.inputs[0])
    if not places or not 0 < places[-1] <= len(dims) or min(dims) < 1:
        raise build.refuse(node, f"indices of {list(places)} do not fit a result of {list(dims)}")
    zeros = build.weight(f"{node.outputs[0]}_zeros", np.zeros(dims, np.float32))
    operands = [zeros, _places(node, build, 0, dims), build.value(node.inputs[1])]
    return build.build(top.ScatterND(reduction="add"), operands, node.outputs[0])


def _places(node: ForeignNode, build: TfliteBuilder, which: int, dims: tuple[int, ...]) -> Value:
    """Return indices over several dimensions; constant ones are checked."""
    indices = build.constant(node.inputs[which])
    if indices is None:
        return build.value(node.inputs[which])
    for axis in range(indices.shape[-1]):
        _check_range(node, build, indices[..., axis], dims[axis])
    return build.weight(f"{node.inputs[which]}_indices", indices)


def _check_range(node: ForeignNode, build: TfliteBuilder, indices: Array, extent: int) -> None:
    if indices.size and not (indices.min() >= 0 and indices.max() < extent):
        raise build.refuse(node, f"it selects elements {indices.min()} to {indices.max()} of a dimension of {extent}")


@TABLE.imports("ONE_HOT")
def one_hot(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import a new dimension with one value at the index and another one elsewhere; an index outside selects none.

    Indices are compared with all numbers below the depth; constant indices would have been folded.
    """
    depth = integers(required_constant(node, build, 1, "the depth"))[0]
    on, off = (_number(node, build, index, what) for index, what in ((2, "the on value"), (3, "the off value")))
    dims, name = build.shape(node.inputs[0]), node.outputs[0]
    axis = int(node.attributes.get("axis", -1))
    axis = len(dims) if axis == -1 else axis
    if not 0 <= axis <= len(dims) or not 0 < depth <= MOST_CLASSES:
        raise build.refuse(node, f"a depth of {depth} on axis {axis} does not fit {len(dims)} dimensions")
    index = build.reshape(build.value(node.inputs[0]), (*dims[:axis], 1, *dims[axis:]), f"{name}_index")
    shape = [1] * (len(dims) + 1)
    shape[axis] = depth
    places = build.weight(f"{name}_places", np.arange(depth).reshape(shape))
    result = TensorType((*dims[:axis], depth, *dims[axis:]), F32)
    is_last, plain = not build.is_quantized(), (on, off) == (1.0, 0.0)
    hit = build.build(
        top.Compare(mode="Equal"), [index, places], name if is_last and plain else f"{name}_hit", [result]
    )
    if not plain:
        op = top.Where(x_is_const=True, y_is_const=True, x_const_val=on, y_const_val=off)
        hit = build.build(op, [hit, build.none(), build.none()], name if is_last else f"{name}_real", [result])
    if is_last:
        return hit
    return build.build(Quantize(), [hit], name, [TensorType(result.dims, build.entry(name).element)])


def _number(node: ForeignNode, build: TfliteBuilder, index: int, meaning: str) -> float:
    """Return the real value of a one-element constant."""
    required_constant(node, build, index, meaning)
    real = build.real(node.inputs[index])
    if real is None or real.size != 1:
        raise build.refuse(node, f"{meaning} must be a single number")
    return float(real.reshape(()))
