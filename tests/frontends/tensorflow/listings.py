"""The listings of the document on the dialects, with what had to be corrected in each.

They were written before the syntax of MLIR had settled. `CORRECTIONS` are all replacements: functions get their `@`,
attributes their `=`, a typographic quote becomes a plain one, and constants are ops.
"""

from __future__ import annotations

from collections.abc import Mapping

SOME_FUNCTION = """
/// This is a regular function, taking inputs by value and returning a new value.
/// The body is a regular CFG.
func some_function(%input : tensor<*xf32>) -> tensor<*xf32> {
  // TensorFlow operations are not variadic: this `tf.add` operation always
  // takes two inputs and returns a single output.
  %added = tf.Add %input, %input : tensor<*xf32>
  // Operations have sequential execution semantics in a basic block.
  %three = constant splat<tensor<f32>, 3.0>
  %mul = tf.Mul %input, %three : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>

  // Only control flow v2 is supported in TF dialect.
  %value = "tf.If”(%added, %mul)
             {cond: @cond_func, true_branch: @func_foo, false_branch: @func_bar}
                 : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>

  return %value : tensor<*xf32>
}
"""

CORRECTIONS: Mapping[str, str] = {
    "func some_function": "func.func @some_function",
    "constant splat<tensor<f32>, 3.0>": "tf.Const {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>",
    '"tf.If”': '"tf.If"',
    "cond:": "cond =",
    "true_branch:": "true_branch =",
    "false_branch:": "false_branch =",
}

CALLED = """
func.func @cond_func(%a : tensor<*xf32>, %b : tensor<*xf32>) -> tensor<i1> {
  %0 = tf.Less %a, %b : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xi1>
  %1 = tf.Const {value = dense<0> : tensor<1xi32>} : () -> tensor<1xi32>
  %2 = tf.All %0, %1 : (tensor<*xi1>, tensor<1xi32>) -> tensor<i1>
  return %2 : tensor<i1>
}
func.func @func_foo(%a : tensor<*xf32>, %b : tensor<*xf32>) -> tensor<*xf32> {
  %0 = tf.Sub %b, %a : tensor<*xf32>
  return %0 : tensor<*xf32>
}
func.func @func_bar(%a : tensor<*xf32>, %b : tensor<*xf32>) -> tensor<*xf32> {
  return %a : tensor<*xf32>
}
"""

FOUR_OPS = """
%fetches = tf_executor.graph : tensor<*xf32> {
  // Operations in the current block execute when their inputs are ready,
  // possibly concurrently.
  %0, %ctl0 = tf_executor.opA %feed#0, %feed#1 : tensor<*xf32>
  %1, %ctl1 = tf_executor.opB : tensor<*xf32>
  %2, %ctl2 = tf_executor.opC %1, %ctl0 : tensor<*xf32>
  %3, %ctl3 = tf_executor.opD %2 : tensor<*xf32>
  tf_executor.fetch %3 : tensor<*xf32>
} // end of the “tf_executor.graph" operation/region
"""
"""Its ops A to D stand for any: the dialect is closed, so islands and ops of it take their places."""

PLACEHOLDERS: Mapping[str, str] = {
    "tf_executor.opA %feed#0, %feed#1 :": "tf_executor.island wraps tf.Add %feed#0, %feed#1 :",
    "tf_executor.opB : tensor<*xf32>": "tf_executor.island wraps "
    "tf.Const {value = dense<2.0> : tensor<f32>} : () -> tensor<*xf32>",
    "tf_executor.opC %1, %ctl0 :": "tf_executor.Enter %1, %ctl0 :",
    "tf_executor.opD": "tf_executor.Exit",
}

ISLAND = """
%2, %ctl2 = tf_executor.island (%ctl0)
                  : (tensor<*xf32>, !tf_executor<"control">) -> tensor<*xf32> {
  %added = tf.Add %1, %0 : tensor<*xf32>
  %mul = tf.Mul %added, %1 :tensor<*xf32>

  // The yield terminator operands are the result values of the island.
  tf_executor.yield %mul : tensor<*xf32>
}
"""

WRAPPED_ISLAND = "%2, %ctl2 = tf_executor.island(%ctl0) wraps tf.Add %1, %0 : tensor<*xf32>"

LOOP = """
%fetches = tf_executor.graph {

  %loop.init, %ctl0 = tf_executor.Enter %count.init : i32

  %next_count, %tok = tf_executor.NextIteration.Source : i32

  %loop.body.init, %ctlMerge = tf_executor.Merge %loop.init, %next_count : i32

  %dec_count, %ctlAdd = tf_executor.island
    wraps tf.Add %loop.body.init, -1 : (i32, i32) -> i32

  %loop_cond, %ctlNE = tf_executor.island
    wraps tf.NotEqual %dec_count, 0 : (i32, i32) -> i1

  %true, %false, %ctlSwitch = tf_executor.Switch %loop_cond, %dec_count  : i32

  tf_executor.NextIteration.Sink[%tok] %false : i32

  %exit_count, %ctlExit = tf_executor.Exit %true : i32

  tf_executor.fetch %exit_count : i32
} // end of the "tf_executor.graph" operation/region
"""


def corrected(text: str, corrections: Mapping[str, str]) -> str:
    """The text with every correction made; each must be needed."""
    for wrong, right in corrections.items():
        assert wrong in text, f"nothing to correct: {wrong}"
        text = text.replace(wrong, right)
    return text
