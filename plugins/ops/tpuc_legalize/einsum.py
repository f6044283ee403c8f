"""Einstein summation as matrix products, one operand after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_legalize.composer import MOVES, Composed, Composer, Part
from tpuc_legalize.table import TABLE


@dataclass(frozen=True)
class _Term:
    """A tensor and the labels of its dimensions."""

    labels: str
    value: Value | Array


@TABLE.legalizes(top.Einsum)
class EinsumAny(Composed[top.Einsum]):
    """Labels of both operands that are still needed are batch dimensions; other common ones are summed by the
    product.
    """

    into = (*MOVES, top.MatMul, top.Reduce)

    def refuse(self, node: LoweringNode) -> str | None:
        terms = node.op.mode.partition("->")[0].split(",")
        twice = [term for term in terms if len(set(term)) < len(term)]
        return f"no kernel computes the diagonal of a repeated label, as in {twice[0]}" if twice else None

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        inputs, _, result = node.op.mode.partition("->")
        terms = [
            _Term(labels, part if isinstance(part, Value) else np.asarray(part, np.float32))
            for labels, part in zip(inputs.split(","), parts, strict=True)
        ]
        sizes: dict[str, int] = {}
        for term in terms:
            sizes.update(zip(term.labels, _dims(term.value), strict=True))
        first, *rest = terms
        for index, term in enumerate(rest):
            needed = set(result).union(*(other.labels for other in rest[index + 1 :]))
            first = _product(do, first, term, needed, sizes)
        first = _summed(do, first, set(result))
        value = first.value
        assert isinstance(value, Value), "an einsum of constants alone is one itself"
        return [do.permute(value, *(first.labels.index(label) for label in result), last=True)]


def _dims(value: Value | Array) -> tuple[int, ...]:
    return value.tensor.dims if isinstance(value, Value) else value.shape


def _summed(do: Composer, term: _Term, needed: set[str]) -> _Term:
    """Sum over the labels that are not needed any more."""
    for label in [label for label in term.labels if label not in needed]:
        axis = term.labels.index(label)
        labels = term.labels.replace(label, "")
        if isinstance(term.value, Value):
            term = _Term(labels, do(top.Reduce(axes=(axis,), mode="ReduceSum", keepdims=False), term.value))
        else:
            term = _Term(labels, term.value.sum(axis))
    return term


def _product(do: Composer, left: _Term, right: _Term, needed: set[str], sizes: Mapping[str, int]) -> _Term:
    left = _summed(do, left, needed | set(right.labels))
    right = _summed(do, right, needed | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in needed)
    if not isinstance(left.value, Value) and not batch:
        left, right = right, left  # a constant matrix is the right operand
    inner = "".join(label for label in left.labels if label in right.labels and label not in needed)
    rows = "".join(label for label in left.labels if label not in batch + inner)
    columns = "".join(label for label in right.labels if label not in batch + inner)
    counts = [math.prod(sizes[label] for label in labels) for labels in (batch, rows, inner, columns)]
    shapes = [counts[:3], [counts[0], *counts[2:]]] if batch else [counts[1:3], counts[2:]]
    operands = [
        _matrices(do, left, batch + rows + inner, shapes[0]),
        _matrices(do, right, batch + inner + columns, shapes[1]),
    ]
    dims = [*shapes[0][:-1], counts[3]]
    value = do(top.MatMul(), *operands, None, dims=dims)
    labels = batch + rows + columns
    return _Term(labels, do.reshape(value, *(sizes[label] for label in labels)))


def _matrices(do: Composer, term: _Term, labels: str, dims: Sequence[int]) -> Value | Array:
    """The tensor with its dimensions in the order of `labels`, under another shape."""
    order = [term.labels.index(label) for label in labels]
    if not isinstance(term.value, Value):
        return np.ascontiguousarray(term.value.transpose(order)).reshape(dims)
    return do.reshape(do.permute(term.value, *order), *dims)
