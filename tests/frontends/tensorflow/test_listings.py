"""Every listing of the document on the dialects is read, verified, printed, read again and evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.ir import Module
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry
from tpuc_ops.regions import run_function
from tpuc_testing.equality import first_difference

from tests.families import each
from tests.frontends.tensorflow import listings
from tests.frontends.tensorflow.listings import corrected


def read(text: str, registry: Registry) -> Module:
    """The module of a text, which is verified, and equal when it is printed and read again."""
    module = parse_module(text, registry.resolve_op)
    module.verify()
    printed = print_module(module)
    again = parse_module(printed, registry.resolve_op)
    again.verify()
    assert print_module(again) == printed
    assert first_difference(module, again) is None
    return module


def in_function(body: str, arguments: str, results: str, returned: str) -> str:
    return f"func.func @main({arguments}) -> {results} {{\n{body}\nreturn {returned} : {results}\n}}\n"


def in_graph(operations: str) -> str:
    """A graph in which `%0`, `%1` and `%ctl0` come from before the operations, and that fetches `%2`."""
    before = (
        "%0, %ctl0 = tf_executor.island wraps tf.Identity %x : tensor<*xf32>\n"
        "%1, %ctl1 = tf_executor.island wraps tf.Neg %y : tensor<*xf32>\n"
    )
    body = f"%r = tf_executor.graph : tensor<*xf32> {{\n{before}{operations}\ntf_executor.fetch %2 : tensor<*xf32>\n}}"
    return in_function(body, "%x: tensor<*xf32>, %y: tensor<*xf32>", "tensor<*xf32>", "%r")


@each(("x", "expected"), [(1.0, 1.0), (-1.0, -2.0)])
def test_a_function_of_the_tf_dialect(x: float, expected: float, registry: Registry) -> None:
    """Added = 2x, mul = 3x; where added < mul the result is mul - added, else added."""
    text = listings.CALLED + corrected(listings.SOME_FUNCTION, listings.CORRECTIONS)
    module = read(text, registry)
    (result,) = run_function(module, "some_function", [np.full(2, x, np.float32)])
    np.testing.assert_array_equal(result, np.full(2, expected, np.float32))


def test_a_graph_of_four_ops_in_the_frame_of_its_own(registry: Registry) -> None:
    body = corrected(listings.FOUR_OPS, listings.PLACEHOLDERS).replace("%feed#0", "%f").replace("%feed#1", "%g")
    module = read(in_function(body, "%f: tensor<*xf32>, %g: tensor<*xf32>", "tensor<*xf32>", "%fetches"), registry)
    (result,) = run_function(module, "main", [np.ones(1, np.float32), np.ones(1, np.float32)])
    assert result == 2.0


def test_an_unknown_op_in_a_graph_is_refused(registry: Registry) -> None:
    """The dialect is closed: the placeholders of the document are no ops."""
    body = listings.FOUR_OPS.replace("%feed#0", "%f").replace("%feed#1", "%g")
    text = in_function(body, "%f: tensor<*xf32>, %g: tensor<*xf32>", "tensor<*xf32>", "%fetches")
    with pytest.raises(Exception, match="expected an operation"):
        parse_module(text, registry.resolve_op)


def test_an_island_of_two_operations(registry: Registry) -> None:
    """(x - y) times -y."""
    module = read(in_graph(listings.ISLAND), registry)
    (result,) = run_function(module, "main", [np.array([7.0], np.float32), np.array([2.0], np.float32)])
    np.testing.assert_array_equal(result, [(7.0 - 2.0) * -2.0])


def test_an_island_around_one_operation_is_printed_as_such(registry: Registry) -> None:
    module = read(in_graph(listings.WRAPPED_ISLAND), registry)
    assert "tf_executor.island(%1#1) wraps tf.Add %2#0, %1#0 : tensor<*xf32>" in print_module(module)
    (result,) = run_function(module, "main", [np.array([7.0], np.float32), np.array([2.0], np.float32)])
    np.testing.assert_array_equal(result, [5.0])


@each(("start", "expected"), [(5, 4), (2, 1), (1, None)])
def test_the_loop_as_it_is_written_leaves_at_the_first_count_that_is_not_zero(
    start: int, expected: int | None, registry: Registry
) -> None:
    """Its Switch gives the count to Exit where that differs from 0, and to the next step where it is 0."""
    module = read(in_function(listings.LOOP, "%count.init: i32", "i32", "%fetches"), registry)
    if expected is None:  # 1 becomes 0, which goes on to -1
        expected = -1
    (result,) = run_function(module, "main", [np.array(start, np.int32)])
    assert result == expected


@each("start", [1, 2, 5])
def test_the_loop_with_its_outputs_exchanged_returns_zero(start: int, registry: Registry) -> None:
    """What the text above the listing says: the last value of the counter is always zero."""
    text = listings.LOOP.replace("[%tok] %false", "[%tok] %swap").replace("Exit %true", "Exit %false")
    text = text.replace("[%tok] %swap", "[%tok] %true")
    module = read(in_function(text, "%count.init: i32", "i32", "%fetches"), registry)
    (result,) = run_function(module, "main", [np.array(start, np.int32)])
    assert result == 0
