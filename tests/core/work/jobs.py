"""Jobs that worker processes can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpuc.errors import CalibrationError
from tpuc_driver.work import Job


@dataclass(frozen=True)
class Sum(Job[int]):
    """The sum of a unit's numbers."""

    def prepare(self) -> Callable[[range], int]:
        return sum


@dataclass(frozen=True)
class DieOnce(Job[int]):
    """Like `Sum`, but the first process to reach number 16 kills itself."""

    mark: Path

    def prepare(self) -> Callable[[range], int]:
        def run(unit: range) -> int:
            if 16 in unit and not self.mark.exists():
                self.mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return sum(unit)

        return run


@dataclass(frozen=True)
class DieAlways(Job[int]):
    """Every process that runs it dies."""

    def prepare(self) -> Callable[[range], int]:
        os.kill(os.getpid(), signal.SIGKILL)
        return sum


@dataclass(frozen=True)
class Meet(Job[int]):
    """Units wait for each other; `prepared` counts the preparations."""

    barrier: threading.Barrier
    prepared: list[int]

    def prepare(self) -> Callable[[range], int]:
        self.prepared.append(1)

        def run(unit: range) -> int:
            self.barrier.wait(timeout=30)
            return sum(unit)

        return run


@dataclass(frozen=True)
class Refuse(Job[int]):
    """Raises an error of ours."""

    def prepare(self) -> Callable[[range], int]:
        raise CalibrationError("conv1: NaN during calibration.")


@dataclass(frozen=True)
class Stay(Job[int]):
    """Tells who works on it, and goes on for long."""

    folder: Path

    def prepare(self) -> Callable[[range], int]:
        return self._run

    def _run(self, unit: range) -> int:
        (self.folder / str(os.getpid())).touch()
        time.sleep(60)
        return sum(unit)
