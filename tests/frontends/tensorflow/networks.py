"""Networks that TensorFlow makes and runs in a process of its own, where an environment that has it is named.

`TENSORFLOW_PYTHON` is the interpreter of that environment: TensorFlow needs versions of packages that differ from ours.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import ImportOptions, Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_tensorflow.frontend import FRONTEND

MAKING = Path(__file__).with_name("making.py")
NAMES = (
    *("lenet", "mobilenet", "resnet", "inception", "unet", "squeeze_excite", "transformer", "lstm", "recurrent"),
    *("branches", "selections", "quantized", "keras_layers", "keras_images"),
)
TWICE = ("recurrent", "branches", "keras_layers", "keras_images")


@dataclass(frozen=True)
class Made:
    """The files of a network, its inputs and what TensorFlow computes."""

    folder: Path
    name: str
    tensors: tuple[str, ...]
    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]

    @property
    def frozen(self) -> Path:
        return self.folder / f"{self.name}.pb"

    @property
    def saved(self) -> Path:
        return self.folder / self.name / "saved_model.pb"


def make_networks(folder: Path, names: Sequence[str] = NAMES) -> Mapping[str, Made]:
    """Skips the test where there is no TensorFlow."""
    python = os.environ.get("TENSORFLOW_PYTHON")
    if not python:
        pytest.skip("needs TENSORFLOW_PYTHON, an interpreter that has TensorFlow")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
    subprocess.run([python, MAKING, folder, *names], check=True, capture_output=True, env=environment)
    return {name: _made(folder, name) for name in names}


def _made(folder: Path, name: str) -> Made:
    with np.load(folder / f"{name}.npz") as arrays:
        inputs = tuple(arrays[f"in_{index}"] for index in range(_count(arrays, "in_")))
        outputs = tuple(arrays[f"out_{index}"] for index in range(_count(arrays, "out_")))
        return Made(folder, name, tuple(map(str, arrays["names"])), inputs, outputs)


def _count(arrays: Any, prefix: str) -> int:
    return sum(key.startswith(prefix) for key in arrays.files)


def as_top(array: NDArray[Any]) -> NDArray[Any]:
    """Images as `[n, c, h, w]`."""
    return array.transpose(0, 3, 1, 2) if array.ndim == 4 else array


def imported(path: Path, registry: Registry, outputs: Sequence[str] = ()) -> Module:
    module = FRONTEND.read(path, ImportOptions(path.stem, output_names=tuple(outputs)), registry)
    module.verify()
    return module


def worst_difference(module: Module, made: Made) -> float:
    """The largest difference from TensorFlow in any output, as a part of that output's range."""
    interpreter = Interpreter(module)
    inputs = dict(zip(interpreter.inputs, map(as_top, made.inputs), strict=True))
    worst = 0.0
    for found, expected in zip(interpreter.run(inputs).values(), map(as_top, made.outputs), strict=True):
        assert found.shape == expected.shape
        worst = max(worst, float(np.abs(found - expected).max() / np.ptp(expected)))
    return worst
