"""Runs cases on the vendor's functional model; used by the golden maker and the interop tests, never by default."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from tpuc.api import Engine
from tpuc_bm1684x.isa.geometry import DDR_BASE, LMEM_BASE

from tests.chips.bm1684x.draw import Array, Case, Place
from tests.chips.oracles import load_oracle

DDR_BYTES = 1 << 20


ORACLE = "oracle_bm1684x"
"""The module that drives this model."""


class OracleRunner:
    """The functional model with memories that start as zeros for every case."""

    def __init__(self, folder: Path) -> None:
        self._module = load_oracle(folder, ORACLE)
        self.oracle = self._module.Oracle(DDR_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.oracle.close()

    def run(self, case: Case, window: int) -> Array:
        """The result of one case; afterwards `lmem[:, :window]` and `ddr` hold everything that changed."""
        self.prepare(case, window)
        self.execute(case)
        return self._get(case.result)

    def prepare(self, case: Case, window: int) -> None:
        """Put the operands of a case into memories of zeros."""
        self.oracle.lmem[:, :window] = 0
        self.oracle.ddr[:] = 0
        for place, values in case.writes:
            self._put(place, values)

    def execute(self, case: Case) -> None:
        """Run the instruction of a case on the memories as they are."""
        engine = self._module.TIU if case.instruction.engine is Engine.COMPUTE else self._module.GDMA
        self.oracle.run(engine, case.instruction.encode(1, 0))

    def _put(self, place: Place, values: Array) -> None:
        if place.address < DDR_BASE:
            self.oracle.put(place.address - LMEM_BASE, values, stride=place.strides)
        else:
            self._ddr(place)[...] = values

    def _get(self, place: Place) -> Array:
        if place.address < DDR_BASE:
            return self.oracle.get(place.address - LMEM_BASE, place.shape, place.dtype.numpy, stride=place.strides)
        return self._ddr(place).copy()

    def _ddr(self, place: Place) -> Array:
        steps = [step * place.dtype.bytes for step in place.strides]
        return np.ndarray(place.shape, place.dtype.numpy, self.oracle.ddr.data, place.address - DDR_BASE, steps)
