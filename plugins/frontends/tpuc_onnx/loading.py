"""From a file to an ONNX model whose tensors are all in memory, or a sentence that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper, inliner
from tpuc.api import InvalidModel, Unsupported

OLDEST_OPSET, NEWEST_OPSET = 7, 28


def load_model(path: Path) -> onnx.ModelProto:
    """The model with external data loaded and local functions inlined; raises InvalidModel or Unsupported."""
    model = _parse(path)
    check_opset(model, path)
    _load_external_data(model, path)
    return inliner.inline_local_functions(model) if model.functions else model


def _parse(path: Path) -> onnx.ModelProto:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidModel(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise InvalidModel(f"{path}: cannot be read: {error.strerror}. Check the path and its permissions.") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise InvalidModel(
            f"{path}: not an ONNX file, or a truncated one ({len(content)} bytes). Export or download it again."
        ) from error
    if not model.ir_version or not model.graph.node:
        raise InvalidModel(
            f"{path}: not an ONNX file: there is no graph in its {len(content)} bytes. Export or download it again."
        )
    return model


def check_opset(model: onnx.ModelProto, path: Path) -> None:
    """Raise Unsupported when the version of the standard operators is not one that the importers know."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        if any(node.domain in ("", "ai.onnx") for node in model.graph.node):
            raise InvalidModel(f"{path}: does not say which opset it uses. Export it again.")
        return
    if not (OLDEST_OPSET <= versions[0] <= NEWEST_OPSET or _is_unchanged(model, versions[0])):
        raise Unsupported(
            f"{path}: uses opset {versions[0]}, and opsets {OLDEST_OPSET} to {NEWEST_OPSET} are supported. Export it "
            f"again with opset {NEWEST_OPSET if versions[0] > NEWEST_OPSET else 13}, or convert it with "
            "onnx.version_converter."
        )


def _is_unchanged(model: onnx.ModelProto, version: int) -> bool:
    """Does every operator of an older opset still mean the same in the oldest one that is supported?"""
    if version > OLDEST_OPSET:
        return False
    for node in model.graph.node:
        try:
            old, new = (onnx.defs.get_schema(node.op_type, entry, "") for entry in (version, OLDEST_OPSET))
        except onnx.defs.SchemaError:
            return False
        if node.domain not in ("", "ai.onnx") or old.since_version != new.since_version:
            return False
    return True


def _load_external_data(model: onnx.ModelProto, path: Path) -> None:
    for tensor in _tensors(model.graph):
        if not external_data_helper.uses_external_data(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = path.parent / entries.get("location", "")
        if not file.is_file():
            raise InvalidModel(
                f"{path}: the data of tensor '{tensor.name}' is in the file '{entries.get('location', '')}', which is "
                f"not in {path.parent}. Put it there."
            )
        needed = int(entries.get("offset", 0)) + int(entries.get("length", 0))
        if file.stat().st_size < needed:
            raise InvalidModel(
                f"{file}: is truncated: tensor '{tensor.name}' ends at byte {needed}, the file at byte "
                f"{file.stat().st_size}. Export or download it again."
            )
        external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
        tensor.data_location = onnx.TensorProto.DEFAULT


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
