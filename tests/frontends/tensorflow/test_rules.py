"""The verifier's rules for graphs, and what texts of the dialects may hold."""

from __future__ import annotations

import pytest
from tpuc.errors import ParseError, VerifyError
from tpuc.ir.text import parse_module, parse_type, print_module, print_type
from tpuc.registry import Registry

from tests.families import each
from tests.frontends.tensorflow.graphs import graph, module_of

ISLAND = "%a, %ka = tf_executor.island wraps tf.Identity %x : f32\n"
FETCH = "tf_executor.fetch %a : f32"


@each(
    ("operations", "sentence"),
    [
        ("%a = tf.Identity %x : f32\n" + FETCH, "tf.Identity is inside it; wrap it in a tf_executor.island"),
        (ISLAND + '"tf_executor.Exit"(%ka, %a) : (!tf_executor.control, f32) -> ()\n' + FETCH, "a control dependency"),
        (ISLAND + "%b, %c, %k = tf_executor.Switch %x, %a : f32\n" + FETCH, "the predicate, is not a bool"),
        (ISLAND + "%b, %k = tf_executor.LoopCond %a : f32\n" + FETCH, "its operand is not a bool"),
        (ISLAND + "%b, %k = tf_executor.Merge %ka : f32\n" + FETCH, "it has no input"),
        (ISLAND + "%b, %k = tf_executor.SwitchN %a, %a {num_outs = 1 : i64} : f32\n" + FETCH, "not a 32-bit integer"),
        (ISLAND + "%b, %k = tf_executor.Enter %a, %a : f32\n" + FETCH, "it takes 1 operands besides control"),
        (ISLAND + "%n, %t = tf_executor.NextIteration.Source : f32\n" + FETCH, "its token must go to one"),
        (
            "%n, %t = tf_executor.NextIteration.Source : i32\n" + ISLAND
            + '"tf_executor.NextIteration.Sink"(%t, %a) : (!tf_executor.token, f32) -> ()\n' + FETCH,
            "its value does not have the type of its source's result",
        ),
        (
            "%a, %ka = tf_executor.island {\n%b, %k = tf_executor.Exit %x : f32\ntf_executor.yield %b : f32\n}\n"
            + FETCH,
            "it is outside of tf_executor.graph",
        ),
    ],
)  # fmt: skip
def test_a_graph_that_breaks_a_rule_is_refused(operations: str, sentence: str, registry: Registry) -> None:
    with pytest.raises(VerifyError, match=sentence):
        module_of(graph(operations, "%x: f32", "f32"), registry)


def test_executor_ops_stand_in_graphs_only(registry: Registry) -> None:
    text = f"func.func @main(%x: f32) -> f32 {{\n{ISLAND}return %a : f32\n}}"
    with pytest.raises(VerifyError, match=r"it is outside of tf_executor\.graph"):
        module_of(text, registry)


def test_operations_of_tf_have_no_control_dependencies(registry: Registry) -> None:
    inner = '%b = "tf.Foo"(%ka) : (!tf_executor.control) -> f32\ntf_executor.yield %b : f32'
    text = graph(f"{ISLAND}%b, %kb = tf_executor.island {{\n{inner}\n}}\n{FETCH}", "%x: f32", "f32")
    with pytest.raises(VerifyError, match="control dependency, which only ops of tf_executor have"):
        module_of(text, registry)


def test_a_graph_states_what_it_fetches(registry: Registry) -> None:
    text = graph(ISLAND + FETCH, "%x: f32", "f32").replace("tf_executor.graph {", "tf_executor.graph : i32 {")
    with pytest.raises(ParseError, match="the types of the graph are not those that it fetches"):
        parse_module(text, registry.resolve_op)


def test_a_nested_graph_in_an_island(registry: Registry) -> None:
    inner = f"%g = tf_executor.graph : f32 {{\n{ISLAND}{FETCH}\n}}\ntf_executor.yield %g : f32"
    text = graph(f"%b, %kb = tf_executor.island {{\n{inner}\n}}\ntf_executor.fetch %b : f32", "%x: f32", "f32")
    module = module_of(text, registry)
    assert print_module(parse_module(print_module(module), registry.resolve_op)) == print_module(module)


def test_an_operation_that_nobody_knows_is_kept(registry: Registry) -> None:
    text = (
        "module {\n  func.func @main(%arg0: tensor<2x!tf.string> loc(unknown)) -> !tf.variant {\n"
        "    %0:2 = tf.Foo %arg0 {bar = [1, 2], baz = @f} : "
        "(tensor<2x!tf.string>) -> (!tf.variant, tensor<?x!tf.qint8>)"
        " loc(#loc)\n    return %0#0 : !tf.variant loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n"
    )
    module = module_of("#loc = loc(unknown)\n" + text, registry)
    assert text in print_module(module)


@each(
    "text",
    [
        *(f"tensor<4x!tf.{name}>" for name in ("qint8", "qint16", "qint32", "quint8", "quint16")),
        *(f"tensor<*x!tf.{name}>" for name in ("string", "resource", "variant", "f32ref", "uint8ref")),
        *("!tf.string", "!tf_executor.control", "!tf_executor.token", '!tf_executor<"control">'),
    ],
)
def test_types_of_the_dialects(text: str) -> None:
    assert print_type(parse_type(text)) == text


def test_a_number_in_place_of_an_operand_is_a_constant(registry: Registry) -> None:
    text = "func.func @main(%x: i32) -> i32 {\n%0 = tf.Add %x, -1 : (i32, i32) -> i32\nreturn %0 : i32\n}"
    printed = print_module(module_of(text, registry))
    assert "%0 = tf.Const {value = dense<-1> : tensor<i32>} : () -> i32" in printed
    assert "%1 = tf.Add %arg0, %0 : i32" in printed


@each(
    ("operation", "sentence"),
    [
        ("tf.Add %x : f32", "it takes two operands of one type"),
        ("tf.Add %x, %i : (f32, i32) -> f32", "it takes two operands of one type"),
        ("tf.Const : () -> f32", "a constant needs the attribute value"),
    ],
)
def test_rules_of_single_operations(operation: str, sentence: str, registry: Registry) -> None:
    text = f"func.func @main(%x: f32, %i: i32) -> f32 {{\n%0 = {operation}\nreturn %0 : f32\n}}"
    with pytest.raises(VerifyError, match=sentence):
        module_of(text, registry)
