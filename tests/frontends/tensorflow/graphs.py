"""Graphs of `tf_executor` that tests run, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.ir import Module
from tpuc.ir.text import parse_module
from tpuc.registry import Registry
from tpuc_ops.regions import run_function
from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.evaluation.executor import run_graph

Array = NDArray[Any]


def graph(operations: str, arguments: str, results: str) -> str:
    """`main` with one graph, whose operations end in a fetch."""
    count = results.count(",") + 1
    returned = ", ".join(f"%g#{index}" for index in range(count)) if count > 1 else "%g"
    head = f"%g:{count}" if count > 1 else "%g"
    types = f"({results})" if count > 1 else results
    return (
        f"func.func @main({arguments}) -> {types} {{\n{head} = tf_executor.graph {{\n{operations}\n}}\n"
        f"return {returned} : {results}\n}}\n"
    )


def module_of(text: str, registry: Registry) -> Module:
    module = parse_module(text, registry.resolve_op)
    module.verify()
    return module


def run(module: Module, *inputs: Any) -> list[Array]:
    return run_function(module, "main", [np.asarray(item) for item in inputs])


def run_in_order(module: Module, seed: int, inputs: Sequence[Any]) -> list[Array]:
    """As `run`, with whatever could fire next drawn by seed."""
    function = module.main
    (operation,) = [one for one in function.operations if isinstance(one.op, ex.Graph)]
    values = dict(zip(function.inputs, map(np.asarray, inputs), strict=True))
    draw = np.random.default_rng(seed)
    return run_graph(operation, values, module, lambda count: int(draw.integers(count)))


COUNT_UP = graph(
    """
    %zero, %c0 = tf_executor.island wraps tf.Identity %start : i32
    %i0, %c1 = tf_executor.Enter %zero {frame_name = "up"} : i32
    %s0, %c2 = tf_executor.Enter %x {frame_name = "up"} : f32
    %n, %c3 = tf_executor.Enter %limit {frame_name = "up", is_constant = true} : i32
    %i1, %ti = tf_executor.NextIteration.Source : i32
    %s1, %ts = tf_executor.NextIteration.Source : f32
    %i, %c4 = tf_executor.Merge %i0, %i1 : i32
    %s, %c5 = tf_executor.Merge %s0, %s1 : f32
    %less, %c6 = tf_executor.island wraps tf.Less %i, %n : (i32, i32) -> i1
    %go, %c7 = tf_executor.LoopCond %less : i1
    %it, %if, %c8 = tf_executor.Switch %go, %i : i32
    %st, %sf, %c9 = tf_executor.Switch %go, %s : f32
    %in, %c10 = tf_executor.island wraps tf.Add %it, 1 : i32
    %sn, %c11 = tf_executor.island wraps tf.Mul %st, %st : f32
    tf_executor.NextIteration.Sink[%ti] %in : i32
    tf_executor.NextIteration.Sink[%ts] %sn : f32
    %ie, %c12 = tf_executor.Exit %if : i32
    %se, %c13 = tf_executor.Exit %sf : f32
    tf_executor.fetch %ie, %se : i32, f32
    """,
    "%start: i32, %limit: i32, %x: f32",
    "i32, f32",
)
"""While start < limit: start += 1, x *= x."""

NESTED = graph(
    """
    %zero, %c0 = tf_executor.island wraps tf.Const {value = dense<0> : tensor<i32>} : () -> i32
    %i0, %c1 = tf_executor.Enter %zero {frame_name = "outer"} : i32
    %t0, %c2 = tf_executor.Enter %zero {frame_name = "outer"} : i32
    %n, %c3 = tf_executor.Enter %rows {frame_name = "outer", is_constant = true} : i32
    %i1, %ti = tf_executor.NextIteration.Source : i32
    %t1, %tt = tf_executor.NextIteration.Source : i32
    %i, %c4 = tf_executor.Merge %i0, %i1 : i32
    %t, %c5 = tf_executor.Merge %t0, %t1 : i32
    %less, %c6 = tf_executor.island wraps tf.Less %i, %n : (i32, i32) -> i1
    %go, %c7 = tf_executor.LoopCond %less : i1
    %it, %if, %c8 = tf_executor.Switch %go, %i : i32
    %tt0, %tf, %c9 = tf_executor.Switch %go, %t : i32
    %j0, %d1 = tf_executor.Enter %it {frame_name = "inner"} : i32
    %u0, %d2 = tf_executor.Enter %tt0 {frame_name = "inner"} : i32
    %j1, %tj = tf_executor.NextIteration.Source : i32
    %u1, %tu = tf_executor.NextIteration.Source : i32
    %j, %d4 = tf_executor.Merge %j0, %j1 : i32
    %u, %d5 = tf_executor.Merge %u0, %u1 : i32
    %more, %d6 = tf_executor.island wraps tf.Greater %j, 0 : (i32, i32) -> i1
    %on, %d7 = tf_executor.LoopCond %more : i1
    %jt, %jf, %d8 = tf_executor.Switch %on, %j : i32
    %ut, %uf, %d9 = tf_executor.Switch %on, %u : i32
    %jn, %d10 = tf_executor.island wraps tf.Sub %jt, 1 : i32
    %un, %d11 = tf_executor.island wraps tf.Add %ut, %jt : i32
    tf_executor.NextIteration.Sink[%tj] %jn : i32
    tf_executor.NextIteration.Sink[%tu] %un : i32
    %ue, %d12 = tf_executor.Exit %uf : i32
    %in, %c10 = tf_executor.island wraps tf.Add %it, 1 : i32
    tf_executor.NextIteration.Sink[%ti] %in : i32
    tf_executor.NextIteration.Sink[%tt] %ue : i32
    %te, %c11 = tf_executor.Exit %tf : i32
    tf_executor.fetch %te : i32
    """,
    "%rows: i32",
    "i32",
)
"""The sum over i < rows of 1 + 2 + ... + i."""

BRANCHES = graph(
    """
    %one, %k1 = tf_executor.island wraps tf.Const {value = dense<1.0> : tensor<f32>} : () -> f32
    %big, %k2 = tf_executor.island wraps tf.Greater %x, %one : (f32, f32) -> i1
    %xt, %xf, %k3 = tf_executor.Switch %big, %x : f32
    %pt, %pf, %k4 = tf_executor.Switch %big, %big : i1
    %pivot, %kt = tf_executor.island wraps tf.Identity %pf : i1
    %two, %k5 = tf_executor.island(%kt) wraps tf.Const {value = dense<2.0> : tensor<f32>} : () -> f32
    %square, %k6 = tf_executor.island wraps tf.Mul %xt, %xt : f32
    %yt, %yf, %k7 = tf_executor.Switch %big, %y : f32
    %small, %k8 = tf_executor.island wraps tf.Less %yf, %xf : (f32, f32) -> i1
    %at, %af, %k9 = tf_executor.Switch %small, %xf : f32
    %neg, %k10 = tf_executor.island wraps tf.Neg %at : f32
    %inner, %k11 = tf_executor.Merge %af, %neg : f32
    %sum, %k12 = tf_executor.island wraps tf.Add %inner, %two : f32
    %r, %k13 = tf_executor.Merge %sum, %square : f32
    %s, %k14 = tf_executor.Merge %yf, %xt : f32
    tf_executor.fetch %r, %s : f32, f32
    """,
    "%x: f32, %y: f32",
    "f32, f32",
)
"""(x * x, x) where x > 1, else (2 + (-x where y < x, else x), y)."""


def branches(x: float, y: float) -> tuple[float, float]:
    return (x * x, x) if x > 1 else (2 + (-x if y < x else x), y)
