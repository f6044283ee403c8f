"""A chip of the family without bf16, which no board has: what integers cannot do is told in one sentence."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from tpuc.api import PassContext, Unsupported
from tpuc.ir.text import parse_module
from tpuc.registry import Registry
from tpuc_cv18xx.chip import CV181X_CHIP
from tpuc_lower.convert_top_to_tpu import ConvertTopToTpu

from tests.families import each

VALUES = "tensor<1x8x4x4x!quant.calibrated<f32<-4.0:4.0>>>"
RESULT = VALUES.replace("4x4", "4x1")
NETWORK = """module @net attributes {module.state = "TOP_CALIBRATED"} {
  func.func @main(%arg0: TYPE) -> RESULT {
    %0 = "top.Input"(%arg0) : (TYPE) -> TYPE loc("x")
    %1 = "top.Abs"(%0) : (TYPE) -> TYPE loc("size")
    %2 = LAST : (TYPE) -> RESULT loc("last")
    return %2 : RESULT
  }
}
"""
LARGEST = '"top.Reduce"(%1) {axes = [3], keepdims = true, mode = "ReduceMax"}'
LENGTH = LARGEST.replace("Max", "L2")


def _lower(op: str, *modes: str) -> None:
    chip, registry = copy.copy(CV181X_CHIP), Registry()
    chip.description = replace(chip.description, name="bytes_only", modes=modes)
    module = parse_module(
        NETWORK.replace("LAST", op).replace("TYPE", VALUES).replace("RESULT", RESULT), registry.resolve_op
    )
    ConvertTopToTpu().run(module, PassContext(registry, chip, {"quantize": "int8"}))


def test_an_op_that_is_computed_in_floats_is_refused_where_there_are_none() -> None:
    with pytest.raises(Unsupported) as caught:
        _lower(LENGTH, "int8")
    assert str(caught.value) == (
        "node 'last': it is computed in bf16 in mode int8, which bytes_only does not have (its modes: int8); "
        "change the node, or choose another chip"
    )


@each(("op", "modes"), [(LARGEST, ("int8",)), (LARGEST, ("int8", "bf16")), (LENGTH, ("int8", "bf16"))])
def test_everything_else_is_lowered(op: str, modes: list[str]) -> None:
    _lower(op, *modes)
