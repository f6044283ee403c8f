"""Average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node

from tpuc_ops import quantized
from tpuc_ops.adjoints import pool_gradient
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.convolution import as_images
from tpuc_ops.pooling import window_counts, window_sums
from tpuc_ops.top.pool import Pool


@dataclass(frozen=True)
class AvgPool(Pool, quantized.Rescales):
    """The mean under each window; padding has the value `pad_value` and counts only with `count_include_pad`."""

    name = "top.AvgPool"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.average_pool(self, node, operands)]
        window = self.window()
        pad_value = self.pad_value if self.count_include_pad else 0
        sums = window_sums(as_images(as_float(operands[0])), window, pad_value)
        mean = sums / window_counts(self.size(node), window, self.count_include_pad)
        return [self.activate(mean).reshape(node.result_type.dims)]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return [pool_gradient(gradient / self.window().taps, operands[0].shape, self.window())]
