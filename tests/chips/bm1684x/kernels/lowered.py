"""Compiled TOP ops against the lowered module: the simulator gives what it evaluates to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS, float_error

from tests.chips.lowered import Array

_NARROW = {"f16": FLOAT_BOUNDS["float16"], "bf16": FLOAT_BOUNDS["bfloat16"]}


def check_file(session: Session, final: Module, data: bytes, inputs: Mapping[str, Array], inner: str = "f32") -> Array:
    """Assert that integers are equal and floats within their bounds; returns the value `y`.

    `inner`: the type that f32 results may come from.
    """
    lowered = Interpreter(final).run(inputs, "all")
    for name, array in session.chip.load(data).run(inputs).items():
        wanted = lowered[name]
        if array.dtype.kind in "iu":
            assert np.array_equal(array.reshape(wanted.shape), wanted), name
        else:
            bound = max(FLOAT_BOUNDS[wanted.dtype.name], _NARROW.get(inner, 0.0))
            assert float_error(array.reshape(wanted.shape), wanted) <= bound, name
    return lowered["y"]
