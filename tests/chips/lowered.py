"""How TOP ops by themselves are compiled: all of a network as integers, every value with its own range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, Module, Op, TensorType
from tpuc.schedule import PIPELINES, PassManager
from tpuc_driver.session import Session
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold
from tpuc_testing.kernel_conformance import Operand, Sample

from tests.chips.layer_cases import LayerCase

Array = NDArray[Any]

EVERYTHING_IN_INTEGERS = {**PIPELINES, "lower": ("legalize", "convert-top-to-tpu")}
"""Without the pass that keeps the last ops of a network in floats."""


def own_ranges(values: Mapping[str, Array]) -> CalibrationTable:
    """A table of what the values are."""
    return CalibrationTable(
        {
            name: TensorThreshold(float(np.abs(array).max()), float(array.min()), float(array.max()))
            for name, array in values.items()
        }
    )


class HasOp(Protocol):
    """A case of one op."""

    @property
    def op(self) -> Op: ...


def path_of(case: HasOp) -> tuple[str, str]:
    """What chooses the lowering of a case: its op, and the mode of that if there are several."""
    return case.op.name, str(getattr(case.op, "mode", ""))


def lowered_ops(session: Session, module: Module) -> list[tuple[Op, list[str]]]:
    """The ops that a module of floats is lowered to, with the types of their results."""
    PassManager(session.context()).run_pipeline("lower", module)
    return [(one.op, [str(result.type) for result in one.results]) for one in module.main.operations]


def sample_of(case: LayerCase, operands: Sequence[Operand]) -> Sample:
    """The case on these operands."""
    return Sample(case.op, operands, None if case.result is None else TensorType(case.result, F32))
