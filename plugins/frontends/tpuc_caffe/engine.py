"""Run networks in OpenCV, with its own Caffe reader and kernels, as the reference for imported networks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import HostEngine, Unsupported, install_command
from tpuc_ops.arrays import Array

if TYPE_CHECKING:
    from tpuc_caffe.translation import Step

SILENT = 0
"""Log level of OpenCV; its log repeats its error messages on stderr."""


class OpenCvEngine(HostEngine):
    """Runs the file layer by layer without fusion, and returns every blob under the name that it has in TOP."""

    name = "opencv"
    suffixes = (".prototxt",)

    def run(self, path: Path, inputs: Mapping[str, Array], model_data: Path | None = None) -> dict[str, Array]:
        """See HostEngine."""
        from tpuc_caffe.layers import read_network
        from tpuc_caffe.loading import load_text
        from tpuc_caffe.translation import named_steps

        cv2 = _opencv(path)
        if model_data is None:
            raise Unsupported(f"{path}: OpenCV runs networks with weights only. Give them with --model-data.")
        steps = named_steps(read_network(load_text(path)[0], path))
        try:
            net: Any = cv2.dnn.readNetFromCaffe(str(path), str(model_data))
            net.enableFusion(False)
            net.enableWinograd(False)
            for name, array in inputs.items():
                net.setInput(np.ascontiguousarray(array), name)
            shown = _layer_names(steps, net.getLayerNames())
            found: Any = net.forwardAndRetrieve([*shown])
        except cv2.error as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise Unsupported(f"{path}: OpenCV cannot run it ({reason}). Leave out --test-input.") from error
        return {
            name: np.asarray(array)
            for step, arrays in zip(shown.values(), found, strict=True)
            for name, array in zip(step.results, arrays, strict=False)
        }


def _layer_names(steps: Sequence[Step], known: Sequence[str]) -> dict[str, Step]:
    """Map OpenCV's layer names to steps. OpenCV names some layers by their top, and drops layers that do nothing."""
    own = {step.layer.name for step in steps}
    found: dict[str, Step] = {}
    for step in steps:
        names = (step.layer.name, *(top for top in step.layer.tops[:1] if top not in own))
        name = next((name for name in names if name in known and name not in found), None)
        if name is not None:
            found[name] = step
    return found


def _opencv(path: Path) -> Any:
    """Import the package; raises Unsupported if it is missing or cannot read Caffe files."""
    try:
        cv2: Any = importlib.import_module("cv2")
    except ImportError:
        raise Unsupported(
            f"{path}: comparing with OpenCV needs the package opencv-python-headless: {install_command('caffe')}"
        ) from None
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise Unsupported(
            f"{path}: OpenCV {cv2.__version__} no longer reads Caffe files; use version 4: {install_command('caffe')}"
        )
    logging = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging  # where newer versions have it
    logging.setLogLevel(SILENT)
    return cv2


ENGINE = OpenCvEngine()
