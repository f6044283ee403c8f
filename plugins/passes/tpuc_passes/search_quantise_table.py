"""Finds the layers whose quantisation costs most accuracy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CALIBRATION_TABLE, QUANTISE_SEARCH, QUANTISE_TABLE, Module, Pass, PassContext
from tpuc.api.host import PortableModule, inputs_of, open_pool, open_samples, units_of

from tpuc_passes.accuracy.search import LayerLoss, Point, Search, quiet
from tpuc_passes.accuracy.sensitivity import MixedJob, SensitivityJob, candidates, rounded, sources, total, ways
from tpuc_passes.correct_bias import noted_shifts
from tpuc_passes.keep_tail_float import KeepTailFloat
from tpuc_passes.lowering.cells import Cells
from tpuc_passes.planning.kernels import chip_of
from tpuc_passes.propagate_calibration import calibrated_copy
from tpuc_passes.results import FLOAT_SUMS
from tpuc_passes.scale_channels import MODES, noted_elements


@dataclass(frozen=True)
class SearchQuantiseTable(Pass):
    """Each layer alone in the integer mode gives its loss, and each value alone on its grid its noise. Then layers are
    put in `float_mode`, to at most `max_float_layers`: in each step all those around the value whose rounding, or the
    one whose filters cost most per layer. A value is rounded until all that compute and read it are float, so single
    layers often gain nothing. That is reckoned from single noises, because trials of mixed networks differ by chance
    as much as by what is float. The networks found are run, all in one fake-quantised graph, on the last `input_num`
    samples (0: all): to the first ones tuning and biases have been fitted.

    Thresholds come from the result `calibration_table`, the mode is the option `quantize` of the run. Leaves a
    `Search` in the result `quantise_search`; the module does not change.
    """

    name = "search-quantise-table"
    dataset: str = ""
    data_list: str = ""
    input_num: int = 10
    max_float_layers: int = 5
    float_mode: str = ""
    workers: int = 0
    cluster: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError without thresholds or samples."""
        chip = chip_of(context, self.name).description
        mode = str(context.options.get("quantize") or "int8")
        float_mode = self.float_mode or chip.float_mode or mode
        calibrated = calibrated_copy(module, context)
        KeepTailFloat().run(calibrated, context)
        table = context.result(CALIBRATION_TABLE)
        shifts = noted_shifts(module, table)
        dataset, data_list = (Path(text) if text else None for text in (self.dataset, self.data_list))
        everything = open_samples(inputs_of(module), dataset, data_list, registry=context.registry)
        samples = dataclasses.replace(everything, samples=everything.samples[-self.input_num :])
        floats = frozenset(context.find(QUANTISE_TABLE, {}))
        elements = (
            noted_elements(calibrated, table, Cells.of(context, self.name, mode), floats) if mode in MODES else {}
        )
        float_sums = frozenset(context.find(FLOAT_SUMS, ()))
        network = PortableModule(calibrated, context.registry)
        units = units_of(len(samples), 1)  # few samples, much work each
        with open_pool(self.workers, self.cluster, context.registry) as pool:
            common = (network, samples, chip, mode, floats, shifts, elements, float_sums)
            single = SensitivityJob(*common)
            net, _ = single.open()
            layers = candidates(net)
            results = context.progress(pool.map(single, units), "searching: single layers", len(units))
            scores = total(results, len(layers) + len(rounded(net)))
            losses = [
                LayerLoss(step.operation.name, step.operation.op.name, -one.sqnr_db, one.cosine)
                for one, step in zip(scores, (net.plan.steps[layer] for layer in layers), strict=False)
            ]
            losses.sort(key=lambda layer: -layer.loss)  # stable: equal losses stay in the order of the network

            found = sources(net, scores)
            choices = ((), *quiet(found, ways(net, found, elements), self.max_float_layers))
            job = MixedJob(*common, tuple(map(frozenset, choices)))
            results = context.progress(pool.map(job, units), "searching: mixed networks", len(units))
            points = tuple(
                Point(one, mixed.cosine, -mixed.sqnr_db)
                for one, mixed in zip(choices, total(results, len(choices)), strict=True)
            )
        context.leave(QUANTISE_SEARCH, Search(chip.name, mode, float_mode, len(samples), tuple(losses), points))
        return False
