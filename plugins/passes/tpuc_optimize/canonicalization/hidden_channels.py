"""Apply constants that mask channels after the product that computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Location, Operation, Pattern, Rewriter
from tpuc_ops import top

from tpuc_optimize.canonicalization.affine import bias_of, output_axis
from tpuc_optimize.canonicalization.common import Names, new_weight
from tpuc_optimize.canonicalization.masks import HIDDEN, hides_channels


@dataclass(frozen=True)
class MaskOutOfProduct(Pattern):
    """``x @ w + b`` with a `b` that masks channels becomes ``(x @ w + c) + m`` with the mask `m`: a product whose scale
    covers both would have one step for all scores.
    """

    names: Names
    matches = (top.Conv, top.MatMul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        axis, bias = output_axis(operation), bias_of(operation, rewriter.module)
        if axis is None or bias is None or op.do_relu or not hides_channels(bias, operation):
            return False
        shape = [-1 if index == axis else 1 for index in range(operation.result.tensor.rank)]
        location, uses = operation.location, list(operation.result.uses)
        rewriter.at(operation)
        hidden = bias <= -HIDDEN
        mask = np.where(hidden, bias, 0).reshape(shape)
        rest = new_weight(rewriter, self.names, f"{operation.name}_bias", np.where(hidden, 0, bias))
        weight = new_weight(rewriter, self.names, f"{operation.name}_mask", mask)
        rewriter.set_operand(operation, 2, rest)
        rewriter.change(operation, op, Location((self.names.new(f"{operation.name}_scores"),)))
        masked = Operation(top.Add(), [operation.result, weight], [operation.result.type], location)
        rewriter.insert_after(operation, masked)
        for user, index in uses:
            rewriter.set_operand(user, index, masked.result)
        return True
