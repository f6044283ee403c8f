"""How close the curves that the chip makes of tables come to the functions themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import BF16, TensorType
from tpuc.registry import Registry
from tpuc_ops import tpu
from tpuc_testing import Typed
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.families import each

HALVES = np.arange(-8.0, 8.0, 1 / 128).astype(ml_dtypes.bfloat16).reshape(1, 16, 16, 8)
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "SIGMOID": lambda x: 1 / (1 + math.exp(-x)),
    "SILU": lambda x: x / (1 + math.exp(-x)),
    "TANH": math.tanh,
    "ERF": math.erf,
    "GELU": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "MISH": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "SOFT_PLUS": lambda x: math.log1p(math.exp(x)),
}
MOST = 1.1
"""The error's energy, by that of rounding the exact value to bf16 once: small parts are rounded too, before."""


@each("mode", FUNCTIONS)
def test_curves_are_hardly_worse_than_one_rounding(mode: str) -> None:
    registry = Registry()
    sample = Sample(tpu.Active(mode=mode), [Typed(HALVES, TensorType(HALVES.shape, BF16))], BF16)
    compiled = compile_kernels({mode: sample}, "cv183x", registry)
    (got,) = registry.get("tpuc.chips", "cv183x").load(compiled.data, "kernels").run(compiled.inputs).values()
    wanted = np.array([FUNCTIONS[mode](float(x)) for x in HALVES.reshape(-1)])
    rounded = wanted.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert _energy(got.astype(np.float64).reshape(-1) - wanted) <= MOST * _energy(rounded - wanted)


def _energy(error: np.ndarray[Any, Any]) -> float:
    return float(error @ error)
