"""Normalisations by sums over channels, which are convolutions: Normalize, LRN; BatchNorm with statistics as given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops.arrays import Array
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.batch_norm import BatchNorm
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.lrn import LRN
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.normalize import EPSILON, Normalize
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.sub import Sub

from tpuc_legalise.composer import MOVES, Composed, Composer, Part
from tpuc_legalise.table import TABLE

_POINT = Conv(kernel_shape=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))


def _images(dims: Sequence[int]) -> tuple[int, int, int, int]:
    """Any tensor with channels as images."""
    if len(dims) == 4:
        return (dims[0], dims[1], dims[2], dims[3])
    return (dims[0], dims[1], math.prod(dims[2:]), 1)


@TABLE.legalises(Normalize)
class NormalizeAny(Composed[Normalize]):
    """Squares, their sum by a convolution with ones or over whole samples, and the reciprocal root."""

    into = (*MOVES, AddConst, Conv, Mul, Pow, Reduce)

    def refuse(self, node: LoweringNode) -> str | None:
        return "the scale must be a constant" if node.constants[1] is None else None

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: Normalize = node.op
        value, scale = node.operands[0], node.constants[1]
        assert scale is not None
        dims = value.tensor.dims
        images = _images(dims)
        x = do.reshape(value, *images)
        squares = do(Mul(), x, x)
        if op.across_spatial:
            rows = do.reshape(squares, dims[0], 1, 1, math.prod(dims[1:]))
            total = do(Reduce(axes=(3,), mode="ReduceSum"), rows)
        else:
            total = do(_POINT, squares, np.ones((1, images[1], 1, 1), np.float32), None)
        root = do(Pow(exponent=-0.5), do(AddConst(const_val=EPSILON), total))
        scaled = do(Mul(), x, root)
        factors = np.broadcast_to(scale.reshape(-1), (images[1],)).reshape(1, -1, 1, 1)
        result = do(Mul(), scaled, np.ascontiguousarray(factors), last=images == dims)
        return [result if images == dims else do.reshape(result, *dims, last=True)]


@TABLE.legalises(LRN)
class LRNAny(Composed[LRN]):
    """Squares of neighbouring channels are summed by a convolution whose filter is a band of ones."""

    into = (*MOVES, Conv, Mul, Pow)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: LRN = node.op
        dims = node.operands[0].tensor.dims
        images = _images(dims)
        x = do.reshape(node.operands[0], *images)
        squares = do(Mul(), x, x)
        band = _band(images[1], op.size) * np.float32(op.alpha / op.size)
        bias = np.full((images[1],), op.bias, np.float32)
        total = do(_POINT, squares, band[:, :, None, None], bias)
        factors = do(Pow(exponent=-op.beta), total)
        result = do(Mul(), x, factors, last=images == dims)
        return [result if images == dims else do.reshape(result, *dims, last=True)]


def _band(channels: int, size: int) -> Array:
    """`[channel, neighbour]`: 1 where the neighbour is one of `size` around the channel."""
    distance = np.arange(channels) - np.arange(channels)[:, None]
    before = (size - 1) // 2
    return ((distance >= -before) & (distance < size - before)).astype(np.float32)


@TABLE.legalises(BatchNorm)
class BatchNormAny(Composed[BatchNorm]):
    """By differences and products: statistics that are constant became a Scale or part of a convolution before."""

    into = (*MOVES, Add, AddConst, Mul, Pow, Relu, Sub)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: BatchNorm = node.op
        rank = len(node.operand_types[0].dims)
        shape = (1, -1, *(1,) * (rank - 2))

        def per_channel(part: Part) -> Part:
            if isinstance(part, Value):
                return do.reshape(part, *(part.tensor.size if extent < 0 else extent for extent in shape))
            return None if part is None else np.asarray(part, np.float32).reshape(shape)

        x, mean, variance, gamma, beta = (*parts, None, None)[:5]
        mean, gamma, beta = (per_channel(part) for part in (mean, gamma, beta))
        value = do(Sub(), x, mean)
        root: Part = per_channel(variance)
        if isinstance(root, Value):
            root = do(Pow(exponent=-0.5), do(AddConst(const_val=op.epsilon), root))
        else:
            root = 1 / np.sqrt(np.asarray(root, np.float32) + np.float32(op.epsilon))
        steps: list[tuple[type[Mul | Add], Part]] = [(Mul, root), (Mul, gamma), (Add, beta)]
        present = [(kind, part) for kind, part in steps if part is not None]
        for index, (kind, part) in enumerate(present):
            value = do(kind(), value, part, last=index == len(present) - 1 and not op.do_relu)
        return [do(Relu(relu_limit=op.relu_limit), value, last=True) if op.do_relu else value]
