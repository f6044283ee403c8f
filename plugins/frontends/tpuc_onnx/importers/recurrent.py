"""Recurrent layers that TOP supports; others were unrolled before."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ForeignNode, Op, Value
from tpuc_importing.operands import optional_value
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE
from tpuc_onnx.recurrence import activations, directions


@TABLE.imports("GRU", "LSTM", "RNN")
def recurrent(node: ForeignNode, build: OnnxBuilder) -> Sequence[Value]:
    """Import a layer; a backward layer processes the reversed steps."""
    x, weight, recurrence = (build.value(name) for name in node.inputs[:3])
    by_batch = bool(node.attributes.get("layout", 0))
    backwards = directions(node) == (1,)
    names = list((*node.outputs, "", "")[:3])
    if backwards:
        x = _reversed(build, x, 1 if by_batch else 0, f"{names[0] or names[1]}_from_the_end")
        names[0] = f"{names[0] or names[1]}_reversed"
    states = [optional_value(node, build, index) for index in (3, 5, 6)]
    operands = [x, weight, recurrence, *states[: 3 if node.op_type == "LSTM" else 2]]
    results = build.build_all(_op(node, by_batch), operands, names)
    if backwards and node.outputs[0]:
        results[0] = _reversed(build, results[0], 1 if by_batch else 0, node.outputs[0])
    return results


def _op(node: ForeignNode, by_batch: bool) -> Op:
    has_bias = len(node.inputs) > 3 and bool(node.inputs[3])
    size, both = node.attributes["hidden_size"], len(directions(node)) == 2
    match node.op_type:
        case "LSTM":
            return top.LSTM(hidden_size=size, have_bias=has_bias, bidirectional=both, batch_first=by_batch)
        case "GRU":
            return top.GRU(
                hidden_size=size,
                have_bias=has_bias,
                bidirectional=both,
                batch_first=by_batch,
                linear_before_reset=bool(node.attributes.get("linear_before_reset", 0)),
            )
        case _:
            activation = activations(node)[0][0].capitalize()
            return top.RNN(hidden_size=size, bidirectional=both, batch_first=by_batch, activation=activation)


def _reversed(build: OnnxBuilder, x: Value, axis: int, name: str) -> Value:
    """Reverse the elements along an axis."""
    dims = x.tensor.dims
    offset = tuple(extent - 1 if index == axis else 0 for index, extent in enumerate(dims))
    steps = tuple(-1 if index == axis else 1 for index in range(len(dims)))
    return build.build(top.Slice(offset=offset, steps=steps), [x], name, [x.tensor])
