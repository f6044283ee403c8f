"""Recurrent layers, one step at a time."""

from __future__ import annotations

from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.shapes import is_absent
from tpuc_ops.tpu.recurrent_steps import FILTER, GATES

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import Operands, refuse_types
from tpuc_c.text import fields


@TABLE.runs(tpu.RecurrentSteps)
class RecurrentKernel(FunctionKernel[tpu.RecurrentSteps]):
    """One function for LSTM, GRU and RNN, one batch column at a time."""

    def refuse(self, node: Node[tpu.RecurrentSteps]) -> str | None:
        if not node.result_type.storage.is_float:
            return f"only floats, this one has {node.result_type.storage}"
        if len(node.operand_types) > FILTER and not is_absent(node.operand_types[FILTER]):
            return "gates of inputs are wanted, this one has inputs and their filter"
        return refuse_types(node)

    def routine(self, call: FunctionNode[tpu.RecurrentSteps]) -> Routine:
        operands, x, y, op = Operands(call), call.operand(0), call.result, call.op
        gates, count = GATES[op.kind], x.dims[0] // op.steps
        members: dict[str, object] = {
            "kind": f"TPUC_{op.kind}",
            "gates": gates,
            "padded": x.dims[1] // gates,
            "hidden": op.hidden_size,
            "steps": op.steps,
            "count": count,
            "reverse": int(op.reverse),
            "before_reset": int(op.linear_before_reset),
            "relu": int(op.activation != "Tanh"),
        }
        for name, view in (("x", x), ("y", y)):
            members |= {f"{name}_row": view.strides[1], f"{name}_column": view.strides[0]}
        present = [not is_absent(type) and type.size > 0 for type in call.node.operand_types]
        for name, index in (("h", 3), ("c", 4)):
            if index < len(present) and present[index]:
                strides = call.operand(index).strides
                members |= {f"{name}_row": strides[1], f"{name}_column": strides[0]}
        names = [operands.name(i) if i < len(present) and present[i] else "NULL" for i in range(5)]
        room = WorkingMemory("states", "float", (3 + gates) * op.hidden_size * 4)
        body = f"const tpuc_recurrent layer = {{{fields(members)}}};\ntpuc_recur(&layer, {', '.join(names)}, y0, s0);\n"
        return Routine(body, tuple(operands.constants), (room,), ("tpuc_recurrent.h",))
