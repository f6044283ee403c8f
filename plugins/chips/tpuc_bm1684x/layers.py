"""Layers of the vendor's library on the processor: their numbers and parameter layouts."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tpuc.api import F32, CorruptFile, CpuFunction, HostArgument, Node, Op, Registry, TensorType, cpu_functions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHIP = "bm1684x"
RANK_LIMIT = 8
OpT = TypeVar("OpT", bound=Op)


class LayerFunction(CpuFunction[OpT]):
    """A layer of the vendor's library. Parameters are the members of a structure in C, in the order of `fields`."""

    layer: ClassVar[int]
    """Its number."""
    fields: ClassVar[Mapping[str, str]]
    """Names of parameters, and their types as `struct` calls them: `i`, `f` or `?`."""

    is_partial: ClassVar[bool] = False
    """May it leave the end of its results as it was?"""

    def pack(self, arguments: Mapping[str, HostArgument]) -> bytes:
        """The structure, as long as its alignment makes it."""
        return struct.pack(self._format, *(arguments[name] for name in self.fields))

    def unpack(self, data: bytes) -> dict[str, HostArgument]:
        """Its members; raises CorruptFile where there are too few bytes."""
        if len(data) < struct.calcsize(self._format):
            raise CorruptFile(f"layer '{self.function}' with {len(data)} bytes of parameters; the file is damaged")
        return dict(zip(self.fields, struct.unpack_from(self._format, data), strict=True))

    @property
    def _format(self) -> str:
        """Members as a compiler of C aligns them, in the byte order of the chip's host."""
        text, at = "<", 0
        for kind in self.fields.values():
            size = struct.calcsize(kind)
            text, at = f"{text}{-at % size}x{kind}", at - -at % size * -1 + size
        return f"{text}{-at % 4}x"

    def refuse(self, node: Node[OpT]) -> str | None:
        ranks = [type_.rank for type_ in (*node.operand_types, *node.result_types)]
        return f"it takes up to {RANK_LIMIT} dimensions, these are {max(ranks)}" if max(ranks) > RANK_LIMIT else None


class EvaluatedLayer(LayerFunction[OpT]):
    """One that computes what its op means."""

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        op: Any = self.op(arguments, outputs)
        types = tuple(TensorType(x.shape, F32) for x in inputs)
        results = op.infer(types)
        if [result.dims for result in results] != list(outputs):
            raise ValueError("results of other extents")
        return op.evaluate(Node(op, types, results, self.function), inputs)

    def op(self, arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]) -> OpT:
        """The op that the parameters of a file stand for."""
        raise NotImplementedError


@functools.cache
def layer_functions() -> Mapping[str, LayerFunction[Any]]:
    """Those that packages offer, by their names."""
    found = cpu_functions(Registry(), (CHIP,))
    return {function.function: function for function in found if isinstance(function, LayerFunction)}


def layer_function(number: int) -> LayerFunction[Any] | None:
    """The one of a number, if a package offers it."""
    return next((function for function in layer_functions().values() if function.layer == number), None)
