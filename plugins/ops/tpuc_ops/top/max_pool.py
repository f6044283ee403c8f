"""Maximum pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node

from tpuc_ops import quantized
from tpuc_ops.adjoints import pool_gradient
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.convolution import as_images
from tpuc_ops.pooling import window_maxima
from tpuc_ops.top.pool import Pool
from tpuc_ops.traits import KeepsGrid, PicksElements, TakesResultRange


@dataclass(frozen=True)
class MaxPool(Pool, PicksElements, TakesResultRange, KeepsGrid):
    """The largest element under each window; padding is below every value."""

    name = "top.MaxPool"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.max_pool(self, node, operands)]
        result = window_maxima(as_images(as_float(operands[0])), self.window())
        return [self.activate(result).reshape(node.result_type.dims)]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return [pool_gradient(gradient, operands[0].shape, self.window(), operands[0], result)]
