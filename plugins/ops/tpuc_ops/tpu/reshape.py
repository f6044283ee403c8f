"""The same bytes in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, I64Array, Node, Op, Raw, ShapeOnly, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import reshaped
from tpuc_ops.traits import Reorders


@dataclass(frozen=True)
class Reshape(Op, ShapeOnly, Reorders):
    """Return the stored elements in the same order with the shape `shape` (0 keeps an extent, one -1 takes the
    remainder); if `shape` is empty, the declared result type decides.
    """

    name = "tpu.Reshape"
    shape: I64Array = ()
    flatten_start_dim: I64 = -1
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        if not self.shape:
            return None
        x = operands[0]
        return (x.with_shape(reshaped(x.dims, self.shape)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].reshape(node.result_type.dims)]
