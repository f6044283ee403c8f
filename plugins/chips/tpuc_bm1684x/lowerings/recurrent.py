"""Recurrent layers: one product computes the input part of all gates for all steps, then the steps run in f32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.inner import InnerOps
from tpuc_ops import top, tpu
from tpuc_ops.shapes import is_absent
from tpuc_ops.tpu.recurrent_steps import GATES

from tpuc_bm1684x.isa.geometry import LANES, round_up
from tpuc_bm1684x.kernels.recurrent import MOST_STEPS, MOST_WEIGHT_BYTES
from tpuc_bm1684x.lowerings.common import ALL, Array
from tpuc_bm1684x.lowerings.table import TABLE


@dataclass(frozen=True)
class _Sizes:
    """Extents of a recurrent layer."""

    kind: str
    steps: int
    count: int
    inputs: int
    hidden: int

    @classmethod
    def of(cls, node: LoweringNode[top.LSTM | top.GRU | top.RNN]) -> _Sizes:
        first, second, inputs = node.operand_types[0].dims
        steps, count = (second, first) if node.op.batch_first else (first, second)
        return cls(node.op.name.removeprefix("top."), steps, count, inputs, node.op.hidden_size)

    @property
    def gates(self) -> int:
        return GATES[self.kind]

    @property
    def padded(self) -> int:
        """Rows of a gate, padded so that each gate starts in lane 0."""
        return round_up(self.hidden, LANES)

    def spread(self, array: Array) -> Array:
        """Pad the rows of each gate in `[gates * hidden, x]`."""
        rows = array.reshape(self.gates, self.hidden, -1)
        wide = np.zeros((self.gates, self.padded, rows.shape[2]), np.float32)
        wide[:, : self.hidden] = rows
        return wide.reshape(self.gates * self.padded, -1)


@TABLE.lowers(top.LSTM, *ALL)
@TABLE.lowers(top.GRU, *ALL)
@TABLE.lowers(top.RNN, *ALL)
class RecurrentAny(Lowering[Any]):
    """Lowers a recurrent layer to one run of steps per direction."""

    def refuse(self, node: LoweringNode) -> str | None:
        if any(constant is None for constant in node.constants[1:3]):
            return "filter and recurrence must be constants"
        if _is_there(node, 3) and node.constants[3] is None:
            return "the bias must be a constant"
        sizes = _Sizes.of(node)
        if sizes.steps > MOST_STEPS:
            return f"at most {MOST_STEPS} steps, this one has {sizes.steps}"
        weight = sizes.gates * sizes.padded // LANES * sizes.hidden * 4
        if weight > MOST_WEIGHT_BYTES:
            return f"a recurrence of at most {MOST_WEIGHT_BYTES} bytes per lane, this one has {weight}"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op, do, sizes = node.op, InnerOps(node, build, F32), _Sizes.of(node)
        x = node.operands[0]
        if op.batch_first:
            x = do.permute(x, (1, 0, 2))
        x = do.reshape(x, (sizes.steps * sizes.count, sizes.inputs))
        ways = range(1 + op.bidirectional)
        runs = [self._run(node, do, sizes, x, way) for way in ways]
        all_h = [do.reshape(do.permute(h, (1, 0)), (sizes.steps, 1, sizes.count, sizes.hidden)) for h, _ in runs]
        last = [self._last(do, sizes, h, way) for way, h in zip(ways, all_h, strict=True)]
        last_c = [do.reshape(do.permute(c, (1, 0)), (1, sizes.count, sizes.hidden)) for _, c in runs if c is not None]
        names = node.result_names
        found = [self._joined(do, all_h, 1, (2, 0, 1, 3) if op.batch_first else None, names[0])]
        order = (1, 0, 2) if op.batch_first else None
        found += [
            self._joined(do, values, 0, order, name) for values, name in zip((last, last_c), names[1:], strict=False)
        ]
        return found

    def _last(self, do: InnerOps, sizes: _Sizes, h: Value, way: int) -> Value:
        """The state h after the last executed step."""
        at = 0 if way else sizes.steps - 1
        dims = (1, 1, sizes.count, sizes.hidden)
        return do.reshape(do.slice(h, (at, 0, 0, 0), (at + 1, *dims[1:])), dims[1:])

    def _joined(
        self, do: InnerOps, values: Sequence[Value], axis: int, order: tuple[int, ...] | None, name: str
    ) -> Value:
        """Concatenate both directions in one tensor called `name`."""
        dims = list(values[0].tensor.dims)
        dims[axis] = len(values)
        value = do.do(tpu.Concat(axis=axis), values, dims, None if order else name)
        return do.permute(value, order, name) if order else value

    def _run(self, node: LoweringNode, do: InnerOps, sizes: _Sizes, x: Value, way: int) -> tuple[Value, Value | None]:
        op, build = node.op, do.build
        weight, recurrence = node.constants[1], node.constants[2]
        assert weight is not None
        assert recurrence is not None
        rows = sizes.gates * sizes.hidden
        bias = np.zeros((2, rows), np.float32)
        if len(node.constants) > 3 and node.constants[3] is not None:
            bias = node.constants[3].reshape(1 + op.bidirectional, 2, rows)[way]
        before = getattr(op, "linear_before_reset", False)
        added, own = bias.sum(0), None
        if before:
            added = added.copy()
            added[2 * sizes.hidden :] = bias[0, 2 * sizes.hidden :]
            own = bias[1].copy()
            own[: 2 * sizes.hidden] = 0
        filters = build.weight(f"filter{way}", sizes.spread(weight[way]))
        biases = build.weight(f"sums{way}", sizes.spread(added).reshape(-1))
        dims = (x.tensor.dims[0], filters.tensor.dims[0])
        gates = do.do(tpu.MatMul(right_transpose=True), [x, filters, biases, build.none(), build.none()], dims)
        gates = do.permute(gates, (1, 0))
        steps = tpu.RecurrentSteps(
            kind=sizes.kind,
            hidden_size=sizes.hidden,
            steps=sizes.steps,
            reverse=bool(way),
            linear_before_reset=before,
            activation=getattr(op, "activation", "Tanh"),
        )
        name = f"{node.name}_way{way}"
        operands = [gates, build.weight(f"recurrence{way}", sizes.spread(recurrence[way]))]
        operands.append(build.none() if own is None else build.weight(f"bias{way}", sizes.spread(own).reshape(-1)))
        operands += [self._state(node, do, sizes, index, way) for index in ((4, 5) if sizes.kind == "LSTM" else (4,))]
        h_columns = sizes.steps * sizes.count
        if sizes.kind != "LSTM":
            return do.do(steps, operands, (sizes.hidden, h_columns), name), None
        columns = h_columns + sizes.count
        both = do.do(steps, operands, (sizes.hidden, columns), name)
        h = do.slice(both, (0, 0), (sizes.hidden, h_columns))
        return h, do.slice(both, (0, h_columns), (sizes.hidden, columns))

    def _state(self, node: LoweringNode, do: InnerOps, sizes: _Sizes, index: int, way: int) -> Value:
        """The initial state `[hidden, n]` of one direction."""
        if not _is_there(node, index):
            return do.build.none()
        constant = node.constants[index]
        ways = 1 + node.op.bidirectional
        if constant is not None:
            state = constant.swapaxes(0, 1) if node.op.batch_first else constant
            plain = state.reshape(ways, sizes.count, sizes.hidden)[way].T
            return do.build.weight(f"state{index}_{way}", np.ascontiguousarray(plain, np.float32))
        value = node.operands[index]
        if node.op.batch_first:
            value = do.permute(value, (1, 0, 2))
        dims = (1, sizes.count, sizes.hidden)
        if ways > 1:
            value = do.slice(value, (way, 0, 0), (way + 1, *dims[1:]))
        return do.permute(do.reshape(value, dims[1:]), (1, 0))


def _is_there(node: LoweringNode, index: int) -> bool:
    return len(node.operand_types) > index and not is_absent(node.operand_types[index])
