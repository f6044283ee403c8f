"""Translate the checked foreign graph to a TOP module: fold constants, and import everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import helper
from tpuc.api import (
    F32,
    ForeignNode,
    ImportOptions,
    InvalidModel,
    Module,
    NetworkInput,
    PluginError,
    TensorType,
    Unsupported,
    Value,
)
from tpuc_importing.building import ModuleSource
from tpuc_importing.finding import ImporterFinder, importer_key
from tpuc_importing.obstacles import place_of
from tpuc_importing.walking import Walk

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.checking import check_node, check_scales, is_bounded
from tpuc_onnx.control import control_nodes, is_control_flow
from tpuc_onnx.expansion import function_nodes
from tpuc_onnx.folding import fold
from tpuc_onnx.graph import Graph, GraphNode
from tpuc_onnx.grouped import grouped_matrix
from tpuc_onnx.rebatching import Rebatching
from tpuc_onnx.rewrites import is_rewritten, rewritten
from tpuc_onnx.shapes import TypeTable, input_shapes, show_shape
from tpuc_onnx.stored import moved_constant, stored_constant

GLUE = frozenset({"ConstantOfShape", "Range", "Shape", "Size"})
"""Operators that disappear by folding if shapes are known; after an unknown operator they are not."""
MOST_UNROLLED = 1 << 15
"""Maximum number of nodes from control flow."""
MOST_WRITTEN, WRITTEN_PER_NODE = 1 << 17, 64
"""Maximum number of nodes from expanded operators, plus this many for each node of the file."""


def translate(graph: Graph, options: ImportOptions, registry: Any) -> Module:
    """Return the TOP module of a graph."""
    types = TypeTable(graph)
    shapes = input_shapes(graph, options.input_shapes, options.batch)
    for entry, shape in zip(graph.inputs, shapes, strict=True):
        types.declare(entry.name, entry.elem_type, shape)
    names = {name for node in graph.nodes for name in node.foreign.outputs}
    names |= {*graph.constants, *(entry.name for entry in graph.inputs)}
    name = options.model_name or graph.name
    source = ModuleSource(graph.source, name, "ONNX", options.preprocess, frozenset(names))
    inputs = [(entry.name, TensorType(shape, F32)) for entry, shape in zip(graph.inputs, shapes, strict=True)]
    build = OnnxBuilder(source, inputs, types)
    old_batch = {entry.shape[0] if entry.shape else 1 for entry in graph.inputs}
    _Walk(graph, build, registry, Rebatching(options.batch, old_batch)).run()
    return build.finish([(output, _output(graph, build, output)) for output in graph.outputs])


def _output(graph: Graph, build: OnnxBuilder, name: str) -> Value:
    """Return the value of a network output."""
    value = build.values.get(name)
    constant = build.types.constants.get(name)
    if name in build.types.sequences:
        raise Unsupported(
            f"{graph.source}: output '{name}' is a sequence, but only tensors of numbers are supported. Choose "
            "other outputs with --output-names."
        )
    if value is None or constant is not None or not _depends_on_inputs(value):
        why = "is a result that only training needs" if value is None else "does not depend on any input"
        if constant is not None:
            why = "does not depend on any input" if constant.size else f"has no elements ({show_shape(constant.shape)})"
        refused = InvalidModel(f"{graph.source}: output '{name}' {why}. Choose other outputs with --output-names.")
        raise build.blamed(refused, name)
    return value


def _depends_on_inputs(value: Value) -> bool:
    """True if a value depends on a network input. Operators that become constants, such as CastLike, hide from ONNX
    that it does not.
    """
    waiting, seen = [value], set[Value]()
    while waiting:
        producer = waiting.pop().defining
        if producer is None or isinstance(producer.op, NetworkInput):
            return True
        fresh = [operand for operand in producer.operands if operand not in seen]
        seen.update(fresh)
        waiting += fresh
    return False


class _Walk(Walk[OnnxBuilder]):
    """A walk over the nodes; some are folded, and some are expanded first."""

    def __init__(self, graph: Graph, build: OnnxBuilder, registry: Any, rebatching: Rebatching) -> None:
        super().__init__(build, ImporterFinder(registry, "onnx"))
        self._graph = graph
        self._rebatching = rebatching
        self._types = build.types
        self._written = self._unrolled = 0

    def run(self) -> None:
        """Import every node; raises ImportRefused with all unknown operators and refusals."""
        for node in self._graph.nodes:
            check_node(node)
            try:
                self._step(node)
            except self.contradictions as error:
                raise self.contradicted(node.foreign, error) from error
        steps = [(node.reads, node.foreign.outputs) for node in self._graph.nodes]
        self.obstacles.tell(steps, self._graph.outputs, self._is_computed)

    def _is_computed(self, name: str) -> bool:
        return name in self.build.values and name not in self._types.constants

    def _step(self, node: GraphNode) -> None:
        check_scales(node.foreign, self._types)
        folded = fold(node, self._types)
        if folded is not None:
            self._types.hold(node.foreign.outputs, folded)
            self._note_stored(node.foreign)
            return
        node = self._rebatching(node, self._types)
        if not is_control_flow(node.foreign) and not is_bounded(node.foreign):
            self._types.infer(node)
        if self._is_empty(node.foreign):
            return
        importer = self.find(importer_key(node.foreign))
        lost = self.obstacles.concern(node.reads)
        if (importer is None or is_rewritten(node.foreign)) and not lost and self._expand(node, importer is None):
            return
        if lost and node.foreign.op_type in GLUE:
            self.obstacles.lost.update(node.foreign.outputs)
        else:
            self._import(node)

    def _note_stored(self, node: ForeignNode) -> None:
        """Note the integers that a constant was made from."""
        stored, grouped, build = None, None, self.build
        source, result = (*node.inputs, "")[0], node.outputs[0]
        if node.op_type == "DequantizeLinear":
            stored, grouped = stored_constant(node, self._types), grouped_matrix(node, self._types)
        elif source in build.stored:
            stored = moved_constant(build.stored[source], node, self._types.constants[result].shape)
        if node.op_type == "Transpose" and source in build.grouped:
            grouped = build.grouped[source].turned()
        if stored is not None:
            build.stored[result] = stored
        if grouped is not None:
            build.grouped[result] = grouped

    def _is_empty(self, node: ForeignNode) -> bool:
        """Record results without elements, which are known; True if all results are empty."""
        named = [name for name in node.outputs if name]
        for name in named:
            shape = self._types.shape(name)
            if shape is not None and 0 in shape:
                dtype = helper.tensor_dtype_to_np_dtype(self._types.elem_type(name))
                self._types.constants[name] = np.empty(shape, dtype)
        return all(name in self._types.constants for name in named)

    def _expand(self, node: GraphNode, is_unknown: bool) -> bool:
        """Import a node's expansion; False if there is none, or if an importer handles the node."""
        kinds = {name: self._types.elem_type(name) for name in node.foreign.outputs if self._types.proto(name)}
        try:
            if is_control_flow(node.foreign):
                inner: Iterable[GraphNode] | None = control_nodes(node, self._types)
            else:
                inner = rewritten(node, self._types, self._graph)
                if inner is None and is_unknown:
                    inner = function_nodes(node, self._types, self._graph.opsets)
            if inner is None:
                return False
            for part in inner:
                self._count(node)
                self._step(part)
            for name, kind in kinds.items():  # integers that were written as floats are still integers to what follows
                shape = self._types.shape(name)
                if shape is not None:
                    self._types.declare(name, kind, shape)
        except Unsupported as error:
            self.obstacles.note(error, node.foreign.outputs)
        return True

    def _count(self, node: GraphNode) -> None:
        """Count the nodes of an expansion; raises InvalidModel for more than any network has."""
        self._unrolled += is_control_flow(node.foreign)
        self._written += 1
        if self._unrolled > MOST_UNROLLED or self._written > MOST_WRITTEN + WRITTEN_PER_NODE * len(self._graph.nodes):
            most = MOST_UNROLLED if self._unrolled > MOST_UNROLLED else self._written - 1
            raise InvalidModel(
                f"{place_of(node.foreign)}: unrolled, the network has more than {most:,} nodes here. Export it with "
                "fewer steps."
            )

    def _import(self, node: GraphNode) -> None:
        foreign = node.foreign
        importer = self.importer(importer_key(foreign), foreign.name, node.reads, foreign.outputs)
        results = self.results(foreign, importer) if importer else ()
        for name in foreign.outputs[len(results) :]:
            what = f"{place_of(foreign)}: its importer gives {len(results)} results, and '{name}' is not among them"
            self.build.left_out[name] = importer, what
        for name, value in zip(foreign.outputs, results, strict=False):
            if name and name not in self._types.constants:
                self._accept(foreign, name, value)

    def _accept(self, node: ForeignNode, name: str, value: Value) -> None:
        """Record a result; its shape must be the one that ONNX defines."""
        expected, got = self._types.shape(name), value.tensor.dims
        if expected is not None and expected != got and (expected, got) != ((), (1,)):
            raise PluginError(
                f"{place_of(node)}: its importer gives '{name}' the shape "
                f"{show_shape(got)}, and ONNX says {show_shape(expected)}. Report this to the author of the importer."
            )
        self.build.values[name] = value
        self._types.correct(name, got)

    def contradiction(self, error: Exception) -> str:
        """See Walk."""
        reason = (" ".join(str(error).split()) or type(error).__name__).rstrip(".")
        return f"its attributes and operands contradict each other: {reason}. Export the network again."
