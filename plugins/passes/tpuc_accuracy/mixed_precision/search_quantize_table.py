"""Find the layers whose quantization costs most accuracy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CALIBRATION_TABLE, QUANTIZE_SEARCH, QUANTIZE_TABLE, Module, Pass, PassContext
from tpuc_driver.api.host import PortableModule, SampleSource, distinct, inputs_of, open_pool, open_samples
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import FLOAT_SUMS
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.remedies.correct_bias import annotated_shifts
from tpuc_quantize.remedies.keep_masks_float import KeepMasksFloat
from tpuc_quantize.remedies.keep_tail_float import KeepTailFloat
from tpuc_quantize.remedies.round_weights import annotated_filters
from tpuc_quantize.remedies.scale_channels import MODES, annotated_elements
from tpuc_quantize.simulation.network import FakeNetwork

from tpuc_accuracy.mixed_precision.evaluations import Evaluations
from tpuc_accuracy.mixed_precision.search import Search
from tpuc_accuracy.mixed_precision.sensitivity import SensitivityJob


@dataclass(frozen=True)
class SearchQuantizeTable(Pass):
    """Each layer alone in the integer mode gives its loss, and each value alone on its grid its noise. Then layers are
    set to `float_mode`, at most `max_float_layers`: in each step all those around the value whose rounding, or the
    one whose filters, cost most per layer. A value is rounded until all ops that compute and read it are float, so
    single layers often gain nothing. Single noises decide, because runs of mixed networks differ by chance as much
    as by their float layers. The networks found are evaluated, all in one fake-quantized graph, on the last
    `input_num` samples (0: all): tuning and biases have been fitted to the first ones.

    With a result `latency` the points are the Pareto front of noise and latency: of the subsets of twelve layers, all
    or the first chosen ones, and of the larger sets on the path. Thresholds come from the result `calibration_table`,
    the mode is the run's option `quantize`. Leaves a `Search` in the result `quantize_search`; the module does not
    change.
    """

    name = "search-quantize-table"
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
        dataset, data_list = (Path(text) if text else None for text in (self.dataset, self.data_list))
        given = open_samples(inputs_of(module), dataset, data_list, registry=context.registry)
        samples = distinct(given).source
        few = dataclasses.replace(samples, samples=samples.samples[-self.input_num :])
        job = sensitivity_job(module, context, few)
        with open_pool(self.workers, self.cluster, context.registry) as pool:
            evaluations = Evaluations(job, context, pool, self.max_float_layers)
            losses, points = tuple(evaluations.losses()), tuple(evaluations.points())
        float_mode = self.float_mode or chip.float_mode or job.mode
        context.leave(QUANTIZE_SEARCH, Search(chip.name, job.mode, float_mode, len(job.samples), losses, points))
        return False


def sensitivity_job(module: Module, context: PassContext, samples: SampleSource) -> SensitivityJob:
    """The job for each sample, on a copy of the module calibrated as in the run."""
    chip = chip_of(context, SearchQuantizeTable.name).description
    mode = str(context.options.get("quantize") or "int8")
    calibrated = calibrated_copy(module, context)
    KeepMasksFloat().run(calibrated, context)
    KeepTailFloat().run(calibrated, context)
    table = context.result(CALIBRATION_TABLE)
    floats = frozenset(context.find(QUANTIZE_TABLE, {}))
    cells = Cells.of(context, SearchQuantizeTable.name, mode)
    return SensitivityJob(
        PortableModule(calibrated, context.registry),
        samples,
        chip,
        mode,
        floats,
        annotated_shifts(calibrated, table),
        annotated_elements(calibrated, table, cells, floats) if mode in MODES else {},
        frozenset(context.find(FLOAT_SUMS, ())),
        annotated_filters(FakeNetwork(calibrated), table),
    )
