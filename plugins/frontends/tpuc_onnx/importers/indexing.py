"""Selection and replacement of elements by computed or constant indices."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import check_places, required_constant
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_onnx.importers.common import TABLE


@TABLE.imports("GatherElements")
def gather_elements(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import GatherElements along one axis."""
    x, indices = (build.value(name) for name in node.inputs)
    axis = int(node.attributes.get("axis", 0)) % x.tensor.rank
    check_places(node, build, 1, x.tensor.dims[axis])
    return build.build(top.GatherElements(axis=axis), [x, indices], node.outputs[0])


@TABLE.imports("GatherND")
def gather_nd(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import GatherND over the leading axes."""
    op = top.GatherND(batch_dims=node.attributes.get("batch_dims", 0))
    _check_rows(node, build, op.batch_dims)
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("Scatter", "ScatterElements")
def scatter_elements(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ScatterElements along one axis."""
    x, indices, updates = (build.value(name) for name in node.inputs)
    axis = int(node.attributes.get("axis", 0)) % x.tensor.rank
    check_places(node, build, 1, x.tensor.dims[axis])
    op = top.ScatterElements(axis=axis, reduction=node.attributes.get("reduction", "none"))
    return build.build(op, [x, indices, updates], node.outputs[0])


@TABLE.imports("ScatterND")
def scatter_nd(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ScatterND over the leading axes."""
    _check_rows(node, build, 0)
    op = top.ScatterND(reduction=node.attributes.get("reduction", "none"))
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


def _check_rows(node: ForeignNode, build: ImportBuilder, first: int) -> None:
    """Rows of constant indices have to lie inside the axes from `first`."""
    count = build.shape(node.inputs[1])[-1]
    check_places(node, build, 1, build.shape(node.inputs[0])[first : first + count])


@TABLE.imports("ReverseSequence")
def reverse_sequence(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import ReverseSequence with constant lengths, as a selection by constant indices."""
    x = build.value(node.inputs[0])
    lengths = required_constant(node, build, 1, "the list of lengths")
    batch: int = node.attributes.get("batch_axis", 1)
    time: int = node.attributes.get("time_axis", 0)
    dims = x.tensor.dims
    steps: Array = np.arange(dims[time])
    origins: Array = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    shape = tuple(extent if axis in (batch, time) else 1 for axis, extent in enumerate(dims))
    origins = (origins if batch < time else origins.T).reshape(shape)
    indices = build.weight(f"{node.outputs[0]}_origins", np.broadcast_to(origins, dims))
    return build.build(top.GatherElements(axis=time), [x, indices], node.outputs[0])
