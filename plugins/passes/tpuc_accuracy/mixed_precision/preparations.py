"""Ways to prepare a network for integers: rescaled filters, other tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tpuc.api import CALIBRATION_TABLE, Module, Pass, PassContext
from tpuc_driver.api.host import CHECK_SAMPLES, SampleSet, SampleSource
from tpuc_quantize.calibration.calibrate import Calibrate
from tpuc_quantize.scaling.equalize_weights import EqualizeWeights
from tpuc_quantize.scaling.migrate_outliers import MigrateOutliers

from tpuc_accuracy.mixed_precision.accuracy_constraint import Form

USUAL = "the usual table"
GIVEN = "the given table"
NONE = "no table"
_UNTUNED: Mapping[str, Any] = {"tune_num": 0, "bias_num": 0}


@dataclass(frozen=True)
class Preparation:
    """A preparation and its name in messages: a pass over the float network, and options of `calibrate`."""

    name: str
    rewrite: Pass | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Preparations:
    """The preparations of one network; `calibration` has the user's own choices."""

    module: Module
    context: PassContext
    calibration: Calibrate

    def usual(self) -> tuple[Form, SampleSource | None]:
        """The unchanged network with the table of `tpuc calibrate`, and the samples that tuning did not see."""
        context = replace(self.context, results={})
        calibration = replace(self.calibration, lint=True, hold_out=True)
        calibration.run(self.module, context)
        return Form(USUAL, self.module, context.result(CALIBRATION_TABLE)), context.find(CHECK_SAMPLES)

    def others(self) -> Iterator[Form]:
        """The other preparations, each made when needed; those without effect are skipped."""
        for way in self._ways():
            module, context = self.module.clone(), replace(self.context, results={}, remark=self.context.log)
            if way.rewrite is None or way.rewrite.run(module, context):
                replace(self.calibration, lint=False, hold_out=True, **way.options).run(module, context)
                yield Form(way.name, module, context.result(CALIBRATION_TABLE))

    def rewritten(self, name: str, module: Module, context: PassContext) -> None:
        """Apply a form's preparation to another module."""
        for way in self._ways():
            if way.name == name and way.rewrite is not None:
                way.rewrite.run(module, context)

    def _ways(self) -> Sequence[Preparation]:
        first = SampleSet.of_text(self.calibration.dataset[0]).path if self.calibration.dataset else ""
        return (
            Preparation("an untuned table", options=_UNTUNED),
            Preparation("thresholds at the largest values", options={**_UNTUNED, "method": "max"}),
            Preparation("thresholds with headroom", options={"headroom": 1.2}),
            Preparation("weights rounded by what they do", options={"round_weights": True}),
            Preparation("equalized weights", EqualizeWeights()),
            Preparation("migrated outliers", MigrateOutliers(str(first), self.calibration.data_list)),
        )
