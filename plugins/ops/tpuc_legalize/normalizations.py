"""Normalizations by sums over channels, computed as convolutions: Normalize, LRN; BatchNorm with given statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.top.normalize import EPSILON

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, compute_type
from tpuc_legalize.table import TABLE

_POINT = top.Conv(kernel_shape=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))


def _images(dims: Sequence[int]) -> tuple[int, int, int, int]:
    """Any tensor with channels as images."""
    if len(dims) == 4:
        return (dims[0], dims[1], dims[2], dims[3])
    return (dims[0], dims[1], math.prod(dims[2:]), 1)


@TABLE.legalizes(top.Normalize)
class NormalizeAny(Composed[top.Normalize]):
    """Squares, their sum by a convolution with ones or over whole samples, and the reciprocal square root."""

    into = (*MOVES, top.AddConst, top.Conv, top.Mul, top.Pow, top.Reduce)

    def refuse(self, node: LoweringNode) -> str | None:
        return "the scale must be a constant" if node.constants[1] is None else None

    def compose(self, node: LoweringNode[top.Normalize], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        value, scale = node.operands[0], node.constants[1]
        assert scale is not None
        dims = value.tensor.dims
        images = _images(dims)
        x = do.reshape(value, *images)
        squares = do(top.Mul(), x, x)
        if node.op.across_spatial:
            rows = do.reshape(squares, dims[0], 1, 1, math.prod(dims[1:]))
            total = do(top.Reduce(axes=(3,), mode="ReduceSum"), rows)
        else:
            total = do(_POINT, squares, np.ones((1, images[1], 1, 1), np.float32), None)
        root = do(top.Pow(exponent=-0.5), do(top.AddConst(const_val=EPSILON), total))
        scaled = do(top.Mul(), x, root)
        factors = np.broadcast_to(scale.reshape(-1), (images[1],)).reshape(1, -1, 1, 1)
        result = do(top.Mul(), scaled, np.ascontiguousarray(factors), last=images == dims)
        return [result if images == dims else do.reshape(result, *dims, last=True)]


@TABLE.legalizes(top.LRN)
class LRNAny(Composed[top.LRN]):
    """Squares of neighboring channels are summed by a convolution whose filter is a band of ones."""

    into = (*MOVES, top.Conv, top.Mul, top.Pow)

    def compose(self, node: LoweringNode[top.LRN], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        dims = node.operands[0].tensor.dims
        images = _images(dims)
        x = do.reshape(node.operands[0], *images)
        squares = do(top.Mul(), x, x)
        band = _band(images[1], op.size) * np.float32(op.alpha / op.size)
        bias = np.full((images[1],), op.bias, np.float32)
        total = do(_POINT, squares, band[:, :, None, None], bias)
        if op.beta == 0.75 and compute_type(node) != "f32":  # a short logarithm is less exact than roots
            root = do(top.Pow(exponent=-0.5), total)
            factors = do(top.Mul(), root, do(top.Pow(exponent=0.5), root))
        else:
            factors = do(top.Pow(exponent=-op.beta), total)
        result = do(top.Mul(), x, factors, last=images == dims)
        return [result if images == dims else do.reshape(result, *dims, last=True)]


def _band(channels: int, size: int) -> Array:
    """`[channel, neighbor]`: 1 where the neighbor is one of `size` around the channel."""
    distance = np.arange(channels) - np.arange(channels)[:, None]
    before = (size - 1) // 2
    return ((distance >= -before) & (distance < size - before)).astype(np.float32)


@TABLE.legalizes(top.BatchNorm)
class BatchNormAny(Composed[top.BatchNorm]):
    """Compute by differences and products; BatchNorms with constant statistics were already folded into a Scale or a
    convolution.
    """

    into = (*MOVES, top.Add, top.AddConst, top.Mul, top.Pow, top.Relu, top.Sub)

    def compose(self, node: LoweringNode[top.BatchNorm], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        rank = len(node.operand_types[0].dims)
        shape = (1, -1, *(1,) * (rank - 2))

        def per_channel(part: Part) -> Part:
            if isinstance(part, Value):
                return do.reshape(part, *(part.tensor.size if extent < 0 else extent for extent in shape))
            return None if part is None else np.asarray(part, np.float32).reshape(shape)

        x, mean, variance, gamma, beta = (*parts, None, None)[:5]
        mean, gamma, beta = (per_channel(part) for part in (mean, gamma, beta))
        value = do(top.Sub(), x, mean)
        root: Part = per_channel(variance)
        if isinstance(root, Value):
            root = do(top.Pow(exponent=-0.5), do(top.AddConst(const_val=op.epsilon), root))
        else:
            root = 1 / np.sqrt(np.asarray(root, np.float32) + np.float32(op.epsilon))
        steps: list[tuple[type[top.Mul | top.Add], Part]] = [(top.Mul, root), (top.Mul, gamma), (top.Add, beta)]
        present = [(kind, part) for kind, part in steps if part is not None]
        for index, (kind, part) in enumerate(present):
            value = do(kind(), value, part, last=index == len(present) - 1 and not op.do_relu)
        return [do(top.Relu(relu_limit=op.relu_limit), value, last=True) if op.do_relu else value]
