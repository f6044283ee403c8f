"""Sine and cosine of bf16 values: subtract whole turns, then look up a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from tpuc.api import Node, PlacedTile

from tpuc_cv18.isa import ArithmeticOp, Operand
from tpuc_cv18.kernels.curves import Array, Curve, Places, Steps, TableKernel
from tpuc_cv18.operands import operand

_CURVES: Mapping[str, Curve] = {"SIN": np.sin, "COS": np.cos}
_PLACES = Places(-4.0, 16.0)
_WHOLE = 192.0
"""Sums of this with numbers between -64 and 64 have no fractional bits."""
_TURN = (4.0, 2.0, 0.25, 0.03125)
"""2 pi as a sum of parts. Products of a part with few turns are exact, and so are the differences from them."""
_REST = 2 * math.pi - sum(_TURN)


class CircleKernel(TableKernel):
    """Accurate for up to 64 turns. Beyond, adjacent bf16 numbers are more than a quarter turn apart."""

    tables = ("values", "slopes")
    work = ("scaled", "index", "whole", "turns")
    modes: ClassVar[tuple[str, ...]] = tuple(_CURVES)

    def table(self, node: Node, name: str) -> Array:
        curve = _CURVES[node.op.mode]
        return _PLACES.values(curve) if name == "values" else _PLACES.slopes(curve)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        x, result = operand(placed.operand(0)), operand(placed.result)
        scaled, index, whole, turns = (work[name] for name in self.work)
        steps.do(ArithmeticOp.MUL, turns, x, 1 / (2 * math.pi))
        steps.do(ArithmeticOp.ADD, turns, turns, _WHOLE)
        steps.do(ArithmeticOp.SUB, turns, turns, _WHOLE)
        rest = x
        for part in _TURN:
            steps.do(ArithmeticOp.MUL, index, turns, part)
            steps.do(ArithmeticOp.SUB, scaled, rest, index)
            rest = scaled
        low, high = _PLACES.ends
        steps.do(ArithmeticOp.MIN, scaled, scaled, high)
        steps.do(ArithmeticOp.MAX, scaled, scaled, low)
        steps.do(ArithmeticOp.MUL, scaled, scaled, _PLACES.scale)
        steps.locate(_PLACES, scaled, index, whole)
        # The distance from an entry is small, so that the rest of a turn is not rounded away there.
        steps.do(ArithmeticOp.MUL, turns, turns, _REST * _PLACES.scale)
        steps.do(ArithmeticOp.SUB, scaled, scaled, turns)
        steps.look_up(result, index, placed.constants["values"])
        steps.look_up(whole, index, placed.constants["slopes"])
        steps.do(ArithmeticOp.MAC, result, scaled, whole)
