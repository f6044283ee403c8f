"""Find the cheapest network that meets an accuracy constraint."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext
from tpuc_quantize.calibration.calibrate import Calibrate

from tpuc_accuracy.mixed_precision.constrained_search import ConstrainedSearch, Target


@dataclass(frozen=True)
class MeetAccuracy(Pass):
    """Compile and measure at most `max_trials` networks by `measure`, until one reaches `min_accuracy`: first with the
    usual table (or the one in the result `calibration_table`), then with other preparations, which cost no time on
    the chip, then with float layers, the cheapest by the chip's timing model. On held-out samples the lower end of
    the 95 % interval must reach it, too, or the point estimate with `point_estimate`.

    Leaves the result `calibration_table`, the modes of ops in `quantize_table`, and a report in `accuracy`; if the
    remedy was other filters, the module changes. Raises CalibrationError when nothing is accurate enough.
    """

    name = "meet-accuracy"
    dataset: tuple[str, ...] = ()
    data_list: str = ""
    input_num: int = 0
    method: str = "kld"
    min_accuracy: str = "0.99"
    max_trials: int = 40
    measure: str = "decisions"
    point_estimate: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        calibration = Calibrate(self.dataset, self.data_list, self.input_num, self.method)
        target = Target(calibration, self.min_accuracy, self.max_trials, self.measure, self.point_estimate)
        return ConstrainedSearch(target, module, context).run()
