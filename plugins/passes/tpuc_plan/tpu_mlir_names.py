"""Passes with the names and options of TPU-MLIR, for pipelines written as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tpuc.api import ARTIFACT, Module, Pass, PassContext, write_atomic

from tpuc_plan.assign_addresses import AssignAddresses
from tpuc_plan.generate_code import GenerateCode
from tpuc_plan.group_layers import GroupLayers
from tpuc_plan.pack_weights import PackWeights


@dataclass(frozen=True)
class WeightReorder(Pass):
    """Weights are packed for the tiles that load them, so `layer-group` does it; before it nothing is to be done."""

    name = "weight-reorder"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; changes nothing."""
        return False


@dataclass(frozen=True)
class LayerGroup(GroupLayers):
    """`group-layers`, then `pack-weights`."""

    name = "layer-group"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        return super().run(module, context) | PackWeights().run(module, context)


@dataclass(frozen=True)
class AddressAssign(AssignAddresses):
    """`assign-addresses`."""

    name = "address-assign"


@dataclass(frozen=True)
class Codegen(GenerateCode):
    """`generate-code`; the compiled file is `model_file`."""

    name = "codegen"
    model_file: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CannotWrite where the file cannot be written."""
        changed = super().run(module, context)
        if self.model_file:
            write_atomic(Path(self.model_file), context.result(ARTIFACT))
        return changed
