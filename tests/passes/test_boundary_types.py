"""Stated types of inputs and outputs, on a module built by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import (
    F32,
    Block,
    Function,
    FunctionType,
    Module,
    Operation,
    PassContext,
    Return,
    ScalarType,
    TensorType,
    UsageError,
)
from tpuc.interpreter import Interpreter
from tpuc.ir.builder import Builder
from tpuc.registry import Registry
from tpuc_lower.set_boundary_types import SetBoundaryTypes
from tpuc_ops import top, tpu


def module() -> Module:
    """``f16(x) + f16(x)`` and ``x + x`` in float32, both of the one input."""
    wide = TensorType((1, 4), F32)
    half = wide.with_element(ScalarType("f16"))
    body = Block([wide])
    made = Module("net", {})
    builder = Builder(made)
    builder.at_end_of(body)
    x = builder.build(top.Input(), list(body.arguments), wide, "x")
    narrow = builder.build(tpu.Cast(with_scale=True), [x], half, "narrow")
    results = [
        builder.build(tpu.Add(), [narrow, narrow], half, "halves"),
        builder.build(tpu.Add(), [x, x], wide, "wholes"),
    ]
    body.append(Operation(Return(), results))
    function = Function("main", FunctionType((), ()), body)
    function.update_type()
    made.functions.append(function)
    return made


def test_an_input_of_two_users_is_rounded_once_and_outputs_are_cast() -> None:
    """1 + 2**-12 is a float32 that float16 does not hold."""
    made = module()
    SetBoundaryTypes(("f16",), ("f32", "bf16")).run(made, PassContext(Registry(), None, {}))
    assert [str(value.tensor.storage) for value in made.main.outputs] == ["f32", "bf16"]
    assert str(made.main.operations[0].result.tensor.storage) == "f16"
    names = [one.name for one in made.main.operations if one.results]
    assert names == ["x", "halves", "halves_f32", "x_f32", "wholes", "wholes_bf16"]  # cast where it is needed first
    x = np.array([[1.0, -2.5, 0.1, 3.0]], np.float16)
    found = Interpreter(made).run({"x": x})
    halves, wholes = (np.asarray(array, np.float32) for array in found.values())
    assert np.array_equal(halves, (x + x).astype(np.float32))
    assert np.abs(wholes - 2 * x.astype(np.float32)).max() <= 6.0 * 2.0**-9  # bf16 has 8 bits


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (SetBoundaryTypes(("f16", "f16")), "2 types of inputs are given, and the network has 1 inputs"),
        (SetBoundaryTypes((), ("f64",)), "'f64' is not a type for an output; use one of f32, f16, bf16, i32"),
    ],
)
def test_types_that_do_not_fit_are_named(given: SetBoundaryTypes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        given.run(module(), PassContext(Registry(), None, {}))


def test_moves_of_an_input_that_is_only_read_narrow_move_the_narrow_type() -> None:
    """One permutation has a narrow reader only, the other one a wide reader too."""
    wide = TensorType((2, 3), F32)
    half, turned = wide.with_element(ScalarType("f16")), wide.with_shape((3, 2))
    body, made = Block([wide]), Module("net", {})
    builder = Builder(made)
    builder.at_end_of(body)
    x = builder.build(top.Input(), list(body.arguments), wide, "x")
    moved = [builder.build(tpu.Permute(order=(1, 0)), [x], turned, name) for name in ("once", "twice")]
    flat = builder.build(tpu.Reshape(shape=(6,)), [moved[0]], wide.with_shape((6,)), "flat")
    casts = [
        builder.build(tpu.Cast(with_scale=True), [one], one.tensor.with_element(half.element), f"{one.name}_f16")
        for one in (flat, moved[1])
    ]
    results = [builder.build(tpu.Add(), [one, one], one.tensor, f"sum{index}") for index, one in enumerate(casts)]
    results.append(builder.build(tpu.Add(), [moved[1]] * 2, turned, "wholes"))
    body.append(Operation(Return(), results))
    function = Function("main", FunctionType((), ()), body)
    function.update_type()
    made.functions.append(function)
    SetBoundaryTypes(("f16",)).run(made, PassContext(Registry(), None, {}))
    types = {one.name: str(one.result.tensor.storage) for one in made.main.operations if one.results}
    assert (types["once"], types["flat"], types["twice"], types["twice_f16"]) == ("f16", "f16", "f32", "f16")
    assert "flat_f16" not in types
    array = np.array([[1.0, -2.5, 0.1], [3.0, 4.0, 5.5]], np.float16)
    found = [np.asarray(one, np.float32) for one in Interpreter(made).run({"x": array}).values()]
    assert np.array_equal(found[0], 2 * array.T.reshape(6).astype(np.float32))
    assert np.array_equal(found[1], 2 * array.T.astype(np.float32))
    assert np.array_equal(found[2], 2 * array.T.astype(np.float32))
