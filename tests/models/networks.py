"""The networks of the spine, imported, calibrated and with labeled inputs: fixture `network`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.ir import Module
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

from tests.models.datasets import calibration_set, evaluation_set

NETWORKS = ("digits", "mnist", "resnet8")


@dataclass(frozen=True)
class Network:
    """A TOP module with its calibration table, and labeled samples."""

    name: str
    path: Path
    module: Module
    table: Any
    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def inputs(self, index: int) -> dict[str, NDArray[Any]]:
        """One labeled sample as inputs of the network."""
        (spec,) = inputs_of(self.module)
        return {spec.name: self.images[index].reshape(spec.shape)}


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Network]:
    """A network by name, made once."""
    made: dict[str, Network] = {}

    def get(name: str) -> Network:
        if name not in made:
            made[name] = _make(name, request, tmp_path_factory.mktemp(name))
        return made[name]

    return get


def _make(name: str, request: pytest.FixtureRequest, work: Path) -> Network:
    path: Path = request.getfixturevalue(f"{name}_onnx")
    if name == "digits":
        folder = path.parent
        data = np.load(folder / "digits_eval.npz")
        images, labels = data["x"].astype(np.float32), data["y"]
        samples = np.load(folder / "digits_calib.npz")["x"].astype(np.float32)
    else:
        model_data: Path = request.getfixturevalue("model_data")
        dataset = {"mnist": "mnist", "resnet8": "ic01"}[name]
        images, labels = evaluation_set(dataset, model_data)
        samples = calibration_set(dataset, model_data)
    session = Session()
    module = session.transform(path)
    (spec,) = inputs_of(module)
    calibration = work / "samples.npz"
    np.savez(calibration, **{spec.name: samples.reshape(-1, *spec.shape)})
    table = session.calibrate(module, dataset=calibration)
    return Network(name, path, module, table, images, labels)
