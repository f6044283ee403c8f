"""Compares a compiled network value by value: each op is evaluated on the very operands that the chip had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from tpuc.api import Module, Operation
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS, float_error

from tests.stepwise import Array, results_of

SEVERAL_ROUNDINGS = frozenset(
    f"tpu.{name}"
    for name in (
        "Active",
        "Conv2D",
        "Deconv",
        "Div",
        "MatMul",
        "Pool2D",
        "RecurrentSteps",
        "Reduce",
        "Softmax",
        "LayerNorm",
    )
)
"""Ops whose float results depend on an order of sums or on a series; all others are exact."""


def check_steps(module: Module, got: Mapping[str, Array]) -> Counter[str]:
    """Assert that every op gave what it evaluates to; returns how many tensors of each dtype were compared."""
    counts: Counter[str] = Counter()
    for one in results_of(module, got):
        _check(one.operation, one.found, one.wanted)
        counts[one.wanted.dtype.name] += 1
    return counts


def _check(operation: Operation, found: Array, wanted: Array) -> None:
    where = f"{operation.name} ({operation.op.name})"
    assert found.dtype == wanted.dtype, where
    if wanted.dtype.kind in "iu" or operation.op.name not in SEVERAL_ROUNDINGS:
        assert np.array_equal(found, wanted, equal_nan=wanted.dtype.kind not in "iu"), where
    else:
        error = float_error(found, wanted)
        assert error <= FLOAT_BOUNDS[wanted.dtype.name], f"{where}: {error:.3g} of its range"
