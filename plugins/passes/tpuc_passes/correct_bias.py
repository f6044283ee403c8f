"""Takes the mean error of int8 products out through their biases."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tpuc.api import (
    CalibrationError,
    FusesRelu,
    Module,
    Pass,
    PassContext,
    UsageError,
    drop_unused_weights,
    remove_dead,
)
from tpuc.api.host import Array, inputs_of, open_samples
from tpuc_ops.top.matmul import MatMul

from tpuc_passes.accuracy.network import FakeNetwork, State
from tpuc_passes.accuracy.rescale import constant, set_constant
from tpuc_passes.import_calibration import ImportCalibration
from tpuc_passes.propagate_calibration import PropagateCalibration


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Layer after layer: the mean difference per channel between the float network and the fake-quantised one, both on
    the same `input_num` samples, is added to the bias; later layers see what earlier ones have been corrected to.

    Thresholds come from the file `table`, or from `context.results["calibration_table"]`, and stay valid.
    """

    name = "correct-bias"
    dataset: str = ""
    data_list: str = ""
    table: str = ""
    input_num: int = 16

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError without samples, CalibrationError without thresholds."""
        if not (self.dataset or self.data_list):
            raise UsageError("pass 'correct-bias' needs samples: correct-bias{dataset=DIR,table=FILE}")
        if not self.table and "calibration_table" not in context.results:
            raise CalibrationError("pass 'correct-bias' needs thresholds: correct-bias{dataset=DIR,table=FILE}")
        calibrated = module.clone()
        ImportCalibration(self.table).run(calibrated, context)
        PropagateCalibration().run(calibrated, context)
        chip = context.chip.description if context.chip is not None else None
        net = FakeNetwork(calibrated, chip)
        dataset, data_list = (Path(text) if text else None for text in (self.dataset, self.data_list))
        samples = list(open_samples(inputs_of(module), dataset, data_list, self.input_num))
        exact, rounded = ([net.start(sample) for sample in samples] for _ in range(2))
        operations = {operation.name: operation for operation in module.main.operations if operation.results}
        changed = False
        steps = context.progress(list(enumerate(net.plan.steps)), "correcting biases", len(net.plan.steps))
        for index, step in steps:
            operation = operations.get(step.operation.name)
            if operation is not None and net.is_product(index) and len(step.operands) > 2:
                shift = _mean_error(net, index, exact, rounded)
                bias = constant(module, operation, 2)
                corrected = shift if bias is None else (bias.reshape(-1) + shift).reshape(bias.shape)
                set_constant(module, operation, 2, corrected)
                net.override(index, 2, np.asarray(corrected, np.float32))
                changed = True
            for state, integer in (*((one, False) for one in exact), *((one, True) for one in rounded)):
                net.run_step(index, state, integer=integer)
                for slot in step.frees:
                    state.values[slot] = None
        remove_dead(module)
        drop_unused_weights(module)
        return changed


def _mean_error(net: FakeNetwork, index: int, exact: list[State], rounded: list[State]) -> Array:
    """Per channel, before the relu: float minus int8, averaged over samples and places."""
    step = net.plan.steps[index]
    op = step.operation.op
    plain = dataclasses.replace(op, do_relu=False) if isinstance(op, FusesRelu) else op  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses
    axis = -1 if isinstance(op, MatMul) else 1
    sums: list[Array] = []
    for one, other in zip(exact, rounded, strict=True):
        wanted, got = (
            np.moveaxis(plain.evaluate(step.node, net.operands(index, state, integer=integer))[0], axis, 0)
            for state, integer in ((one, False), (other, True))
        )
        sums.append((wanted - got).reshape(wanted.shape[0], -1).mean(axis=1, dtype=np.float64))
    return np.mean(sums, axis=0)
