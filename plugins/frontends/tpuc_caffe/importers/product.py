"""Matrix products and embeddings."""

from __future__ import annotations

import math

from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top

from tpuc_caffe.importers.common import TABLE, arrays_of, axis_of, check_bottoms, only_bottom, parameters
from tpuc_caffe.weights import TRAINABLE, Blob


@TABLE.imports("InnerProduct")
def inner_product(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a fully connected layer; everything from `axis` on is one vector."""
    x, stated = only_bottom(node, build), parameters(node, "inner_product_param")
    axis, outputs = axis_of(x, stated.get("axis", 1)), stated.get("num_output", 0)
    if outputs < 1:
        raise build.refuse(node, "it does not state its outputs (num_output)")
    name, dims = node.outputs[0], x.tensor.dims
    depth = math.prod(dims[axis:])
    shape = (depth, outputs) if stated.get("transpose", False) else (outputs, depth)
    wanted = [Blob("matrix", shape, stated.get("weight_filler", TRAINABLE))]
    if stated.get("bias_term", True):
        wanted.append(Blob("bias", (outputs,), stated.get("bias_filler", {})))
    matrix, *bias = arrays_of(node, *wanted)
    matrix = matrix if stated.get("transpose", False) else matrix.T
    operands = [build.weight(f"{node.name}_0", matrix)]
    operands += [build.weight(f"{node.name}_1", array) for array in bias] or [build.none()]
    x = reshape(build, x, (math.prod(dims[:axis]), depth), f"{name}_vectors")
    result = (*dims[:axis], outputs)
    inner = name if len(result) == 2 else f"{name}_2d"
    return reshape(build, build.build(top.MatMul(), [x, *operands], inner), result, name)


@TABLE.imports("MatMul")
def matrix_product(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a product over the last two dimensions of both bottoms."""
    check_bottoms(node, build, 2)
    stated = parameters(node, "matmul_param")
    left, right = (build.value(name) for name in node.inputs)
    for name in ("dim_1", "dim_2", "dim_3", "blob_num"):
        if name in stated:
            raise build.refuse(node, f"{name} is not supported: reshape the bottoms to matrices")
    left_turned, right_turned = stated.get("transpose_a", False), stated.get("transpose_b", False)
    op = top.MatMul(left_transpose=left_turned, right_transpose=right_turned)
    return build.build(op, [left, right, build.none()], node.outputs[0])


@TABLE.imports("Embed")
def embed(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a lookup of table rows by index."""
    x, stated = only_bottom(node, build), parameters(node, "embed_param")
    rows, outputs = stated.get("input_dim", 0), stated.get("num_output", 0)
    if min(rows, outputs) < 1:
        raise build.refuse(node, "it does not state the extents of its table (input_dim, num_output)")
    wanted = [Blob("table", (rows, outputs), stated.get("weight_filler", TRAINABLE))]
    if stated.get("bias_term", True):
        wanted.append(Blob("bias", (outputs,), stated.get("bias_filler", {})))
    table, *bias = arrays_of(node, *wanted)
    name = node.outputs[0]
    gathered = f"{name}_rows" if bias else name
    type = TensorType((*x.tensor.dims, outputs), x.tensor.element)
    value = build.build(top.Gather(axis=0), [build.weight(f"{node.name}_0", table), x], gathered, [type])
    if not bias:
        return value
    full = bias[0].reshape((1,) * x.tensor.rank + (outputs,))
    return build.build(top.Add(), [value, build.weight(f"{node.name}_1", full)], name)
