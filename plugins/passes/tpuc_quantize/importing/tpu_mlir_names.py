"""The pass that reads a calibration table, with TPU-MLIR's name and options."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext

from tpuc_quantize.importing.import_calibration import ImportCalibration


@dataclass(frozen=True)
class ImportCalibrationTable(Pass):
    """`import-calibration` with the table `file`; `asymmetric` selects its ranges, whatever the run's mode."""

    name = "import-calibration-table"
    file: str = ""
    asymmetric: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        return ImportCalibration(self.file, self.asymmetric).run(module, context)
