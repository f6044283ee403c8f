"""Conversion to another element type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import OnnxType
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.narrow import narrowed


@dataclass(frozen=True)
class Cast(UnaryOp):
    """Convert x to the element type `to` (INT8, UINT4, FLOAT16, FLOAT8E4M3FN, BOOL, ..., as ONNX names them).

    Floats are rounded to nearest even (FLOAT8E8M0: up); for integers, x is truncated toward 0 and reduced to the type's
    low bits. Overflow of an 8-bit float becomes its largest number with `saturate`, else infinite or NaN.
    """

    name = "top.Cast"
    to: OnnxType
    saturate: Bool = True

    def function(self, x: Array) -> Array:
        return narrowed(x, self.to, self.saturate).astype(np.float32)
