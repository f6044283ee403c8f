"""Code shared by the runtime's functions."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tpuc.api import F32, CpuFunction, HostArgument, Node, Op, TensorType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RANK = 4
OpT = TypeVar("OpT", bound=Op)


def rank_refusal(node: Node[Any]) -> str | None:
    """The refusal of tensors with more than four dimensions, the rank of tensors in the runtime; None if all fit."""
    ranks = [type_.rank for type_ in (*node.operand_types, *node.result_types)]
    return f"it takes up to {RANK} dimensions, this one has {max(ranks)}" if max(ranks) > RANK else None


def four(dims: Sequence[int]) -> tuple[int, ...]:
    """Extents padded with trailing ones to rank 4."""
    return (*dims, *(1,) * (RANK - len(dims)))


class TopFunction(CpuFunction[OpT]):
    """A function whose result is the evaluation of its op, with the op's attributes under their own names."""

    @abstractmethod
    def definition(self) -> type[OpT]:
        """The op class."""

    def refuse(self, node: Node[OpT]) -> str | None:
        return rank_refusal(node)

    def arguments(self, node: Node[OpT]) -> Mapping[str, HostArgument]:
        return {name: value for name, value in vars(node.op).items() if isinstance(value, bool | int | float | str)}

    def shapes(self, node: Node[OpT]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        return [four(type_.dims) for type_ in node.operand_types], [four(type_.dims) for type_ in node.result_types]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        definition: Any = self.definition()
        op = definition(**{field.name: arguments[field.name] for field in dataclasses.fields(definition)})
        types = [TensorType(x.shape, F32) for x in inputs]
        node = Node(op, tuple(types), tuple(TensorType(shape, F32) for shape in outputs), self.function)
        if [result.dims for result in op.infer(node.operand_types)] != list(outputs):
            raise ValueError("results have different extents")
        return op.evaluate(node, inputs)
