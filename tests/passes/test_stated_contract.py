"""What stands for a value whose type a network states means what was stated, whatever a lowering gives for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tpuc.api import (
    F32,
    BrokenPromise,
    Location,
    Lowering,
    LoweringBuilder,
    LoweringNode,
    Module,
    Op,
    Operation,
    ScalarType,
    TensorType,
    Uniform,
    Value,
)
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.results import MODE
from tpuc_ops import top, tpu
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_testing.kernel_conformance import Sample, sample_module

from tests.families import each

pytestmark = pytest.mark.chip("bm1684x")

STATED = Uniform(ScalarType("i8"), F32, 0.01, -20)
OPERAND = Uniform(ScalarType("i8"), F32, 0.05)
X = np.linspace(-6, 6, 48, dtype=np.float32).reshape(1, 3, 4, 4)


def _float(node: LoweringNode, build: LoweringBuilder) -> Value:
    wide = node.operands[0].tensor.with_element(F32)
    return build(tpu.Cast(), [node.operands[0]], wide)


def _in(element: Uniform) -> Any:
    def give(node: LoweringNode, build: LoweringBuilder) -> Value:
        value = build(tpu.Cast(), [node.operands[0]], node.operands[0].tensor.with_element(F32), f"{node.name}_wide")
        return build(tpu.Cast(), [value], value.tensor.with_element(element))

    return give


def _as_it_came(node: LoweringNode, build: LoweringBuilder) -> Value:
    return build(tpu.Reshape(shape=node.result_type.dims), node.operands, node.operands[0].tensor)


GIVEN: dict[str, Any] = {
    "a float": _float,
    "the operand's scale": _as_it_came,
    "another zero point": _in(Uniform(ScalarType("i8"), F32, 0.01, 20)),
    "a wider range": _in(Uniform(ScalarType("u8"), F32, 0.03, 60)),
    "16 bits": _in(Uniform(ScalarType("i16"), F32, 0.001, 0)),
    "what was stated": _in(STATED),
    "the same bytes without sign": _in(Uniform(ScalarType("u8"), F32, 0.01, 108)),
}


def network() -> Module:
    """An input in steps of 0.05, and the same in the stated type, as floats."""
    module, _ = sample_module({"y": Sample(top.Abs(), [X])}, Registry())
    entry, operation = (one for one in module.main.operations if isinstance(one.op, (top.Input, top.Abs)))
    _behind(entry, Quantize(round_mode="HalfToEven"), OPERAND)
    operation.result.type = operation.result.tensor.with_element(STATED)
    _behind(operation, Dequantize(), F32)
    module.main.update_type()
    return module


def _behind(anchor: Operation, op: Op, element: Any) -> None:
    value = anchor.result
    type_ = TensorType(value.tensor.dims, element)
    cast = Operation(op, [value], [type_], Location((f"{value.name}_cast",)))
    value.replace_with(cast.result)
    cast.set_operand(0, value)
    assert anchor.block is not None
    anchor.block.insert_after(anchor, cast)


class _Gives(Lowering[Any]):
    """A lowering of somebody else."""

    def __init__(self, give: Any) -> None:
        self.give = give

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [self.give(node, build)]


def let(monkeypatch: pytest.MonkeyPatch, op: type[Op], give: Any) -> None:
    """Lower an op by what gives this."""
    own, cell = Cells.lowering, _Gives(give)

    def lowering(self: Cells, one: Op, mode: str) -> Lowering[Any] | None:
        return cell if isinstance(one, op) else own(self, one, mode)

    monkeypatch.setattr(Cells, "lowering", lowering)


def lower(module: Module) -> Module:
    PassManager(Session(chip="bm1684x").context({MODE: "int8-asym"})).run(module, ["convert-top-to-tpu"], "lower")
    return module


@each("given", GIVEN)
def test_results_are_as_stated(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let(monkeypatch, top.Abs, GIVEN[given])
    module = lower(network())
    (got,) = Interpreter(module).run({"y_x0": X}).values()
    real = np.rint(X / np.float32(0.05)).clip(-128, 127) * 0.05
    if given.startswith(("another", "a wider", "what", "the same")):
        element = next(o.result.tensor.uniform for o in module.main.operations if o.name in ("y_i8", "y_u8", "y"))
        low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
        real = np.clip(real, low, high)
    wanted = (np.rint(real / 0.01).clip(-108, 147)) * 0.01
    assert np.abs(got - wanted).max() <= (0.0151 if given == "a wider range" else 1e-5)


def test_the_stated_value_has_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    let(monkeypatch, top.Abs, _float)
    module = lower(network())
    types = {one.name: one.result.tensor.element for one in module.main.operations if one.results}
    assert types["y"] == STATED
    assert types["y_f32"] == F32


def test_a_change_of_scale_that_changes_none_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    let(monkeypatch, top.MulConst, _as_it_came)
    module = network()
    relu = next(one for one in module.main.operations if one.name == "y")
    relu.op = top.Relu()  # which keeps its operand's type
    with pytest.raises(BrokenPromise, match=r"returns a value of .*; the network states .*0\.01"):
        lower(module)
