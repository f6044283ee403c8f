"""Replace the casts that express a network's quantization by types."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext, Pattern, StringAttr, apply_patterns, drop_unused_weights, remove_dead
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize
from tpuc_optimize.canonicalization.common import Names

from tpuc_prequantized.affine import AffineIntoFilter
from tpuc_prequantized.casts import CastsFromStated, CastsOfCasts, EqualCasts, StoredInputs
from tpuc_prequantized.common import CHIP_BITS, has_scales
from tpuc_prequantized.integers import ComputeIntegers, ReluIntoIntegers
from tpuc_prequantized.moves import (
    CastsBeforeMoves,
    MovesBeforeCasts,
    RealBeforeMoves,
    WeightsAsFloats,
    WeightsMoved,
)

_STATED = (top.QuantizeLinear, top.DequantizeLinear, Dequantize)
"""The ops that express quantization, which the pass removes."""


@dataclass(frozen=True)
class AbsorbQuantization(Pass):
    """QuantizeLinear and DequantizeLinear become the quantized types of values, and ops between them compute on
    integers. Casts remain where the network really computes in floats.

    Raises InvalidModel for scales that contradict each other or are not positive.
    """

    name = "absorb-quantization"

    def run(self, module: Module, context: PassContext) -> bool:
        if not any(isinstance(operation.op, _STATED) for operation in module.walk()):
            return False
        names = Names(module)
        from_stated = CastsFromStated(names)
        patterns: list[Pattern] = [
            RealBeforeMoves(names),
            from_stated,
            StoredInputs(),
            WeightsMoved(names),
            AffineIntoFilter(names),
            MovesBeforeCasts(names),
            CastsOfCasts(),
            EqualCasts(),
            ComputeIntegers(names),
            CastsBeforeMoves(names),
            ReluIntoIntegers(names),
        ]
        while apply_patterns(module, patterns, constant=top.Weight(), absent=top.None_()):
            remove_dead(module)
        apply_patterns(module, [WeightsAsFloats()], constant=top.Weight(), absent=top.None_())
        drop_unused_weights(module)
        for function in module.functions:
            function.update_type()
        if wide := len(from_stated.wide):
            are = "value is" if wide == 1 else "values are"
            context.remark(
                f"{module.name}: {wide} {are} quantized to more than {CHIP_BITS} bits: compiled as floats with the "
                "same limits, without rounding"
            )
        if has_scales(module):
            module.attributes["module.state"] = StringAttr("TOP_QUANTIZED")
        return True
