"""The values that a chip computed against the evaluation of every op on the very operands that the chip had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from tpuc.api import (
    Constant,
    Module,
    NetworkInput,
    Node,
    NoneType,
    Operation,
    TensorType,
    Value,
    as_stored,
    numpy_dtype,
)
from tpuc.testing.kernel_conformance import FLOAT_BOUNDS

from tests.fuzz.graphs.maker import Array

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
SUMMANDS: Mapping[tuple[str, str], float] = {("cv183x", "LN"): float(np.log(2.0))}
"""Functions of `tpu.Active` that are a sum of two rounded values, which are up to so large where the sum is near 0: a
logarithm is that of the exponent and that of the mantissa, both tables of bf16.
"""
CANCELLATION = 2.0**-20
"""Of the largest operand: what the order of a sum in float32 can leave where a sum is near 0."""


def differences(chip: str, module: Module, got: Mapping[str, Array]) -> Iterator[tuple[Operation, str]]:
    """Ops that gave something else than they evaluate to, and what."""
    for operation in module.main.operations[:-1]:
        if isinstance(operation.op, (Constant, NetworkInput)) or isinstance(operation.results[0].type, NoneType):
            continue
        operands = [_operand(module, value, got) for value in operation.operands]
        results = operation.op.evaluate(Node.of(operation), operands)
        for value, wanted in zip(operation.results, results, strict=True):
            found = _as_typed(got[value.name], value.tensor)
            summand = SUMMANDS.get((chip, getattr(operation.op, "mode", "")), 0.0)
            inexact = operation.op.name in INEXACT[chip]
            said = _difference(found, wanted.reshape(found.shape), operands, inexact, summand)
            if said:
                yield operation, f"'{value.name}': {said}"


def _difference(found: Array, wanted: Array, operands: Sequence[Array], inexact: bool, summand: float) -> str:
    if found.dtype != wanted.dtype:
        wanted = wanted.astype(found.dtype) if wanted.dtype.kind not in "iu" else wanted
    if wanted.dtype.kind in "iu" or not inexact:
        differ = found != wanted
        if wanted.dtype.kind not in "iu":
            differ &= ~(np.isnan(found) & np.isnan(wanted))
        return f"{np.count_nonzero(differ)} of {found.size} differ" if differ.any() else ""
    found, exact = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(exact)
    if not np.array_equal(found[~finite], exact[~finite], equal_nan=True):
        return "infinite or no numbers at other places"
    if not finite.any():
        return ""
    largest = max((float(np.abs(one.astype(np.float64)).max(initial=0.0)) for one in operands), default=0.0)
    bound = (
        FLOAT_BOUNDS[wanted.dtype.name]
        * (1 if wanted.dtype.itemsize == 4 else SHORT)
        * max(float(np.abs(exact[finite]).max()), summand)
        + CANCELLATION * largest
    )
    error = float(np.abs(found - exact)[finite].max())
    return f"off by {error:.3g} where {bound:.3g} is allowed" if not error <= bound else ""


def _operand(module: Module, value: Value, got: Mapping[str, Array]) -> Array:
    if isinstance(value.type, NoneType):
        return np.zeros(0, np.float32)
    if value.defining is not None and isinstance(value.defining.op, Constant):
        return as_stored(module.weights[value.name], value.tensor)
    return _as_typed(got[value.name], value.tensor)


def _as_typed(array: Array, type_: TensorType) -> Array:
    """As the interpreter holds it; the vendor's runtime gives bf16 and unsigned bytes as their bits."""
    dtype = numpy_dtype(type_.storage)
    if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    return array.reshape(type_.dims)
