"""State that outlives a run: what a module says of it, and what it means."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import Unsupported
from tpuc.api.boundary import State, keep_states, states_of
from tpuc.api.evaluation import StatefulInterpreter
from tpuc.ir.builder import Builder
from tpuc.ir.builtin import Return
from tpuc.ir.operation import Block, Function, Module
from tpuc.ir.text import parse_module, print_module
from tpuc.ir.types import F32, FunctionType, TensorType

from tests.core.fakes import FakeChip
from tests.core.ir.ops import Add, Input, Relu, resolve


def running_sum() -> Module:
    """`total = before + x` and `y = relu(total)`."""
    type = TensorType((3,), F32)
    body = Block([type, type])
    module = Module("m", functions=[Function("main", FunctionType((type, type), ()), body)])
    build = Builder(module, body)
    x, before = (
        build(Input(), [argument], name=name) for argument, name in zip(body.arguments, ("x", "b"), strict=True)
    )
    total = build.operation(Add(), [before, x], type, "total").result
    build.operation(Return(), [build(Relu(), [total], name="y"), total], ())
    module.main.update_type()
    return module


def test_an_output_becomes_the_input_of_the_next_run() -> None:
    module = running_sum()
    keep_states(module, [State("b", "total")])
    again = parse_module(print_module(module), resolve)
    assert states_of(module) == states_of(again) == (State("b", "total"),)
    runs = StatefulInterpreter(module)
    xs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for _ in range(2):
        for total, x in zip(np.cumsum(xs, axis=0, dtype=np.float32), xs, strict=True):
            (name, y), *others = runs.run({"x": x}).items()
            assert (name, others) == ("y", [])
            np.testing.assert_array_equal(y, np.maximum(total, 0))
        runs.reset()


def test_states_that_do_not_fit() -> None:
    module = running_sum()
    assert states_of(module) == ()
    with pytest.raises(ValueError, match=r"^no state from output 'z' to input 'b': there are not both$"):
        keep_states(module, [State("b", "z")])
    with pytest.raises(ValueError, match=r"^a value is in two states: b, b$"):
        keep_states(module, [State("b", "total"), State("b", "y")])
    module.main.outputs[1].type = TensorType((4,), F32)
    with pytest.raises(ValueError, match=r"^input 'b' is .* and output 'total' is .*; a state has one type$"):
        keep_states(module, [State("b", "total")])


def test_a_chip_that_keeps_no_state_refuses_it() -> None:
    module, chip = running_sum(), FakeChip("newchip").description
    chip.check_states(module)
    keep_states(module, [State("b", "total")])
    with pytest.raises(Unsupported, match=r"^m: chip 'newchip' keeps no states; leave out --state internal$"):
        chip.check_states(module)
