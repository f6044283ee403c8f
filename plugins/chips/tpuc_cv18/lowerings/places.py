"""ArgMax and ArgMin in bf16: mark the elements equal to the extreme, times numbers that decrease along the axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.table import TABLE

_MOST_PLACES = 256
"""Largest number up to which bf16 represents all whole numbers."""


@TABLE.lowers(top.Arg, "bf16", "int8")
class ArgAny(Lowering[top.Arg]):
    """Compares in bf16: elements that round to the same number count as equal. Bytes are compared as integers, all of
    which bf16 represents.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        count = _extent(node)
        if count > _MOST_PLACES:
            return (
                f"an axis of at most {_MOST_PLACES} elements, this one has {count}: bf16 cannot represent larger "
                "indices; output the values and search them outside"
            )
        return None

    def lower(self, node: LoweringNode[top.Arg], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        steps, dims, count = Bf16Composer(node, build), node.operand_types[0].dims, _extent(node)
        axis = positive_axis(op.axis, len(dims))
        scale = self._scale(node)
        value = steps.reshape(
            steps.operand() if scale is None else steps.integers(),
            (1, math.prod(dims[:axis]), count, math.prod(dims[axis + 1 :])),
        )
        sign = 1.0 if op.mode == "ArgMax" else -1.0
        value = steps.times(value, sign)
        extreme = steps.pooled(value, "Max", (count, 1))
        is_extreme = steps.inverted(steps.is_positive(steps.do(tpu.Sub(), [extreme, value], value.tensor.dims)))
        places = np.arange(count, dtype=np.float32)
        numbers = places + 1 if op.select_last_index else count - places
        found = steps.do(tpu.Mul(), [is_extreme, steps.constant(numbers.reshape(1, 1, -1, 1))])
        found = steps.pooled(found, "Max", (count, 1))
        index = steps.plus(found, -1.0) if op.select_last_index else steps.plus(steps.times(found, -1.0), count)
        results = [index]
        if len(node.result_types) > 1:
            results.append(steps.times(extreme, sign if scale is None else sign * scale))
        return [steps.last_of(result, position) for position, result in enumerate(results)]

    def _scale(self, node: LoweringNode) -> float | None:
        """The scale of an operand stored as bytes, else None."""
        type_ = node.operands[0].tensor
        return type_.uniform.scale if type_.is_quantized and node.constants[0] is None else None


def _extent(node: LoweringNode) -> int:
    dims = node.operand_types[0].dims
    return dims[positive_axis(node.op.axis, len(dims))]
