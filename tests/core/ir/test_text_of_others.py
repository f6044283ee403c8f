"""Text as other tools write it: operands that are absent, numbers without types, choices as their numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.errors import ParseError
from tpuc.ir.equality import first_difference
from tpuc.ir.operation import Module
from tpuc.ir.text import parse_module, print_module
from tpuc.ir.types import NoneType

from tests.core.ir.ops import Kept, Listed, Nothing, resolve
from tests.core.ir.test_text import wrapped

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("attributes", "op"),
    [
        ("count = 3, limit = 6, mode = 1, shift = [4], target = 1.0", Listed(3, 6.0, "add", 4, True)),
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


@pytest.mark.parametrize(
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
