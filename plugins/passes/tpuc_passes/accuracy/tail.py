"""The end of a network that is float whatever its mode is: eight bits cannot hold decoded boxes or scores."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tpuc.api import Calibrated, Constant, Module, NetworkInput, Operation, TensorType
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.deconv import Deconv
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.lstm import LSTM
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.upsample import Upsample

from tpuc_passes.accuracy.answers import PUT_TOGETHER

# Where the work is: a tail ends before these. What is behind them costs little in any mode.
_HEAVY = (Conv, Deconv, MatMul, LSTM, AvgPool, MaxPool, Upsample, Interp)
FINER = 0.8
"""A part that needs no more than this of the range of what it is joined into loses 2 dB there, and more the less it
needs.
"""


def tail_of(module: Module) -> list[Operation]:
    """The operations behind the last convolutions and products from which only such ones lead to the outputs."""
    behind = _behind_heavy(module)
    tail: dict[int, Operation] = {}
    for operation in reversed(module.main.operations[:-1]):
        if isinstance(operation.op, (*_HEAVY, Constant, NetworkInput)) or not _makes_tensors(operation):
            continue
        users = [user for result in operation.results for user in result.users]
        if all(user is module.main.terminator or id(user) in tail for user in users):
            tail[id(operation)] = operation
    return [operation for operation in reversed(tail.values()) if id(operation) in behind]


def joins_apart(module: Module, stored: Collection[int] = ()) -> list[Operation]:
    """The Concats of a calibrated module's tail whose operands each keep a range of their own: in float, that costs
    nothing but the bytes of answers. None that makes an output at a position in `stored`, which come out as bytes.
    """
    together = _put_together(module, stored)
    joins = [operation for operation in tail_of(module) if isinstance(operation.op, Concat)]
    return [operation for operation in joins if id(operation) not in together and _gains(operation)]


def _put_together(module: Module, outputs: Collection[int]) -> set[int]:
    """The operations that only put the outputs at these positions together."""
    stack = [value for position, value in enumerate(module.main.outputs) if position in outputs]
    found: set[int] = set()
    while stack:
        maker = stack.pop().defining
        if maker is not None and isinstance(maker.op, (*PUT_TOGETHER, Slice)) and id(maker) not in found:
            found.add(id(maker))
            stack += maker.operands
    return found


def _gains(join: Operation) -> bool:
    result = _range(join.result.tensor)
    parts = [_range(operand.tensor) for operand in join.operands if isinstance(operand.type, TensorType)]
    known = [part for part in parts if part is not None]
    return result is not None and any(part.threshold <= FINER * result.threshold for part in known)


def _range(type_: TensorType) -> Calibrated | None:
    return type_.element if isinstance(type_.element, Calibrated) else None


def _makes_tensors(operation: Operation) -> bool:
    return any(isinstance(result.type, TensorType) for result in operation.results)


def _behind_heavy(module: Module) -> set[int]:
    """Operations that a heavy one leads to; a network without any has no tail."""
    behind: set[int] = set()
    for operation in module.main.operations:
        producers: Sequence[Operation] = [v.defining for v in operation.operands if v.defining is not None]
        if any(isinstance(producer.op, _HEAVY) or id(producer) in behind for producer in producers):
            behind.add(id(operation))
    return behind
