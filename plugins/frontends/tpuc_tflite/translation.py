"""Translate the checked foreign graph to a TOP module: fold constants, and import everything else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tpuc.api import (
    ForeignNode,
    ImportOptions,
    InvalidModel,
    Module,
    TensorType,
    Unsupported,
    UsageError,
    Value,
)
from tpuc.api.boundary import State, note_state_pairs
from tpuc_importing.building import ModuleSource
from tpuc_importing.finding import Importer, ImporterFinder, importer_key
from tpuc_importing.obstacles import place_of
from tpuc_importing.walking import Walk
from tpuc_ops.shapes import show

from tpuc_tflite.building import NCHW, TfliteBuilder
from tpuc_tflite.control import control_nodes, is_control_flow
from tpuc_tflite.dilation import with_dilations
from tpuc_tflite.folding import fold
from tpuc_tflite.graph import Graph, Shape
from tpuc_tflite.importers.common import plain_function
from tpuc_tflite.lists import list_importer
from tpuc_tflite.rebatching import Rebatching

MOST_WRITTEN = 1 << 15
"""Maximum number of nodes from control flow."""


def translate(graph: Graph, options: ImportOptions, registry: Any) -> Module:
    """Return the TOP module of a graph."""
    return translated(graph, options, registry)[0]


def translated(graph: Graph, options: ImportOptions, registry: Any) -> tuple[Module, TfliteBuilder]:
    """Return the TOP module of a graph, and the builder, which knows the orders of values."""
    graph = with_dilations(graph)
    shapes = _input_shapes(graph, options)
    dims = [tuple(shape[axis] for axis in NCHW) if len(shape) == 4 else shape for shape in shapes]
    types = [TensorType(d, graph.tensors[name].element) for d, name in zip(dims, graph.inputs, strict=True)]
    source = ModuleSource(graph.source, options.model_name or graph.name, "TFLITE", options.preprocess)
    build = TfliteBuilder(graph, source, list(zip(graph.inputs, types, strict=True)))
    _Walk(graph, build, registry, shapes).run()
    module = build.finish([(name, _output(graph, build, name)) for name in graph.outputs])
    ends = {*graph.inputs, *graph.outputs}
    note_state_pairs(module, [State(*pair) for pair in graph.states if ends.issuperset(pair)])
    return module, build


def _input_shapes(graph: Graph, options: ImportOptions) -> list[Shape]:
    """Return input shapes in the foreign order; the user states images as `n,c,h,w`, or as in the file."""
    given = options.input_shapes
    if given and len(given) != len(graph.inputs):
        raise UsageError(
            f"{graph.source}: has {len(graph.inputs)} inputs ({', '.join(graph.inputs)}), but {len(given)} shapes are "
            "given. Give one for each."
        )
    return [_input_shape(graph, name, given[i] if given else None, options) for i, name in enumerate(graph.inputs)]


def _input_shape(graph: Graph, name: str, given: Sequence[int] | None, options: ImportOptions) -> Shape:
    entry = graph.tensors[name]
    shape = entry.shape
    if entry.data is not None:
        raise InvalidModel(f"{graph.source}: input '{name}' is a constant. Export the network again.")
    if given is not None:
        open_axes = {axis for axis, extent in enumerate(entry.signature) if extent < 0} | {0}
        fitting = [
            wanted
            for wanted in _as_in_the_file(given)
            if len(wanted) == len(shape)
            and all(w == s or axis in open_axes for axis, (w, s) in enumerate(zip(wanted, shape, strict=True)))
        ]
        if not fitting:
            ours = tuple(shape[axis] for axis in NCHW) if len(shape) == 4 else shape
            raise UsageError(
                f"{graph.source}: input '{name}' has shape {show(ours)}, and {show(given)} does not fit "
                "it. Only the batch and what the file leaves open can be chosen; images are stated as n,c,h,w, "
                "or as in the file."
            )
        shape = fitting[0]
    if options.batch is not None and shape:
        shape = (options.batch, *shape[1:])
    if 0 in shape:
        raise InvalidModel(
            f"{graph.source}: input '{name}' has the shape {show(shape)}, which is empty. State its shape with "
            "--input-shapes."
        )
    return shape


def _as_in_the_file(given: Sequence[int]) -> list[Shape]:
    """Yield the readings of a stated shape, most likely first: images with channels first, or as in the file."""
    if len(given) != 4:
        return [tuple(given)]
    return [tuple(given[NCHW.index(axis)] for axis in range(4)), tuple(given)]


def _output(graph: Graph, build: TfliteBuilder, name: str) -> Value:
    """Return the value of a network output, images as `n,c,h,w`."""
    if name in build.constants or not build.is_known(name):
        raise InvalidModel(
            f"{graph.source}: output '{name}' does not depend on any input. Choose other outputs with --output-names."
        )
    return build.value(name, NCHW if len(build.shape(name)) == 4 else None)


class _Walk(Walk[TfliteBuilder]):
    """A walk over the nodes; some are folded, and control flow is expanded."""

    contradictions = (*Walk.contradictions, AssertionError, MemoryError)

    def __init__(self, graph: Graph, build: TfliteBuilder, registry: Any, shapes: Sequence[Shape]) -> None:
        super().__init__(build, ImporterFinder(registry, "tflite", plain_function))
        self._graph = graph
        changed = [graph.tensors[name].shape != shape for name, shape in zip(graph.inputs, shapes, strict=True)]
        self._is_reshaped = any(changed)
        old = {graph.tensors[name].shape[0] for name in graph.inputs if graph.tensors[name].shape}
        new = {shape[0] for shape in shapes if shape}
        self._rebatching = Rebatching(new.pop() if len(new) == 1 else None, old)
        self._written = 0

    def run(self) -> None:
        """Import every node; raises ImportRefused with all unknown operators and refusals."""
        for node in self._graph.nodes:
            self._step(node)
        steps = [(node.inputs, node.outputs) for node in self._graph.nodes]
        self.obstacles.tell(steps, self._graph.outputs, self._is_computed)

    def _is_computed(self, name: str) -> bool:
        return self.build.is_known(name) and name not in self.build.constants and name not in self.build.lists

    def _step(self, node: ForeignNode) -> None:
        self.build.node = node
        lost = self.obstacles.concern(node.inputs)
        try:
            folded = None if lost else fold(node, self.build)
            if folded is not None:
                self.build.constants.update(zip(node.outputs, folded, strict=True))
                return
            listing = list_importer(node.op_type, node, self.build)
            if not lost and (listing is not None or is_control_flow(node)):
                self._write_out(
                    node,
                    control_nodes(node, self.build, self._graph.subgraphs)
                    if listing is None
                    else listing(node, self.build),
                )
                return
            importer = self.importer(importer_key(node), node.name, node.inputs, node.outputs)
            if importer is not None:
                self._import(self._rebatching(node, self.build), importer)
        except Unsupported as error:
            self.obstacles.note(error, node.outputs)

    def _write_out(self, node: ForeignNode, nodes: Iterator[ForeignNode]) -> None:
        try:
            for inner in nodes:
                self._step(inner)
                self._written += 1
                if self._written > MOST_WRITTEN:
                    raise self.build.refuse(node, f"unrolled, it has more than {MOST_WRITTEN} nodes")
        except self.contradictions as error:
            raise self.contradicted(node, error) from error
        self.obstacles.lost.update(name for name in node.outputs if not self.build.is_known(name))

    def _import(self, node: ForeignNode, importer: Importer) -> None:
        for name, value in zip(node.outputs, self.results(node, importer), strict=False):
            self.build.accept(name, value)
            self._check_shape(node, name)

    def _is_folded(self, name: str) -> bool:
        """Is it a constant now, but not in the file?"""
        entry = self._graph.tensors.get(name)
        return entry is not None and entry.data is None and self.build.constant(name) is not None

    def _check_shape(self, node: ForeignNode, name: str) -> None:
        """Check a result's shape against the file, which states every shape unless the input shape was changed.

        A RESHAPE follows its shape operand, as other nodes follow operands that were computed from shapes, and shapes
        that the file states after another result are outdated.
        """
        if name not in self._graph.tensors:
            return  # inside a loop, extents may grow from step to step
        expected, got = self._graph.tensors[name].shape, self.build.shape(name)
        if self._is_reshaped or expected == got or math.prod(expected) == math.prod(got) == 1 or not expected:
            return
        if importer_key(node) == "RESHAPE" or any(map(self._is_folded, node.inputs)):
            self._is_reshaped = True
            return
        raise InvalidModel(
            f"{place_of(node)}: tensor '{name}' is declared as {show(expected)}, "
            f"and its operands make it {show(got)}. Export the network again."
        )

    def contradiction(self, error: Exception) -> str:
        """See Walk."""
        reason = str(error).rstrip(".")
        return f"its operands and attributes contradict each other ({reason}). Export the network again."
