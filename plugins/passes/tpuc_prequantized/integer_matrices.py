"""Products with matrices of small integers, where nothing computes them as such: products of the floats they mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    Module,
    Operation,
    Pass,
    PassContext,
    Pattern,
    Rewriter,
    TensorType,
    apply_patterns,
    drop_unused_weights,
)
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_optimize.canonicalize import Canonicalize

from tpuc_prequantized.drop_dynamic_quantization import DropDynamicQuantization, drop_dynamic_quantization

STORED_AS = "_integers"
"""What follows the matrix's name in that of its integers."""


@dataclass(frozen=True)
class ExpandMatrices(Pass):
    """Products whose matrix is stored as integers become products of floats, unless the chip lowers them in this mode.

    Calibration and remedies then see the network that they see where the matrix was stored as floats.
    """

    name = "expand-matrices"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        if not any(isinstance(one.op, top.A16MatMul) for one in module.main.operations):
            return False
        chip = context.chip.description if context.chip is not None else None
        if chip is not None:
            mode = str(context.options.get("quantize") or "") or chip.float_mode or ""
            if context.registry.lowering(chip, top.A16MatMul, mode) is not None:
                return False
        changed = apply_patterns(module, [ProductOfFloats()], constant=top.Weight(), absent=top.None_())
        if changed:
            Canonicalize().run(module, context)
            drop_unused_weights(module)
        return changed


class ProductOfFloats(Pattern):
    """Multiply with the floats that the integers mean."""

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op = operation.op
        if not isinstance(op, top.A16MatMul) or op.weight_bits == 16:
            return False
        x, *tables, bias = operation.operands
        if not all(value.is_constant for value in operation.operands[1:] if isinstance(value.type, TensorType)):
            return False
        weight, scale, zp = (rewriter.module.weights[value.name] for value in tables)
        matrix: Array = np.ascontiguousarray(op.real(weight, scale, zp, x.tensor.dims[-1]).T)
        right = rewriter.weight(tables[0].name.removesuffix(STORED_AS), matrix)
        result = operation.result
        rewriter.replace(operation, rewriter.build(top.MatMul(), [x, right, bias], result.type, result.name))
        return True


def to_floats(module: Module, context: PassContext) -> None:
    """Run the passes that calibration and lowering begin with."""
    ExpandMatrices().run(module, context)
    DropDynamicQuantization().run(module, context)


def of_floats(module: Module, context: PassContext) -> Module:
    """A copy of a module in which nothing is quantized while it runs, or the module itself where there is nothing."""
    if not any(isinstance(one.op, (top.A16MatMul, top.DynamicQuantizeLinear)) for one in module.main.operations):
        return module
    copy = module.clone()
    ExpandMatrices().run(copy, context)
    drop_dynamic_quantization(copy, context)
    return copy
