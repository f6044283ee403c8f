"""CPU layers of the vendor's library: their numbers and parameter layouts."""

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
    """A CPU layer of the vendor's library. Its parameters form a C struct with the members listed in `fields`."""

    layer: ClassVar[int]
    """The layer number in the vendor's library."""
    fields: ClassVar[Mapping[str, str]]
    """Parameter names and their `struct` format characters: `i`, `f` or `?`."""

    is_partial: ClassVar[bool] = False
    """The layer may leave the tail of its results unwritten."""

    def pack(self, arguments: Mapping[str, HostArgument]) -> bytes:
        """Encode the arguments as the C struct, padded to its alignment."""
        return struct.pack(self._format, *(arguments[name] for name in self.fields))

    def unpack(self, data: bytes) -> dict[str, HostArgument]:
        """Decode the C struct into arguments; raises CorruptFile when `data` is too short."""
        if len(data) < struct.calcsize(self._format):
            raise CorruptFile(f"layer '{self.function}' with {len(data)} bytes of parameters; the file is damaged")
        return dict(zip(self.fields, struct.unpack_from(self._format, data), strict=True))

    @property
    def _format(self) -> str:
        """The `struct` format with C alignment, in the byte order of the chip's host."""
        text, at = "<", 0
        for kind in self.fields.values():
            size = struct.calcsize(kind)
            text, at = f"{text}{-at % size}x{kind}", at - -at % size * -1 + size
        return f"{text}{-at % 4}x"

    def refuse(self, node: Node[OpT]) -> str | None:
        ranks = [type_.rank for type_ in (*node.operand_types, *node.result_types)]
        return f"it takes up to {RANK_LIMIT} dimensions, this one has {max(ranks)}" if max(ranks) > RANK_LIMIT else None


class EvaluatedLayer(LayerFunction[OpT]):
    """A CPU layer whose result is the evaluation of its op."""

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        op: Any = self.op(arguments, outputs)
        types = tuple(TensorType(x.shape, F32) for x in inputs)
        results = op.infer(types)
        if [result.dims for result in results] != list(outputs):
            raise ValueError("results have different extents")
        return op.evaluate(Node(op, types, results, self.function), inputs)

    def op(self, arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]) -> OpT:
        """The op with the attributes given by the file's parameters."""
        raise NotImplementedError


@functools.cache
def layer_functions() -> Mapping[str, LayerFunction[Any]]:
    """The CPU layers that installed packages provide, by name."""
    found = cpu_functions(Registry(), (CHIP,))
    return {function.function: function for function in found if isinstance(function, LayerFunction)}


def layer_function(number: int) -> LayerFunction[Any] | None:
    """The CPU layer with a number, None if no package provides it."""
    return next((function for function in layer_functions().values() if function.layer == number), None)
