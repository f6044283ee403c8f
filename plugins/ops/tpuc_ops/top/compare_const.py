"""Comparison with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Bool, Str, Types

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.top.compare import MODES, check_mode


@dataclass(frozen=True)
class CompareConst(UnaryOp):
    """1 where ``x mode const_val`` holds (``const_val mode x`` if `inversed`), else 0; modes as in `Compare`."""

    name = "top.CompareConst"
    mode: Str
    const_val: F64
    inversed: Bool = False

    def infer(self, operands: Types) -> Types:
        check_mode(self.mode)
        return super().infer(operands)

    def function(self, x: Array) -> Array:
        number = np.asarray(self.const_val, np.float32)
        compare = MODES[self.mode]
        return (compare(number, x) if self.inversed else compare(x, number)).astype(np.float32)
