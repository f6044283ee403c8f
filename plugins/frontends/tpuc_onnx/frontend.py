"""The front end as registered; `onnx` itself is imported when a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpuc.api import Frontend, ImportOptions, Module


class OnnxFrontend(Frontend):
    """Reads `.onnx` files of opset 7 to 28."""

    name = "onnx"
    suffixes = (".onnx",)
    specializes_by = frozenset({"input_names", "dims", "fixed_inputs"})

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Return a TOP module with weights. Raises InvalidModel or Unsupported."""
        from tpuc_onnx.graph import read_graph
        from tpuc_onnx.loading import load_model
        from tpuc_onnx.specializing import specialized
        from tpuc_onnx.translation import translate

        graph = read_graph(specialized(load_model(path), path, options), path, options.output_names)
        return translate(graph, options, registry)

    def simplified(self, path: Path, options: ImportOptions) -> Mapping[str, bytes]:
        """Return `_opt.onnx`, and the text of its graph without weights."""
        from tpuc_onnx.simplification import simplified_files

        return simplified_files(path, options)


FRONTEND = OnnxFrontend()
