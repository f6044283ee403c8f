"""Requantize a network with zero points for chips whose integers have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tpuc.api import (
    F32,
    QUANTIZE_TABLE,
    Calibrated,
    Module,
    NetworkInput,
    Pass,
    PassContext,
    StringAttr,
    Uniform,
    Value,
)
from tpuc_lower.lowering.cells import Cells
from tpuc_ops import top
from tpuc_ops.quant.casts import Quantize

from tpuc_prequantized.between_casts import computed_from_integers
from tpuc_prequantized.common import (
    bypass_casts,
    changes_to_products,
    computed_values,
    has_scales,
    network_inputs,
)
from tpuc_prequantized.limited import keep_limits
from tpuc_prequantized.stored_inputs import given_as_stored, keep_own_type, take_integers
from tpuc_prequantized.stored_weights import dequantize_weights
from tpuc_prequantized.zero_points import kept_elements


@dataclass(frozen=True)
class RequantizeSymmetric(Pass):
    """Values keep their integers where 0 is the lowest of them, or the middle, or where the surrounding ops fold zero
    points into biases and tables. So do inputs that are only quantized, where the result `stored_inputs` allows it:
    casts of these chips are symmetric, and round halves differently from the network. All others get the range of
    their integers as calibration, which the chip quantizes symmetrically. Filters keep their integers, other weights
    become real numbers.

    A remark tells how many values lose resolution, and the largest loss: a range on one side of 0 is widened to the
    other side.
    """

    name = "requantize-symmetric"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; a network without scales stays unchanged. Without a chip no zero point is kept."""
        if not has_scales(module):
            return False
        changes_to_products(module)
        dequantize_weights(module, but_filters=context.chip is not None)
        cells = None if context.chip is None else Cells.of(context, self.name, "int8")
        integer_ops = set[str]() if cells is None else computed_from_integers(module, cells)
        floats, as_given = _made_of_floats(module, integer_ops), given_as_stored(module, context)
        bypass_casts(module)
        kept: dict[Value, Uniform] = {}
        if cells is not None:
            kept = kept_elements(module, cells, floats - as_given.keys())
        for operation in network_inputs(module):
            kept.pop(operation.operands[0], None)
            if (element := kept.get(operation.result)) is not None:
                if as_given[operation.result] is None:
                    element = keep_own_type(operation, kept, module)
                kept[operation.operands[0]] = element
                take_integers(operation, element, as_given[operation.result], module, context)
        _round_moved_averages(module, kept)
        modes = dict(context.find(QUANTIZE_TABLE, {}))
        clipped = keep_limits(module, kept, modes, cells)
        context.leave(QUANTIZE_TABLE, modes)
        divisor = None if context.chip is None else context.chip.description.symmetric_divisor
        ratios = {
            value: self._settle(value, kept.get(value), value in floats, divisor)
            for value in list(computed_values(module))
        }
        coarser = [ratio for value, ratio in ratios.items() if value not in clipped]
        module.main.update_type()
        module.attributes["module.state"] = StringAttr("TOP_CALIBRATED")
        losing = [ratio for ratio in coarser if ratio > 1.0]
        if losing:
            context.remark(
                f"{module.name}: zero points are removed (symmetric quantization): {len(losing)} of {len(coarser)} "
                f"values get steps up to {max(losing):.2f} times as large"
            )
        return True

    @staticmethod
    def _settle(value: Value, kept: Uniform | None, made_of_floats: bool, divisor: int | None) -> float:
        """The ratio by which the step of the value grows; 1 for values that keep it or were no integers."""
        element = value.tensor.element
        if not isinstance(element, Uniform):
            return 1.0
        if kept is not None:
            value.type = value.tensor.with_element(kept)
            return 1.0
        low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
        steps = element.bounds[1] - element.bounds[0]
        below, above = (steps // 2 + 1) * element.scale, (steps // 2) * element.scale
        if made_of_floats and -low <= below + element.scale and above / 2 < high <= above + element.scale:
            # A cast saturates; one step beyond its end does not make all the others larger.
            low, high = -below, above
        symmetric = max(-low, high) / (steps if low >= 0 else steps // 2)
        if divisor is not None and low < 0 and high > below:
            high *= divisor / (steps // 2)  # the largest integer may be a step below the threshold
        value.type = value.tensor.with_element(Calibrated(F32, low, high))
        return symmetric / element.scale


def _round_moved_averages(module: Module, kept: Mapping[Value, Uniform]) -> None:
    """Average signed integers as unsigned ones: halves below 0 still round down. Halves above 0 are in the upper half
    of the range of a value that is never negative, and rare.
    """
    for operation in module.main.operations:
        if not isinstance(operation.op, top.AvgPool) or not operation.result.tensor.is_quantized:
            continue
        value = operation.operands[0]
        even = operation.op.round_mode == "HalfToEven"
        if not even and value in kept and kept[value].storage.is_unsigned != value.tensor.storage.is_unsigned:
            operation.op = replace(operation.op, round_mode="HalfDown")


def _made_of_floats(module: Module, integer_ops: Collection[str]) -> set[Value]:
    """Values that a cast from floats makes integers, now or later; ops with these names return integers directly."""
    inputs = {*module.main.inputs}
    for operation in module.main.operations:
        if isinstance(operation.op, NetworkInput):
            inputs.add(operation.result)
        elif isinstance(operation.op, Quantize) and not operation.operands[0].tensor.is_quantized:
            made = operation.operands[0].defining
            if made is None or made.name not in integer_ops:
                inputs.add(operation.operands[0])
    return inputs
