"""From the checked foreign graph to a TOP module: fold what is constant, import what has to run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Block,
    ForeignNode,
    Function,
    FunctionType,
    ImportOptions,
    IntegerAttr,
    InvalidModel,
    Location,
    Module,
    NetworkInput,
    Operation,
    Return,
    StringAttr,
    TensorType,
    Unsupported,
    UsageError,
    Value,
)
from tpuc_ops import top
from tpuc_ops.importing import ImporterFinder, Obstacles, importer_key, module_name
from tpuc_ops.top.input import image_input

from tpuc_tflite.building import NCHW, Arranged, Importer, Later, TfliteBuilder, show_shape
from tpuc_tflite.control import control_nodes, is_control_flow
from tpuc_tflite.dilation import with_dilations
from tpuc_tflite.folding import fold
from tpuc_tflite.graph import Graph, Shape
from tpuc_tflite.rebatching import Rebatching

MOST_WRITTEN = 1 << 15
"""Nodes that control flow becomes."""

_CONTRADICTIONS = (IndexError, KeyError, ValueError, TypeError, ArithmeticError, AssertionError, MemoryError)
"""What importers run into when an operand is missing or has another form than the operator's."""


def translate(graph: Graph, options: ImportOptions, registry: Any) -> Module:
    """The TOP module of a graph."""
    return translated(graph, options, registry)[0]


def translated(graph: Graph, options: ImportOptions, registry: Any) -> tuple[Module, TfliteBuilder]:
    """The TOP module of a graph, and the builder, which knows the orders of values."""
    graph = with_dilations(graph)
    name = module_name(options.model_name or graph.name)
    shapes = _input_shapes(graph, options)
    orders = [NCHW if len(shape) == 4 else tuple(range(len(shape))) for shape in shapes]
    dims = [tuple(shape[axis] for axis in order) for shape, order in zip(shapes, orders, strict=True)]
    types = [TensorType(d, graph.tensors[i].element) for d, i in zip(dims, graph.inputs, strict=True)]
    body = Block(types)
    module = Module(name, {})
    build = TfliteBuilder(graph, module, body)
    for argument, entry, type, order in zip(body.arguments, graph.inputs, types, orders, strict=True):
        argument.location = Location((entry,))
        op = _input_op(type, options, entry)
        build.accept(entry, Arranged(build.build(op, [argument], entry, [type]), order))
    _Walk(graph, build, registry, shapes).run()
    outputs = [_output(graph, build, output) for output in graph.outputs]
    body.append(Operation(Return(), outputs))
    function = Function("main", FunctionType((), ()), body)
    function.update_type()
    module.functions.append(function)
    module.attributes = _attributes(module, name)
    return module, build


def _attributes(module: Module, name: str) -> dict[str, Any]:
    flops = sum(operation.op.flops(operation.node()) for operation in module.walk())
    values = [value.type for operation in module.walk() for value in operation.results]
    quantised = any(isinstance(type, TensorType) and type.is_quantised for type in values)
    state = "TOP_QUANTIZED" if quantised else "TOP_F32"
    return {
        "module.FLOPs": IntegerAttr(flops),
        "module.chip": StringAttr("ALL"),
        "module.platform": StringAttr("TFLITE"),
        "module.state": StringAttr(state),
        "module.top_run_mode": StringAttr("STATIC"),
        "module.weight_file": StringAttr(f"{name}_{state.lower()}_all_origin_weight.npz"),
    }


def _input_shapes(graph: Graph, options: ImportOptions) -> list[Shape]:
    """In the foreign order; the user states images as `n,c,h,w`."""
    given = options.input_shapes
    if given and len(given) != len(graph.inputs):
        raise UsageError(
            f"{graph.source}: has {len(graph.inputs)} inputs ({', '.join(graph.inputs)}), and {len(given)} shapes are "
            "given. Give one for each."
        )
    return [_input_shape(graph, name, given[i] if given else None, options) for i, name in enumerate(graph.inputs)]


def _input_shape(graph: Graph, name: str, given: Sequence[int] | None, options: ImportOptions) -> Shape:
    entry = graph.tensors[name]
    shape = entry.shape
    if entry.data is not None:
        raise InvalidModel(f"{graph.source}: input '{name}' is a constant. Export the network again.")
    if given is not None:
        wanted = tuple(given[NCHW.index(axis)] for axis in range(4)) if len(given) == len(shape) == 4 else tuple(given)
        open_axes = {axis for axis, extent in enumerate(entry.signature) if extent < 0} | {0}
        if len(wanted) != len(shape) or any(
            w != s and axis not in open_axes for axis, (w, s) in enumerate(zip(wanted, shape, strict=True))
        ):
            ours = tuple(shape[axis] for axis in NCHW) if len(shape) == 4 else shape
            raise UsageError(
                f"{graph.source}: input '{name}' has shape {show_shape(ours)}, and {show_shape(given)} does not fit "
                "it. Only the batch and what the file leaves open can be chosen; images are stated as n,c,h,w."
            )
        shape = wanted
    if options.batch is not None and shape:
        shape = (options.batch, *shape[1:])
    if 0 in shape:
        raise InvalidModel(
            f"{graph.source}: input '{name}' has the shape {show_shape(shape)}, which is empty. State its shape with "
            "--input-shapes."
        )
    return shape


