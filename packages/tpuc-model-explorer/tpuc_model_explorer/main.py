"""The adapter that `model-explorer --extensions=tpuc_model_explorer` loads."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from tpuc.api import Registry, read_module

from tpuc_model_explorer.graph import graph_of

_explorer: Any = import_module("model_explorer")
_builder: Any = import_module("model_explorer.graph_builder")


class TpucAdapter(_explorer.Adapter):
    """Reads TOP and TPU modules, whose weights need not be there."""

    metadata = _explorer.AdapterMetadata(
        id="tpuc",
        name="tpuc",
        description="TOP and TPU modules of tpuc and TPU-MLIR",
        source_repo="",
        fileExts=["mlir"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The graph of a module."""
        graph = graph_of(read_module(Path(model_path), Registry().resolve_op))
        return {"graphs": [_builder.Graph(id=graph["id"], nodes=[_node(**node) for node in graph["nodes"]])]}


def _node(**values: Any) -> Any:
    edges = [_builder.IncomingEdge(**edge) for edge in values["incomingEdges"]]
    outputs = [_builder.MetadataItem(id=one["id"], attrs=_pairs(one["attrs"])) for one in values["outputsMetadata"]]
    more = {"attrs": _pairs(values["attrs"]), "incomingEdges": edges, "outputsMetadata": outputs}
    return _builder.GraphNode(**{**values, **more})


def _pairs(values: list[dict[str, str]]) -> list[Any]:
    return [_builder.KeyValue(**pair) for pair in values]
