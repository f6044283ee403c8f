"""A cheap stand-in for GELU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import Elementwise, Node, Op, Types
from tpuc_ops.traits import Bounded

Array: TypeAlias = npt.NDArray[Any]

HIGHEST = 7.0
LOWEST = -2.0
SLOPE_SHIFT = 3
"""Below zero the slope is 1 / 8."""


@dataclass(frozen=True)
class Gelu7(Op, Elementwise, Bounded):
    """``clip(x, 0, 7) + clip(x, -2, 0) / 8``, element by element.

    `Elementwise` and `Bounded` are traits, from which passes learn what they may do with the op; `tpuc_ops.traits` has
    others: `KeepsRange`, `Rearranges`, `Homogeneous`, `Differentiable`, ...
    """

    name = "acme.Gelu7"

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0].astype(np.float32)
        return [np.clip(x, 0, HIGHEST) + np.clip(x, LOWEST, 0) / np.float32(1 << SLOPE_SHIFT)]

    def bounds(self) -> tuple[float, float]:
        return (LOWEST / (1 << SLOPE_SHIFT), HIGHEST)

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size
