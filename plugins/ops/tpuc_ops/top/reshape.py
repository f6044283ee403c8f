"""The same elements in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import reshaped
from tpuc_ops.traits import Reshapes


@dataclass(frozen=True)
class Reshape(Op, Reshapes):
    """Return the elements in the same order with the shape `shape`, in which 0 keeps an extent and one -1 takes the
    remainder.

    If `shape` is empty, the declared result type decides. `flatten_start_dim` only records the op's origin.
    """

    name = "top.Reshape"
    shape: I64Array = ()
    flatten_start_dim: I64 = -1

    def infer(self, operands: Types) -> Types | None:
        if not self.shape:
            return None
        x = operands[0]
        return (x.shape_only().with_shape(reshaped(x.dims, self.shape)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].reshape(node.result_type.dims)]
