"""The values that a chip computed against the evaluation of every op on the very operands that the chip had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from tpuc.api import Module, Operation
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS

from tests.stepwise import Array, results_of

_SUMS = ["Active", "Conv2D", "Deconv", "Div", "MatMul", "Pool2D", "Softmax"]
INEXACT: Mapping[str, frozenset[str]] = {
    "bm1684x": frozenset(f"tpu.{name}" for name in (*_SUMS, "LayerNorm", "RecurrentSteps", "Reduce", "Remainder")),
    "cv183x": frozenset(f"tpu.{name}" for name in _SUMS),
}
"""Ops whose floats depend on an order of sums or on a series; all others, and all integers, are equal in every bit."""
SHORT = 2
"""Times the repository's bound for floats of 16 bits: that is of a range, and tensors here are as small as one element,
which two roundings put two units of its last place off.
"""
SUMMANDS: Mapping[tuple[str, str], float] = {
    ("bm1684x", "ERF"): 1.0,
    ("bm1684x", "TANH"): 1.0,
    ("cv183x", "HSIGMOID"): 1.0,
    ("cv183x", "LN"): float(np.log(2.0)),
}
"""Functions of `tpu.Active` that are a sum of two rounded values, which are up to so large where the sum is near 0.

ERF, TANH: 1 and a quotient with an exponential. HSIGMOID: the product with alpha and beta, between which the result is
0 and 1. LN: the logarithms of exponent and mantissa, both from tables of bf16.
"""
LEAST: Mapping[tuple[str, str], float] = {("cv183x", "SQRT"): 2.0**-31}
"""What functions of `tpu.Active` make of 0: the exponents that tables know begin at -63."""
CANCELLATION = 2.0**-20
"""Of the largest operand: what the order of a sum in float32 can leave where a sum is near 0."""


def differences(chip: str, module: Module, got: Mapping[str, Array]) -> Iterator[tuple[Operation, str]]:
    """Ops that gave something else than they evaluate to, and what."""
    for one in results_of(module, got):
        op = one.operation.op
        function = (chip, getattr(op, "mode", ""))
        summand, least = SUMMANDS.get(function, 0.0), LEAST.get(function, 0.0)
        said = _difference(one.found, one.wanted, one.operands, op.name, op.name in INEXACT[chip], summand, least)
        if said:
            yield one.operation, f"'{one.value.name}': {said}"


def _difference(
    found: Array, wanted: Array, operands: Sequence[Array], op_name: str, inexact: bool, summand: float, least: float
) -> str:
    if found.dtype != wanted.dtype:
        wanted = wanted.astype(found.dtype) if wanted.dtype.kind not in "iu" else wanted
    if wanted.dtype.kind in "iu" or not inexact:
        differ = found != wanted
        if wanted.dtype.kind not in "iu":
            differ &= ~(np.isnan(found) & np.isnan(wanted))
        return f"{np.count_nonzero(differ)} of {found.size} differ" if differ.any() else ""
    found, exact = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(exact)
    # Rounding may carry an operand out of a function's domain: chips have some number there, which nothing decides.
    infinite = ~finite & ~(np.isnan(exact) & (op_name == "tpu.Active"))
    if not np.array_equal(found[infinite], exact[infinite], equal_nan=True):
        return "infinite or no numbers at other places"
    if not finite.any():
        return ""
    largest = max((float(np.abs(one.astype(np.float64)).max(initial=0.0)) for one in operands), default=0.0)
    bound = (
        FLOAT_BOUNDS[wanted.dtype.name]
        * (1 if wanted.dtype.itemsize == 4 else SHORT)
        * max(float(np.abs(exact[finite]).max()), summand)
        + CANCELLATION * largest
        + least
    )
    error = float(np.abs(found - exact)[finite].max())
    return f"off by {error:.3g} where {bound:.3g} is allowed" if not error <= bound else ""
