"""The host interpreter: order, inputs, weights, groups and calls, what it keeps and what it says."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import InvalidModel
from tpuc.interpreter import EvaluationError, InputError, Interpreter
from tpuc.ir.builder import Builder
from tpuc.ir.builtin import Return
from tpuc.ir.op import Node, Op
from tpuc.ir.operation import Block, Function, Module
from tpuc.ir.text import parse_module
from tpuc.ir.types import BF16, F16, F32, I8, I32, SI8, FunctionType, ScalarType, TensorType, Uniform

from tests.core.ir.ops import Input, MatMul, Nothing, Relu, Weight, resolve
from tests.core.ir.test_text import wrapped
from tests.families import each

Array = NDArray[Any]
ONES = np.ones((2, 4), np.float32)


def network(
    element: ScalarType = F32, weight: Array | None = None, weight_element: ScalarType | None = None
) -> tuple[Module, Builder]:
    """`mm = x @ w`, with the builder at the end."""
    type = TensorType((2, 4), element)
    body = Block([type])
    module = Module("m", functions=[Function("main", FunctionType((type,), ()), body)])
    build = Builder(module, body, constant=Weight(), absent=Nothing())
    x = build(Input(), [body.arguments[0]], name="x")
    w = build.weight("w", np.arange(12, dtype=np.float32).reshape(4, 3) if weight is None else weight, weight_element)
    build(MatMul(), [x, w, build.none()], TensorType((2, 3), element), name="mm")
    return module, build


def close(module: Module, build: Builder, *names: str) -> Interpreter:
    """Return values by name."""
    values = {value.name: value for operation in module.walk() for value in operation.results}
    build.operation(Return(), [values[name] for name in names], ())
    module.main.update_type()
    return Interpreter(module)


def test_values_are_those_of_numpy() -> None:
    interpreter = close(*network(), "mm")
    assert interpreter.inputs == {"x": TensorType((2, 4), F32)}
    assert interpreter.output_names == ("mm",)
    result = interpreter.run({"x": ONES})
    assert list(result) == ["mm"]
    np.testing.assert_array_equal(result["mm"], np.array([[18, 22, 26], [18, 22, 26]], np.float32))


def test_one_plan_serves_many_runs_with_other_data() -> None:
    interpreter = close(*network(), "mm")
    for factor in (1, 2, 3):
        assert interpreter.run({"x": ONES * np.float32(factor)})["mm"][0, 0] == 18 * factor


def test_inputs_are_kept_and_seen_in_order_of_computation() -> None:
    module, build = network()
    build(Relu(20.0), [module.main.operations[-1].result], name="y")
    interpreter = close(module, build, "y")
    seen: list[str] = []
    result = interpreter.run({"x": ONES}, "all", on_value=lambda name, array: seen.append(f"{name} {array.shape}"))
    assert list(result) == ["x", "mm", "y"]
    assert seen == ["x (2, 4)", "mm (2, 3)", "y (2, 3)"]
    assert list(interpreter.run({"x": ONES}, ["mm"])) == ["mm", "y"]
    assert list(interpreter.run({"x": ONES})) == ["y"]
    with pytest.raises(InputError, match="value 'mmm' is not in this module; did you mean 'mm'"):
        interpreter.run({"x": ONES}, ["mmm"])


def test_a_value_is_freed_after_its_last_use() -> None:
    module, build = network()
    build(Relu(), [module.main.operations[-1].result], name="y")
    build(Relu(), [build.block.operations[-1].result], name="z")  # pyright: ignore[reportOptionalMemberAccess]
    interpreter = close(module, build, "z")
    alive: dict[str, weakref.ref[Array]] = {}

    def watch(name: str, array: Array) -> None:
        if name == "z":
            gc.collect(1)  # arrays of this test are young
            assert alive["mm"]() is None
            assert alive["y"]() is not None
        alive[name] = weakref.ref(array)

    interpreter.run({"x": ONES}, on_value=watch)
    assert list(alive)[-1] == "z"


GROUPED = """
module @net {
  module @net {
    func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
      %0:2 = call @part(%arg0) : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
      %1:2 = call @part(%arg0) : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
      return %0#0, %1#1 : tensor<1x2xf32>, tensor<1x2xf32>
    }
    func.func @part(%arg0: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
      %0:2 = "t.Group"(%arg0) ({
        %1:2 = "t.Split"(%arg0) : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) loc(fused["a", "b"])
        %2 = "t.Relu"(%1#1) : (tensor<1x2xf32>) -> tensor<1x2xf32> loc("c")
        "t.Yield"(%1#0, %2) : (tensor<1x2xf32>, tensor<1x2xf32>) -> ()
      }) : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
      return %0#0, %0#1 : tensor<1x2xf32>, tensor<1x2xf32>
    }
  }
}
"""


def test_groups_and_calls_run_in_place() -> None:
    interpreter = Interpreter(parse_module(GROUPED, resolve))
    result = interpreter.run({"x": np.array([[1, -2, -3, 4]], np.float32)}, "all")
    assert interpreter.output_names == ("a", "c")
    assert {name: array.tolist() for name, array in result.items()} == {
        "a": [[1, -2]],
        "b": [[-3, 4]],
        "c": [[0, 4]],
    }


@dataclass(frozen=True)
class Widen(Op):
    """int8 to int32."""

    name = "t.Widen"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].astype(np.int32)]


def test_quantized_values_are_stored_integers() -> None:
    type = TensorType((2,), Uniform(I8, F32, 0.5))
    body = Block([type])
    module = Module("m", functions=[Function("main", FunctionType((type,), ()), body)])
    build = Builder(module, body)
    build(Widen(), [body.arguments[0]], TensorType((2,), I32), "wide")
    result = close(module, build, "wide").run({"arg0": np.array([-128, 127], np.int8)})
    assert (result["wide"].tolist(), result["wide"].dtype) == ([-128, 127], np.int32)


@each(
    ("stored", "element", "dtype"),
    [
        (np.ones((4, 3), np.uint8), SI8, np.int8),
        (np.full((4, 3), 0x3C00, np.uint16), F16, np.float16),
        (np.full((4, 3), 0x3F80, np.uint16), BF16, ml_dtypes.bfloat16),
        (np.ones((4, 3), ml_dtypes.bfloat16), BF16, ml_dtypes.bfloat16),
    ],
)
def test_weights_reach_ops_as_their_types_store_them(stored: Array, element: ScalarType, dtype: Any) -> None:
    module, build = network(weight=stored, weight_element=element)
    seen: list[Array] = []

    @dataclass(frozen=True)
    class Look(Op):
        name = "t.Look"

        def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
            seen.append(operands[0])
            return [np.ones(1, np.float32)]

    build(Look(), [module.main.operations[1].result], TensorType((1,), F32), "look")
    module.main.operations[3].erase()
    close(module, build, "look").run({"x": ONES})
    assert seen[0].dtype == dtype
    np.testing.assert_array_equal(seen[0].astype(np.float32), np.ones((4, 3)))


def test_a_float_op_may_compute_in_another_width() -> None:
    module, build = network(F16)
    result = close(module, build, "mm").run({"x": ONES.astype(np.float16)})
    assert result["mm"].dtype == np.float16


@each(
    ("inputs", "sentence"),
    [
        ({}, "input 'x' is missing; give an array with shape 2x4 and dtype float32"),
        ({"y": ONES}, "no input is named 'y'; there are x"),
        ({"x": ONES[:1]}, "input 'x' has shape 1x4; give one of 2x4"),
        (
            {"x": ONES.astype(np.float64)},
            "input 'x' has dtype float64; convert it to float32, for example with astype",
        ),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, Array], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        close(*network(), "mm").run(inputs)
    assert str(error.value) == sentence


def stub(result: Callable[[], Sequence[Array]]) -> Op:
    @dataclass(frozen=True)
    class Stub(Op):
        name = "t.Stub"

        def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
            return result()

    return Stub()


def raising() -> Sequence[Array]:
    raise ValueError("a bad day")


@each(
    ("result", "sentence"),
    [
        (raising, "cannot be evaluated: a bad day"),
        (list, "its evaluation gives 0 results, it has 1; correct one"),
        (lambda: [ONES], "its evaluation gives shape 2x4, declared is 2x3; correct one"),
        (lambda: [np.ones((2, 3), np.int32)], "its evaluation gives int32, declared is float32; correct one"),
    ],
)
def test_an_op_that_fails_is_named(result: Callable[[], Sequence[Array]], sentence: str) -> None:
    module, build = network()
    build(stub(result), [], TensorType((2, 3), F32), "s")
    with pytest.raises(EvaluationError) as error:
        close(module, build, "s").run({"x": ONES})
    assert str(error.value) == f"op 's' (t.Stub): {sentence}"


def test_ops_without_meaning_say_how_to_give_them_one() -> None:
    text = wrapped(
        '    %0 = "far.Op"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc("f")\n    return %0 : tensor<4xf32>'
    )
    with pytest.raises(EvaluationError) as error:
        Interpreter(parse_module(text, resolve)).run({"arg0": np.ones(4, np.float32)})
    assert str(error.value) == "op 'f' (far.Op): far.Op has no evaluation; install the package that brings it"


def test_weights_that_do_not_fit_their_type() -> None:
    module, build = network()
    interpreter = close(module, build, "mm")
    module.weights["w"] = np.ones((3, 3), np.float32)
    with pytest.raises(InvalidModel) as error:
        interpreter.run({"x": ONES})
    assert str(error.value) == (
        "weight 'w': its array has shape 3x3, its type 4x3; write the module and its weights together again"
    )


RECURSIVE = "func.func @main() {\n  call @f() : () -> ()\n  return\n}\n"


@each(
    ("text", "sentence"),
    [
        ("module @m {}", "module 'm' has no function 'main' to run; name one so"),
        (
            RECURSIVE.replace("@f", "@g"),
            "op '' calls 'g', which is not in the module; add it",
        ),
        (
            RECURSIVE + RECURSIVE.replace("@main", "@f"),
            "function 'f' calls itself; networks have no recursion, remove the call",
        ),
        (
            'func.func @main() {\n  "t.If"() ({\n    return\n  }, {\n    return\n  }) : () -> () loc("i")\n  return\n}',
            "op 'i' (t.If): only one region of one block without arguments can be run in place; rewrite it so",
        ),
        (
            'func.func @main() {\n  %0 = "t.G"() ({\n    "t.Y"() : () -> ()\n  }) : () -> i64 loc("i")\n  return\n}',
            "op 'i' (t.G): its region gives 0 values, it has 1 results; make them equal",
        ),
    ],
)
def test_modules_that_cannot_be_run(text: str, sentence: str) -> None:
    with pytest.raises(InvalidModel) as error:
        Interpreter(parse_module(text, resolve))
    assert str(error.value) == sentence


def test_an_output_that_is_returned_twice_gets_two_names() -> None:
    interpreter = close(*network(), "mm", "mm")
    assert interpreter.output_names == ("mm", "mm_1")
