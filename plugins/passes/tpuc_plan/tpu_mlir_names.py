"""Passes with TPU-MLIR's names and options, for pipelines written as text."""

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
    """Does nothing: weights are packed for the tiles that load them, which `layer-group` does."""

    name = "weight-reorder"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; the module is unchanged."""
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
    """Alias of `assign-addresses`."""

    name = "address-assign"


@dataclass(frozen=True)
class Codegen(GenerateCode):
    """`generate-code`; writes the compiled file to `model_file` if it is given."""

    name = "codegen"
    model_file: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CannotWrite if the file cannot be written."""
        changed = super().run(module, context)
        if self.model_file:
            write_atomic(Path(self.model_file), context.result(ARTIFACT))
        return changed
