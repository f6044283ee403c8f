"""Recurrent layers: one product computes the input part of all gates for all steps, then the steps run in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import FLOAT_MODES, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.inner import InnerOps
from tpuc_ops import top, tpu
from tpuc_ops.shapes import is_absent
from tpuc_ops.tpu.recurrent_steps import FILTER, GATES

from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.kernels.recurrent import MOST_STEPS, most_weight_bytes, weight_bytes
from tpuc_bm1684x.lowerings.common import ALL, FLOATS, Array, float_weight, local_memory
from tpuc_bm1684x.lowerings.table import TABLE


@dataclass(frozen=True)
class _Sizes:
    """Extents of a recurrent layer."""

    kind: str
    steps: int
    count: int
    inputs: int
    hidden: int
    lanes: int
    lane_bytes: int

    @classmethod
    def of(cls, node: LoweringNode[top.LSTM | top.GRU | top.RNN]) -> _Sizes:
        first, second, inputs = node.operand_types[0].dims
        steps, count = (second, first) if node.op.batch_first else (first, second)
        kind = node.op.name.removeprefix("top.")
        lanes, size = local_memory(node)
        return cls(kind, steps, count, inputs, node.op.hidden_size, lanes, size)

    @property
    def gates(self) -> int:
        return GATES[self.kind]

    @property
    def padded(self) -> int:
        """Rows of a gate, padded so that each gate starts in lane 0."""
        return round_up(self.hidden, self.lanes)

    def weight_bytes(self, mode: str, columns: int) -> int:
        """Bytes per lane of a weight matrix of all gates."""
        return weight_bytes(self.gates * self.padded, columns, FLOAT_MODES[mode].bits // 8, self.lanes)

    def is_projecting(self, mode: str) -> bool:
        """True if the steps project the inputs: for 16-bit types, if the filter fits beside the recurrence."""
        size = self.weight_bytes(mode, self.hidden) + self.weight_bytes(mode, self.inputs)
        return mode != "f32" and size <= most_weight_bytes(self.lane_bytes)

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
        weight = sizes.weight_bytes(_mode(node), sizes.hidden)
        most = most_weight_bytes(sizes.lane_bytes)
        if weight > most:
            return f"a recurrence of at most {most} bytes per lane, this one has {weight}"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE if node.mode in FLOATS else Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op, do, sizes = node.op, InnerOps(node, build, FLOAT_MODES[_mode(node)]), _Sizes.of(node)
        x = _cast(do, node.operands[0])
        if op.batch_first:
            x = do.permute(x, (1, 0, 2))
        x = do.reshape(x, (sizes.steps * sizes.count, sizes.inputs))
        ways = range(1 + op.bidirectional)
        runs = [self._run(node, do, sizes, x, way) for way in ways]
        all_h = [do.reshape(h, (sizes.steps, 1, sizes.count, sizes.hidden)) for h, _ in runs]
        last = [self._last(do, sizes, h, way) for way, h in zip(ways, all_h, strict=True)]
        last_c = [do.reshape(c, (1, sizes.count, sizes.hidden)) for _, c in runs if c is not None]
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
        recurrence = node.constants[2]
        assert recurrence is not None
        added, own = _biases(node, sizes, way)
        first, projection = self._inputs(node, do, sizes, x, way, added)
        steps = tpu.RecurrentSteps(
            kind=sizes.kind,
            hidden_size=sizes.hidden,
            steps=sizes.steps,
            reverse=bool(way),
            linear_before_reset=own is not None,
            activation=getattr(op, "activation", "Tanh"),
        )
        # States of tanh and sigmoid are at most 1 in magnitude; f16 keeps more digits of them.
        narrow = "f16" if _mode(node) == "bf16" and steps.activation == "Tanh" else _mode(node)
        operands = [first, float_weight(build, f"recurrence{way}", sizes.spread(recurrence[way]), narrow)]
        operands.append(build.none() if own is None else build.weight(f"bias{way}", sizes.spread(own).reshape(-1)))
        operands += [self._state(node, do, sizes, index, way) for index in ((4, 5) if sizes.kind == "LSTM" else (4,))]
        if projection:
            operands += [*[build.none()] * (FILTER - len(operands)), *projection]
        name, count = f"{node.name}_way{way}", sizes.steps * sizes.count
        if sizes.kind != "LSTM":
            return do.do(steps, operands, (count, sizes.hidden), name), None
        both = do.do(steps, operands, (count + sizes.count, sizes.hidden), name)
        h = do.slice(both, (0, 0), (count, sizes.hidden))
        return h, do.slice(both, (count, 0), (count + sizes.count, sizes.hidden))

    def _inputs(
        self, node: LoweringNode, do: InnerOps, sizes: _Sizes, x: Value, way: int, added: Array
    ) -> tuple[Value, list[Value]]:
        """The first operand of the steps with filter and bias; if they do not project, the gates of the inputs."""
        weight, build = node.constants[1], do.build
        assert weight is not None
        filters = float_weight(build, f"filter{way}", sizes.spread(weight[way]), _mode(node))
        sums = build.weight(f"sums{way}", sizes.spread(added).reshape(-1))
        if sizes.is_projecting(_mode(node)):
            return x, [filters, sums]
        dims = (x.tensor.dims[0], filters.tensor.dims[0])
        product = tpu.MatMul(right_transpose=True)
        return do.do(product, [x, filters, sums, build.none(), build.none()], dims), []

    def _state(self, node: LoweringNode, do: InnerOps, sizes: _Sizes, index: int, way: int) -> Value:
        """An initial state `[n, hidden]` of one direction."""
        if not _is_there(node, index):
            return do.build.none()
        constant = node.constants[index]
        ways = 1 + node.op.bidirectional
        if constant is not None:
            state = constant.swapaxes(0, 1) if node.op.batch_first else constant
            plain = state.reshape(ways, sizes.count, sizes.hidden)[way]
            return do.build.weight(f"state{index}_{way}", np.ascontiguousarray(plain, np.float32))
        value = _cast(do, node.operands[index])
        if node.op.batch_first:
            value = do.permute(value, (1, 0, 2))
        dims = (1, sizes.count, sizes.hidden)
        if ways > 1:
            value = do.slice(value, (way, 0, 0), (way + 1, *dims[1:]))
        return do.reshape(value, dims[1:])


def _cast(do: InnerOps, value: Value) -> Value:
    """Convert a value to the type of the products."""
    return value if value.tensor.storage == do.element else do.do(tpu.Cast(with_scale=False), [value])


def _mode(node: LoweringNode) -> str:
    """The float type of the products: f16 in integer modes if the chip has it."""
    if node.mode in FLOATS:
        return node.mode
    return "f16" if node.chip is not None and "f16" in node.chip.modes else "f32"


def _is_there(node: LoweringNode, index: int) -> bool:
    return len(node.operand_types) > index and not is_absent(node.operand_types[index])


def _biases(node: LoweringNode, sizes: _Sizes, way: int) -> tuple[Array, Array | None]:
    """The bias of the input part; and that of the recurrent part if the candidate scales it, else None."""
    bias = np.zeros((2, sizes.gates * sizes.hidden), np.float32)
    if len(node.constants) > 3 and node.constants[3] is not None:
        bias = node.constants[3].reshape(1 + node.op.bidirectional, *bias.shape)[way]
    if not getattr(node.op, "linear_before_reset", False):
        return bias.sum(0), None
    candidate = 2 * sizes.hidden
    added, own = bias.sum(0), bias[1].copy()
    added[candidate:] = bias[0, candidate:]
    own[:candidate] = 0
    return added, own
