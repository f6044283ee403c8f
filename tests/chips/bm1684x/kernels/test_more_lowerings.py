"""Ops spelled in others, in every mode: the lowered op means the same, and the file computes it."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, Module, TensorType
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc_bm1684x.lowerings import TABLE
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import Sample, sample_module
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.kernels.lowered import check_file
from tests.chips.bm1684x.kernels.more_cases import CASES, FUNCTIONS, RECURRENT, Case
from tests.chips.lowered import EVERYTHING_IN_INTEGERS, Array, lowered_ops, own_ranges
from tests.families import each
from tests.turns import in_turn, single_pairs

# Of the greatest magnitude: operands, constants and results are rounded to 24, 11 and 8 bits, and sums cancel.
SHARES = {"f32": 4e-6, "f16": 4e-3, "bf16": 3e-2}


INTEGERS = ("int8", "int8-asym")
COMPOSED = {
    name: case
    for name, case in CASES.items()
    if name not in FUNCTIONS and all(op != case.op.name for op, _ in TABLE.cells)
}
"""Without a lowering: what they are composed of is computed in f32 in every mode of floats."""
OTHERS = {name: case for name, case in CASES.items() if name not in COMPOSED}


def module_of(case: Case) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    """A module of the op alone, its inputs and all its values by the op's own evaluation."""
    result = None if case.result is None else TensorType(case.result, F32)
    module, inputs = sample_module({"y": Sample(case.op, case.operands, result)}, Registry())
    return module, inputs, Interpreter(module).run(inputs, "all")


@each(
    ("name", "mode"),
    [
        *in_turn(OTHERS, [*SHARES, *INTEGERS], lambda case: case.op.name, single_pairs),
        *in_turn(COMPOSED, ["f32", *INTEGERS], lambda case: case.op.name, single_pairs),
    ],
)
def test_lowered_ops_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = module_of(case)
    integers = mode not in SHARES
    session = Session(chip="bm1684x", quantize=mode, opt=1, pipelines=EVERYTHING_IN_INTEGERS if integers else PIPELINES)
    final, data = build_exposed(session, module, own_ranges(values) if integers else None)
    inner = "f16" if integers and name in RECURRENT else mode  # which multiplies f16 in networks of integers
    result = check_file(session, final, data, inputs, inner=inner)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    real = real_values(result, type_) if type_.is_quantized else result.astype(np.float32)
    assert np.abs(real - wanted).max() <= (case.share if integers else SHARES[mode]) * np.abs(wanted).max()


@each("name", COMPOSED)
def test_compositions_are_the_same_in_every_mode_of_floats(name: str) -> None:
    """So that compiling and running them in one of these modes is enough."""
    found = [lowered_ops(Session(chip="bm1684x", quantize=mode), module_of(COMPOSED[name])[0]) for mode in SHARES]
    assert found[0] == found[1] == found[2]
