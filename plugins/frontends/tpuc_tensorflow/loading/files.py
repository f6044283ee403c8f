"""Load files as graphs: GraphDef in binary and text, SavedModel with its variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tpuc.api import InvalidModel, Unsupported
from tpuc_importing.files import read_bytes

from tpuc_tensorflow.loading.graphs import Graph, graph_of
from tpuc_tensorflow.loading.schema import new_message
from tpuc_tensorflow.loading.variables import with_variables

SERVING = "serve"
DEFAULT_SIGNATURE = "serving_default"
MOST_TEXT_BYTES = 1 << 28


def load_graph(path: Path, checkpoint: Path | None) -> Graph:
    """Return the graph of a file with the values of its variables. `checkpoint`: its prefix, or its index file.

    Raises InvalidModel for a damaged or foreign file.
    """
    content = read_bytes(path)
    if path.suffix.lower() == ".pbtxt":
        graph = graph_of(_from_text(path, content), str(path))
    else:
        graph = _binary(path, content)
    prefix = _prefix(path, checkpoint)
    return graph if prefix is None else with_variables(graph, prefix)


def _prefix(path: Path, checkpoint: Path | None) -> Path | None:
    """Return the checkpoint's prefix: as stated, or in the folder of a SavedModel."""
    if checkpoint is not None:
        return checkpoint.with_suffix("") if checkpoint.suffix == ".index" else checkpoint
    beside = path.parent / "variables" / "variables"
    is_saved = path.name in ("saved_model.pb", "saved_model.pbtxt")
    return beside if is_saved and beside.with_name("variables.index").is_file() else None


def _binary(path: Path, content: bytes) -> Graph:
    """Parse a binary file. A SavedModel is recognized by its fields, as both kinds of files have the same suffix: its
    second field holds graphs.
    """
    graph, saved = (_parsed(name, content) for name in ("Graph", "SavedModel"))
    meta = _meta_graph(saved.meta_graphs) if saved is not None else None
    if meta is not None and meta.graph_def.node:
        return _saved(path, meta)
    if graph is None or not graph.node:
        raise InvalidModel(
            f"{path}: not a GraphDef or SavedModel, or a damaged one ({len(content)} bytes). Export it again."
        )
    return graph_of(graph, str(path))


def _parsed(name: str, content: bytes) -> Any:
    message = new_message(name)
    try:
        message.ParseFromString(content)
    except DecodeError:
        return None
    return message


def _from_text(path: Path, content: bytes) -> Any:
    if len(content) > MOST_TEXT_BYTES:
        raise InvalidModel(f"{path}: {len(content)} bytes are too many for a graph in text form. Export it as .pb.")
    for name in ("Graph", "SavedModel"):
        message = new_message(name)
        try:
            text_format.Parse(content.decode("utf-8"), message, allow_unknown_field=True)
        except UnicodeDecodeError as error:
            raise InvalidModel(f"{path}: is not text (byte {error.start}). Give a binary graph as .pb.") from error
        except (text_format.ParseError, RecursionError) as error:
            said = " ".join(str(error).split())[:160]
            raise InvalidModel(f"{path}: is not a graph in text, or a damaged one: {said}. Export it again.") from error
        if name == "Graph" and message.node:
            return message
    raise InvalidModel(f"{path}: holds no nodes. Give a GraphDef in text, or a SavedModel as saved_model.pb.")


def _meta_graph(metas: Iterable[Any]) -> Any:
    """Return the graph for serving, else the first."""
    every = list(metas)
    serving = [meta for meta in every if SERVING in meta.meta_info_def.tags]
    return next(iter((*serving, *every)), None)


def _saved(path: Path, meta: Any) -> Graph:
    signatures: Mapping[str, Any] = {entry.key: entry.value for entry in meta.signature_def}
    usable = {name: one for name, one in signatures.items() if name != "__saved_model_init_op" and one.outputs}
    signature = usable.get(DEFAULT_SIGNATURE) or next(iter(usable.values()), None)
    if signature is None:
        raise Unsupported(f"{path}: it has no signature that states inputs and outputs. Save it with signatures.")
    graph = graph_of(meta.graph_def, str(path))
    return replace(
        graph,
        inputs=tuple(sorted((entry.key, entry.value.name) for entry in signature.inputs)),
        outputs=tuple(sorted((entry.key, entry.value.name) for entry in signature.outputs)),
    )
