"""Load a file as an ONNX model."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from tpuc.api import InvalidModel, Unsupported
from tpuc_importing.files import read_bytes

from tpuc_onnx.inlining import inlined

LARGEST_VERSION = 1 << 16
"""Maximum opset version; a larger number is damaged."""

OLDEST_OPSET, NEWEST_OPSET = 7, 28
"""Opsets that the importers support: before opset 7, operators broadcast by attributes."""


def load_model(path: Path) -> onnx.ModelProto:
    """Return the model with local functions inlined and external data left on disk; raises InvalidModel or
    Unsupported.
    """
    model = _parse(path)
    check_opset(model, path)
    return inlined(model, path)


def _parse(path: Path) -> onnx.ModelProto:
    content = read_bytes(path)
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
    for entry in model.opset_import:
        if not 0 <= entry.version <= LARGEST_VERSION:
            raise InvalidModel(f"{path}: opset {entry.version} does not exist. Export it again.")
    for index, node in enumerate(model.graph.node):
        texts: list[object] = [node.op_type, node.domain, node.name, *node.input, *node.output]
        if not all(isinstance(text, str) for text in texts):  # protobuf gives bytes where UTF-8 is broken
            raise InvalidModel(f"{path}: node {index} has a name that is not text. Export or download the file again.")
    return model


def check_opset(model: onnx.ModelProto, path: Path) -> None:
    """Raise Unsupported if the importers do not know this version of the standard operators."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        if any(node.domain in ("", "ai.onnx") for node in model.graph.node):
            raise InvalidModel(f"{path}: states no opset. Export it again.")
        return
    if not (OLDEST_OPSET <= versions[0] <= NEWEST_OPSET or _is_unchanged(model, versions[0])):
        raise Unsupported(
            f"{path}: uses opset {versions[0]}, but opsets {OLDEST_OPSET} to {NEWEST_OPSET} are supported. Export it "
            f"again with opset {NEWEST_OPSET if versions[0] > NEWEST_OPSET else 13}, or convert it with "
            "onnx.version_converter."
        )


def _is_unchanged(model: onnx.ModelProto, version: int) -> bool:
    """True if every operator of an older opset has the same meaning in the oldest supported one."""
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
