"""Run networks in ONNX Runtime as the reference for imported networks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import external_data_helper, helper
from tpuc.api import HostEngine, ImportOptions, Unsupported, install_command
from tpuc_ops.arrays import Array

from tpuc_onnx.loading import load_model
from tpuc_onnx.specializing import specialized


class OnnxRuntimeEngine(HostEngine):
    """Runs the file with every tensor as an output."""

    name = "onnxruntime"
    suffixes = (".onnx",)

    def input_types(self, path: Path) -> Mapping[str, np.dtype[Any]]:
        """See HostEngine."""
        kinds = {entry.name: entry.type.tensor_type.elem_type for entry in load_model(path).graph.input}
        return {name: helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items() if kind}

    def run(self, path: Path, inputs: Mapping[str, Array], model_data: Path | None = None) -> dict[str, Array]:
        """See HostEngine."""
        return self.run_as(path, inputs, ImportOptions(model_data=model_data))

    def run_as(self, path: Path, inputs: Mapping[str, Array], options: ImportOptions) -> dict[str, Array]:
        """See HostEngine."""
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
        except ImportError:
            raise Unsupported(
                f"{path}: comparing with ONNX Runtime needs the package onnxruntime: {install_command('onnxruntime')}"
            ) from None
        model = specialized(load_model(path), path, options)
        kinds = {entry.name: entry.type.tensor_type.elem_type for entry in model.graph.input}
        inputs = {name: x.astype(helper.tensor_dtype_to_np_dtype(kinds[name])) for name, x in inputs.items()}
        external_data_helper.load_external_data_for_model(model, str(path.parent))
        outputs = [value.name for value in model.graph.output]
        inner = [name for node in model.graph.node for name in node.output if name and name not in outputs]
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in [*inner, *outputs])
        settings: Any = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        names = [*inner, *outputs]
        try:
            session: Any = onnxruntime.InferenceSession(model.SerializeToString(), settings)
            results: list[Any] = session.run(names, inputs)
        except _errors() as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise Unsupported(f"{path}: ONNX Runtime cannot run it ({reason}). Leave out --test-input.") from error
        return {name: found for name, found in zip(names, results, strict=True) if isinstance(found, np.ndarray)}


def _errors() -> tuple[type[Exception], ...]:
    """Return the exception classes of ONNX Runtime, which have no common base."""
    state = vars(importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state"))
    own = (found for found in state.values() if isinstance(found, type) and issubclass(found, Exception))
    return (*own, RuntimeError, ValueError)


ENGINE = OnnxRuntimeEngine()
