"""ONNX Runtime as the reference for imported networks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import external_data_helper
from tpuc.api import HostEngine, Unsupported, install_command
from tpuc_ops.arrays import Array

from tpuc_onnx.loading import load_model


class OnnxRuntimeEngine(HostEngine):
    """Runs the file with every tensor as an output."""

    name = "onnxruntime"
    suffixes = (".onnx",)

    def run(self, path: Path, inputs: Mapping[str, Array], model_data: Path | None = None) -> dict[str, Array]:
        """See HostEngine."""
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
        except ImportError:
            raise Unsupported(
                f"{path}: comparing with ONNX Runtime needs the package onnxruntime: {install_command('onnxruntime')}"
            ) from None
        model = load_model(path)
        external_data_helper.load_external_data_for_model(model, str(path.parent))
        outputs = [value.name for value in model.graph.output]
        inner = [name for node in model.graph.node for name in node.output if name and name not in outputs]
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in [*inner, *outputs])
        options: Any = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session: Any = onnxruntime.InferenceSession(model.SerializeToString(), options)
        names = [*inner, *outputs]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))


ENGINE = OnnxRuntimeEngine()
