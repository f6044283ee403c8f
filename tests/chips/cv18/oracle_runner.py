"""Runs cases on the vendor's functional model; used by the golden maker and the interop tests, never by default."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from tpuc.api import Engine
from tpuc_cv18.isa import Target

from tests.chips.cv18.draw import BASES, GMEM_BYTES, WINDOW_BYTES, Array, Case
from tests.chips.oracles import load_oracle

ORACLE = "oracle_cv18xx"
"""The module that drives this model."""


class OracleRunner:
    """The functional model with the base registers that cases use."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.module = load_oracle(folder, ORACLE)
        self.oracle = self.module.Oracle(target.name, 1 << 20)
        for base in range(BASES):
            self.oracle.set_base(base, base * GMEM_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.oracle.close()

    def run(self, case: Case) -> tuple[Array, Array]:
        """LMEM window and GMEM after the case's instruction."""
        lmem, gmem = self.prepare(case)
        self.execute(case)
        return np.array(lmem), np.array(gmem)

    def prepare(self, case: Case) -> tuple[Array, Array]:
        """Views of LMEM's window and of GMEM, filled as the case says."""
        lmem = self.oracle.lmem[:, :WINDOW_BYTES]
        gmem = self.oracle.gmem[: BASES * GMEM_BYTES].reshape(BASES, GMEM_BYTES)
        lmem[:], gmem[:] = case.lmem, case.gmem
        return lmem, gmem

    def execute(self, case: Case) -> None:
        """Run the instruction of a case on the memories as they are."""
        engine = self.module.TIU if case.instruction.engine is Engine.COMPUTE else self.module.TDMA
        self.oracle.run_logical([(engine, case.instruction.encode(1, 0))])


def run_file(folder: Path, path: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    """A compiled file on the vendor's runtime."""
    return dict(load_oracle(folder, ORACLE).run_cvimodel(path, inputs))
