"""Pattern rewriting and the removal of unused operations."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from tpuc.ir.builtin import Return
from tpuc.ir.operation import Block, Function, Location, Module, Operation
from tpuc.ir.rewriter import (
    EndlessRewrite,
    Pattern,
    Rewriter,
    apply_patterns,
    drop_unused_weights,
    is_dead,
    remove_dead,
)
from tpuc.ir.text import print_module
from tpuc.ir.types import F32, FunctionType, TensorType

from tests.core.ir.ops import Add, MatMul, Print, Relu
from tests.core.ir.test_graph import finished

X = TensorType((2, 4), F32)


class FuseRelu(Pattern):
    """Into the product that feeds it, when nobody else looks at that."""

    matches = (Relu,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        source = operation.operands[0].defining
        if source is None or not isinstance(source.op, MatMul) or len(source.result.uses) != 1:
            return False
        rewriter.change(source, MatMul(do_relu=True), operation.location)
        rewriter.replace(operation, source.result)
        return True


class TwiceIsSum(Pattern):
    """`relu` becomes `x + x` (nonsense that shows building and replacing)."""

    matches = (Relu,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        x = operation.operands[0]
        rewriter.replace(operation, rewriter(Add(), [x, x], operation.result.type, operation.name))
        return True


class Restless(Pattern):
    matches = (Relu,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op = operation.op
        assert isinstance(op, Relu)
        rewriter.change(operation, Relu(op.relu_limit + 1))
        return True


def chain(count: int) -> Module:
    """`count` relus in a row."""
    body = Block([X])
    value = body.arguments[0]
    for index in range(count):
        value = body.append(Operation(Relu(), (value,), (X,), Location((f"r{index}",)))).result
    body.append(Operation(Return(), (value,)))
    return Module("m", functions=[Function("main", FunctionType((X,), (X,)), body)])


def test_a_pattern_fuses_and_the_result_keeps_its_name() -> None:
    module = finished()
    assert apply_patterns(module, [FuseRelu()])
    assert [operation.name for operation in module.main.operations] == ["x", "w", "", "y", ""]
    assert module.main.outputs[0].defining is not None
    assert module.main.outputs[0].defining.op == MatMul(do_relu=True)
    module.verify()
    assert not apply_patterns(module, [FuseRelu()])


def test_new_operations_stand_where_the_matched_one_stood() -> None:
    module = chain(3)
    assert apply_patterns(module, [TwiceIsSum()])
    assert [operation.name for operation in module.main.operations] == ["r0", "r1", "r2", ""]
    assert all(isinstance(operation.op, Add) for operation in module.main.operations[:-1])
    module.verify()


def test_rewriting_is_the_same_every_time() -> None:
    texts: list[str] = []
    for _ in range(2):
        module = chain(50)
        apply_patterns(module, [TwiceIsSum()])
        texts.append(print_module(module))
    assert texts[0] == texts[1]


def test_twenty_thousand_operations_are_rewritten_in_linear_time() -> None:
    start = time.perf_counter()
    module = chain(20_000)
    apply_patterns(module, [TwiceIsSum()])
    assert len(module.main.operations) == 20_001
    assert time.perf_counter() - start < 30  # quadratic structure would take minutes


def test_patterns_that_undo_each_other_are_named() -> None:
    sentence = (
        "op 'r0' (t.Relu): pattern Restless still rewrites after 5 steps; "
        "patterns undo each other, one of them must refuse"
    )
    with pytest.raises(EndlessRewrite, match=re.escape(sentence)):
        apply_patterns(chain(1), [Restless()], limit=5)


def test_a_replacement_has_one_value_per_result() -> None:
    module = chain(1)
    relu = module.main.operations[0]
    with pytest.raises(ValueError, match=r"op 'r0' \(t\.Relu\): 1 results, 0 replacements"):
        Rewriter(module).replace(relu, ())


def test_unused_operations_go_and_side_effects_stay() -> None:
    module = finished()
    x, *_, end = module.main.operations
    body = module.main.body
    body.insert_before(end, Operation(Print(), (x.result,), (X,)))
    body.insert_before(end, Operation(Relu(), (x.result,), (X,)))
    end.set_operands([x.result])
    assert is_dead(body.operations[-2])
    assert remove_dead(module)
    assert [operation.op.name for operation in module.main.operations] == ["t.Input", "t.Print", "func.return"]
    assert not remove_dead(module)
    module.weights["other"] = np.ones(1)
    drop_unused_weights(module)
    assert list(module.weights) == []


def test_the_driver_removes_what_its_patterns_leave_unused() -> None:
    module = finished()
    module.main.terminator.set_operands([module.main.operations[0].result])
    assert apply_patterns(module, [])
    assert [operation.op.name for operation in module.main.operations] == ["t.Input", "func.return"]


def test_inserting_and_redirecting_by_hand() -> None:
    module = chain(2)
    first, second, _ = module.main.operations
    rewriter = Rewriter(module)
    before = rewriter.insert_before(second, Operation(Add(), (first.result, first.result), (X,)))
    after = rewriter.insert_after(second, Operation(Add(), (first.result, first.result), (X,)))
    rewriter.set_operand(second, 0, before.result)
    assert module.main.operations[1:4] == [before, second, after]
    assert second.operands == (before.result,)


def test_a_new_weight_has_no_name_of_a_value() -> None:
    """Replaced again and again, `linear` would become `linear_1`, which is how exporters name the next product."""
    module = finished()
    anchor = module.main.operations[-1]
    names: list[str] = []
    for name in ("linear", "linear", "mm", "y", "w"):
        rewriter = Rewriter(module)
        rewriter.at(anchor)
        names.append(rewriter.weight(name, np.zeros(2, np.float32)).name)
        rewriter(Relu(), [module.main.outputs[0]], name=f"linear_{len(names)}")
        rewriter.change(rewriter.operation(Relu(), [module.main.outputs[0]]), Relu(), Location((f"mm_{len(names)}",)))
        names.append(rewriter.weight(f"mm_{len(names)}", np.zeros(2, np.float32)).name)
    assert names == [
        *("linear", "mm_1_1", "linear_2", "mm_3_1", "mm_2", "mm_5_1", "y_1", "mm_7_1", "w_1", "mm_9_1"),
    ]
