"""Data that kill the process that reads them, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc_driver.api.host import SampleInput
from tpuc_eval.protocols import LabeledSamples, Sample


@dataclass(frozen=True)
class DyingSamples(LabeledSamples):
    """The same samples, but the first process to read number `deadly` kills itself."""

    samples: LabeledSamples
    deadly: int
    mark: Path

    def __len__(self) -> int:
        return len(self.samples)

    def name(self, index: int) -> str:
        return self.samples.name(index)

    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        if index == self.deadly and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.samples.read(index, inputs)

    def truth(self, index: int) -> int:
        return self.samples.truth(index)
