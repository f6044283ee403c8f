"""The outputs of a network, and the values that they are only put together from."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import Constant, Module, NetworkInput, Op, ShapeOnly, Value
from tpuc_ops import top

REARRANGING = (top.Concat, top.Permute, ShapeOnly)
"""Ops whose results are their operands in another order or shape: boxes and scores in one tensor are two outputs."""


def output_parts(module: Module, through: tuple[type[Op], ...] = ()) -> Iterator[Value]:
    """The outputs of a module and all that they are put together from, each once; also what the first operand of
    `through` is put together from.
    """
    seen: set[str] = set()
    stack = list(reversed(module.main.outputs))
    while stack:
        value = stack.pop()
        producer = value.defining
        if producer is None or value.name in seen or isinstance(producer.op, (Constant, NetworkInput)):
            continue
        seen.add(value.name)
        yield value
        if isinstance(producer.op, REARRANGING):
            stack += reversed(producer.operands)
        elif isinstance(producer.op, through):
            stack.append(producer.operands[0])
