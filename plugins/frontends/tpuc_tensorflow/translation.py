"""Translate a file to a TOP module: through `tf_executor` and `tf`, then operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.api import (
    DYNAMIC,
    F32,
    ImportOptions,
    InvalidModel,
    Module,
    TensorType,
    UsageError,
    Value,
)
from tpuc_importing.building import ModuleSource
from tpuc_importing.finding import ImporterFinder
from tpuc_ops.shapes import show
from tpuc_tflite.building import NCHW
from tpuc_tflite.graph import TensorEntry
from tpuc_tflite.importers.common import plain_function

from tpuc_tensorflow.dialects.types import element_type
from tpuc_tensorflow.evaluation.storage import dtype_of
from tpuc_tensorflow.importers.building import TensorflowBuilder, kind_of
from tpuc_tensorflow.importing.executor import PLACEHOLDERS, module_of, placeholder_type
from tpuc_tensorflow.loading.files import load_graph
from tpuc_tensorflow.loading.graphs import Graph, GraphNode, text_of
from tpuc_tensorflow.rewriting.functional import to_functional
from tpuc_tensorflow.walking import GraphWalk

_NOT_OUTPUTS = frozenset({"Const", "NoOp", "Assert", "Print", "SaveV2", "RestoreV2", "MergeV2Checkpoints", "Assign"})


@dataclass(frozen=True)
class Ends:
    """Inputs and outputs: tensors of the graph, and the names of the outputs in the module."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    names: tuple[str, ...]


def translate(path: Path, options: ImportOptions, registry: Any) -> Module:
    """Return the TOP module of a file."""
    graph = load_graph(path, options.model_data)
    ends = ends_of(graph, options.output_names)
    functional = functional_module(graph, ends)
    return _Translation(graph, ends, functional, options, registry).module()


def functional_module(graph: Graph, ends: Ends) -> Module:
    """Return the graph in `tf`, with functional control flow."""
    module = module_of(graph, ends.outputs, ends.inputs)
    to_functional(module)
    return module


def ends_of(graph: Graph, output_names: Sequence[str]) -> Ends:
    """Return the ends that the user chose, that the file states, or, as outputs, what nobody reads."""
    nodes = {node.name: node for node in graph.nodes}
    if output_names:
        stated = dict(graph.outputs)
        outputs = tuple(stated.get(name, name) for name in output_names)
        names = tuple(output_names)
    elif graph.outputs:
        outputs, names = tuple(tensor for _, tensor in graph.outputs), tuple(name for name, _ in graph.outputs)
    else:
        read = {tensor.partition(":")[0] for node in graph.nodes for tensor in (*node.inputs, *node.controls)}
        free = [node for node in graph.nodes if node.name not in read and _may_be_output(node)]
        outputs = names = tuple(node.name for node in free)
    if not outputs:
        raise InvalidModel(f"{graph.source}: no node can be an output. Choose some with --output-names.")
    needed = _needed(nodes, outputs)
    stated_inputs = tuple(tensor.partition(":")[0] for _, tensor in graph.inputs)
    placeholders = tuple(node.name for node in graph.nodes if node.op in PLACEHOLDERS)
    inputs = tuple(dict.fromkeys(name for name in (*stated_inputs, *placeholders) if name in needed))
    return Ends(inputs, outputs, names)


def _may_be_output(node: GraphNode) -> bool:
    return node.op not in _NOT_OUTPUTS and node.op not in PLACEHOLDERS


def _needed(nodes: dict[str, GraphNode], outputs: Sequence[str]) -> set[str]:
    found: set[str] = set()
    waiting = [tensor.partition(":")[0] for tensor in outputs]
    while waiting:
        name = waiting.pop()
        if name in found or name not in nodes:
            continue
        found.add(name)
        waiting += [tensor.partition(":")[0] for tensor in (*nodes[name].inputs, *nodes[name].controls)]
    return found


