"""Positions of elements: extremes, top-k, one-hot vectors, triangles, cumulative sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import constant_input, required_constant, reshape
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE

AXIS_ALONE_SINCE = 13
"""Before this opset, hardmax ran over all dimensions from `axis` on."""
_LARGEST_SPREAD = 2.0**14
"""The difference of two values up to this is finite in every float type."""


@TABLE.imports("ArgMax", "ArgMin")
def arg(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the index of an extreme, the first result of `Arg`."""
    x = build.value(node.inputs[0])
    op = top.Arg(
        axis=node.attributes.get("axis", 0) % x.tensor.rank,
        keepdims=node.attributes.get("keepdims", 1) == 1,
        mode=node.op_type,
        select_last_index=bool(node.attributes.get("select_last_index", 0)),
    )
    return build.build(op, [x], node.outputs[0])


@TABLE.imports("TopK")
def top_k(node: ForeignNode, build: OnnxBuilder) -> Sequence[Value]:
    """Import TopK; k is an attribute up to opset 9, a constant operand later."""
    x = build.value(node.inputs[0])
    count = constant_input(node, build, 1, "the number of elements")
    op = top.TopK(
        axis=node.attributes.get("axis", -1) % x.tensor.rank,
        K=int(node.attributes["k"] if count is None else count.reshape(())),
        largest=bool(node.attributes.get("largest", 1)),
        sorted=bool(node.attributes.get("sorted", 1)),
    )
    return build.build_all(op, [x], node.outputs)


@TABLE.imports("Hardmax")
def hardmax(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import Hardmax: 1 at the first largest element, else 0."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    x, old = build.value(node.inputs[0]), node.version < AXIS_ALONE_SINCE
    axis = node.attributes.get("axis", 1 if old else -1) % len(shape)
    if old:
        x = reshape(build, x, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))), f"{name}_rows")
        axis = 1
    place = build.build(top.Arg(axis=axis), [x], f"{name}_place")
    return reshape(
        build, _marked(build, place, x.tensor.dims[axis], axis, f"{name}_flat" if old else name), shape, name
    )


def _marked(build: ImportBuilder, places: Value, depth: int, axis: int, name: str) -> Value:
    """Return 1 where the index along `axis` equals the one in `places`, whose extent there is 1."""
    indices = np.arange(depth, dtype=np.float32).reshape((-1,) + (1,) * (places.tensor.rank - axis - 1))
    row = build.weight(f"{name}_indices", indices.reshape((1,) * axis + indices.shape))
    return build.build(top.Compare(mode="Equal"), [places, row], name)


@TABLE.imports("OneHot")
def one_hot(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import OneHot: along a new axis, one element has the second value and the others the first."""
    name, indices = node.outputs[0], build.value(node.inputs[0])
    depth = required_constant(node, build, 1, "the depth")
    values = required_constant(node, build, 2, "the pair of values")
    count = int(depth.reshape(()))
    axis = node.attributes.get("axis", -1) % (indices.tensor.rank + 1)
    dims = (*indices.tensor.dims[:axis], 1, *indices.tensor.dims[axis:])
    negative = build.build(top.CompareConst(mode="Less", const_val=0.0), [indices], f"{name}_negative")
    shift = build.build(top.MulConst(const_val=float(count)), [negative], f"{name}_shift")
    places = build.build(top.Add(), [indices, shift], f"{name}_positive")
    marked = _marked(build, reshape(build, places, dims, f"{name}_places"), count, axis, f"{name}_marked")
    off, on = (float(value) for value in values.reshape(-1))
    if max(abs(off), abs(on)) > _LARGEST_SPREAD:
        chosen = top.Where(x_is_const=True, y_is_const=True, x_const_val=on, y_const_val=off)
        return build.build(chosen, [marked, build.none(), build.none()], name)
    spread = build.build(top.MulConst(const_val=on - off), [marked], f"{name}_spread")
    return build.build(top.AddConst(const_val=off), [spread], name)


@TABLE.imports("Trilu")
def trilu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a triangle with a constant diagonal."""
    diagonal = constant_input(node, build, 1, "the number of the diagonal")
    op = top.Trilu(
        upper=node.attributes.get("upper", 1),
        diagonal=0 if diagonal is None else int(diagonal.reshape(())),
    )
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("CumSum", "CumProd")
def cumulative(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a cumulative sum or product along a constant axis."""
    x, axis = build.value(node.inputs[0]), required_constant(node, build, 1, "the axis")
    op = top.CumSum if node.op_type == "CumSum" else top.CumProd
    made = op(
        axis=int(axis.reshape(())) % x.tensor.rank,
        exclusive=bool(node.attributes.get("exclusive", 0)),
        reverse=bool(node.attributes.get("reverse", 0)),
    )
    return build.build(made, [x], node.outputs[0])
