"""Text as other tools write it: operands that are absent, numbers without types, choices as their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import InvalidModel, ParseError
from tpuc.ir.operation import Module
from tpuc.ir.text import parse_module, print_module, read_module
from tpuc.ir.types import F32, NoneType, TensorType
from tpuc_testing.equality import first_difference

from tests.core.ir.ops import Kept, Listed, Nothing, Pair, resolve
from tests.core.ir.test_text import wrapped
from tests.families import each

WITHOUT = '%0 = "t.Listed"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>'
TWO = '%0 = "t.Listed"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
ALL = '%0 = "t.Listed"(%arg0, %arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
NONE = '%n = "t.None"() : () -> none'
AS_LISTED = '%0:2 = "t.Listed"(%arg0, %n, %n) : (tensor<4xf32>, none, none) -> (tensor<4xf32>, none)'
IN_THE_MIDDLE = '%0 = "t.Listed"(%arg0, %n, %arg0) : (tensor<4xf32>, none, tensor<4xf32>) -> tensor<4xf32>'
MATMUL = '%1 = "t.MatMul"(%m, %m, %n) : (tensor<4x4xf32>, tensor<4x4xf32>, none) -> tensor<4x4xf32>'


def read(*lines: str) -> Module:
    body = "\n".join([*lines, "return %0 : tensor<4xf32>"])
    return parse_module(wrapped(body, "%arg0: tensor<4xf32>, %m: tensor<4x4xf32>"), resolve)


def listed(module: Module) -> Listed:
    return next(operation.op for operation in module.walk() if isinstance(operation.op, Listed))


@each(
    ("lines", "operands", "nones"),
    [
        ([WITHOUT], 1, 1),
        ([TWO], 2, 1),
        ([ALL], 3, 0),
        ([NONE, AS_LISTED], 1, 1),
        ([NONE, IN_THE_MIDDLE], 3, 1),
        ([NONE, MATMUL, WITHOUT], 1, 1),
        ([WITHOUT, NONE, MATMUL], 1, 2),
        ([NONE, WITHOUT], 1, 2),
    ],
)
def test_absent_operands_and_results_are_listed_and_taken_out_again(
    lines: list[str], operands: int, nones: int
) -> None:
    """A value of none that others use stands for them too; else the text of the function starts with one."""
    module = read(*lines)
    operation = next(operation for operation in module.walk() if isinstance(operation.op, Listed))
    assert (len(operation.operands), len(operation.results)) == (operands, 1)
    printed = print_module(module)
    assert printed.count('"t.None"') == nones
    again = parse_module(printed, resolve)
    assert first_difference(module, again) is None
    assert print_module(again) == printed
    line = next(line for line in printed.splitlines() if "t.Listed" in line)
    assert line.partition("->")[2].strip().startswith("(tensor<4xf32>, none)")
    assert line.partition(" : (")[2].partition(")")[0].count(",") == 2
    again.verify()


def test_an_operand_that_text_leaves_out_comes_where_the_op_keeps_it() -> None:
    module = read('%0 = "t.Kept"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>')
    kept = next(operation for operation in module.walk() if isinstance(operation.op, Kept))
    assert [isinstance(value.type, NoneType) for value in kept.operands] == [False, True]
    printed = print_module(module)
    assert printed.count('"t.None"') == 1
    assert first_difference(module, parse_module(printed, resolve)) is None


def test_an_operand_inside_a_region_takes_the_none_of_the_function() -> None:
    inner = WITHOUT.replace("%0", "%2")
    group = f'%0 = "t.Group"(%arg0) ({{ {inner} "t.Yield"(%2) : (tensor<4xf32>) -> () }}) : '
    module = read(f"{group}(tensor<4xf32>) -> tensor<4xf32>")
    printed = print_module(module)
    assert [line.strip().partition(" loc")[0] for line in printed.splitlines() if "None" in line] == [
        '%0 = "t.None"() : () -> none'
    ]
    again = parse_module(printed, resolve)
    assert first_difference(module, again) is None
    assert not any(isinstance(operation.op, Nothing) for operation in again.walk())


@each(
    ("attributes", "op"),
    [
        ("count = 3, limit = 6, mode = 1, shift = [4], target = 1.0", Listed(3, 6.0, "add", 4, target=True)),
        ("count = -3 : si32, limit = -1.0, mode = 0 : i64, shift = 4 : si32", Listed(-3, -1.0, "none", 4)),
        ('limit = 1e-05, mode = "add", target = true', Listed(limit=1e-5, mode="add", target=True)),
        ("limit = 25E2 : f64, target = 0.0 : f64", Listed(limit=2500.0)),
    ],
)
def test_numbers_without_types_have_those_of_their_fields(attributes: str, op: Listed) -> None:
    module = read(WITHOUT.replace(" :", f" {{{attributes}}} :", 1))
    assert listed(module) == op
    printed = print_module(module)
    assert f"mode = {int(op.mode == 'add')} : i64, shift = [{op.shift}]" in printed
    assert f"target = {np.format_float_scientific(op.target, 6, unique=False)} : f64" in printed
    assert listed(parse_module(printed, resolve)) == op


@each(
    ("attributes", "sentence"),
    [
        ("count = 1 : i64", "attribute 'count' must be an integer such as 1 : si32, this one is 1 : i64"),
        ("limit = 1 : i64", "attribute 'limit' must be a float such as 1.0 : f64, this one is 1 : i64"),
        ("mode = 2", "attribute 'mode' must be a number : i64, 0 for none, 1 for add, this one is 2 : i64"),
        ('mode = "mul"', "attribute 'mode' must be a number : i64, 0 for none, 1 for add, this one is \"mul\""),
        ("shift = [1, 2]", "attribute 'shift' must be a list of an integer such as 1 : i64 alone, this one is [1, 2]"),
    ],
)
def test_numbers_of_another_type_are_refused(attributes: str, sentence: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(WITHOUT.replace(" :", f" {{{attributes}}} :", 1))
    assert sentence in str(caught.value)


def test_results_that_nobody_uses_may_be_of_type_none() -> None:
    """The op says what they are."""
    module = parse_module(
        wrapped('%a, %b = "t.Pair"(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>, none)\nreturn %a : tensor<4xf32>'),
        resolve,
    )
    module.verify()
    pair = next(operation for operation in module.walk() if isinstance(operation.op, Pair))
    assert [value.type for value in pair.results] == [TensorType((4,), F32)] * 2


@each("word", ["F32", "FLOAT"])
def test_a_word_that_means_another_is_read_as_that(word: str) -> None:
    module = read(WITHOUT.replace(" :", f' {{word = "{word}"}} :', 1))
    assert listed(module).word == "FLOAT"
    assert 'word = "FLOAT"' in print_module(module)


@each(("shape", "fits"), [((4, 3), True), ((1, 4, 1, 3), True), ((12,), True), ((3, 4), False), ((2, 6), False)])
def test_weights_without_extents_of_1_or_in_one_row_take_their_stated_shape(
    shape: tuple[int, ...], fits: bool, tmp_path: Path
) -> None:
    head = 'module @m attributes {module.weight_file = "w.npz"}'
    body = wrapped('%0 = "t.Weight"() : () -> tensor<4x3x1x1xf32> loc("w")\nreturn %0 : tensor<4x3x1x1xf32>', "", "")
    body = body.replace("module @m", head).replace("->  {", "-> tensor<4x3x1x1xf32> {")
    (tmp_path / "m.mlir").write_text(body)
    array = np.arange(12, dtype=np.float32).reshape(shape)
    np.savez(tmp_path / "w.npz", w=array)
    module = read_module(tmp_path / "m.mlir", resolve)
    if fits:
        np.testing.assert_array_equal(module.weights["w"], array.reshape(4, 3, 1, 1))
        return
    with pytest.raises(InvalidModel, match=r"weight 'w': its array has shape .*, its type 4x3x1x1; the npz does not"):
        _ = module.weights["w"]
