"""Import Einstein summation, as matrix products where possible."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import permute, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE


@TABLE.imports("Einsum")
def einsum(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a sum over one operand, a product of two, or a general `Einsum`."""
    values = [build.value(name) for name in node.inputs]
    terms, result = _terms(node, build, [value.tensor.rank for value in values])
    name = node.outputs[0]
    if all(len(set(term)) == len(term) for term in (*terms, result)):
        if len(values) == 1 and set(result) <= set(terms[0]):
            return _arranged(build, _summed(build, values[0], terms[0], result, name), terms[0], result, name)
        if len(values) == 2 and _is_product(terms, result, values):
            return _product(build, values, terms, result, name)
    return build.build(top.Einsum(mode=f"{','.join(terms)}->{result}"), values, name)


def _terms(node: ForeignNode, build: ImportBuilder, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of every operand and of the result, with letters instead of dots."""
    equation = node.attributes["equation"].replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise build.refuse(node, f"equation '{equation}' has {len(terms)} operands, but the node has {len(ranks)}")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    dots = "".join(free[: max(widths, default=0)])
    spelled = [
        term.replace("...", dots[len(dots) - width :] if width else "")
        for term, width in zip(terms, widths, strict=True)
    ]
    if not arrow:
        letters = sorted({letter for term in terms for letter in term.replace("...", "")})
        result = "..." + "".join(letter for letter in letters if left.count(letter) == 1)
    return spelled, result.replace("...", dots)


def _is_product(terms: Sequence[str], result: str, values: Sequence[Value]) -> bool:
    """True if no label of extent 1 broadcasts, and every label of only one operand is in the result."""
    left, right = terms
    sizes = dict(zip(left, values[0].tensor.dims, strict=True))
    same = all(sizes.get(label, size) == size for label, size in zip(right, values[1].tensor.dims, strict=True))
    return same and set(result) <= {*left, *right} and set(left) ^ set(right) <= set(result)


def _product(build: ImportBuilder, values: Sequence[Value], terms: Sequence[str], result: str, name: str) -> Value:
    """Build a matrix product: common labels in the result are batch dimensions, the others are summed."""
    left, right = terms
    sizes = dict(zip((*left, *right), (*values[0].tensor.dims, *values[1].tensor.dims), strict=True))
    batch = [label for label in result if label in left and label in right]
    inner = [label for label in left if label in right and label not in result]
    rows = [label for label in result if label in left and label not in right]
    columns = [label for label in result if label in right and label not in left]

    def extent(labels: Sequence[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    lead = (extent(batch),) if batch else ()
    first = _grouped(
        build, values[0], left, [*batch, *rows, *inner], (*lead, extent(rows), extent(inner)), f"{name}_left"
    )
    second = _grouped(
        build, values[1], right, [*batch, *inner, *columns], (*lead, extent(inner), extent(columns)), f"{name}_right"
    )
    product = build.build(top.MatMul(), [first, second, build.none()], f"{name}_product")
    labels = "".join([*batch, *rows, *columns])
    spread = reshape(build, product, tuple(sizes[label] for label in labels), f"{name}_spread")
    return _arranged(build, spread, labels, result, name)


def _grouped(
    build: ImportBuilder, value: Value, term: str, order: Sequence[str], shape: tuple[int, ...], name: str
) -> Value:
    moved = permute(build, value, [term.index(label) for label in order], f"{name}_order")
    return reshape(build, moved, shape, name)


def _summed(build: ImportBuilder, value: Value, term: str, result: str, name: str) -> Value:
    axes = tuple(index for index, label in enumerate(term) if label not in result)
    if not axes:
        return value
    return build.build(top.Reduce(axes=axes, mode="ReduceSum", keepdims=False), [value], f"{name}_sum")


def _arranged(build: ImportBuilder, value: Value, term: str, result: str, name: str) -> Value:
    left = [label for label in term if label in result]
    return permute(build, value, [left.index(label) for label in result], name)
