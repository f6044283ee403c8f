"""Files of the trained networks by name, and samples for them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.measures import TASKS

ROOT = Path(__file__).resolve().parents[2]


def network_file(name: str, model_data: Path, work: Path) -> Path:
    """The ONNX file of a network by name, made in `work` where it is generated."""
    if name == "mnist":
        return model_data / "onnx" / "mnist.onnx"
    if name != "resnet50":
        return model_data / "onnx" / TASKS[name].file
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    path = work / "resnet50.onnx"
    path.write_bytes(script.build().SerializeToString())
    return path


def samples_of(name: str, shape: tuple[int, ...], model_data: Path) -> np.ndarray[Any, Any]:
    """Three batches of real images where there are some, else pixels at random."""
    count = 3 * shape[0]
    if name in TASKS:
        return np.concatenate(TASKS[name].samples(model_data / "data")[:count]).reshape(3, *shape)
    return np.random.default_rng(7).uniform(0, 255 if name == "mnist" else 1, (3, *shape)).astype(np.float32)
