"""Labeled networks on a chip: what their int8 form must reach, and how it is measured on every chip alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray
from tpuc_driver.work import one_blas_thread

from tests.models.rows import ROWS, Measured, calibrate, load, logits_of, lower, measure, run

Results = list[dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Floor:
    """The least right answers (or the row's own score), and the least dB before the final Softmax and of the worst
    output.
    """

    score: float
    output_db: float
    logits_db: float = -math.inf

    def check(self, got: Measured) -> None:
        """Does a measured row reach it?"""
        worst = min(got.output_db.values())
        assert got.score >= self.score, f"{got.score:g}, float {got.score_float:g}, the floor is {self.score:g}"
        assert worst >= self.output_db, f"worst output {worst:.2f} dB, the floor is {self.output_db:g}"
        assert self.logits_db == -math.inf or got.logits_db >= self.logits_db, (
            f"before the Softmax {got.logits_db:.2f} dB, the floor is {self.logits_db:g}"
        )


# One answer (0.01 of another score) and at least one dB below what bm1684x reached with the default options of
# calibration when these were written. The vendor's compiler has less dB in every row. The calibration images of yunet
# show no large faces; its floor needs the headroom that calibration leaves for that. Which samples tune is a draw that
# their contents decide, as the order of files did before: orders gave lenet 50.3 to 59.8 dB (one step of a byte in the
# probabilities of one digit is most of its error; before the Softmax 44.7 to 45.7), yolox 11.7 to 13.2 dB and 0.42 to
# 0.46, ic01 29.1 to 30.4; five draws of mobilenet_v2 have 29.4 dB in the mean, with a deviation of 0.3. The floors are
# a dB below today's draw.
FLOORS = {
    "mnist": Floor(197, 45.6),
    "ic01": Floor(160, 27.9, 34.3),
    "kws01": Floor(175, 26.5, 29.8),
    "vww01": Floor(170, 32.8, 29.2),
    "ad01": Floor(0.935, 41.6),
    "mobilenet_v1": Floor(33, 20.0, 21.1),
    "mobilenet_v2": Floor(54, 28.8, 21.8),
    "blazeface": Floor(39, 25.1),
    "ultraface": Floor(39, 44.1, 32.8),
    "yunet": Floor(39, 10.5),
    "yolox": Floor(0.447, 12.2),
    "squeezenet": Floor(39, 26.5),
    "lenet": Floor(197, 49.0, 44.5),
}


@dataclass
class Bench:
    """Rows with their float results and calibration, made when they are first asked for and kept for other chips."""

    model_data: Path
    work: Path
    exact: dict[str, Results] = field(default_factory=dict[str, Results])
    tables: dict[str, Any] = field(default_factory=dict[str, Any])

    def measure(self, name: str, chip: str, mode: str = "int8") -> Measured:
        """The row on a chip, with the default options of calibration; `exact` float results of the same samples."""
        row, data = ROWS[name], self.model_data / "data"
        with one_blas_thread():
            module = load(row, self.model_data, row.batch)
            if name not in self.exact:
                logits = logits_of(module)
                self.exact[name] = run(module, [logits] if logits else [], row.samples(data))
            if mode == "int8" and name not in self.tables:
                self.tables[name] = calibrate(row, load(row, self.model_data), self.model_data, self.work)
            lowered = lower(module, chip, self.tables[name] if mode == "int8" else None, mode)
            return measure(row, module, self.exact[name], lowered, data)


def parameters(names: Collection[str], quick: Collection[str]) -> Sequence[Any]:
    """Test parameters of rows; those that are not quick are marked slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


QUICK = ("mnist", "lenet", "ic01", "kws01")
"""Calibration takes a few seconds."""
