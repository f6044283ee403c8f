"""What a network answers with: its outputs, and what they are only put together from."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import Constant, Module, NetworkInput, Op, ShapeOnly, Value
from tpuc_ops import top

PUT_TOGETHER = (top.Concat, top.Permute, ShapeOnly)
"""Ops whose results are their operands in another order or shape: boxes and scores in one tensor are two answers."""


def answers_of(module: Module, through: tuple[type[Op], ...] = ()) -> Iterator[Value]:
    """The outputs of a module and all that they are put together from, each once; also what the first operand of
    `through` is put together from.
    """
    seen: set[str] = set()
    stack = list(reversed(module.main.outputs))
    while stack:
        value = stack.pop()
        maker = value.defining
        if maker is None or value.name in seen or isinstance(maker.op, (Constant, NetworkInput)):
            continue
        seen.add(value.name)
        yield value
        if isinstance(maker.op, PUT_TOGETHER):
            stack += reversed(maker.operands)
        elif isinstance(maker.op, through):
            stack.append(maker.operands[0])