def _input_op(type: TensorType, options: ImportOptions, name: str) -> top.Input:
    """With what the user said about preprocessing; that concerns images only."""
    if type.rank != 4 or not options.preprocess:
        return top.Input()
    return image_input(type.dims, options.preprocess, name)


def _output(graph: Graph, build: TfliteBuilder, name: str) -> Value:
    """The value of a network output, images as `n,c,h,w`, under its own name."""
    if name in build.constants or not build.is_known(name):
        raise InvalidModel(
            f"{graph.source}: output '{name}' does not depend on any input. Choose other outputs with --output-names."
        )
    value = build.value(name, NCHW if len(build.shape(name)) == 4 else None)
    if value.name == name:
        return value
    if value.defining is None or isinstance(value.defining.op, NetworkInput) or value.name in graph.outputs:
        build.rename_holder(name)
        return build.build(top.Reshape(shape=value.tensor.dims), [value], name, [value.tensor])
    build.rename_holder(name)
    build.rename(value, name)
    return value


class _Walk:
    """One run over the nodes. Everything that cannot be imported is collected and told at once."""

    def __init__(self, graph: Graph, build: TfliteBuilder, registry: Any, shapes: Sequence[Shape]) -> None:
        self._graph = graph
        self._build = build
        self._find = ImporterFinder(registry, "tflite")
        changed = [graph.tensors[name].shape != shape for name, shape in zip(graph.inputs, shapes, strict=True)]
        self._is_reshaped = any(changed)
        old = {graph.tensors[name].shape[0] for name in graph.inputs if graph.tensors[name].shape}
        new = {shape[0] for shape in shapes if shape}
        self._rebatching = Rebatching(new.pop() if len(new) == 1 else None, old)
        self._obstacles = Obstacles(graph.source)
        self._written = 0

    def run(self) -> None:
        """Import every node; raises ImportRefused with all unknown operators and refusals."""
        for node in self._graph.nodes:
            self._step(node)
        steps = [(node.inputs, node.outputs) for node in self._graph.nodes]
        self._obstacles.tell(steps, self._graph.outputs, self._is_computed)

    def _is_computed(self, name: str) -> bool:
        return self._build.is_known(name) and name not in self._build.constants

    def _step(self, node: ForeignNode) -> None:
        self._build.node = node
        lost = self._obstacles.concern(node.inputs)
        try:
            folded = None if lost else fold(node, self._build)
            if folded is not None:
                self._build.constants.update(zip(node.outputs, folded, strict=True))
                return
            if is_control_flow(node) and not lost:
                self._write_out(node)
                return
            importer = self._find(importer_key(node))
            if importer is None:
                self._obstacles.note_unknown(importer_key(node), node.name)
            if importer is None or lost:
                self._obstacles.lost.update(node.outputs)
                return
            self._import(self._rebatching(node, self._build), importer)
        except Unsupported as error:
            self._obstacles.note(error, node.outputs)

    def _write_out(self, node: ForeignNode) -> None:
        try:
            for inner in control_nodes(node, self._build, self._graph.subgraphs):
                self._step(inner)
                self._written += 1
                if self._written > MOST_WRITTEN:
                    raise self._build.refuse(node, f"written out, it has more than {MOST_WRITTEN} nodes")
        except _CONTRADICTIONS as error:
            raise _contradiction(node, error) from error
        self._obstacles.lost.update(name for name in node.outputs if not self._build.is_known(name))

    def _import(self, node: ForeignNode, importer: Importer) -> None:
        try:
            result = importer(node, self._build)
        except _CONTRADICTIONS as error:
            raise _contradiction(node, error) from error
        results = [result] if isinstance(result, (Value, Arranged, Later)) else result
        for name, value in zip(node.outputs, results, strict=False):
            self._build.accept(name, value)
            self._check_shape(node, name)

    def _check_shape(self, node: ForeignNode, name: str) -> None:
        """The file states every shape; a network that was given another input shape has others."""
        if name not in self._graph.tensors:
            return  # inside a loop, extents may grow from step to step
        expected, got = self._graph.tensors[name].shape, self._build.shape(name)
        if self._is_reshaped or expected == got or math.prod(expected) == math.prod(got) == 1 or not expected:
            return
        raise InvalidModel(
            f"{node.source}: node '{node.name}' ({node.op_type}): tensor '{name}' is stated as {show_shape(expected)}, "
            f"and its operands make it {show_shape(got)}. Export the network again."
        )


def _contradiction(node: ForeignNode, error: Exception) -> InvalidModel:
    return InvalidModel(
        f"{node.source}: node '{node.name}' ({node.op_type}): its operands and attributes contradict each other "
        f"({str(error).rstrip('.')}). Export the network again."
    )
