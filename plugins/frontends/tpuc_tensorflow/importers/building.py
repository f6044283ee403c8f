"""The builder for TensorFlow's importers: TFLite's builder, with ways to call TFLite's importers."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import Block, ForeignNode, TensorType, Value
from tpuc_importing.building import ModuleSource
from tpuc_importing.finding import ImporterFinder
from tpuc_importing.obstacles import place_of, refusal
from tpuc_ops.arrays import Array
from tpuc_tflite.building import NCHW, Arranged, Order, Results, TfliteBuilder
from tpuc_tflite.graph import Graph, TensorEntry

_KINDS: Mapping[str, str] = {
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "float16": "FLOAT16",
    "bfloat16": "FLOAT32",
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
}
"""TFLite's names of array types."""

_OF_LAST: Mapping[int, int] = {0: 0, 1: 2, 2: 3, 3: 1}
"""Positions of `[n, h, w, c]` in `[n, c, h, w]`."""

CHANNELS_FIRST: Order = (0, 1, 2, 3)


def kind_of(dtype: np.dtype[Any] | None) -> str:
    """Return TFLite's name of an element type; strings and the like have none."""
    return "STRING" if dtype is None else _KINDS.get(dtype.name, "STRING")


class TensorflowBuilder(TfliteBuilder):
    """TFLite's builder, for TensorFlow nodes. `origin` is the current node, which every message names."""

    def __init__(
        self,
        source: ModuleSource,
        inputs: Sequence[tuple[str, TensorType]],
        entries: Mapping[str, TensorEntry],
        tflite: ImporterFinder,
    ) -> None:
        self.origin: ForeignNode | None = None
        self._tflite = tflite
        graph = Graph(source.path, source.model_name, entries, (), tuple(name for name, _ in inputs), ())
        super().__init__(graph, source, inputs)

    def place(self) -> str:
        """Return file and node of TensorFlow."""
        return self.source.path if self.origin is None else place_of(self.origin)

    def refuse(self, node: ForeignNode, reason: str) -> Exception:
        """Return the error for a node that cannot be imported."""
        return refusal(self.origin or node, reason)

    # TFLite's operators

    def through(
        self,
        operator: str,
        node: ForeignNode,
        inputs: Sequence[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Results:
        """Import a TFLite operator with these operands as the results of a node."""
        importer = self._tflite(operator)
        if importer is None:
            raise self.refuse(node, f"there is no importer of TFLite's {operator}")
        chosen = node.inputs if inputs is None else tuple(inputs)
        inner = ForeignNode(operator, node.name, chosen, node.outputs, attributes or {}, source=node.source)
        self.node = inner
        return importer(inner, self)

    def inner(
        self,
        operator: str,
        node: ForeignNode,
        inputs: Sequence[str],
        suffix: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Return an intermediate tensor computed by a TFLite operator."""
        name = self.fresh(f"{node.outputs[0]}/{suffix}")
        self.declare(TensorEntry(name, self.entry(inputs[0]).kind, (), (), None))
        made = self.through(operator, _with_outputs(node, (name,)), inputs, attributes)
        first = made[0] if isinstance(made, Sequence) else made
        self.accept(name, first)
        return name

    def constant_tensor(self, node: ForeignNode, array: Array, suffix: str) -> str:
        """Create a constant operand."""
        name = self.fresh(f"{node.outputs[0]}/{suffix}")
        self.declare(TensorEntry(name, kind_of(array.dtype), array.shape, array.shape, None, array))
        return name

    def fresh(self, name: str) -> str:
        """Return an unused tensor name."""
        while name in self.entries:
            name += "_"
        return name

    # Orders of dimensions

    def turned(self, node: ForeignNode, tensor: str, order: Order, suffix: str) -> str:
        """Permute a tensor: dimension `order[i]` becomes dimension `i`."""
        array = self.constant(tensor)
        if array is not None:
            return self.constant_tensor(node, np.ascontiguousarray(array.transpose(order)), suffix)
        steps = self.constant_tensor(node, np.array(order, np.int32), f"{suffix}/order")
        return self.inner("TRANSPOSE", node, (tensor, steps), suffix)

    def channels_last(self, node: ForeignNode, tensor: str) -> str:
        """Return the image of an operator, whose `data_format` may be NCHW, as `[n, h, w, c]`."""
        return self.turned(node, tensor, (0, 2, 3, 1), f"{tensor}/last") if is_channels_first(node) else tensor

    def in_format(self, node: ForeignNode, result: Results) -> Results:
        """Convert an image `[n, h, w, c]` to the node's format."""
        if not is_channels_first(node):
            return result
        if isinstance(result, Arranged):
            return Arranged(result.value, tuple(_OF_LAST[axis] for axis in result.order))
        assert isinstance(result, Value)
        return Arranged(result, tuple(_OF_LAST[axis] for axis in range(4)))

    @contextlib.contextmanager
    def inside(self, types: Sequence[TensorType]) -> Generator[Block]:
        """Build into a separate block; values made in it are forgotten afterwards."""
        body, orders = self.body, {name: dict(found) for name, found in self._orders.items()}
        home, later = dict(self._home), dict(self._later)
        self.body = Block(types)
        try:
            yield self.body
        finally:
            self.body, self._orders, self._home, self._later = body, orders, home, later

    def keep_input(self, name: str) -> None:
        """Take a four-dimensional input as it is, not as an image with channels last."""
        value = self.value(name, NCHW)
        self.accept(name, Arranged(value, CHANNELS_FIRST))


def is_channels_first(node: ForeignNode) -> bool:
    """True if the node's images are `[n, c, h, w]`."""
    return node.attributes.get("data_format", "NHWC") in ("NCHW", "NCHW_VECT_C")


def _with_outputs(node: ForeignNode, outputs: tuple[str, ...]) -> ForeignNode:
    return ForeignNode(node.op_type, node.name, node.inputs, outputs, node.attributes, source=node.source)
