"""Rewrites keep what a graph computes and what is dead in it."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import Module
from tpuc.errors import Unsupported
from tpuc.ir.text import print_module
from tpuc.registry import Registry
from tpuc_tensorflow.rewriting.executing import to_executor
from tpuc_tensorflow.rewriting.functional import to_functional
from tpuc_tensorflow.rewriting.islands import coarsen, fold, graphs_of, prune

from tests.families import each
from tests.frontends.tensorflow import listings
from tests.frontends.tensorflow.graphs import BRANCHES, COUNT_UP, NESTED, branches, graph, module_of, run

PAIRS = [(2.0, 0.0), (0.5, 0.0), (0.5, 1.0), (-1.0, 3.0)]


def counts(module: Module) -> tuple[float, ...]:
    return tuple(float(x) for x in run(module, np.int32(1), np.int32(4), np.float32(1.5)))


def functional(text: str, registry: Registry) -> Module:
    module = module_of(text, registry)
    assert to_functional(module)
    module.verify()
    assert "tf_executor" not in print_module(module)
    return module


@each("goes_back", [False, True])
def test_a_loop_in_functional_form_and_back(goes_back: bool, registry: Registry) -> None:
    module = functional(COUNT_UP, registry)
    assert print_module(module).count("tf.WhileRegion") == 1
    if goes_back:
        assert to_executor(module)
        module.verify()
        assert "tf.WhileRegion" not in print_module(module)
    assert counts(module) == (4.0, float(np.float32(1.5**8)))


@each("rows", [0, 1, 5])
@each("goes_back", [False, True])
def test_loops_in_loops(rows: int, goes_back: bool, registry: Registry) -> None:
    module = functional(NESTED, registry)
    assert print_module(module).count("tf.WhileRegion") == 2
    if goes_back:
        assert to_executor(module)
        module.verify()
    assert run(module, np.int32(rows)) == [sum(sum(range(1, i + 1)) for i in range(rows))]


@each(("x", "y"), PAIRS)
@each("way", ["executor", "functional", "back", "twice"])
def test_branches_in_branches(x: float, y: float, way: str, registry: Registry) -> None:
    module = module_of(BRANCHES, registry) if way == "executor" else functional(BRANCHES, registry)
    if way != "executor":
        assert print_module(module).count("tf.IfRegion") == 2
    if way in ("back", "twice"):
        assert to_executor(module)
        module.verify()
    if way == "twice":
        assert to_functional(module)
        module.verify()
    assert run(module, np.float32(x), np.float32(y)) == list(branches(x, y))


@each(("start", "expected"), [(5, 4), (1, -1)])
def test_the_loop_of_the_document_in_functional_form(start: int, expected: int, registry: Registry) -> None:
    """Its loop goes on where the predicate is false."""
    text = f"func.func @main(%count.init: i32) -> i32 {{\n{listings.LOOP}\nreturn %fetches : i32\n}}"
    module = functional(text, registry)
    assert "tf.LogicalNot" in print_module(module)
    assert run(module, np.int32(start)) == [expected]


def test_a_loop_whose_merge_has_two_values_from_before_is_refused(registry: Registry) -> None:
    """Damaged files have such loops."""
    loop = listings.LOOP.replace("%loop.init, %next_count : i32", "%loop.init, %next_count, %loop.init : i32")
    text = f"func.func @main(%count.init: i32) -> i32 {{\n{loop}\nreturn %fetches : i32\n}}"
    with pytest.raises(Unsupported, match="its frame has no functional form here"):
        functional(text, registry)


def test_pruning_keeps_what_is_needed_by_control(registry: Registry) -> None:
    text = """
    %a, %ka = tf_executor.island wraps tf.Neg %x : f32
    %b, %kb = tf_executor.island wraps tf.Abs %x : f32
    %c, %kc = tf_executor.island(%ka) wraps tf.Identity %x : f32
    tf_executor.fetch %c : f32
    """
    module = module_of(graph(text, "%x: f32", "f32"), registry)
    assert [prune(one) for one in graphs_of(module)] == [True]
    module.verify()
    printed = print_module(module)
    assert "tf.Neg" in printed
    assert "tf.Abs" not in printed
    assert [prune(one) for one in graphs_of(module)] == [False]
    assert run(module, np.float32(3)) == [3]


def test_pruning_takes_whole_loops(registry: Registry) -> None:
    text = COUNT_UP.replace("tf_executor.fetch %ie, %se : i32, f32", "tf_executor.fetch %limit, %x : i32, f32")
    module = module_of(text, registry)
    assert [prune(one) for one in graphs_of(module)] == [True]
    module.verify()
    assert len(graphs_of(module)[0].regions[0].blocks[0].operations) == 1
    assert run(module, np.int32(1), np.int32(4), np.float32(1.5)) == [4, 1.5]


def test_islands_in_a_row_become_one(registry: Registry) -> None:
    text = """
    %a, %ka = tf_executor.island wraps tf.Neg %x : f32
    %b, %kb = tf_executor.island wraps tf.Abs %a : f32
    %c, %kc = tf_executor.island(%kb) wraps tf.Mul %b, %a : f32
    tf_executor.fetch %c : f32
    """
    module = module_of(graph(text, "%x: f32", "f32"), registry)
    assert [coarsen(one) for one in graphs_of(module)] == [True]
    module.verify()
    assert print_module(module).count("tf_executor.island") == 1
    assert run(module, np.float32(3)) == [-9]


@each(("x", "y"), PAIRS)
def test_islands_of_branches_become_larger(x: float, y: float, registry: Registry) -> None:
    """What is dead in one branch must not become dead in both."""
    module = module_of(BRANCHES, registry)
    before = print_module(module).count("tf_executor.island")
    assert [coarsen(one) for one in graphs_of(module)] == [True]
    module.verify()
    assert print_module(module).count("tf_executor.island") < before
    assert run(module, np.float32(x), np.float32(y)) == list(branches(x, y))


DIFFERENCE = """
    %xt, %xf, %k1 = tf_executor.Switch %p, %x : i32
    %zero, %k2 = tf_executor.island wraps tf.Sub %xt, %xt : i32
    %minus, %k3 = tf_executor.island wraps tf.Neg %xf : i32
    %r, %k4 = tf_executor.Merge %zero, %minus : i32
    tf_executor.fetch %r : i32