class _Translation:
    def __init__(self, graph: Graph, ends: Ends, module: Module, options: ImportOptions, registry: Any) -> None:
        self._graph = graph
        self._ends = ends
        self._module = module
        self._options = options
        self._registry = registry
        self._is_first = any(text_of(node.attributes, "data_format").startswith("NCHW") for node in graph.nodes)

    def module(self) -> Module:
        """Import every operation of `main`, then name the results."""
        shapes = self._shapes()
        dims = [self._in_top(shape) for shape in shapes]
        types = [TensorType(extents, F32) for extents in dims]
        inputs = list(zip(self._ends.inputs, types, strict=True))
        entries = {name: self._entry(name, shape) for name, shape in zip(self._ends.inputs, shapes, strict=True)}
        name = self._options.model_name or Path(self._graph.source).stem
        platform = "TENSORFLOW_NCHW" if self._is_first else "TENSORFLOW"
        source = ModuleSource(self._graph.source, name, platform, self._options.preprocess)
        tflite = ImporterFinder(self._registry, "tflite", plain_function)
        build = TensorflowBuilder(source, inputs, entries, tflite)
        if self._is_first:
            for name, shape in zip(self._ends.inputs, shapes, strict=True):
                if len(shape) == 4:
                    build.keep_input(name)
        walk = GraphWalk(build, self._module, ImporterFinder(self._registry, "tensorflow"))
        returned = walk.run(self._ends.inputs)
        return build.finish([self._output(build, *pair) for pair in zip(self._ends.names, returned, strict=True)])

    def _entry(self, name: str, shape: tuple[int, ...]) -> TensorEntry:
        (argument,) = [value for value in self._module.main.inputs if value.name == name]
        return TensorEntry(name, kind_of(dtype_of(argument.type)), shape, shape, None)

    def _in_top(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape[axis] for axis in NCHW) if len(shape) == 4 and not self._is_first else shape

    def _output(self, build: TensorflowBuilder, name: str, tensor: str) -> tuple[str, Value]:
        if tensor in build.constants or not build.is_known(tensor):
            raise InvalidModel(
                f"{self._graph.source}: output '{name}' does not depend on any input. Choose other outputs with "
                "--output-names."
            )
        images = len(build.shape(tensor)) == 4 and not self._is_first
        return name, build.value(tensor, NCHW if images else None)

    # Shapes of the inputs

    def _shapes(self) -> list[tuple[int, ...]]:
        given, names = self._options.input_shapes, self._ends.inputs
        if given and len(given) != len(names):
            raise UsageError(
                f"{self._graph.source}: has {len(names)} inputs ({', '.join(names)}), but {len(given)} shapes are "
                "given. Give one for each."
            )
        nodes = {node.name: node for node in self._graph.nodes}
        return [self._shape(nodes[name], given[index] if given else None) for index, name in enumerate(names)]

    def _shape(self, node: GraphNode, given: Sequence[int] | None) -> tuple[int, ...]:
        """Return a shape in TensorFlow's order; the user states images as `n,c,h,w`. An open batch is 1."""
        stated = placeholder_type(node)
        if dtype_of(stated) is None:
            raise InvalidModel(
                f"{self._graph.source}: input '{node.name}' holds {element_type(stated)}, and networks compute "
                "numbers. Choose outputs behind it with --output-names."
            )
        shape = stated.shape
        if given is not None:
            wanted = tuple(given)
            if len(wanted) == 4 and not self._is_first:
                wanted = tuple(wanted[NCHW.index(axis)] for axis in range(4))
            if shape is not None and not _fits(wanted, shape):
                raise UsageError(
                    f"{self._graph.source}: input '{node.name}' has shape {show(self._in_top(shape))}, and "
                    f"{show(given)} does not fit it. Only what the file leaves open and the batch can "
                    "be chosen; images are stated as n,c,h,w."
                )
            shape = wanted
        if shape and shape[0] == DYNAMIC:
            shape = (1, *shape[1:])
        if shape and self._options.batch is not None:
            shape = (self._options.batch, *shape[1:])
        if shape is None or min(shape, default=1) < 1:
            raise InvalidModel(
                f"{self._graph.source}: input '{node.name}' has an open shape. State it with --input-shapes; images "
                "are stated as n,c,h,w."
            )
        return shape


def _fits(wanted: Sequence[int], stated: Sequence[int]) -> bool:
    """True if extents are as stated, except for open ones and the first."""
    pairs = enumerate(zip(wanted, stated, strict=False))
    return len(wanted) == len(stated) and all(w == s or s == DYNAMIC or axis == 0 for axis, (w, s) in pairs)
