"""A network that is quantised with zero points becomes a calibrated one, for chips whose integers have none."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Calibrated, Module, Pass, PassContext, ScalarType, StringAttr, Uniform, Value

from tpuc_passes.quantised import (
    bypass_casts,
    changes_to_products,
    computed_values,
    dequantise_weights,
    has_scales,
)

_F32 = ScalarType("f32")


@dataclass(frozen=True)
class RequantiseSymmetric(Pass):
    """Every value gets the range that its integers span as calibration, every weight the numbers it stands for.

    The chip then quantises symmetrically. A remark says how many values lose resolution, and how much the worst does:
    a range that lies to one side of 0 is widened to the other side, unless it never crosses 0.
    """

    name = "requantise-symmetric"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; a network without scales stays as it is."""
        if not has_scales(module):
            return False
        changes_to_products(module)
        dequantise_weights(module)
        coarser = [self._calibrate(value) for value in computed_values(module)]
        bypass_casts(module)
        module.main.update_type()
        module.attributes["module.state"] = StringAttr("TOP_CALIBRATED")
        losing = [ratio for ratio in coarser if ratio > 1.0]
        if losing:
            context.remark(
                f"{module.name}: quantised with zero points, made symmetric: {len(losing)} of {len(coarser)} values "
                f"get steps up to {max(losing):.2f} times as large"
            )
        return True

    @staticmethod
    def _calibrate(value: Value) -> float:
        """How many times as large a symmetric step is as the old one; 1 for what was no integer."""
        element = value.tensor.element
        if not isinstance(element, Uniform):
            return 1.0
        low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
        value.type = value.tensor.with_element(Calibrated(_F32, low, high))
        steps = element.bounds[1] - element.bounds[0]
        symmetric = max(-low, high) / (steps if low >= 0 else steps // 2)
        return symmetric / element.scale
