"""Translate layers to a TOP module."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import F32, ForeignNode, ImportOptions, InvalidModel, Module, TensorType
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_importing.finding import Importer, ImporterFinder
from tpuc_importing.graphs import needed
from tpuc_importing.obstacles import show_names
from tpuc_importing.walking import Walk
from tpuc_ops.arrays import Array

from tpuc_caffe.importers.common import plain_function
from tpuc_caffe.layers import Layer, Network, Shape
from tpuc_caffe.weights import LayerWeights, MissingWeights

INPUT_TYPES = frozenset({"Input", "Data", "ImageData", "MemoryData", "HDF5Data", "WindowData", "AnnotatedData"})
TRAINING_TYPES = frozenset(
    {
        "Accuracy",
        "ContrastiveLoss",
        "DetectionEvaluate",
        "EuclideanLoss",
        "HDF5Output",
        "HingeLoss",
        "InfogainLoss",
        "MultiBoxLoss",
        "MultinomialLogisticLoss",
        "SigmoidCrossEntropyLoss",
        "SmoothL1Loss",
        "SoftmaxWithLoss",
    }
)


@dataclass(frozen=True)
class Step:
    """A layer with the names of its results; a blob that a later layer overwrites has another name until then."""

    layer: Layer
    results: tuple[str, ...]


def translate(
    network: Network,
    weights: Mapping[str, tuple[Array, ...]] | None,
    unknown_field: str,
    options: ImportOptions,
    registry: Any,
) -> Module:
    """Return the TOP module of a network; `unknown_field` is reported unless unknown layers explain it."""
    inputs = _inputs(network, options)
    outputs, layers = _cut(network, _computing(network), [name for name, _ in inputs], options.output_names)
    steps = _steps(network.source, layers, [name for name, _ in inputs])
    reserved = {name for step in steps for name in step.results} | {name for name, _ in inputs}
    source = ModuleSource(
        network.source,
        options.model_name or network.name or "network",
        "CAFFE",
        options.preprocess,
        frozenset(reserved),
    )
    build = TopBuilder(source, inputs)
    _Walk(build, weights, options.random_weights, unknown_field, registry).run(steps)
    written = {name for layer in layers for name in layer.tops} - {name for name, _ in inputs}
    values = [(name, build.values[name]) for name in outputs]
    return build.finish([(name if name in written else value.name, value) for name, value in values])


def named_steps(network: Network) -> Sequence[Step]:
    """Return the layers of the whole network with the names that their values have in TOP."""
    inputs = [name for name, _ in _all_declared(network)]
    return _steps(network.source, _cut(network, _computing(network), inputs, ())[1], inputs)


def _computing(network: Network) -> list[Layer]:
    return [layer for layer in network.layers if layer.type not in INPUT_TYPES]


# Inputs


def _inputs(network: Network, options: ImportOptions) -> list[tuple[str, TensorType]]:
    declared = _all_declared(network)
    if not declared:
        raise InvalidModel(f"{network.source}: has no input. Add a layer of type Input with its shape.")
    names = [name for name, _ in declared]
    if len({*names}) < len(names) or "" in names:
        raise InvalidModel(f"{network.source}: inputs need distinct names, these are {', '.join(names)}.")
    shapes = _shapes(network, declared, options.input_shapes)
    if options.batch is not None:
        shapes = [(options.batch, *shape[1:]) for shape in shapes]
    return [(name, TensorType(shape, F32)) for name, shape in zip(names, shapes, strict=True)]


def _all_declared(network: Network) -> list[tuple[str, Shape | None]]:
    """Return the inputs with their shapes, if stated."""
    declared = [*network.inputs]
    for layer in network.layers:
        if layer.type in INPUT_TYPES:
            declared += _declared(network, layer)
    return declared


def _declared(network: Network, layer: Layer) -> list[tuple[str, Shape | None]]:
    """Return the inputs that a layer declares; the second top of data layers (labels) is for training."""
    if layer.type == "Input":
        shapes = [tuple(shape.get("dim", ())) for shape in layer.parameters.get("input_param", {}).get("shape", ())]
        if len(shapes) not in (0, 1, len(layer.tops)):
            raise InvalidModel(
                f"{network.source}: layer '{layer.name}' (Input) has {len(layer.tops)} tops and {len(shapes)} shapes. "
                "State one for each."
            )
        shapes = shapes * len(layer.tops) if len(shapes) == 1 else shapes or [None] * len(layer.tops)
        return [*zip(layer.tops, shapes, strict=True)]
    memory = layer.parameters.get("memory_data_param", {})
    extents = tuple(memory.get(name, 0) for name in ("batch_size", "channels", "height", "width"))
    return [(name, extents if all(extents) else None) for name in layer.tops[:1]]


def _shapes(
    network: Network, declared: Sequence[tuple[str, Shape | None]], given: Sequence[Shape]
) -> list[tuple[int, ...]]:
    if given and len(given) != len(declared):
        names = ", ".join(f"'{name}'" for name, _ in declared)
        raise InvalidModel(
            f"{network.source}: --input-shapes gives {len(given)} shapes, but the network has {len(declared)} inputs: "
            f"{names}. Give one shape for each, in this order."
        )
    result: list[tuple[int, ...]] = []
    for index, (name, shape) in enumerate(declared):
        chosen = tuple(given[index]) if given else shape
        if not chosen or min(chosen) < 1:
            raise InvalidModel(
                f"{network.source}: input '{name}' has no shape. Give it with --input-shapes, for example "
                "--input-shapes [[1,3,224,224]]."
                if not chosen
                else f"{network.source}: input '{name}' has the shape {'x'.join(map(str, chosen))}, and extents are at "
                "least 1. Give another one with --input-shapes."
            )
        result.append(chosen)
    return result


# Outputs and names


def _cut(
    network: Network, layers: Sequence[Layer], inputs: Sequence[str], wanted: Sequence[str]
) -> tuple[Sequence[str], list[Layer]]:
    """Return the outputs and the layers that they need. Outputs are the blobs that no layer reads, as in Caffe, or the
    user's choice.
    """
    known = {*inputs, *(name for layer in layers for name in layer.tops)}
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else " Look up the tops of its layers."
            raise InvalidModel(f"{network.source}: has no blob named '{name}' (--output-names).{hint}")
    if wanted:
        return [*dict.fromkeys(wanted)], needed(layers, wanted, lambda layer: layer.tops, lambda layer: layer.bottoms)
    unread = dict.fromkeys(inputs)
    for layer in layers:
        for name in layer.bottoms:
            unread.pop(name, None)
        unread.update(dict.fromkeys(layer.tops))
    outputs = [name for name in unread if name not in inputs or any(name in layer.tops for layer in layers)]
    if not outputs:
        raise InvalidModel(f"{network.source}: has no output: every blob is read by a layer. Choose some outputs.")
    return outputs, [layer for layer in layers if layer.type != "Silence"]


def _steps(source: str, layers: Sequence[Layer], inputs: Sequence[str]) -> list[Step]:
    """Return the layers with names for their values; raises InvalidModel for blobs without a producer or with two."""
    last = {name: index for index, layer in enumerate(layers) for name in layer.tops}
    blobs, taken, steps = {*inputs, *last}, {*inputs, *last}, list[Step]()
    known = {*inputs}
    for index, layer in enumerate(layers):
        place = f"{source}: layer '{layer.name}' ({layer.type})"
        for name in layer.bottoms:
            if name not in known:
                close = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f" Did you mean '{close[0]}'?" if close else ""
                raise InvalidModel(f"{place} reads the blob '{name}', which no earlier layer computes.{hint}")
        for name in layer.tops:
            if name in known and name not in layer.bottoms:
                raise InvalidModel(f"{place} computes the blob '{name}', which already exists. Rename it.")
        if len({*layer.tops}) < len(layer.tops) or "" in layer.tops:
            raise InvalidModel(f"{place} needs a distinct name for every top, these are {', '.join(layer.tops)}.")
        results: list[str] = []
        for name in layer.tops:
            if last[name] != index or name in inputs:
                name = _other_name(layer, name, blobs, taken)
                taken.add(name)
            results.append(name)
        known.update(layer.tops)
        steps.append(Step(layer, tuple(results)))
    return steps


def _other_name(layer: Layer, top: str, blobs: set[str], taken: set[str]) -> str:
    """Name a blob that a later layer overwrites, or an input that this layer overwrites: by the layer's name, or by the
    blob's name with the layer's type.
    """
    name = layer.name if layer.name and layer.name not in blobs else f"{top}_{layer.type.lower()}"
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    return candidate


# Layers


class _Walk(Walk[TopBuilder]):
    """A walk over the layers; layers without weights are reported together."""

    def __init__(
        self,
        build: TopBuilder,
        weights: Mapping[str, tuple[Array, ...]] | None,
        is_random: bool,
        unknown_field: str,
        registry: Any,
    ) -> None:
        super().__init__(build, ImporterFinder(registry, "caffe", plain_function), "layer type", "layer")
        self._weights = weights
        self._is_random = is_random
        self._unknown_field = unknown_field
        self._source = build.source.path
        self._weightless: list[str] = []

    def run(self, steps: Sequence[Step]) -> None:
        """Import every layer; raises ImportRefused with all unknown types and refusals."""
        for step in steps:
            self._step(step)
        self.build.node = None
        if self._unknown_field and self.obstacles.knows_all:
            raise InvalidModel(f"{self._unknown_field.rstrip('.')}. Remove it if the network does not depend on it.")
        if self._weightless:
            one = len(self._weightless) == 1
            self.obstacles.note(
                f"{self._source}: {show_names(self._weightless, 'layer')} need{'s' * one} weights, but no file with "
                "weights is given. Give the caffemodel with --model-data, or initialize them with --random-weights."
            )
        read = {name for step in steps for name in step.layer.bottoms}
        outputs = [name for step in steps for name in step.layer.tops if name not in read]
        ends = [(step.layer.bottoms, step.layer.tops) for step in steps]
        self.obstacles.tell(ends, outputs, self.build.values.__contains__)

    def _step(self, step: Step) -> None:
        layer = step.layer
        if layer.type in TRAINING_TYPES:
            self.obstacles.note(
                f"{self._source}: layer '{layer.name}' ({layer.type}): it is a training layer. Give the deploy version "
                "of the network, or choose outputs before it with --output-names.",
                layer.tops,
            )
            return
        importer = self.importer(layer.type, layer.name, layer.bottoms, layer.tops)
        if importer is not None:
            self._import(step, importer)

    def _import(self, step: Step, importer: Importer) -> None:
        layer = step.layer
        blobs = None if self._weights is None else self._weights.get(layer.name)
        own = LayerWeights(layer.name, blobs, self._weights is not None, self._is_random)
        attributes = {**layer.parameters, "weights": own}
        node = ForeignNode(layer.type, layer.name, layer.bottoms, step.results, attributes, source=self._source)
        try:
            results = self.results(node, importer, layer.tops)
        except MissingWeights as error:
            if own.can_be_had:
                self.obstacles.note(self.build.refuse(node, str(error)))
            else:
                self._weightless.append(layer.name)
            self.obstacles.lost.update(layer.tops)
            return
        if results and len(results) != len(layer.tops):
            raise InvalidModel(
                f"{self.build.place()}: has {len(layer.tops)} tops, but a layer of this type computes {len(results)} "
                f"with {len(layer.bottoms)} bottoms. Correct the prototxt."
            )
        self.build.values.update(zip(layer.tops, results, strict=False))

    def contradiction(self, error: Exception) -> str:
        """See Walk."""
        said = str(error).rstrip(".")
        said = f"no entry {said}" if isinstance(error, KeyError) else said or type(error).__name__
        return f"its parameters do not fit together or do not fit its operands: {said}. Check them in the prototxt."
