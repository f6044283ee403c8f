"""Simulate the runtime's CPU functions that files call by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import CorruptFile, CpuFunction, Registry, Unsupported, cpu_functions
from tpuc_chip_parts.files import FileTensor
from tpuc_chip_parts.simulator import call_function
from tpuc_ops.quant.arithmetic import Rounding, quantize_product

from tpuc_cv18.container.model import TensorType, Value
from tpuc_cv18.isa.target import FAMILY
from tpuc_cv18.isa.types import Array

_ROUNDING_FACTOR = np.float32(1.001957)
"""The runtime multiplies float32 values by this factor before it truncates them to bf16."""

Evaluator = Callable[[Sequence[Array], Mapping[str, Value], Sequence[FileTensor]], list[Array]]
"""Takes the inputs as stored (bf16 as ml_dtypes), the arguments and the output tensors; returns the outputs as
stored.
"""


def run_function(
    name: str, inputs: Sequence[Array], arguments: Mapping[str, Value], outputs: Sequence[FileTensor]
) -> Sequence[Array]:
    """Evaluate a function of the runtime; raises Unsupported for a function that is not simulated, CorruptFile for a
    wrong number of inputs or outputs.
    """
    function = FUNCTIONS.get(name)
    if function is None and name in offered_functions():
        plain = {key: value for key, value in arguments.items() if isinstance(value, bool | int | float | str)}
        return call_function(offered_functions()[name], inputs, plain, outputs)
    if function is None:
        known = ", ".join(sorted({*FUNCTIONS, *offered_functions()}))
        raise Unsupported(
            f"CPU function {name!r} is not simulated, only {known}; run this file on the vendor's runtime"
        )
    inputs_of, outputs_of = ENDS[name]
    if (len(inputs), len(outputs)) != (inputs_of, outputs_of):
        raise CorruptFile(
            f"CPU function {name!r} with {len(inputs)} inputs and {len(outputs)} outputs, it has {inputs_of} and "
            f"{outputs_of}; the file is damaged, copy it again"
        )
    return function(inputs, arguments, outputs)


@functools.cache
def offered_functions() -> Mapping[str, CpuFunction[Any]]:
    """The functions that installed packages provide for ops of TOP, by their names in the runtime."""
    return {function.function: function for function in cpu_functions(Registry(), (FAMILY,))}


def _number(arguments: Mapping[str, Value], name: str, default: float) -> float:
    value = arguments.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def _quant(inputs: Sequence[Array], arguments: Mapping[str, Value], outputs: Sequence[FileTensor]) -> list[Array]:
    """`quant`: convert fp32 to int8 by `scale` (half away from zero, saturating), or int8 to fp32.

    Conversion to bf16 ignores the scale: it multiplies by slightly more than 1 in place of rounding, and truncates.
    """
    (x,), (target,) = inputs, outputs
    scale = _number(arguments, "scale", 0.0)
    if not scale:
        scale = 128.0 / _number(arguments, "threshold", 128.0)
    if target.type is TensorType.INT8:
        kind = target.type.numpy
        return [quantize_product(x.astype(np.float32), scale, 0, Rounding.HALF_AWAY_FROM_ZERO, kind)]
    if target.type is TensorType.F32:
        return [x.astype(np.float32) * np.float32(scale) if x.dtype.kind in "iu" else x.astype(np.float32)]
    if target.type is TensorType.BF16:
        with np.errstate(over="ignore"):
            raised = x.astype(np.float32) * _ROUNDING_FACTOR
        return [(raised.view(np.uint32) >> 16).astype(np.uint16).view(target.type.numpy)]
    raise Unsupported(f"the runtime's quantization to {target.type.name} is not simulated; cast on the chip instead")


def _softmax(inputs: Sequence[Array], arguments: Mapping[str, Value], _: Sequence[FileTensor]) -> list[Array]:
    """`softmax` over `axis` in float32."""
    x = inputs[0].astype(np.float32)
    number = _number(arguments, "axis", 1)
    axis = int(number) if math.isfinite(number) else x.ndim
    if not -x.ndim <= axis < x.ndim:
        raise CorruptFile(f"CPU function 'softmax' over axis {number:g} of {x.ndim}; copy the file again")
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return [(powers / powers.sum(axis=axis, keepdims=True)).astype(np.float32)]


FUNCTIONS: dict[str, Evaluator] = {"quant": _quant, "softmax": _softmax}
ENDS: Mapping[str, tuple[int, int]] = {"quant": (1, 1), "softmax": (1, 1)}
"""The number of inputs and outputs of each function."""
