"""Fourier transforms of rows, written as matrix products: one for the real and one for the imaginary part."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode
from tpuc_ops.arrays import Array

from tpuc_tflite.graph import MOST_ELEMENTS, Graph, TensorEntry

_MOVES = frozenset({"EXPAND_DIMS", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE"})
"""Operators that do the same to both parts."""
_ENDS = frozenset({"CAST", "COMPLEX_ABS", "IMAG", "REAL"})
"""Operators that make real numbers of complex ones; a cast drops the imaginary part."""


def without_spectra(graph: Graph) -> Graph:
    """The graph with RFFT2D of single rows as products; unchanged where something else computes on complex numbers."""
    found = {node.outputs[0] for node in graph.nodes if _is_of_rows(graph, node)}
    if not found:
        return graph
    for node in graph.nodes:
        if not found.intersection(node.inputs):
            continue
        if node.op_type in _MOVES and node.inputs[0] in found and not node.domain:
            found.update(node.outputs)
        elif node.op_type not in _ENDS or node.domain:
            return graph
    if found.intersection(graph.outputs) or any(entry.kind == "COMPLEX64" for entry in _others(graph, found)):
        return graph
    return _Writer(graph).written(found)


def _is_of_rows(graph: Graph, node: ForeignNode) -> bool:
    """Is it a transform of the last dimension alone, of a size that is known?"""
    if node.op_type != "RFFT2D" or node.domain or len(node.inputs) != 2:
        return False
    lengths, shape = graph.tensors[node.inputs[1]].data, graph.tensors[node.inputs[0]].shape
    if lengths is None or lengths.size != 2 or len(shape) < 2:
        return False
    height, length = (int(number) for number in lengths.reshape(-1))
    return height == shape[-2] == 1 and length > 0 and shape[-1] * (length // 2 + 1) <= MOST_ELEMENTS


def _others(graph: Graph, found: set[str]) -> list[TensorEntry]:
    return [graph.tensors[name] for node in graph.nodes for name in node.outputs if name and name not in found]


class _Writer:
    """Over the nodes in their order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = dict(graph.tensors)
        self._nodes: list[ForeignNode] = []
        self._parts: dict[str, tuple[str, str]] = {}  # names of the real and of the imaginary part

    def written(self, found: set[str]) -> Graph:
        """The graph without complex numbers; `found` are the tensors of them."""
        for node in self._graph.nodes:
            if node.outputs and node.outputs[0] in found:
                self._complex(node)
            elif node.inputs and node.inputs[0] in self._parts:
                self._real(node)
            else:
                self._nodes.append(node)
        return dataclasses.replace(self._graph, tensors=self._tensors, nodes=tuple(self._nodes))

    def _complex(self, node: ForeignNode) -> None:
        """Both parts of what a transform or a move gives."""
        result = node.outputs[0]
        names = (self._part(result, "real"), self._part(result, "imag"))
        self._parts[result] = names
        if node.op_type != "RFFT2D":
            for source, name in zip(self._parts[node.inputs[0]], names, strict=True):
                self._node(node.op_type, (source, *node.inputs[1:]), name, node)
            return
        lengths = self._graph.tensors[node.inputs[1]].data
        assert lengths is not None
        rows = self._graph.tensors[node.inputs[0]].shape[-1]
        for name, matrix in zip(names, _waves(rows, int(lengths.reshape(-1)[1])), strict=True):
            weight = self._free(f"{name}_waves")
            self._tensors[weight] = TensorEntry(weight, "FLOAT32", matrix.shape, matrix.shape, None, matrix)
            product = dataclasses.replace(node, attributes={"keep_num_dims": True})
            self._node("FULLY_CONNECTED", (node.inputs[0], weight), name, product)

    def _real(self, node: ForeignNode) -> None:
        """A node that ends complex numbers."""
        real, imaginary = self._parts[node.inputs[0]]
        result = node.outputs[0]
        if node.op_type != "COMPLEX_ABS":
            self._node("CAST", (imaginary if node.op_type == "IMAG" else real,), result, node)
            return
        squares: list[str] = []
        for part in (real, imaginary):
            squares.append(self._part(result, f"{part}_squared"))
            self._node("MUL", (part, part), squares[-1], dataclasses.replace(node, attributes={}))
        total = self._part(result, "power")
        self._node("ADD", squares, total, dataclasses.replace(node, attributes={}))
        self._node("SQRT", (total,), result, node)

    def _node(self, kind: str, inputs: Sequence[str], result: str, like: ForeignNode) -> None:
        self._nodes.append(
            dataclasses.replace(like, op_type=kind, name=result, inputs=tuple(inputs), outputs=(result,))
        )

    def _part(self, name: str, what: str) -> str:
        """A new tensor of real numbers in the shape of another one."""
        free = self._free(f"{name}_{what}")
        self._tensors[free] = dataclasses.replace(self._tensors[name], name=free, kind="FLOAT32")
        return free

    def _free(self, name: str) -> str:
        while name in self._tensors:
            name += "_"
        return name


def _waves(rows: int, length: int) -> tuple[Array, Array]:
    """Filters `[length // 2 + 1, rows]`: operands longer than the transform are cut off, shorter ones end in zeros."""
    turns = np.outer(np.arange(length // 2 + 1), np.arange(rows)) % length
    angles = turns * (2 * np.pi / length)
    inside = np.arange(rows) < length
    return (np.cos(angles) * inside).astype(np.float32), (-np.sin(angles) * inside).astype(np.float32)
