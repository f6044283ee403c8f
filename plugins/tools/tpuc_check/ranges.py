"""Calibrate a network on random data, as `tpuc compile` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CalibrationError, Module, Operation
from tpuc.api.evaluation import Array, write_npz
from tpuc_driver.api.host import SampleInput, inputs_of, needs_calibration

RANGE = 4.0
"""Range of values in networks that are not run on random data."""

MOST_OPERATIONS = 10**11
"""Maximum operations of a network that is run on random data: some seconds on two cores. Larger ones get artificial
ranges.
"""

MOST_ELEMENTS = 1 << 28
"""Maximum elements of all its values together: 1 GiB, if none of them were freed."""

_CALIBRATION = {"tune_num": 0, "bias_num": 0}
"""No tuning: whether a network compiles does not depend on accuracy."""


def drawn_ranges(session: Any, module: Module, folder: Path) -> Any:
    """Return a calibration table, or the path of one in `folder`; None if the network needs none in the session's mode.

    Standard normal data come first, then data between 0 and 1: logarithms and roots of the former are NaN.
    """
    if not needs_calibration(session.mode, module):
        return None
    if _elements(module) <= MOST_ELEMENTS and _work(module) <= MOST_OPERATIONS:
        generator = np.random.default_rng(0)
        for draw in (generator.standard_normal, generator.random):
            sample = {one.name: _filled(one, draw(one.shape)) for one in inputs_of(module)}
            path = folder / "drawn.npz"
            write_npz(path, sample)
            try:
                return session.calibrate(module, dataset=path, method="max", options=_CALIBRATION)
            except CalibrationError:
                continue
    return _made_up(module, folder / "ranges")


def _filled(one: SampleInput, values: Array) -> Array:
    """Return values in the input's stored type; integers, which may be indices, are 0."""
    dtype = np.dtype(one.dtype)
    return values.astype(dtype) if dtype.kind == "f" else np.zeros(one.shape, dtype)


def _elements(module: Module) -> int:
    return sum(type.size for operation in module.main.operations for type in operation.node().result_types)


def _work(module: Module) -> int:
    return sum(host_operations(operation) for operation in module.main.operations if operation.operands)


def host_operations(operation: Operation) -> int:
    """Return the arithmetic operations of an op, plus one for each value read or written."""
    node = operation.node()
    return operation.op.flops(node) + sum(type.size for type in (*node.operand_types, *node.result_types))


def _made_up(module: Module, path: Path) -> Path:
    """Write a table with the same range for every value."""
    names = dict.fromkeys(result.name for operation in module.main.operations for result in operation.results)
    rows = "".join(f"{name} {RANGE} {-RANGE} {RANGE}\n" for name in names)
    path.write_text(f"# op_name threshold min max\n{rows}", encoding="utf-8")
    return path