"""


def test_a_difference_that_is_zero_stays_dead_in_a_branch_that_is_not_taken(registry: Registry) -> None:
    module = module_of(graph(DIFFERENCE, "%p: i1, %x: i32", "i32"), registry)
    assert [fold(one, module) for one in graphs_of(module)] == [True]
    module.verify()
    assert "tf.Sub" not in print_module(module)
    assert run(module, True, np.int32(7)) == [0]
    assert run(module, False, np.int32(7)) == [-7]


def test_folding_without_the_control_dependency_would_be_wrong(registry: Registry) -> None:
    """The counter-example: a constant is live in both branches, and Merge takes it where the other one is meant."""
    constant = "tf.Const {value = dense<0> : tensor<i32>} : () -> i32"
    module = module_of(graph(DIFFERENCE.replace("tf.Sub %xt, %xt : i32", constant), "%p: i1, %x: i32", "i32"), registry)
    assert run(module, False, np.int32(7)) == [0]


def test_a_difference_of_floats_is_no_constant(registry: Registry) -> None:
    text = "%r, %k = tf_executor.island wraps tf.Sub %x, %x : f32\ntf_executor.fetch %r : f32"
    module = module_of(graph(text, "%x: f32", "f32"), registry)
    assert [fold(one, module) for one in graphs_of(module)] == [False]
    assert np.isnan(run(module, np.float32(np.inf))[0])


def test_constants_of_other_islands_are_folded(registry: Registry) -> None:
    text = """
    %a, %ka = tf_executor.island wraps tf.Const {value = dense<2> : tensor<i32>} : () -> i32
    %b, %kb = tf_executor.island wraps tf.Const {value = dense<3> : tensor<i32>} : () -> i32
    %c, %kc = tf_executor.island wraps tf.Mul %a, %b : i32
    %r, %kr = tf_executor.island wraps tf.Add %c, %x : i32
    tf_executor.fetch %r : i32
    """
    module = module_of(graph(text, "%x: i32", "i32"), registry)
    assert [fold(one, module) for one in graphs_of(module)] == [True]
    module.verify()
    assert "dense<6> : tensor<i32>" in print_module(module)
    assert "tf.Mul" not in print_module(module)
    assert run(module, np.int32(1)) == [7]


def test_a_value_that_leaves_its_branch_without_a_merge_is_refused(registry: Registry) -> None:
    text = "%t, %f, %k = tf_executor.Switch %p, %x : f32\n%a, %ka = tf_executor.island wraps tf.Neg %t : f32\n"
    module = module_of(graph(text + "tf_executor.fetch %a : f32", "%p: i1, %x: f32", "f32"), registry)
    with pytest.raises(Exception, match="used outside, without a Merge or Exit"):
        to_functional(module)
