"""What `tf_executor` means: dead values, control dependencies, frames and their steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tpuc.registry import Registry

from tests.families import each
from tests.frontends.tensorflow.graphs import COUNT_UP, NESTED, graph, module_of, run, run_in_order

_LIVE = "%{0}, %k{0} = tf_executor.island wraps tf.Identity %{0}0 : f32"
_DEAD = "%h{0}, %{0}, %k{0} = tf_executor.Switch %yes, %{0}0 : f32"
_START = "%yes, %ky = tf_executor.island wraps tf.Const {value = dense<true> : tensor<i1>} : () -> i1\n"


def operand(name: str, is_live: bool) -> str:
    """A value `%NAME` of the graph and its control `%kNAME`, live or dead. That of a Switch itself is live."""
    if is_live:
        return _LIVE.format(name)
    dead = _DEAD.format(name).replace(f"%k{name} =", f"%s{name} =")
    return f"{dead}\n%i{name}, %k{name} = tf_executor.island wraps tf.Identity %{name} : f32"


def is_dead(text: str, registry: Registry, inputs: int) -> bool:
    """Is `%r` dead, when inputs are 1, 2, ...? Fetching a dead value is an error that says so."""
    arguments = ", ".join(f"%{name}0: f32" for name in "abc"[:inputs])
    module = module_of(graph(_START + text + "\ntf_executor.fetch %r : f32", arguments, "f32"), registry)
    values = [np.float32(1 + index) for index in range(inputs)]
    try:
        run(module, *values)
    except ValueError as error:
        return "fetched value 0 is dead" in str(error)
    return False


@each(("a", "b", "control"), list(itertools.product([True, False], repeat=3)))
@each(
    "op",
    [
        "%r, %kr = tf_executor.island(%kc) wraps tf.Add %a, %b : f32",
        "%r, %kr = tf_executor.island(%kc) {\n%s = tf.Add %a, %b : f32\n tf_executor.yield %s : f32\n}",
        "%r, %of, %kr = tf_executor.Switch %yes, %a, %kc : f32\n%u, %ku = tf_executor.island wraps tf.Add %r, %b : f32",
    ],
)
def test_any_dead_operand_makes_results_dead(op: str, a: bool, b: bool, control: bool, registry: Registry) -> None:
    text = "\n".join([operand("a", a), operand("b", b), operand("c", control), op])
    wanted = "%r" if "Switch" not in op else "%u"
    text = text.replace("%r,", "%r0,").replace(" %r,", " %r0,") if wanted == "%u" else text
    text = text.replace("%u,", "%r,") if wanted == "%u" else text
    assert is_dead(text, registry, 3) == (not (a and b and control))


@each(("a", "b", "control"), list(itertools.product([True, False], repeat=3)))
def test_merge_is_dead_when_control_or_all_inputs_are(a: bool, b: bool, control: bool, registry: Registry) -> None:
    text = "\n".join([operand("a", a), operand("b", b), operand("c", control)])
    text += "\n%r, %kr = tf_executor.Merge %a, %b, %kc : f32"
    assert is_dead(text, registry, 3) == (not control or not (a or b))


@each(("a", "b", "expected"), [(True, False, 0), (False, True, 1)])
def test_merge_says_which_input_was_live(a: bool, b: bool, expected: int, registry: Registry) -> None:
    text = "\n".join([_START, operand("a", a), operand("b", b), "%r, %i, %kr = tf_executor.Merge %a, %b : f32"])
    text += "\ntf_executor.fetch %r, %i : f32, tensor<*xi32>"
    module = module_of(graph(text, "%a0: f32, %b0: f32", "f32, tensor<*xi32>"), registry)
    value, index = run(module, np.float32(10), np.float32(20))
    assert (value, index) == ((10, 20)[expected], expected)


@each("predicate", [True, False])
@each("side", [True, False])
def test_switch_gives_the_data_to_the_side_of_its_predicate(predicate: bool, side: bool, registry: Registry) -> None:
    names = "%r, %other" if side else "%other, %r"
    text = f"{names}, %k = tf_executor.Switch %p, %x : f32\ntf_executor.fetch %r : f32"
    module = module_of(graph(text, "%p: i1, %x: f32", "f32"), registry)
    if side == predicate:
        assert run(module, predicate, np.float32(3)) == [3]
    else:
        with pytest.raises(ValueError, match="fetched value 0 is dead"):
            run(module, predicate, np.float32(3))


@each("index", [0, 1, 2])
def test_switch_n_gives_the_data_to_one_output(index: int, registry: Registry) -> None:
    text = "%a, %b, %c, %k = tf_executor.SwitchN %x, %i {num_outs = 3 : i64} : f32\n" + "\n".join(
        f"%{name}s, %k{name} = tf_executor.island wraps tf.Mul %{name}, %{name}f : f32" for name in "abc"
    )
    for number, name in enumerate("abc"):
        constant = f"tf.Const {{value = dense<{number + 1}.0> : tensor<f32>}} : () -> f32"
        text = f"%{name}f, %f{name} = tf_executor.island wraps {constant}\n{text}"
    text += "\n%r, %kr = tf_executor.Merge %as, %bs, %cs : f32\ntf_executor.fetch %r : f32"
    module = module_of(graph(text, "%x: f32, %i: i32", "f32"), registry)
    assert run(module, np.float32(10), np.int32(index)) == [10 * (index + 1)]


def test_a_control_trigger_is_live_where_its_operands_are_dead(registry: Registry) -> None:
    text = operand("a", False) + "\n%t = tf_executor.ControlTrigger %ka"
    text += "\n%r, %kr = tf_executor.island(%t) wraps tf.Identity %b0 : f32"
    assert not is_dead(text, registry, 2)
    assert is_dead(text.replace("island(%t)", "island(%ka)"), registry, 2)


def test_what_is_sent_is_received(registry: Registry) -> None:
    text = '%r, %kr = tf_executor.Recv {tensor_name = "t"} : f32\n%ks = tf_executor.Send %a0 {tensor_name = "t"} : f32'
    module = module_of(graph(f"{text}\ntf_executor.fetch %r : f32", "%a0: f32", "f32"), registry)
    assert run(module, np.float32(5)) == [5]


@each("steps", [0, 1, 5])
def test_a_loop_runs_so_many_steps(steps: int, registry: Registry) -> None:
    module = module_of(COUNT_UP, registry)
    count, power = run(module, np.int32(3), np.int32(3 + steps), np.float32(1.5))
    assert count == 3 + steps
    assert power == np.float32(1.5 ** (2**steps))


@each("rows", [0, 1, 2, 5])
def test_loops_in_loops(rows: int, registry: Registry) -> None:
    module = module_of(NESTED, registry)
    assert run(module, np.int32(rows)) == [sum(sum(range(1, i + 1)) for i in range(rows))]


@each("seed", range(20))
def test_the_order_of_firing_does_not_matter(seed: int, registry: Registry) -> None:
    """Steps of a loop may run side by side: an operation fires as soon as its operands are there."""
    assert run_in_order(module_of(NESTED, registry), seed, [np.int32(4)]) == [10]
    count, power = run_in_order(module_of(COUNT_UP, registry), seed, [np.int32(0), np.int32(3), np.float32(2)])
    assert (count, power) == (3, 256)


@each("is_taken", [True, False])
def test_a_loop_in_a_branch_that_is_not_taken_is_dead(is_taken: bool, registry: Registry) -> None:
    """Its frame is entered by a dead value, so no step runs and what leaves it is dead."""
    loop = COUNT_UP.partition("{\n%g:2 = tf_executor.graph {")[2].partition("tf_executor.fetch")[0]
    loop = loop.replace("tf.Identity %start : i32", "tf.Identity %startt : i32").replace("Enter %x", "Enter %xt")
    loop = loop.replace("Enter %limit", "Enter %limitt")
    switches = "".join(
        f"%{name}t, %{name}f, %q{name} = tf_executor.Switch %p, %{name} : {type}\n"
        for name, type in (("start", "i32"), ("x", "f32"), ("limit", "i32"))
    )
    text = f"{switches}{loop}%r, %kr = tf_executor.Merge %se, %xf : f32\ntf_executor.fetch %r : f32"
    module = module_of(graph(text, "%p: i1, %start: i32, %limit: i32, %x: f32", "f32"), registry)
    assert run(module, is_taken, np.int32(0), np.int32(2), np.float32(3)) == [81 if is_taken else 3]


def test_a_fetch_that_nothing_computes_is_an_error(registry: Registry) -> None:
    text = '%r, %kr = tf_executor.Recv {tensor_name = "never"} : f32\ntf_executor.fetch %r : f32'
    with pytest.raises(ValueError, match="fetched value 0 is never computed"):
        run(module_of(graph(text, "%a: f32", "f32"), registry), np.float32(1))
