"""Correct the mean error of int8 products through their biases."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import (
    CALIBRATION_TABLE,
    QUANTIZE_TABLE,
    Module,
    Pass,
    PassContext,
    remove_unused,
)
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import inputs_of, open_pool, open_samples
from tpuc_ops import top

from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.remedies.bias_correction import SHIFTS, apply_shifts, find_shifts, observe
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.annotations import annotated
from tpuc_quantize.tables.table import CalibrationTable, as_table


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Add the mean difference per channel between the float network and the fake-quantized one to the bias.

    The differences are those that `tpuc calibrate` wrote to the table (the file `table`, or the result
    `calibration_table`); with `dataset` or `data_list` they are computed on `input_num` samples. Without a table, as in
    the float modes, nothing changes. Float layers of the quantize table are not corrected.
    """

    name = "correct-bias"
    dataset: str = ""
    data_list: str = ""
    table: str = ""
    input_num: int = 16

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError when annotations of the table do not fit the network."""
        table = as_table(self.table or context.find(CALIBRATION_TABLE))
        if table is None:
            return False
        floats = context.find(QUANTIZE_TABLE, {})
        shifts = self._find(module, context) if self.dataset or self.data_list else annotated_shifts(module, table)
        changed = apply_shifts(module, shifts, floats)
        if changed:
            remove_unused(module)
        return changed

    def _find(self, module: Module, context: PassContext) -> dict[str, Array]:
        calibrated = calibrated_copy(module, context, self.table)
        dataset, data_list = (Path(text) if text else None for text in (self.dataset, self.data_list))
        samples = list(open_samples(inputs_of(module), dataset, data_list, self.input_num, context.registry))
        chip = context.chip.description if context.chip is not None else None
        with open_pool() as pool:
            net = FakeNetwork(calibrated, chip)
            watched = context.progress(pool.here(functools.partial(observe, net), samples), "floats", len(samples))
            return find_shifts(net, samples, list(watched), pool, context.progress)


def annotated_shifts(module: Module, table: CalibrationTable) -> dict[str, Array]:
    """The shifts in a table by op name; raises CalibrationError when they belong to another network."""
    channels = {
        operation.name: operation.operands[2].tensor.size
        if operation.operands[2].name
        else operation.result.tensor.dims[-1 if isinstance(operation.op, top.MatMul) else 1]
        for operation in module.main.operations
        if len(operation.operands) == 3 and operation.results and operation.result.tensor.rank > 1
    }
    return annotated(module, table, SHIFTS, "bias shifts", channels)
