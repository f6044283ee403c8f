"""Ops spelled in others, in every mode: the lowered op means the same, and the file computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import F32, Module, TensorType
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc.session import Session
from tpuc.session.compare import real_values
from tpuc.testing.kernel_conformance import FLOAT_BOUNDS, Sample, float_error, sample_module
from tpuc.testing.values import build_exposed
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold

from tests.chips.bm1684x.kernels.more_cases import CASES, Case

Array = NDArray[Any]
EVERYTHING_IN_INTEGERS = {**PIPELINES, "lower": ("convert-top-to-tpu",)}

# Of the greatest magnitude: operands, constants and results are rounded to 24, 11 and 8 bits, and sums cancel.
SHARES = {"f32": 4e-6, "f16": 4e-3, "bf16": 3e-2}


def module_of(case: Case) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    """A module of the op alone, its inputs and all its values by the op's own evaluation."""
    result = None if case.result is None else TensorType(case.result, F32)
    module, inputs = sample_module({"y": Sample(case.op, case.operands, result)}, Registry())
    return module, inputs, Interpreter(module).run(inputs, "all")


def table_of(values: dict[str, Array]) -> CalibrationTable:
    """Every value's own range."""
    return CalibrationTable(
        {
            name: TensorThreshold(float(np.abs(array).max()), float(array.min()), float(array.max()))
            for name, array in values.items()
        }
    )


NARROW = {"f16": FLOAT_BOUNDS["float16"], "bf16": FLOAT_BOUNDS["bfloat16"]}


def _check_file(session: Session, final: Module, data: bytes, inputs: dict[str, Array], mode: str) -> Array:
    """The simulator computes what the lowered module evaluates to; f32 values may come from 16-bit ones."""
    lowered = Interpreter(final).run(inputs, "all")
    for name, array in session.chip.load(data).run(inputs).items():
        wanted = lowered[name]
        if array.dtype.kind in "iu":
            assert np.array_equal(array.reshape(wanted.shape), wanted), name
        else:
            assert float_error(array.reshape(wanted.shape), wanted) <= max(
                FLOAT_BOUNDS[wanted.dtype.name], NARROW.get(mode, 0.0)
            ), name
    return lowered["y"]


@pytest.mark.parametrize("mode", [*SHARES, "int8", "int8-asym"])
@pytest.mark.parametrize("name", CASES)
def test_lowered_ops_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = module_of(case)
    integers = mode not in SHARES
    session = Session(chip="bm1684x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS if integers else PIPELINES)
    final, data = build_exposed(session, module, table_of(values) if integers else None)
    result = _check_file(session, final, data, inputs, mode)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    real = real_values(result, type_) if type_.is_quantised else result.astype(np.float32)
    assert np.abs(real - wanted).max() <= (case.share if integers else SHARES[mode]) * np.abs(wanted).max()
