"""Activations of floats."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, F64Array, Node, Op, Raw, Types

from tpuc_ops import functions, top
from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import ActiveMode
from tpuc_ops.elementwise import functions_in
from tpuc_ops.integers import clamped, is_integer, zero_point


@dataclass(frozen=True)
class Active(Op, Elementwise):
    """The function `mode`, computed in float32 and rounded to the result's width.

    `coeffs`: alpha of ELU; alpha and beta of HSIGMOID. ABSVAL also accepts stored integers, ``|q - zp| + zp``.
    """

    name = "tpu.Active"
    mode: ActiveMode
    coeffs: F64Array | None = None
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        needed = {"ELU": 1, "HSIGMOID": 2}.get(self.mode, 0)
        if not needed and self.mode not in modes():
            raise ValueError(f"mode {self.mode} is not known")
        if len(self.coeffs or ()) < needed:
            raise ValueError(f"mode {self.mode} needs {needed} coeffs, there are {len(self.coeffs or ())}")
        if is_integer(x) and self.mode != "ABSVAL":
            raise ValueError(f"floats are needed, this operand stores {x.storage}; use tpu.Lut")
        return (x.at(None) if is_integer(x) else x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        type = node.operand_types[0]
        if is_integer(type):
            zero = zero_point(type)
            magnitudes = np.abs(operands[0].astype(np.int64) - zero)
            return [clamped(magnitudes + zero, node.result_type, False, -1.0)]
        with np.errstate(all="ignore"):  # infinities and NaN are results here, not accidents
            return [stored(self._function(as_float(operands[0])), node.result_type)]

    def _function(self, x: Array) -> Array:
        match self.mode, self.coeffs:
            case "ELU", (alpha, *_):
                return functions.elu(x, alpha)
            case "HSIGMOID", (alpha, beta, *_):
                return functions.hard_sigmoid(x, alpha, beta)
            case _:
                return modes()[self.mode](x)

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size


@functools.cache
def modes() -> Mapping[str, Callable[[Array], Array]]:
    """Map each mode to its function: TOP ops under the mode stated in their files, and some auxiliary functions."""
    parts = {"LOG_SIGMOID": functions.log_sigmoid, "RELU": functions.relu, "SQUARE": np.square}
    ops = {op.active: op().function for op in functions_in(top.DIALECT) if op.active}
    return {**parts, "TGELU": functions.tanh_gelu, **ops}
