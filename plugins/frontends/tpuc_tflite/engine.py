"""Run networks in LiteRT as the reference for imported networks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import Dialect, HostEngine, ImportOptions, Unsupported, install_command
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_tflite.building import NCHW, Order
from tpuc_tflite.graph import Graph

_NHWC: Order = (0, 2, 3, 1)


class LiteRtEngine(HostEngine):
    """Runs the file without delegates, so that every tensor is available, each in TOP's order. For quantized networks,
    only outputs are returned: the runtime rounds as TOP does only with its delegates.
    """

    name = "litert"
    suffixes = (".tflite",)

    def input_types(self, path: Path) -> Mapping[str, np.dtype[Any]]:
        """See HostEngine."""
        from tpuc_tflite.loading import load_graph
        from tpuc_tflite.variables import without_variables

        graph = without_variables(load_graph(path))
        return {name: np.dtype(graph.tensors[name].kind.lower()) for name in graph.inputs}

    def run(self, path: Path, inputs: Mapping[str, Array], model_data: Path | None = None) -> dict[str, Array]:
        """See HostEngine."""
        from tpuc_tflite.loading import load_graph
        from tpuc_tflite.ordering import needed_part
        from tpuc_tflite.states import with_states
        from tpuc_tflite.variables import without_variables

        try:
            litert: Any = importlib.import_module("ai_edge_litert.interpreter")
        except ImportError:
            raise Unsupported(
                f"{path}: comparing with LiteRT needs the package ai-edge-litert: {install_command('litert')}"
            ) from None
        file = load_graph(path)
        graph = needed_part(without_variables(file), ())
        if with_states(graph) is not graph or file.inputs != graph.inputs:
            raise Unsupported(
                f"{path}: it keeps a state between runs, which LiteRT does not accept as an input. Cut it before with "
                "--output-names to compare the rest."
            )
        kept = orders(graph, inputs)
        quantized = any(tensor.is_quantized for tensor in graph.tensors.values())
        resolvers = litert.OpResolverType
        interpreter: Any = litert.Interpreter(
            model_path=str(path),
            experimental_op_resolver_type=(
                resolvers.AUTO if quantized else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            ),
            experimental_preserve_all_tensors=not quantized,
            num_threads=1,
        )
        places = {name: index for index, name in enumerate(graph.tensors)}
        fed = {name: x.transpose(_NHWC) if x.ndim == 4 else x for name, x in inputs.items()}
        try:
            _invoke(interpreter, {places[name]: np.asarray(x, order="C") for name, x in fed.items()})
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise Unsupported(f"{path}: LiteRT cannot run it ({reason}). Leave out --test-input.") from error
        made = [name for node in graph.nodes for name in node.outputs if name in kept]
        inner = [name for name in made if name not in graph.outputs and not quantized]
        return {
            name: np.asarray(interpreter.get_tensor(places[name])).transpose(kept[name])
            for name in [*inner, *graph.outputs]
        }


def _invoke(interpreter: Any, fed: Mapping[int, Array]) -> None:
    """Run on arrays indexed by tensor."""
    for place, x in fed.items():
        interpreter.resize_tensor_input(place, x.shape)
    interpreter.allocate_tensors()
    for place, x in fed.items():
        interpreter.set_tensor(place, x)
    interpreter.invoke()


def orders(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Order]:
    """Return the front end's order of each computed tensor; image outputs are returned as `[n, c, h, w]`."""
    from tpuc_tflite.translation import translated

    shapes = tuple(tuple(inputs[name].shape) for name in graph.inputs)
    _, build = translated(graph, ImportOptions(input_shapes=shapes), _OwnImporters())
    kept = dict(build.orders)
    return kept | {name: NCHW for name in graph.outputs if len(kept.get(name, ())) == 4}


@dataclass(frozen=True)
class _Cell:
    value: Any


class _OwnImporters:
    """The part of a registry that finding this package's importers needs."""

    def table_dialects(self, group: str, owner: str) -> list[str]:
        return ["top"]

    def find_cell(self, group: str, owners: Any, dialect: str, key: str) -> _Cell | None:
        from tpuc_tflite.importers import TABLE

        importer = TABLE.cells.get(key)
        return None if importer is None else _Cell(importer)

    def has(self, group: str, name: str) -> bool:
        return name == top.DIALECT.name

    def get(self, group: str, name: str) -> Dialect:
        return top.DIALECT


ENGINE = LiteRtEngine()
