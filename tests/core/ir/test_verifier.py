"""Every rule of the verifier, by the sentence that it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tpuc.errors import VerifyError
from tpuc.ir.builtin import Call, Return
from tpuc.ir.operation import Block, Location, Module, Operation, Region
from tpuc.ir.text import parse_module
from tpuc.ir.types import BF16, DYNAMIC, F32, I8, I32, Calibrated, FunctionType, NoneType, TensorType, Uniform

from tests.core.ir.ops import resolve
from tests.core.ir.test_graph import finished
from tests.core.ir.test_text import GROUPED
from tests.families import each

Break = Callable[[Module], object]
Y = TensorType((2, 3), F32)


def names(module: Module) -> dict[str, Operation]:
    return {operation.name or operation.op.name: operation for operation in module.walk()}


def retype(module: Module, type: TensorType | NoneType) -> None:
    names(module)["mm"].result.type = type


def swap(module: Module) -> None:
    operations = module.main.operations
    operations[3], operations[4] = operations[4], operations[3]


def forget_use(module: Module) -> None:
    names(module)["mm"].result.uses = ()


def stale_use(module: Module) -> None:
    x = names(module)["x"].result
    x.uses.append((names(module)["y"], 0))


def same_name(module: Module) -> None:
    names(module)["y"].location = Location(("mm",))


def early_return(module: Module) -> None:
    module.main.body.insert_before(names(module)["y"], Operation(Return()))


def no_return(module: Module) -> None:
    names(module)["func.return"].erase()


def call(module: Module, callee: str) -> None:
    module.main.body.insert_before(module.main.terminator, Operation(Call(callee), (), (Y,), Location(("c",))))


def strange_block(module: Module) -> None:
    names(module)["mm"].block = Block()


def strange_region(module: Module) -> None:
    region = Region([Block()])
    names(module)["mm"].regions.append(region)


def wrong_argument(module: Module) -> None:
    module.main.type = FunctionType((Y,), module.main.type.results)


def wrong_result(module: Module) -> None:
    module.main.type = FunctionType(module.main.type.inputs, ())


CASES: list[tuple[Break, str]] = [
    (swap, "op 'y' (t.Relu): operand 0 ('mm') is not computed before it; move one of the two"),
    (forget_use, "op 'y' (t.Relu): operand 0 does not list it as a user; set operands with set_operand"),
    (
        stale_use,
        "op 'x' (t.Input): 'x' lists a user that does not use it: 'y' (t.Relu); erase operations with erase",
    ),
    (same_name, "op 'mm' (t.Relu): its name is also that of a t.MatMul; rename one of the two"),
    (early_return, "op '' (func.return): a return stands inside the function; move it to the end"),
    (no_return, "function 'main' does not end in a return; add one"),
    (lambda m: call(m, "f"), "op 'c' (func.call): there is no function 'f'; add it to the module"),
    (lambda m: call(m, "main"), "op 'c' (func.call): its types are not those of function 'main'; make them equal"),
    (strange_block, "op 'mm' (t.MatMul): it stands in a block that does not know it; insert it through the block"),
    (strange_region, "op 'mm' (t.MatMul): a region of it has another parent; move regions with their operation"),
    (wrong_argument, "function 'main': argument types differ from its type; call update_type"),
    (wrong_result, "function 'main': returned types differ from its type; call update_type"),
    (
        lambda m: retype(m, TensorType((2, 4), F32)),
        "op 'mm' (t.MatMul): result 0 is declared 2x4, but is 2x3; correct the declared type",
    ),
    (
        lambda m: retype(m, TensorType((2, 3, 1), F32)),
        "op 'mm' (t.MatMul): result 0 is declared 2x3x1, but is 2x3; correct the declared type",
    ),
    (
        lambda m: retype(m, TensorType((2, 3), I32)),
        "op 'mm' (t.MatMul): result 0 is declared with integer elements, but has float ones; correct the declared type",
    ),
    (
        lambda m: retype(m, NoneType()),
        "op 'mm' (t.MatMul): result 0 must be a tensor; declare its type as one",
    ),
    (
        lambda m: setattr(names(m)["w"].result, "type", TensorType((5, 3), F32)),
        "op 'w' (t.Weight): its array has shape 4x3, its type 5x3; store the array that belongs to the type",
    ),
    (
        lambda m: setattr(names(m)["w"].result, "type", TensorType((4, 3), I32)),
        "op 'w' (t.Weight): its array holds float32, its type i32; store the array that belongs to the type",
    ),
    (
        lambda m: m.weights.keep_only(set()),
        "op 'w' (t.Weight): its weight is missing; set it in the weights of the module",
    ),
    (
        lambda m: m.functions.append(m.functions[0]),
        "function 'main' is there twice; rename one",
    ),
    (
        lambda m: setattr(names(m)["w"].result, "type", NoneType()),
        "op 'w' (t.Weight): a constant gives one tensor; correct its declared type",
    ),
    (
        lambda m: setattr(m.main, "body", Block()),
        "function 'main': its body has another parent; build the function anew",
    ),
]


@each(("damage", "sentence"), CASES, ids=[sentence for _, sentence in CASES])
def test_a_broken_rule_is_named(damage: Break, sentence: str) -> None:
    module = finished()
    module.verify()
    damage(module)
    with pytest.raises(VerifyError) as error:
        module.verify()
    assert str(error.value) == sentence


def test_operands_that_do_not_fit_the_op() -> None:
    module = finished()
    module.weights["w"] = np.ones((5, 3), np.float32)
    names(module)["w"].result.type = TensorType((5, 3), F32)
    with pytest.raises(VerifyError) as error:
        module.verify()
    assert str(error.value) == ("op 'mm' (t.MatMul): inner extents 4 and 5 differ; correct its operands or attributes")


@each(
    "type",
    [
        Y,
        Y.at(None),
        TensorType((2, 3), BF16),
        TensorType((2, 3), Calibrated(F32, -1.0, 1.0)),
        TensorType((2, 3), Uniform(I8, F32, 0.5)),
        TensorType(None, F32),
        TensorType((DYNAMIC, 3), F32),
    ],
)
def test_declared_types_may_be_quantized_calibrated_or_less_known(type: TensorType) -> None:
    module = finished()
    names(module)["mm"].result.type = type
    module.verify()


def test_values_of_a_group_stay_inside_it() -> None:
    module = parse_module(GROUPED, resolve)
    module.verify()
    part = module.modules[0].functions[1]
    inside = part.operations[0].regions[0].blocks[0].operations[1].result
    part.operations[1].set_operand(0, inside)
    with pytest.raises(VerifyError, match=r"op 'd' \(t\.Relu\): operand 0 \('c'\) is not computed before it"):
        module.verify()


def test_two_constants_may_share_a_weight() -> None:
    module = finished()
    weight = names(module)["w"]
    module.main.body.insert_before(weight, Operation(weight.op, (), (weight.result.type,), weight.location))
    module.verify()
