"""Cross-layer equalization: gives filters of neighboring layers equal ranges per channel."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext, drop_unused_weights, remove_dead

from tpuc_quantize.scaling.links import EqualizationOptions, equalise


@dataclass(frozen=True)
class EqualiseWeights(Pass):
    """Where a product feeds products through nothing but relus without limit and pools, channel i of the first is
    divided by ``sqrt(r1[i] / r2[i])`` and multiplied back in the others (r: largest filter value, r1 also the bias).
    Repeated until no factor is further than `tolerance` from 1, at most `rounds` times. Exact up to float rounding;
    calibrate afterwards.
    """

    name = "equalise-weights"
    rounds: int = EqualizationOptions.rounds
    tolerance: float = EqualizationOptions.tolerance

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        changed = bool(equalise(module, EqualizationOptions(self.rounds, self.tolerance)))
        remove_dead(module)
        drop_unused_weights(module)
        return changed
