"""A smooth step from -1 to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class SoftClip(Function):
    """``x / sqrt(1 + x * x)``."""

    name = "acme.SoftClip"
    foreign = ("onnx.acme::SoftClip",)
    flops_per_element = 4

    def function(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return x / np.sqrt(1 + x * x)
