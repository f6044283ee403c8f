"""Matrix products and sums of products."""

from __future__ import annotations

import math
import string

import numpy as np
from tpuc.api import ForeignNode
from tpuc_ops import top
from tpuc_tflite.building import Results

from tpuc_tensorflow.importers.building import TensorflowBuilder
from tpuc_tensorflow.importers.common import TABLE


@TABLE.imports("MatMul")
def matmul(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a product; a constant second operand is a layer's filter."""
    left, right = node.inputs
    if node.attributes.get("transpose_a", False):
        left = build.turned(node, left, (1, 0), "left")
    turned = bool(node.attributes.get("transpose_b", False))
    if build.constant(right) is not None and build.constant(left) is None:
        rows = right if turned else build.turned(node, right, (1, 0), "filter")
        return build.through("FULLY_CONNECTED", node, (left, rows))
    return build.through("BATCH_MATMUL", node, (left, right), {"adj_y": turned})


@TABLE.imports("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a batched product; `adj_x` and `adj_y` exchange the last two dimensions."""
    names = ("adj_x", "adj_y")
    return build.through("BATCH_MATMUL", node, attributes={name: node.attributes.get(name, False) for name in names})


@TABLE.imports("Einsum")
def einsum(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import an Einsum: a layer along the last dimensions becomes a matrix product, everything else is general."""
    terms, result = _terms(node, build)
    if len(terms) == 2 and build.constant(node.inputs[1]) is not None and build.constant(node.inputs[0]) is None:
        shared = _layer(terms, result)
        if shared:
            return _as_layer(node, build, shared, len(terms[1]) - shared)
    values = [build.value(name) for name in node.inputs]
    return build.build(top.Einsum(mode=f"{','.join(terms)}->{result}"), values, node.outputs[0])


def _layer(terms: list[str], result: str) -> int:
    """Return how many last labels of the left are the first ones of the right, if exactly these are summed; else 0."""
    left, right = terms
    for count in range(1, min(len(left), len(right)) + 1):
        if left[-count:] == right[:count] and result == left[:-count] + right[count:]:
            return count
    return 0


def _as_layer(node: ForeignNode, build: TensorflowBuilder, shared: int, free: int) -> Results:
    dims, array = build.shape(node.inputs[0]), build.constant(node.inputs[1])
    assert array is not None
    depth = math.prod(array.shape[:shared])
    outer = dims[: len(dims) - shared]
    rows = build.constant_tensor(node, np.array((math.prod(outer), depth), np.int32), "rows/shape")
    flat = build.inner("RESHAPE", node, (node.inputs[0], rows), "rows")
    weight = build.constant_tensor(node, np.ascontiguousarray(array.reshape(depth, -1).T), "filter")
    product = build.inner("FULLY_CONNECTED", node, (flat, weight), "product")
    wanted = (*outer, *array.shape[shared : shared + free])
    shape = build.constant_tensor(node, np.array(wanted, np.int32), "shape")
    return build.through("RESHAPE", node, (product, shape))


def _terms(node: ForeignNode, build: TensorflowBuilder) -> tuple[list[str], str]:
    """Return the labels of every operand and of the result, with letters instead of dots."""
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(node.inputs):
        raise build.refuse(node, f"equation '{equation}' does not fit {len(node.inputs)} operands and one result")
    ranks = [len(build.shape(name)) for name in node.inputs]
    free = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [rank - len(term.replace("...", "")) for rank, term in zip(ranks, terms, strict=True)]
    dots = "".join(free[: max([w for w, term in zip(widths, terms, strict=True) if "..." in term], default=0)])
    spelled = [
        term.replace("...", dots[len(dots) - width :] if width else "")
        for term, width in zip(terms, widths, strict=True)
    ]
    return spelled, result.replace("...", dots)
