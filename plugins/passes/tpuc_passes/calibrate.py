"""Runs sample data through a TOP module and finds a threshold for every value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import Calibrator, Module, Pass, PassContext
from tpuc.api.host import Array, Interpreter, SampleSource, inputs_of, open_samples

from tpuc_passes.calibration.methods import Max, usable_threshold
from tpuc_passes.calibration.statistics import Histogram, TensorRange
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold, make_remarks


@dataclass(frozen=True)
class Calibrate(Pass):
    """Two passes over the samples, ranges first and histograms then, so memory does not grow with their number.

    Network inputs keep their largest magnitude whatever the method: their values are few and evenly spread (pixels),
    where a divergence of histograms says nothing. Samples come from `dataset` (folder or file) or `data_list`; `method`
    is a name in `tpuc.calibrators`. The table is left in `context.results["calibration_table"]`; the module does not
    change.
    """

    name = "calibrate"
    dataset: str = ""
    data_list: str = ""
    input_num: int = 0
    method: str = "kld"
    histogram_bin_num: int = 2048

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for samples that cannot be read or do not fit."""
        calibrator: Calibrator = context.registry.get("tpuc.calibrators", self.method)()
        samples = open_samples(inputs_of(module), _path(self.dataset), _path(self.data_list), self.input_num)
        interpreter = Interpreter(module)
        ranges: dict[str, TensorRange] = {}
        self._walk(interpreter, samples, context, "ranges", lambda name, array: _update_range(ranges, name, array))
        histograms = {name: Histogram(seen, self.histogram_bin_num) for name, seen in ranges.items()}
        if calibrator.needs_histogram:
            self._walk(interpreter, samples, context, "histograms", lambda name, array: histograms[name].update(array))
        given = {one.name for one in samples.inputs}
        entries = {
            name: TensorThreshold(
                usable_threshold(Max() if name in given else calibrator, histogram),
                histogram.minimum,
                histogram.maximum,
            )
            for name, histogram in histograms.items()
        }
        remarks = make_remarks((self.method,), self.histogram_bin_num, len(samples), 0, context.options.get("epoch"))
        context.results["calibration_table"] = CalibrationTable(entries, remarks)
        return False

    def _walk(
        self,
        interpreter: Interpreter,
        samples: SampleSource,
        context: PassContext,
        what: str,
        observe: Callable[[str, Array], None],
    ) -> None:
        for sample in context.progress(samples, f"calibrating: {what}", len(samples)):
            interpreter.run(sample, on_value=observe)


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _update_range(ranges: dict[str, TensorRange], name: str, array: Array) -> None:
    if array.dtype.kind == "f":
        ranges.setdefault(name, TensorRange(name)).update(array)
