"""Networks whose nodes can be removed: ONNX files, and modules from other formats."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tpuc.api import InvalidModel, Module, TensorType, Value, file_stem, print_module, write_atomic
from tpuc_importing.building import ModuleSource

from tpuc_check.trial import PartBuilder, computes

if TYPE_CHECKING:
    import onnx

SEED = 7
"""Seed of random weights; arbitrary but fixed."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A node by its index in the network: what it reads and computes, without weights."""

    name: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]


class Subject(ABC):
    """A network as a list of parts, in topological order."""

    suffix: str
    parts: Sequence[Part]

    @abstractmethod
    def write(self, kept: Collection[int], path: Path, *, random_weights: bool = False) -> None:
        """Write the network of these parts only; what they read from others becomes an input."""

    @abstractmethod
    def input_shapes(self, kept: Collection[int]) -> dict[str, tuple[int, ...]]:
        """Return the inputs of that network."""

    def ends(self, kept: Collection[int]) -> tuple[list[str], list[str]]:
        """Return what these parts read from outside, and what they compute that none of them reads."""
        chosen = [self.parts[index] for index in sorted(kept)]
        made = {name for part in chosen for name in part.makes}
        read = dict.fromkeys(name for part in chosen for name in part.reads)
        outputs = [name for part in chosen for name in part.makes if name not in read]
        return [name for name in read if name not in made], outputs


class OnnxSubject(Subject):
    """An ONNX file. Shapes of inner tensors come from onnx's shape inference."""

    suffix = ".onnx"

    def __init__(self, path: Path, input_shapes: Sequence[Sequence[int]] = ()) -> None:
        import onnx
        from google.protobuf.message import DecodeError

        model = onnx.ModelProto()
        try:
            model.ParseFromString(path.read_bytes())
        except DecodeError as error:
            raise InvalidModel(f"{path}: not an ONNX file, or a truncated one. Give a complete ONNX file.") from error
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        entries = [entry for entry in model.graph.input if entry.name not in self._constants]
        for entry, shape in zip(entries, input_shapes, strict=False):
            dims = entry.type.tensor_type.shape
            del dims.dim[:]
            for extent in shape:
                dims.dim.add().dim_value = extent
        try:
            inferred = onnx.shape_inference.infer_shapes(model)
        except onnx.shape_inference.InferenceError:
            inferred = model
        self._model = model
        self._types = {
            value.name: value for value in (*inferred.graph.value_info, *model.graph.input, *model.graph.output)
        }
        self.parts = [
            Part(
                node.name or node.output[0],
                tuple(name for name in node.input if name and name not in self._constants),
                tuple(filter(None, node.output)),
            )
            for node in model.graph.node
        ]

    def input_shapes(self, kept: Collection[int]) -> dict[str, tuple[int, ...]]:
        """See Subject."""
        shapes: dict[str, tuple[int, ...]] = {}
        for name in self.ends(kept)[0]:
            known = self._types.get(name)
            dims = known.type.tensor_type.shape.dim if known is not None else ()
            shapes[name] = tuple(dim.dim_value for dim in dims)
        return shapes

    def write(self, kept: Collection[int], path: Path, *, random_weights: bool = False) -> None:
        """See Subject."""
        import onnx

        inputs, outputs = self.ends(kept)
        nodes = [self._model.graph.node[index] for index in sorted(kept)]
        read = {name for node in nodes for name in node.input}
        weights = [tensor for name, tensor in self._constants.items() if name in read]
        graph = onnx.helper.make_graph(
            nodes,
            "reduced",
            [self._types.get(name, onnx.ValueInfoProto(name=name)) for name in inputs],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [_randomized(tensor) for tensor in weights] if random_weights else weights,
        )
        model = onnx.ModelProto(ir_version=self._model.ir_version)
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(self._model.functions)
        model.graph.CopyFrom(graph)
        write_atomic(path, model.SerializeToString(deterministic=True))


def _randomized(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Replace weights by random numbers of the same spread, so that none are disclosed; small tensors, which may be
    shapes, stay.
    """
    from onnx import TensorProto, numpy_helper

    if tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
        return tensor
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(_drawn(array), tensor.name)


def _drawn(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.size < 2:
        return array
    deviation = float(np.nan_to_num(array.astype(np.float64).std())) or 1.0
    return np.random.default_rng(SEED).normal(0, deviation, array.shape).astype(array.dtype)


class ModuleSubject(Subject):
    """A TOP module, imported from any other format."""

    suffix = ".mlir"

    def __init__(self, module: Module) -> None:
        self._module = module
        self._operations = [operation for operation in module.main.operations if computes(operation)]
        self._values = {value.name: value for operation in module.main.operations for value in operation.results}
        self.parts = [
            Part(
                operation.name,
                tuple(value.name for value in operation.operands if self._is_computed(value)),
                tuple(value.name for value in operation.results),
            )
            for operation in self._operations
        ]

    def _is_computed(self, value: Value) -> bool:
        return isinstance(value.type, TensorType) and not value.is_constant

    def input_shapes(self, kept: Collection[int]) -> dict[str, tuple[int, ...]]:
        """See Subject."""
        return {name: self._values[name].tensor.dims for name in self.ends(kept)[0]}

    def write(self, kept: Collection[int], path: Path, *, random_weights: bool = False) -> None:
        """See Subject."""
        inputs, outputs = self.ends(kept)
        chosen = [self._operations[index] for index in sorted(kept)]
        names = frozenset({*inputs, *(value.name for operation in chosen for value in operation.results)})
        source = ModuleSource(str(path), path.stem, "REDUCED", {}, names)
        build = PartBuilder(source, [(name, self._values[name].tensor) for name in inputs])
        for operation in chosen:
            operands = [self._operand(build, value, random_weights) for value in operation.operands]
            types = [value.tensor for value in operation.results]
            first = build.build(operation.op, operands, operation.name, types)
            assert first.defining is not None
            pairs = zip(operation.results, first.defining.results, strict=True)
            build.values.update((old.name, new) for old, new in pairs)
        module = build.finish([(name, build.values[name]) for name in outputs])
        module.weights.save(path.parent / f"{file_stem(module.name)}_top_f32_all_weight.npz")
        write_atomic(path, print_module(module))

    def _operand(self, build: PartBuilder, value: Value, random_weights: bool) -> Value:
        if not isinstance(value.type, TensorType):
            return build.none()
        if value.name not in build.values:
            array = self._module.weights[value.name]
            build.values[value.name] = build.foreign_weight(value.name, _drawn(array) if random_weights else array)
        return build.values[value.name]
