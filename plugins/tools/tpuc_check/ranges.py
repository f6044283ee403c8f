"""Calibrate a network on random data, as `tpuc compile` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CalibrationError, Module, Operation
from tpuc.api.evaluation import Array, write_npz
from tpuc_driver.api.host import SampleInput, inputs_of, needs_calibration

RANGE = 4.0
"""Of values in networks that random data does not run through."""

MOST_OPERATIONS = 10**11
"""Of a network that random data is run through: some seconds on two cores. Larger ones get made-up ranges."""

MOST_ELEMENTS = 1 << 28
"""Of all its values together: 1 GiB, were none of them given back."""

_CALIBRATION = {"tune_num": 0, "bias_num": 0}
"""No tuning: whether a network compiles does not depend on the last decibel."""


def drawn_ranges(session: Any, module: Module, folder: Path) -> Any:
    """A calibration table, or the path of one in `folder`; None where the network needs none in the session's mode.

    Standard normal data comes first, then data between 0 and 1: of the former logarithms and roots are no numbers.
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
    """Values as the input stores them; integers, which may be indices, are 0."""
    dtype = np.dtype(one.dtype)
    return values.astype(dtype) if dtype.kind == "f" else np.zeros(one.shape, dtype)


def _elements(module: Module) -> int:
    return sum(type.size for operation in module.main.operations for type in operation.node().result_types)


def _work(module: Module) -> int:
    return sum(host_operations(operation) for operation in module.main.operations if operation.operands)


def host_operations(operation: Operation) -> int:
    """The arithmetic of an op, and one for each value that goes in or comes out."""
    node = operation.node()
    return operation.op.flops(node) + sum(type.size for type in (*node.operand_types, *node.result_types))


def _made_up(module: Module, path: Path) -> Path:
    """A file with the same range for every value."""
    names = dict.fromkeys(result.name for operation in module.main.operations for result in operation.results)
    rows = "".join(f"{name} {RANGE} {-RANGE} {RANGE}\n" for name in names)
    path.write_text(f"# op_name threshold min max\n{rows}", encoding="utf-8")
    return path
