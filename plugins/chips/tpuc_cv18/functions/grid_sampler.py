"""Samples of images at computed positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import CpuFunction, HostArgument, Node

from tpuc_cv18.functions.common import rank_refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tpuc_ops import top

_BILINEAR = 0
_PER_PLACE, _PER_RESULT = 20, 8
"""Operations for a coordinate, and for four taps and their weights. Counted, not measured."""
_PADDINGS = ("zeros", "border", "reflection")


class GridSamplerFunction(CpuFunction["top.GridSampler"]):
    """`grid_sampler` in mode 0, bilinear. Mode 1, nearest, rounds halves away from zero, not to even numbers."""

    function = "grid_sampler"
    is_usual = True

    def refuse(self, node: Node[top.GridSampler]) -> str | None:
        if node.op.mode != "bilinear":
            return f"it samples in mode bilinear, this one is {node.op.mode}"
        return rank_refusal(node)

    def arguments(self, node: Node[top.GridSampler]) -> Mapping[str, HostArgument]:
        padding = _PADDINGS.index(node.op.padding_mode)
        return {"mode": _BILINEAR, "padding_mode": padding, "align_corners": node.op.align_corners}

    def shapes(self, node: Node[top.GridSampler]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        return [type_.dims for type_ in node.operand_types], [node.result_type.dims]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[Any]]:
        from tpuc.api import F32, TensorType
        from tpuc_ops import top

        mode, padding = int(arguments["mode"]), int(arguments["padding_mode"])
        if mode != _BILINEAR or padding not in range(len(_PADDINGS)):
            raise ValueError(f"mode {mode} with padding_mode {padding}")
        op = top.GridSampler("bilinear", _PADDINGS[padding], bool(arguments["align_corners"]))
        types = tuple(TensorType(x.shape, F32) for x in inputs)
        (result,) = op.infer(types)
        if result.dims != tuple(outputs[0]):
            raise ValueError("the result has different extents")
        return op.evaluate(Node(op, types, (result,), self.function), inputs)

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        return _PER_PLACE * inputs[1] + _PER_RESULT * sum(outputs)


FUNCTION = GridSamplerFunction()
